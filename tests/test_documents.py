"""docs/documents.md: every item of the five documents has a target that exists, or a reason."""

import dataclasses
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / ".ci"))

import documents_document  # noqa: E402
import generate  # noqa: E402
from documents import DOCUMENTS, figures, targets  # noqa: E402

from adokernels.tables.numbers import ratio  # noqa: E402

TEXT = (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")


@cache
def sweeps():
    return generate.stored_sweeps()


def test_every_item_of_the_audit_has_a_row():
    items = [row.item for document in DOCUMENTS for row in document.rows]
    assert len(items) == len(set(items)) == 168
    assert re.findall(r"^\| ([A-E]\d+) \|", TEXT, re.M) == items
    assert documents_document.problems(sweeps()) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.letter)
def test_published_figures_are_listed_next_to_ours(document):
    published = figures.published_of(document)
    rows = dict(re.findall(r"^\| ([A-E]\d+) (\|.*)$", TEXT, re.M))
    for item in {p.item for p in published}:
        of_item = [p for p in published if p.item == item][: documents_document._MOST]
        assert all(p.text in rows[item] for p in of_item), item
        assert rows[item].count("; ...") <= 1
    stored = documents_document.stored_by_name(sweeps())
    for row in document.rows:
        sweep = stored[row.stored or document.stored]
        of_item = [p for p in published if p.item == row.item]
        for name in figures.counterparts(of_item, sweep):
            assert figures.ours(sweep, name)[1] in rows[row.item], row.item


@pytest.mark.parametrize(
    "target",
    [
        "transpose[tiled]",
        "card occupancy",
        "ado.diagnose",
        "ado.Variant.source",
        "course.figures",
        "adokernels profile",
        "adokernels profile --shape",
        "docs/cards.md",
    ],
)
def test_a_target_exists(target):
    assert target in targets.link(target)


def test_a_section_of_a_notebook_exists():
    for number, (path, titles) in targets.headings().items():
        assert len(titles) > 3
        assert path.name in targets.link(f"{number}: {titles[-1]}")
    assert len(targets.headings()) >= 6


@pytest.mark.parametrize(
    "target",
    [
        "transpose[nothing]",
        "nothing[tiled]",
        "01: Nothing",
        "99: Exercises",
        "card nothing",
        "ado.nothing",
        "ado.Variant.nothing",
        "ado.annotations",  # a name of the module that is not public
        "course.nothing",
        "adokernels nothing",
        "adokernels profile --nothing",
        "docs/nothing.md",
        "nothing at all",
    ],
)
def test_a_target_that_does_not_exist_is_found(target):
    with pytest.raises(ValueError, match=re.escape(repr(target))):
        targets.link(target)


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        ("naive > tiled", ("", f"`naive` to `tiled` {ratio(1.89)}")),
        ("naive.store_sectors_per_request", ("naive", "sectors per store request 32.0")),
        ("tiled.next_step", ("tiled", "next step: avoid bank conflicts")),
        ("tiled.limiter", ("tiled", "limiter latency")),
        ("machine", ("", "NVIDIA H200")),
    ],
)
def test_our_figures_are_those_of_the_stored_ladder(figure, shown):
    stored = documents_document.stored_by_name(sweeps())
    assert figures.ours(stored["transpose-float32-8192"], figure) == shown


@pytest.mark.parametrize("figure", ["nave.seconds", "naive.nothing", "naive > nothing", "nothing"])
def test_a_figure_that_was_not_measured_is_found(figure):
    stored = documents_document.stored_by_name(sweeps())
    with pytest.raises(ValueError, match="no figure"):
        figures.ours(stored["transpose-float32-8192"], figure)


def test_wrong_rows_stop_the_generator(monkeypatch):
    first, *others = DOCUMENTS[0].rows

    def with_rows(*rows):
        changed = dataclasses.replace(DOCUMENTS[0], rows=rows)
        monkeypatch.setattr(documents_document, "DOCUMENTS", (changed, *DOCUMENTS[1:]))
        return documents_document.problems(sweeps())

    assert with_rows(first, *others) == []
    assert any("items must be" in problem for problem in with_rows(*others))
    unknown = dataclasses.replace(first, where=("ado.nothing", "docs/nothing.md"))
    assert with_rows(unknown, *others) == [
        "A1: no name 'ado.nothing'",
        "A1: no file 'docs/nothing.md'",
    ]
    with pytest.raises(ValueError, match=r"docs/documents.md: A1: no name"):
        documents_document.text(sweeps())
    empty = dataclasses.replace(first, where=(), note="a note is not a reason")
    assert with_rows(empty, *others) == ["A1: neither a target nor a reason"]
    wrong = dataclasses.replace(first, here=("one_block.nothing",))
    assert ["no figure" in problem for problem in with_rows(wrong, *others)] == [True]


def test_a_published_figure_without_an_item_stops_the_generator(monkeypatch):
    known = figures.published_of(DOCUMENTS[2])
    stray = dataclasses.replace(known[0], item="C51")
    monkeypatch.setattr(documents_document, "published_of", lambda document: (stray,))
    assert any(problem.startswith("C51: ") for problem in documents_document.problems(sweeps()))
