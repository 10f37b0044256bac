"""Targets of docs/documents.md: the places that show an item, as links or as code."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import quote

import adobook as course
import adokernels as ado
from adobook.pages.stored import ROOT
from adokernels import cli


def link(target: str) -> str:
    """Return the Markdown of a target. ValueError: it does not exist."""
    kinds = (
        (r"(\d\d): (.+)", _section),
        (r"(\w+)\[(\w+)\]", _variant),
        (r"card (\w+)", _card),
        (r"(ado|course)\.([\w.]+)", _name),
        (r"adokernels (\w+)(?: (--[\w-]+))?", _command),
        (r"((?:docs|benchmarks|examples|notebooks)/[\w./-]+)", _file),
    )
    for pattern, make in kinds:
        if match := re.fullmatch(pattern, target):
            return make(target, *match.groups())
    kinds_of_target = "a section, variant, card, name, command or file"
    raise ValueError(f"target must be {kinds_of_target}, got {target!r}")


@cache
def headings() -> Mapping[str, tuple[Path, tuple[str, ...]]]:
    """The notebooks by number: path, and the headings of their Markdown cells."""
    found = {}
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        titles = re.findall(r"^#+ (.+?)\s*$", "\n".join(texts), re.M)
        found[path.name[:2]] = (path, tuple(titles))
    return found


def _section(target: str, number: str, heading: str) -> str:
    path, titles = headings().get(number, (None, ()))
    if path is None or heading not in titles:
        raise ValueError(f"no notebook section {target!r}")
    anchor = quote(heading.replace(" ", "-"))
    return f"[{number}: {heading}](../notebooks/{path.name}#{anchor})"


def _variant(target: str, routine: str, variant: str) -> str:
    if routine not in ado.routines or variant not in [v.name for v in ado.routines[routine]]:
        raise ValueError(f"no variant {target!r}")
    return f"`{target}`"


def _card(target: str, key: str) -> str:
    if key not in ado.cards:
        raise ValueError(f"no {target!r}")
    return f"[{target}](cards.md)"


def _name(target: str, package: str, dotted: str) -> str:
    found: object = ado if package == "ado" else course
    for name in dotted.split("."):
        value = getattr(found, name, None)
        public = name in dir(found) and not inspect.ismodule(value)
        if not (public or value is ado.records):
            raise ValueError(f"no name {target!r}")
        found = value
    return f"`{target}`"


def _command(target: str, command: str, option: str | None) -> str:
    shown = _help_of(command)
    if shown is None:
        raise ValueError(f"no command {target!r}")
    if option is not None and option not in re.findall(r"--[\w-]+", shown):
        raise ValueError(f"no option {target!r}")
    return f"`{target}`"


@cache
def _help_of(command: str) -> str | None:
    """The help of a command, or None if there is no such command."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(io.StringIO()):
        try:
            cli.main([command, "--help"])
        except SystemExit as ended:
            return None if ended.code else shown.getvalue()
    return None


def _file(target: str, path: str) -> str:
    if not (ROOT / path).is_file():
        raise ValueError(f"no file {target!r}")
    return f"[{path}]({'' if path.startswith('docs/') else '../'}{path.removeprefix('docs/')})"
