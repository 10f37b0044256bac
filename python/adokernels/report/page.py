"""A report of measurements as one self-contained HTML page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from adokernels.charts.files import to_svg
from adokernels.charts.roofline import roofline
from adokernels.charts.speed_of_light import speed_of_light
from adokernels.charts.warp_states import warp_states
from adokernels.diagnosis.diagnosis import diagnose
from adokernels.storage import replace_file
from adokernels.tables.measurements import machine_table, sweep_tables
from adokernels.tables.numbers import quantity
from adokernels.tables.printable import escaped
from adokernels.tables.rendering import to_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from adokernels.measuring.records import Machine, Measurement, Sweep

#: A caption, and a PNG image or its path.
Picture = tuple[str, str | Path | bytes]

_STYLE = """
:root { color-scheme: light dark; --rule: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.7rem; white-space: nowrap; vertical-align: top; }
th { vertical-align: bottom; }
thead { border-bottom: 2px solid var(--rule); }
tbody tr { border-bottom: 1px solid var(--rule); }
caption { padding-bottom: 0.5rem; }
figure { margin: 1.5rem 0; }
img { max-width: 100%; height: auto; }
dt { font-weight: 600; }
dd { margin: 0 0 0.3rem 1.5rem; overflow-wrap: anywhere; }
section { border-top: 1px solid var(--rule); margin-top: 2rem; }
@media screen and (prefers-color-scheme: dark) {
  body { background: #16181c; color: #e4e4e4; }
  img.chart { filter: invert(1) hue-rotate(180deg); mix-blend-mode: screen; }
}
@media print {
  body { margin: 0; max-width: none; }
  figure, table { break-inside: avoid; }
  th, td { padding: 0.1rem 0.3rem; }
}
"""


def write_report(
    path: str | Path,
    *,
    title: str,
    sweeps: Sequence[Sweep],
    pictures: Iterable[Picture] = (),
    context: Mapping[str, Any] | None = None,
) -> Path:
    """Write the tables and charts of several sweeps, and their context, as one HTML file.

    The file is self-contained: it needs no network and no script. It follows the reader's light or
    dark colour scheme. Equal data gives equal bytes.

    Parameters
    ----------
    path
        The file to write.
    title
        The heading.
    sweeps
        The sweeps, one per section.
    pictures
        Pictures to show first: captions with PNG images, as bytes or paths.
    context
        Versions, processor, threads, clocks; by default the context stored in the records.

    Returns
    -------
    Path
        The file written.
    """
    name = escaped(title)
    facts = _context(sweeps) if context is None else context
    parts = [
        f"<h1>{name}</h1>\n<p>{escaped(_summary(sweeps))}</p>",
        *(to_html(machine_table(machine)) for machine in _machines(sweeps)),
        *(_figure(_png(image), caption, caption) for caption, image in pictures),
        *map(_section, sweeps),
        _details(facts) if facts else "",
    ]
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(filter(None, parts))
        + "\n</body>\n</html>\n"
    )
    target = Path(path)
    replace_file(target, page.encode())
    return target


def _summary(sweeps: Sequence[Sweep]) -> str:
    ladders = _and(dict.fromkeys(f"{len(s.variants)} variants of {s.routine}" for s in sweeps))
    machines = _and(machine.title for machine in _machines(sweeps))
    on = f" on {machines}" if machines else ""
    return (
        f"Measured{on}: {ladders}. Times are medians with 95 % confidence intervals; "
        "cold means that caches were overwritten before each sample, warm that calls ran back to "
        "back. Useful bandwidth counts compulsory bytes, not those that the variant moved."
    )


def _section(sweep: Sweep) -> str:
    changes = [(m.variant, m.changes) for m in sweep if m.changes]
    chart = _figure(_chart(roofline, sweep), _alternative(sweep), "", "chart") if len(sweep) else ""
    parts = (
        f"<section>\n<h2>{escaped(_heading(sweep))}</h2>",
        *map(to_html, sweep_tables(sweep)),
        chart,
        _analysis(sweep) if any(m.profile for m in sweep.variants) else "",
        f"<h3>What each variant changes</h3>\n{_list(changes)}" if changes else "",
        "</section>",
    )
    return "\n".join(filter(None, parts))


def _analysis(sweep: Sweep) -> str:
    """What the hardware counters of a sweep show: two charts and the diagnosis."""
    charts = {
        speed_of_light: f"Speed of light of {sweep.title}.",
        warp_states: f"Warp states of {sweep.title}.",
    }
    figures = [_figure(_chart(draw, sweep), text, "", "chart") for draw, text in charts.items()]
    return "\n".join([*figures, diagnose(sweep)._repr_html_()])


def _heading(sweep: Sweep) -> str:
    problems = dict.fromkeys(str(m.problem) for m in sweep)
    return ", ".join([sweep.routine, *problems])


def _chart(draw: Callable[..., Axes], sweep: Sweep) -> str:
    with plt.style.context("default"):
        figure = Figure(figsize=(8.5, 5.5), layout="constrained")
        draw(sweep, ax=figure.add_subplot())
        return f"data:image/svg+xml;base64,{_encoded(to_svg(figure))}"


def _alternative(sweep: Sweep) -> str:
    """The alternative text of a chart."""
    times = [f"{m.variant} {quantity(m.seconds, 's')}" for m in sweep]
    kind = "Roofline" if any(m.executed_flops for m in sweep) else "Bandwidths"
    return f"{kind} of {sweep.title}: {', '.join(times)}."


def _figure(source: str, alternative: str, caption: str, style: str = "picture") -> str:
    words = f"<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    alt = escaped(alternative)
    return f'<figure><img class="{style}" src="{source}" alt="{alt}">{words}</figure>'


def _png(image: str | Path | bytes) -> str:
    content = image if isinstance(image, bytes) else Path(image).read_bytes()
    return f"data:image/png;base64,{_encoded(content)}"


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _details(facts: Mapping[str, Any]) -> str:
    items = _list((key, str(value)) for key, value in facts.items())
    return f"<details>\n<summary>Machine, software and settings</summary>\n{items}\n</details>"


def _list(items: Iterable[tuple[str, str]]) -> str:
    lines = (f"<dt>{escaped(key)}</dt><dd>{escaped(text)}</dd>" for key, text in items)
    return "<dl>\n" + "\n".join(lines) + "\n</dl>"


def _context(sweeps: Sequence[Sweep]) -> dict[str, Any]:
    """Merge the contexts of the records, which agree within one session."""
    carriers: list[Machine | Measurement] = [
        *_machines(sweeps),
        *(m for sweep in sweeps for m in sweep),
    ]
    return {key: value for carrier in carriers for key, value in carrier.context.items()}


def _machines(sweeps: Sequence[Sweep]) -> list[Machine]:
    """Each machine once, even if several sweeps ran on it."""
    machines = (sweep.machine for sweep in sweeps if sweep.machine is not None)
    return list({machine.title: machine for machine in machines}.values())


def _and(words: Iterable[str]) -> str:
    *others, last = [*words] or [""]
    return f"{', '.join(others)} and {last}" if others else last
