"""Targets of docs/documents.md: the places that show an item, as links or as code."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adobook as course
import adokernels as ado
from adobook.pages.stored import ROOT
from adokernels import cli

#: A section of a notebook: ``"03: Verification"``.
_SECTION = r"(\d\d): (.+)"


def link(target: str) -> str:
    """Return the Markdown of a target. ValueError: it does not exist."""
    kinds = (
        (_SECTION, _section),
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


@dataclass
class Section:
    """A section of a notebook with its subsections: its text, with outputs, and its charts."""

    text: str = ""
    charts: int = 0


@cache
def headings() -> Mapping[str, tuple[Path, Mapping[str, Section]]]:
    """The notebooks by number: path, and the sections by heading, in order."""
    paths = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    return {path.name[:2]: (path, _sections(path)) for path in paths}


def _sections(path: Path) -> dict[str, Section]:
    found: dict[str, Section] = {}
    around: list[tuple[int, Section]] = []  # the open sections, with their levels
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            for _, section in around:
                section.text += "\n".join([source, *map(_text_of, cell["outputs"])])
                section.charts += sum(map(_is_chart, cell["outputs"]))
            continue
        for line in source.splitlines():
            if match := re.match(r"(#+) (.+?)\s*$", line):
                level = len(match[1])
                section = found.setdefault(match[2], Section())
                around = [(n, s) for n, s in around if n < level] + [(level, section)]
            for _, section in around:
                section.text += f"{line}\n"
    return found


def _text_of(output: Mapping[str, Any]) -> str:
    data = output.get("data", {})
    return "".join(data.get("text/markdown", data.get("text/plain", output.get("text", ""))))


def _is_chart(output: Mapping[str, Any]) -> bool:
    return bool({"image/png", "image/svg+xml"} & set(output.get("data", {})))


def section(target: str) -> Section | None:
    """The section of a notebook that a target names; None for other targets."""
    match = re.fullmatch(_SECTION, target)
    return headings()[match[1]][1][match[2]] if match else None


def _section(target: str, number: str, heading: str) -> str:
    path, titles = headings().get(number, (None, {}))
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
