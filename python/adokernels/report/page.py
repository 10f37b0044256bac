"""A report of measurements as one self-contained HTML page."""

from __future__ import annotations

import base64
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from adokernels.charts.counters import speed_of_light, warp_states
from adokernels.charts.files import closing, to_svg
from adokernels.charts.picture import plot
from adokernels.charts.steps import steps
from adokernels.diagnosis.diagnosis import diagnose
from adokernels.records.changes import SweepComparison
from adokernels.records.counted import CountedSweep
from adokernels.records.loading import Reported
from adokernels.records.machine import Machine
from adokernels.records.measurement import FUNCTION, Measurement
from adokernels.records.metrics import LEVEL_BYTES
from adokernels.records.scan import Scan
from adokernels.records.sweep import Sweep, as_sweep
from adokernels.records.what_if import WhatIf
from adokernels.storage import replace_file
from adokernels.tables import tables_of
from adokernels.tables.diagnoses import diagnosis_tables
from adokernels.tables.ladders import what_if_table
from adokernels.tables.measurements import machine_table
from adokernels.tables.rendering import table_of, to_html
from adokernels.text import escaped, number, quantity, ratio, require, share_of_limit

#: A caption, and a PNG image or its path.
Picture = tuple[str, str | Path | bytes]

#: Columns with the attributes of their cells.
_COLUMNS = {
    "routine": "",
    "fastest": ' class="sentence"',
    **dict.fromkeys(("time", "speed-up", "of roof", "of FMA peak"), ' style="text-align:right"'),
    "largest error": ' style="text-align:right"',
    **dict.fromkeys(("limiter", "device", "problem"), ' class="sentence"'),
}
_CHANGES = "what it changes"
#: Significant digits of the bounds of an interval, which are often close to each other.
_DIGITS = 4


def write_report(
    path: str | Path,
    *,
    sweeps: Sequence[Reported | Measurement],
    what_if: Iterable[WhatIf] = (),
    title: str = "adokernels: measurements",
    pictures: Iterable[Picture] = (),
    context: Mapping[str, Any] | None = None,
) -> Path:
    """Write the tables and charts of several records, and their context, as one HTML file.

    The first table has one row per record. Pointing at a variant, in a chart or in a table, shows
    its numbers. The file is self-contained and complete without its script. It uses the light or
    dark colour scheme of the browser. Equal data gives equal bytes.

    Parameters
    ----------
    path
        The file to write.
    sweeps
        The sweeps, measurements, scans and comparisons, one per section.
    what_if
        Experiments of ``ado.what_if``. The section of a sweep shows those on its variants.
    title
        The heading.
    pictures
        Pictures to show first: captions with PNG images, as bytes or paths.
    context
        Versions, processor, threads, clocks; by default the context stored in the records.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    OSError
        If a picture cannot be read or the file cannot be written; an existing file is unchanged.
    """
    require((str, os.PathLike), "a path", path=path)
    require(str, "a str", title=title)
    require(Iterable, "a sequence of sweeps, measurements, scans and comparisons", sweeps=sweeps)
    records: list[Reported] = [*map(as_sweep, sweeps)]
    for record in records:
        if isinstance(record, CountedSweep):
            raise TypeError(
                "sweeps must have times, got a CountedSweep: a report shows times, but a sweep on "
                "the emulator has counts; use ado.diagnose"
            )
        require(Reported, "sweeps, scans and comparisons", sweeps=record)
    experiments = list(what_if)
    for each in experiments:
        require(WhatIf, "records of ado.what_if", what_if=each)
    name, folder = escaped(title), resources.files("adokernels.report")
    script, style = (folder.joinpath(f).read_text("utf-8") for f in ("page.js", "page.css"))
    machines: dict[str, Machine] = {}  # each once, even if several sweeps ran on it
    measured: list[Measurement] = []
    for record in records:
        if isinstance(record, SweepComparison):
            measured += [m for change in record for m in (change.before, change.after)]
            continue
        for sweep in record.sweeps if isinstance(record, Scan) else (record,):
            measured += sweep
            if sweep.machine:
                machines[sweep.machine.title] = sweep.machine
    if context is None:  # the contexts of the records agree within one session
        carriers: tuple[Machine | Measurement, ...] = (*machines.values(), *measured)
        context = {key: value for carrier in carriers for key, value in carrier.context.items()}
    images = []
    for caption, image in pictures:
        content = image if isinstance(image, bytes) else Path(image).read_bytes()
        source = f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}"
        words = f'<figcaption>{escaped(caption)}</figcaption><img src="{source}"'
        images.append(f'<figure>{words} alt="{escaped(caption)}"></figure>')
    anchors = [f"sweep-{place}" for place in range(1, len(records) + 1)]
    numbers = itertools.count(1)
    parts = [
        f"<h1>{name}</h1>",
        _headline(records, anchors) if records else "",
        f"<p>{_METHOD}</p>",
        *images,
        *(_section(r, a, numbers, experiments) for r, a in zip(records, anchors, strict=True)),
        _about(machines.values(), context),
        f"<script>\n{script}</script>",
    ]
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(filter(None, parts))
        + "\n</body>\n</html>\n"
    )
    target = Path(path)
    replace_file(target, page.encode())
    return target


