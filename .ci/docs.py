"""Builds the documentation site in build/docs/html. Warnings are errors; no network is used.

The sources in build/docs/source are copies of the repository's documents and notebooks, and one
generated page per ladder. The site keeps the structure of the repository, except that ``docs/``
becomes its root. Links, which are relative file paths, are rewritten accordingly. Linked files that
are not documents, such as source code, are copied and can be downloaded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

import ladder_pages

from adobook.text import slug

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "docs"
#: Documents outside docs/.
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "HACKING.md")
#: The README is the first page on the host of the repository; the site has its own first page.
REPLACED = {"README.md": "docs/index.md"}

_CODE = r"^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)|`[^`\n]+`"
_LINK = re.compile(
    rf'{_CODE}|(?P<before>\]\(|\bsrc=")(?P<target>[^()\s"<>]*)(?P<after>[)"])|(?P<html>\bhref=")',
    re.DOTALL | re.MULTILINE,
)
_ELSEWHERE = re.compile(r"[a-z]+:")
#: An address on another host that a browser loads with the page.
_REMOTE = re.compile(
    r"""<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"""
    r"""|(?:url\(|@import\s)\s*["']?(?:https?:)?//[^)"']*"""
)


def documents(root: Path) -> list[str]:
    """The documents of the repository that are pages of the site, relative to its root."""
    paths = [*(root / "notebooks").glob("*.ipynb"), *(root / "docs").rglob("*.md")]
    names = (path.relative_to(root) for path in paths)
    shown = (name for name in names if not any(part.startswith("_") for part in name.parts))
    return sorted([*PROJECT, *map(str, shown)])


def place(name: str) -> str:
    """The path of a file in the site."""
    return REPLACED.get(name, name).removeprefix("docs/")


def copy_documents(root: Path, target: Path) -> None:
    """Copy all documents, and the files to which they link; raises the errors of `rewrite`."""
    pages = documents(root)
    linked: set[str] = set()
    for name in pages:
        text = (root / name).read_text(encoding="utf-8")
        change = _notebook if name.endswith(".ipynb") else rewrite
        text = change(text, name, root, linked)
        _file(target, name).write_text(text, encoding="utf-8")
    for name in sorted(linked - set(pages) - set(REPLACED)):
        shutil.copyfile(root / name, _file(target, name))


def _file(target: Path, name: str) -> Path:
    """The path of a copy, in a folder that exists."""
    path = target / place(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _notebook(text: str, name: str, root: Path, linked: set[str]) -> str:
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = "".join(cell["source"])
            cell["source"] = rewrite(source, name, root, linked).splitlines(keepends=True)
    return json.dumps(notebook, ensure_ascii=False)


def rewrite(text: str, name: str, root: Path, linked: set[str]) -> str:
    """Rewrite the relative links of a Markdown text for the site.

    `text` is the document `name`, relative to `root`, or a cell of a notebook. The files to which
    it links are added to `linked`. ValueError is raised if the target of a link is not a
    file of the repository, or if the link is in HTML, where Sphinx does not resolve it.
    """
    errors = []

    def replacement(match: re.Match[str]) -> str:
        if match["html"]:
            rest = text[match.end() :]
            if not (_ELSEWHERE.match(rest) or rest.startswith("#")):
                errors.append(f"links must be in Markdown, got {match[0]}{rest.split('>')[0]}")
            return match[0]
        target = match["target"]
        if not target or target.startswith("#") or _ELSEWHERE.match(target):
            return match[0]
        path, _, anchor = target.partition("#")
        file = os.path.normpath(PurePosixPath(name).parent / unquote(path))
        if not (root / file).is_file():
            errors.append(f"links must point to files of the repository, got {target}")
            return match[0]
        linked.add(file)
        page = os.path.relpath(place(file), PurePosixPath(place(name)).parent)
        if file.endswith(".ipynb"):
            anchor = slug(unquote(anchor))
        return f"{match['before']}{page}{'#' if anchor else ''}{anchor}{match['after']}"

    changed = _LINK.sub(replacement, text)
    if errors:
        raise ValueError("\n".join(f"{name}: {error}" for error in errors))
    return changed


def remote_assets(folder: Path) -> list[str]:
    """List the assets of pages and style sheets that are loaded from the network."""
    return [
        f"{file.relative_to(folder)}: assets must be local, got {found[0]}"
        for file in sorted([*folder.rglob("*.html"), *folder.rglob("*.css")])
        for found in _REMOTE.finditer(file.read_text(encoding="utf-8"))
    ]


def main() -> int:
    """Build the site from scratch; return the exit status."""
    shutil.rmtree(BUILD, ignore_errors=True)
    from sphinx.cmd.build import main as sphinx

    source, pages = BUILD / "source", BUILD / "html"
    copy_documents(ROOT, source)
    ladder_pages.write_pages(ROOT, source / "ladders")
    strict = ["--fail-on-warning", "--keep-going", "--quiet", "--jobs", "2"]
    folders = ["--conf-dir", str(ROOT / "docs"), "--doctree-dir", str(BUILD / "doctrees")]
    status = sphinx([*strict, *folders, str(source), str(pages)])
    errors = remote_assets(pages)
    if errors:
        print("\n".join(errors), file=sys.stderr)
    elif not status:
        print(pages / "index.html")
    return status or int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())
