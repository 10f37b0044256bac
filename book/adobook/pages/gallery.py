"""docs/gallery.md: every chart, what it shows and how to read it, with its picture."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import adobook as course
import adokernels as ado
from adobook.pages.stored import DATA, ROOT, fill_template
from adobook.published import read_toml

#: The folder of the pictures.
FOLDER = ROOT / "docs" / "gallery"
_CHARTS = read_toml(Path(__file__).with_suffix(".toml"))


def records() -> list[Path]:
    """The files of the records that the pictures show."""
    calls = "\n".join(chart["call"] for chart in _CHARTS.values())
    loops = sorted((DATA / "course").glob("max_plus-float64-*-sass.json"))
    return [DATA / n for n in sorted(set(re.findall(r'ado\.load\("(.*?)"\)', calls)))] + loops


def text() -> str:
    """Return the page in Markdown."""
    parts = []
    for name, chart in _CHARTS.items():
        parts += [f"## {chart['title']}", f"```python\n{chart['call']}\n```", chart["shows"]]
        parts += [
            f"**In five seconds.** {chart['read']}",
            f"![{chart['title']}](gallery/{name}.png)",
        ]
    return fill_template("gallery.md", charts="\n\n".join(parts))


def pictures() -> list[str]:
    """The names of the pictures."""
    return list(_CHARTS)


def draw(name: str) -> Figure:
    """Draw a picture with the code that the page shows."""
    statements, _, expression = _CHARTS[name]["call"].rpartition("\n")
    names: dict[str, Any] = {"np": np, "course": course, "ado": ado, "Path": Path}
    before = Path.cwd()
    os.chdir(DATA)
    try:
        exec(statements, names)
        drawn = eval(expression, names)
    finally:
        os.chdir(before)
    figure = drawn.figure.figure if isinstance(drawn, Axes) else drawn
    assert isinstance(figure, Figure)
    return figure