_METHOD = (
    "Times are medians. Cold: caches were overwritten before each sample. Warm: calls ran back to "
    "back. The speed-up of the fastest variant is relative to the first one. Useful bandwidth "
    "counts compulsory bytes, not the bytes that the variant moved."
)


def _section(
    record: Reported, anchor: str, numbers: Iterator[int], experiments: Sequence[WhatIf]
) -> str:
    """The tables and charts of a record; with counters or experiments, also its diagnosis."""
    name, subject = _names(record)
    first, *others = (table for table in tables_of(record) if isinstance(table, Table))
    style, words = "", f"Chart of {record.title}."
    if isinstance(record, Sweep):
        times = ", ".join(f"{m.variant} {quantity(m.seconds, 's')}" for m in record)
        style, words = "variants", f"Times of {record.title}: {times}."
    parts = [
        f'<section id="{anchor}">\n<h2>{escaped(name)}</h2>',
        f'<p class="subject">{escaped(subject)}</p>' if subject else "",
        _table(first, style, record.title),
        _chart(plot, record, words, numbers) if len(record) else "",
        *map(_titled, others),
    ]
    if isinstance(record, Sweep) and any(m.profile for m in record.variants):
        parts.append(_chart(speed_of_light, record, f"Speed of light of {record.title}.", numbers))
        parts.append(_chart(warp_states, record, f"Warp states of {record.title}.", numbers))
    own = [each for each in experiments if isinstance(record, Sweep) and each.is_of(record)]
    if own:
        promised = partial(steps, what_if=own)
        parts.append(_chart(promised, record, f"Promised steps of {record.title}.", numbers))
    if isinstance(record, Sweep) and (own or any(m.profile for m in record.variants)):
        diagnosis, *proposals = diagnosis_tables(diagnose(record, what_if=own))
        diagnosis.title = "Diagnosis"
        parts += map(_titled, (diagnosis, *proposals, *map(what_if_table, own)))
    if isinstance(record, Sweep) and len(record):
        parts.append(_titled(_variants_table(record), "variants details"))
    return "\n".join(filter(None, [*parts, "</section>"]))


def _names(record: Reported) -> tuple[str, str]:
    """The heading of a section, and what was measured."""
    if isinstance(record, SweepComparison):
        name = record[0].after.routine
        first, second = record.labels
        return f"{first} and {second}" if name == FUNCTION else f"{name} (comparison)", record.title
    subject = record.title.removeprefix(record.routine).removeprefix(", ")
    return f"{record.routine}{' (sizes)' if isinstance(record, Scan) else ''}", subject


def _titled(table: Table, style: str = "") -> str:
    """A table with an h3 heading."""
    title = str(table.title)
    return f"<h3>{escaped(title)}</h3>\n{_table(table, style, title)}"


def _table(table: Table, style: str, label: str) -> str:
    """A table without its title, in a box that scrolls and can have the keyboard focus."""
    table.title = None
    classes = f"scroll {style}".strip()
    return (
        f'<div class="{classes}" tabindex="0" role="region" aria-label="{escaped(label)}">\n'
        f"{to_html(table)}\n</div>"
    )


def _chart(
    draw: Callable[..., Axes], record: Reported, alternative: str, numbers: Iterator[int]
) -> str:
    """A chart whose title is text of the page. The section states its subject."""
    with closing(draw, record) as figure:
        titles = [ax.get_title(loc="left") for ax in figure.axes]
        for ax in figure.axes:
            ax.set_title("", loc="left")
        for subject in figure.findobj(lambda artist: artist.get_gid() == "subject"):
            subject.remove()
        svg = _inline_svg(figure, f"chart-{next(numbers)}-", alternative)
    title = next(filter(None, titles), "").replace("\n", " ")
    label = escaped(alternative)
    return (
        f"<figure>\n<figcaption>{escaped(title)}</figcaption>\n"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">\n{svg}\n</div>\n'
        "</figure>"
    )


def _about(machines: Iterable[Machine], facts: Mapping[str, Any]) -> str:
    """The ceilings of the machines, and the context of the measurements."""
    tables = [_titled(machine_table(machine)) for machine in machines]
    if facts:
        lines = (f"<dt>{escaped(k)}</dt><dd>{escaped(str(v))}</dd>" for k, v in facts.items())
        tables.append(
            "<details>\n<summary>Machine, software and settings</summary>\n"
            f"<dl>\n{chr(10).join(lines)}\n</dl>\n</details>"
        )
    if not tables:
        return ""
    return "\n".join(['<section id="machines">\n<h2>Machines</h2>', *tables, "</section>"])


