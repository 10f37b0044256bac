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
#: Lines of the listing that the page shows.
_LISTED = 24


def records() -> list[Path]:
    """The files of the records that the pictures show."""
    calls = "\n".join(chart["call"] for chart in _CHARTS.values())
    return [DATA / name for name in sorted(set(re.findall(r'ado\.load\("(.*?)"\)', calls)))]


def text() -> str:
    """Return the page in Markdown."""
    parts = []
    for name, chart in _CHARTS.items():
        parts += [f"## {chart['title']}", f"```python\n{chart['call']}\n```", chart["shows"]]
        parts += [
            f"**In five seconds.** {chart['read']}",
            f"![{chart['title']}](gallery/{name}.png)",
        ]
    lines = str(ado.load(DATA / "course" / "transpose-heatmap-naive.json")).strip().splitlines()[:_LISTED]
    listing = "\n".join(line.rstrip() for line in lines)
    return fill_template("gallery.md", charts="\n\n".join(parts), listing=listing)


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
