"""The sources of the site: copies of the repository's documents, with links between pages.

In the repository, links are relative file paths, so that they work on the host of the repository.
The site keeps the structure of the repository, except that ``docs/`` becomes its root. Links are
rewritten accordingly. The target of a link must be an existing file. Linked files that are not
documents, such as source code, are copied and can be downloaded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from adobook.text import slug

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


def documents(root: Path) -> list[str]:
    """The documents of the repository that are pages of the site, relative to its root."""
    found = [*PROJECT]
    found += (str(path.relative_to(root)) for path in (root / "notebooks").glob("*.ipynb"))
    for path in (root / "docs").rglob("*.md"):
        name = str(path.relative_to(root))
        if not any(part.startswith("_") for part in path.parts):
            found.append(name)
    return sorted(found)


def place(name: str) -> str:
    """The path of a file in the site."""
    return REPLACED.get(name, name).removeprefix("docs/")


def copy_documents(root: Path, target: Path) -> None:
    """Copy all documents, and the files to which they link.

    Raises
    ------
    ValueError
        If the target of a link is not a file of the repository.
    """
    pages = documents(root)
    linked: set[str] = set()
    for name in pages:
        text = (root / name).read_text(encoding="utf-8")
        if name.endswith(".ipynb"):
            text = _notebook(text, name, root, linked)
        else:
            text = rewrite(text, name, root, linked)
        page = target / place(name)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    for name in sorted(linked - set(pages) - set(REPLACED)):
        copy = target / place(name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, copy)


def _notebook(text: str, name: str, root: Path, linked: set[str]) -> str:
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = "".join(cell["source"])
            cell["source"] = rewrite(source, name, root, linked).splitlines(keepends=True)
    return json.dumps(notebook, ensure_ascii=False)


def rewrite(text: str, name: str, root: Path, linked: set[str]) -> str:
    """Rewrite the relative links of a Markdown text for the site.

    Parameters
    ----------
    text
        The text of the document, or of a cell of the notebook.
    name
        The path of the document, relative to `root`.
    root
        The root of the repository.
    linked
        The files to which documents link; those of this text are added.

    Raises
    ------
    ValueError
        If the target of a link is not a file of the repository, or if the link is in HTML, where
        Sphinx does not resolve it.
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