def _inline_svg(figure: Figure, prefix: str, label: str) -> str:
    """Render a figure as an ``svg`` element with an alternative text. The page determines its size.

    Identifiers get a prefix, because Matplotlib uses the same ones in each figure, for example for
    glyphs and clip paths.
    """
    svg = to_svg(figure).decode()
    # Comments contain the texts of the figure, metadata contains addresses, and the style sheet
    # would apply to the whole page, which contains the same rule.
    svg = re.sub(r"<!--.*?-->|<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\g<1>{prefix}", svg)
    start, _, content = svg[svg.index("<svg") :].partition(">")
    (box,) = re.findall(r'viewBox="(.*?)"', start)
    return f'<svg class="chart" role="img" aria-label="{escaped(label)}" viewBox="{box}">{content}'


def _headline(sweeps: Sequence[Reported], anchors: Sequence[str]) -> str:
    """Write the fastest variant of each record as an HTML table, with links to its section."""
    rows = [_summary(sweep) for sweep in sweeps]
    names = [name for name in _COLUMNS if any(row[name] for row in rows)]
    head = "".join(f"<th{_COLUMNS[name]}>{name}</th>" for name in names)
    body = ""
    for row, anchor in zip(rows, anchors, strict=True):
        link = f'<td><a href="#{anchor}">{escaped(row["routine"])}</a></td>'
        rest = (f"<td{_COLUMNS[name]}>{escaped(row[name])}</td>" for name in names[1:])
        body += f"<tr>{link}{''.join(rest)}</tr>\n"
    return (
        '<div class="adokernels scroll" tabindex="0" role="region" aria-label="Summary">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>\n</div>"
    )


def _variants_table(sweep: Sweep) -> Table:
    """Build a table with one row per measurement, without columns that have no known value.

    The script of the page shows a row beside the point with the same number in a chart.
    """
    measured = (*sweep.measurements, *sweep.peers)
    rows = [_details(sweep, m) for m in measured]
    faded = [m.ceiling for m in measured]
    return table_of("Each variant", rows, {_CHANGES: None}, faded=faded, sparse=True)


def _summary(record: Reported) -> dict[str, str]:
    """The cells of a record by column; unknown cells are empty."""
    name, subject = _names(record)
    row = dict.fromkeys(_COLUMNS, "") | {"routine": name, "problem": subject}
    if isinstance(record, Scan):
        return row | {"fastest": record.finding}
    if isinstance(record, SweepComparison):
        best = max(record, key=lambda change: change.comparison.ratio)
        return row | {
            "fastest": f"{best.variant}: {best.comparison.verdict}",
            "time": quantity(best.after.seconds, "s"),
            "speed-up": ratio(best.comparison.ratio),
        }
    devices = dict.fromkeys(m.machine_title or m.device for m in record)
    row |= {
        "routine": f"{record.routine} (interrupted)" if record.interrupted else record.routine,
        "fastest": "no variant measured",
        "device": record.machine.title if record.machine else ", ".join(devices),
        "problem": "; ".join(dict.fromkeys(str(m.problem) for m in record)),
    }
    if not record.variants:
        return row
    first, winner = record.variants[0], record.fastest
    gain = "" if winner is first else ratio(winner.speedup_over(first))
    fastest = f"{winner.variant} ({record.lead})" if record.lead else winner.variant
    return row | {"fastest": fastest, "speed-up": gain, **_result(record, winner)}


def _result(sweep: Sweep, m: Measurement) -> dict[str, str]:
    """The cells that both tables have."""
    share, of_peak, found = sweep.share_of_roof(m), sweep.share_of_peak(m), m.limiter
    return {
        "time": quantity(m.seconds, "s"),
        "of roof": "" if share is None else share_of_limit(share),
        "of FMA peak": "" if of_peak is None else share_of_limit(of_peak),
        "largest error": m.shown_error,
        "limiter": "" if found.kind == "unknown" else found.name,
    }


def _details(sweep: Sweep, m: Measurement) -> dict[str, str]:
    """The cells of a measurement by column; unknown cells are empty."""
    kind = " (peer)" if m in sweep.peers else " (ceiling)" if m.ceiling else ""
    low, high = (quantity(bound, "s", _DIGITS) for bound in m.interval)
    result = _result(sweep, m)
    flops, moved = m.counted_flops, m.counted_bytes
    per_byte = {level: number(flops / moved[level]) for level in moved if flops and moved[level]}
    return {
        "variant": m.shown_as + kind,
        "time": result.pop("time"),
        "95 % interval": f"{low} to {high}" if m.confidence else "",
        **result,
        "FLOP per requested byte": number(m.intensity) if m.executed_flops else "",
        **{f"FLOP per {level} byte": per_byte.get(level, "") for level in LEVEL_BYTES},
        _CHANGES: m.changes,
    }
