"""docs/gallery.md: every chart, what it shows and how to read it, with its picture."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console

import adokernels as ado
from adobook import charts
from adobook.pages.stored import DATA, ROOT, fill_template
from adobook.published import read_toml
from adokernels.code_text import Listing
from adokernels.records.heatmap import Heatmap
from adokernels.tables import tables_of

#: The folder of the pictures.
FOLDER = ROOT / "docs" / "gallery"
#: Variants of transpose whose heat maps are shown. A test repeats their counts.
HEAT_MAPS = ("naive", "tiled")
#: The names of the README's heat map: a variant of examples/triton/luma.py.
TRITON = "luma", "naive"
_CHARTS = read_toml(Path(__file__).with_suffix(".toml"))


def records() -> list[Path]:
    """The files of the records that the pictures show."""
    calls = "\n".join(chart["call"] for chart in _CHARTS.values())
    return [DATA / n for n in sorted(set(re.findall(r'ado\.load\("(.*?)"\)', calls)))]


def text() -> str:
    """Return the page in Markdown."""
    parts = []
    for name, chart in _CHARTS.items():
        parts += [f"## {chart['title']}", f"```python\n{chart['call']}\n```", chart["shows"]]
        parts.append(f"**In five seconds.** {chart['read']}")
        parts.append(f"![{chart['title']}](gallery/{name}.png)")
    return fill_template("gallery.md", charts="\n\n".join(parts))


def pictures() -> list[str]:
    """The names of the pictures."""
    return list(_CHARTS)


def draw(name: str) -> Figure:
    """Draw a picture with the code that the page shows."""
    statements, _, expression = _CHARTS[name]["call"].rpartition("\n")
    names: dict[str, Any] = {"np": np, "charts": charts, "ado": ado}
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


def emulated(ladder: str, variant: str) -> Heatmap:
    """The stored counts of a variant on the emulator."""
    found = ado.load(DATA / "emulated" / f"{ladder}-{variant}.json.xz")
    assert isinstance(found, Heatmap)
    return found


def heat_maps() -> str:
    """Draw the heat maps of two variants of transpose as SVG, as a terminal shows them."""
    shown = [("transpose", variant) for variant in HEAT_MAPS]
    return _heat_maps(
        shown, "__global__", 'ado.heatmap(ado.transpose["naive"], a, device="emulator")'
    )


def triton_heat_map() -> str:
    """Draw the heat map of a Triton kernel as SVG."""
    return _heat_maps([TRITON], "def ", 'ado.heatmap(luma["naive"], rgba, device="emulator")')


def _heat_maps(shown: Iterable[tuple[str, str]], start: str, call: str) -> str:
    """Draw the heat maps of kernels, from the line that contains `start`, below a call."""
    how: dict[str, Any] = {"force_terminal": True, "color_system": "truecolor"}
    console = Console(record=True, width=168, file=io.StringIO(), legacy_windows=False, **how)
    for ladder, variant in shown:
        listings = (b for b in tables_of(emulated(ladder, variant)) if isinstance(b, Listing))
        kernel = next(listing for listing in listings if start in listing.code)
        before, _, code = kernel.code.partition(start)
        title = f"{ladder}[{variant}], counted by the emulator"
        first = kernel.first + before.count("\n")
        console.print(replace(kernel, title=title, code=start + code, first=first))
    template = Path(__file__).with_name("heatmap.svg").read_text(encoding="utf-8")
    template = template.replace("{title}", call)
    return console.export_svg(unique_id="heat", code_format=template)
