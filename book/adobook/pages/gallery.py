"""docs/gallery.md: every chart, what it shows and how to read it, with its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import adobook as course
import adokernels as ado
from adobook.pages.stored import DATA, ROOT, fill_template
from adobook.published import read_toml
from adokernels.records.loading import load

#: The folder of the pictures.
FOLDER = ROOT / "docs" / "gallery"
_CHARTS = read_toml(Path(__file__).with_suffix(".toml"))
#: The variants of max_plus whose machine code is stored.
_LOOPS = ("one_block", "vector_load_both", "one_block_bounded", "two_blocks", "whole_device")
_PIPES = ("alu", "fma", "lsu", "tex", "xu", "uniform")


def records() -> list[Path]:
    """The files of the records that the pictures show."""
    names = ["gaussian_blur-16384", "max_plus-float64", "course/max_plus-per_multiprocessor"]
    names += ["transpose-float32-8192", "transpose-int64-8192", "average_matvec-1024", "gpp-si214"]
    names += ["break_even/gpp", "course/strided_copy-strides"]
    names += [f"course/max_plus-float64-{variant}-sass" for variant in _LOOPS]
    return [DATA / f"{name}.json" for name in names]


def text() -> str:
    """Return the page in Markdown. KeyError: a chart has no text, or a text no chart."""
    if missing := set(_CHARTS) ^ set(pictures()):
        raise KeyError(f"charts and texts must be the same, got {', '.join(sorted(missing))} once")
    parts = []
    for name, chart in _CHARTS.items():
        parts += [f"## {chart['title']}", f"```python\n{chart['call']}\n```", chart["shows"]]
        parts += [
            f"**In five seconds.** {chart['read']}",
            f"![{chart['title']}](gallery/{name}.png)",
        ]
    return fill_template("gallery.md", charts="\n\n".join(parts))


def pictures() -> Mapping[str, Callable[[], Axes | Figure]]:
    """The functions that draw the pictures, by the names of their files."""
    return {
        "steps": lambda: ado.steps(_load("gaussian_blur-16384")),
        "bandwidth": lambda: ado.roofline(_load("max_plus-float64"), kind="bandwidth"),
        "roofline": lambda: ado.roofline(_load("gpp-si214")),
        "instructions": lambda: ado.roofline(_load("transpose-float32-8192"), kind="instructions"),
        "machines": lambda: ado.roofline([_load("average_matvec-1024"), _load("max_plus-float64")]),
        "speed_of_light": lambda: ado.speed_of_light(_load("gaussian_blur-16384")),
        "warp_states": lambda: ado.warp_states(_load("gpp-si214")),
        "memory_chart": lambda: ado.memory_chart(_load("transpose-int64-8192")["naive"]),
        "scan": lambda: ado.plot(_load("break_even/gpp")),
        "comparison": lambda: ado.plot(
            ado.compare(
                _load("max_plus-float64"),
                _load("course/max_plus-per_multiprocessor"),
                across_machines=True,
            )
        ),
        "sectors": lambda: ado.sectors("stride 3").plot(),
        "banks": lambda: ado.bank_conflicts(32 * np.arange(32)).plot(),
        "divergence": lambda: ado.divergence(np.arange(64) % 2).plot(),
        "in_flight": _in_flight,
        "latency": lambda: course.draw_latency(8, (3, 10)),
        "windows": lambda: course.draw_windows((32, 4), 3),
        "pipes": _pipes,
        "strides": lambda: course.stride_chart(
            _load("course/strided_copy-strides"), "stride", lambda n: ado.sectors(f"stride {n}")
        )[0],
    }


def draw(name: str) -> Figure:
    """Draw a picture."""
    drawn = pictures()[name]()
    figure = drawn.figure.figure if isinstance(drawn, Axes) else drawn
    assert isinstance(figure, Figure)
    return figure


def _load(name: str) -> Any:
    return load(DATA / f"{name}.json")


def _in_flight() -> Axes:
    sweep = _load("max_plus-float64")
    loops = course.inner_loops(sweep, DATA / "course" / "max_plus-float64", _LOOPS)
    return course.in_flight_chart({"float64": loops.values()}, sweep.roof)


def _pipes() -> Figure:
    blur = _load("gaussian_blur-16384")
    return course.draw_pipes([blur["occupancy"], blur["shared"]], _PIPES)
