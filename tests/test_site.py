"""The documentation site: links between documents, the list of public names, the built pages."""

import re
import sys
from pathlib import Path

import pytest

import adokernels as ado

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / ".ci"))

import docs  # noqa: E402
import ladder_pages  # noqa: E402


@pytest.fixture
def repository(tmp_path):
    for name in ("docs/a.md", "docs/guide/b.md", "notebooks/n.ipynb", "src/x.cu", "README.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("document", "link", "page"),
    [
        ("docs/a.md", "[b](guide/b.md#x-y)", "[b](guide/b.md#x-y)"),
        ("docs/guide/b.md", "[a](../a.md)", "[a](../a.md)"),
        ("docs/a.md", "[n](../notebooks/n.ipynb#The-Loop%3F)", "[n](notebooks/n.ipynb#the-loop)"),
        ("docs/guide/b.md", "[`n`](../../notebooks/n.ipynb)", "[`n`](../notebooks/n.ipynb)"),
        ("notebooks/n.ipynb", "[a](../docs/a.md)", "[a](../a.md)"),
        ("HACKING.md", "[a](docs/a.md) [x](src/x.cu)", "[a](a.md) [x](src/x.cu)"),
        ("docs/a.md", "[home](../README.md)", "[home](index.md)"),
        ("docs/a.md", '<img src="../src/x.cu">', '<img src="src/x.cu">'),
        ("docs/a.md", "[![x](../src/x.cu)](guide/b.md)", "[![x](src/x.cu)](guide/b.md)"),
        ("docs/a.md", "`[](auto size)` [p](https://a.b/c)", "`[](auto size)` [p](https://a.b/c)"),
        ("docs/a.md", "```cpp\n[](none)\n```\n[s](#s)", "```cpp\n[](none)\n```\n[s](#s)"),
    ],
)
def test_links_between_files_become_links_between_pages(repository, document, link, page):
    assert docs.rewrite(link, document, repository, set()) == page


@pytest.mark.parametrize("link", ["[x](missing.md)", "[x](guide)", '<a href="guide/b.md">x</a>'])
def test_a_link_that_leads_to_no_file_is_an_error(repository, link):
    with pytest.raises(ValueError, match=r"docs/a\.md: links must"):
        docs.rewrite(link, "docs/a.md", repository, set())


def test_files_that_documents_link_to_are_copied(tmp_path):
    docs.copy_documents(ROOT, tmp_path)
    assert (tmp_path / "gallery" / "tile.png").is_file()
    assert (tmp_path / "cards.md").is_file()
    assert not (tmp_path / "README.md").exists()


def test_the_api_reference_lists_every_public_name_once():
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md")]
    listed = re.findall(r"^\.\. auto\w+:: ([\w.]+)$", "\n".join(pages), re.M)
    records = [f"adokernels.records.{name}" for name in ado.records.__all__]
    assert sorted(listed) == sorted([*ado.__all__, *records])


def test_the_page_of_a_ladder(tmp_path, monkeypatch):
    monkeypatch.setattr(ado, "routines", {"grayscale": ado.grayscale})
    ladder_pages.write_pages(ROOT, tmp_path)
    page = (tmp_path / "grayscale.md").read_text(encoding="utf-8")
    for variant in ado.grayscale:
        assert f"\n### {variant.name}\n" in page
        assert variant.changes in page
    assert ado.grayscale["naive"].diff("two_pixels").text in page
    assert ado.grayscale["naive"].source.text in page
    assert "[grayscale-16384](../results/image_filters.md#grayscale-16384)" in page


def test_remote_assets_of_built_pages_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="https://a.b">c</a><img src="b.png"><script src="https://a.b/c.js"></script>'
    )
    (tmp_path / "a.css").write_text("@font-face { src: url(https://a.b/font) }")
    assert docs.remote_assets(tmp_path) == [
        "a.css: assets must be local, got url(https://a.b/font",
        'a.html: assets must be local, got <script src="https://a.b/c.js',
    ]
