"""A report of measurements as one self-contained HTML page."""

from __future__ import annotations

import base64
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from adokernels.charts.files import closing, to_svg
from adokernels.charts.picture import plot
from adokernels.charts.speed_of_light import speed_of_light
from adokernels.charts.warp_states import warp_states
from adokernels.diagnosis.diagnosis import diagnose
from adokernels.records.changes import SweepComparison
from adokernels.records.loading import Reported
from adokernels.records.machine import Machine
from adokernels.records.measurement import FUNCTION, Measurement
from adokernels.records.metrics import LEVEL_BYTES
from adokernels.records.scan import Scan
from adokernels.records.sweep import Sweep
from adokernels.storage import replace_file
from adokernels.tables import tables_of
from adokernels.tables.diagnoses import diagnosis_tables
from adokernels.tables.measurements import machine_table
from adokernels.tables.rendering import FADED, new_table, to_html
from adokernels.text import (
    escaped,
    number,
    printable,
    quantity,
    ratio,
    require,
    share_of_limit,
)

#: A caption, and a PNG image or its path.
Picture = tuple[str, str | Path | bytes]

#: Maximum number of characters of an alternative text.
_LONGEST_LABEL = 10_000
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
#: Elements to omit: Matplotlib's metadata, which contains addresses, and its style sheet, which
#: would apply to the whole page. The style sheet of the page contains the same rule.
_DROPPED = ("metadata", "style")

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
    sweeps: Sequence[Reported],
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
        The sweeps, scans and comparisons, one per section.
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
    require(Iterable, "a sequence of sweeps, scans and comparisons", sweeps=sweeps)
    for record in sweeps:
        require(Reported, "sweeps, scans and comparisons", sweeps=record)
    name = escaped(title)
    facts = _context(sweeps) if context is None else context
    anchors = [f"sweep-{place}" for place in range(1, len(sweeps) + 1)]
    numbers = itertools.count(1)
    parts = [
        f"<h1>{name}</h1>",
        _headline(sweeps, anchors) if sweeps else "",
        f"<p>{_METHOD}</p>",
        *(_picture(image, caption) for caption, image in pictures),
        *map(_section, sweeps, anchors, itertools.repeat(numbers)),
        _about(_machines(sweeps), facts),
        f"<script>\n{_resource('page.js')}</script>",
    ]
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>\n{_resource('page.css')}</style>\n</head>\n<body>\n"
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


def _section(record: Reported, anchor: str, numbers: Iterator[int]) -> str:
    name, subject = _names(record)
    first, *others = (table for table in tables_of(record) if isinstance(table, Table))
    if isinstance(record, Sweep):
        style, words = "variants", _alternative(record)
        details = [*_details_of_sweep(record, numbers)]
    else:
        style, words, details = "", f"Chart of {record.title}.", []
    parts = (
        f'<section id="{anchor}">\n<h2>{escaped(name)}</h2>',
        f'<p class="subject">{escaped(subject)}</p>' if subject else "",
        _table(first, style, record.title),
        _chart(plot, record, words, numbers) if len(record) else "",
        *map(_titled, others),
        *details,
        "</section>",
    )
    return "\n".join(filter(None, parts))


def _names(record: Reported) -> tuple[str, str]:
    """The heading of a section, and what was measured."""
    if isinstance(record, SweepComparison):
        name = record[0].after.routine
        first, second = record.labels
        return f"{first} and {second}" if name == FUNCTION else f"{name} (comparison)", record.title
    subject = record.title.removeprefix(record.routine).removeprefix(", ")
    return f"{record.routine}{' (sizes)' if isinstance(record, Scan) else ''}", subject


def _details_of_sweep(sweep: Sweep, numbers: Iterator[int]) -> Iterator[str]:
    if any(m.profile for m in sweep.variants):
        yield from _analysis(sweep, numbers)
    if len(sweep):
        yield _titled(_variants_table(sweep), "variants details")


def _analysis(sweep: Sweep, numbers: Iterator[int]) -> Iterator[str]:
    """What the hardware counters of a sweep show: two charts and the diagnosis."""
    yield _chart(speed_of_light, sweep, f"Speed of light of {sweep.title}.", numbers)
    yield _chart(warp_states, sweep, f"Warp states of {sweep.title}.", numbers)
    diagnosis, *proposals = diagnosis_tables(diagnose(sweep))
    diagnosis.title = "Diagnosis"
    yield from map(_titled, (diagnosis, *proposals))


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
        title = _take_title(figure)
        svg = _inline_svg(figure, f"chart-{next(numbers)}-", alternative)
    label = escaped(alternative)
    return (
        f"<figure>\n<figcaption>{escaped(title)}</figcaption>\n"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">\n{svg}\n</div>\n'
        "</figure>"
    )


def _take_title(figure: Figure) -> str:
    """Remove the titles and subjects of a figure; return the first title."""
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    for ax in figure.axes:
        ax.set_title("", loc="left")
    for subject in figure.findobj(lambda artist: artist.get_gid() == "subject"):
        subject.remove()
    return next(filter(None, titles), "").replace("\n", " ")


def _alternative(sweep: Sweep) -> str:
    """The alternative text of the default picture."""
    times = [f"{m.variant} {quantity(m.seconds, 's')}" for m in sweep]
    return f"Times of {sweep.title}: {', '.join(times)}."


def _picture(image: str | Path | bytes, caption: str) -> str:
    content = image if isinstance(image, bytes) else Path(image).read_bytes()
    source = f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}"
    words = escaped(caption)
    return f'<figure><figcaption>{words}</figcaption><img src="{source}" alt="{words}"></figure>'


def _about(machines: Sequence[Machine], facts: Mapping[str, Any]) -> str:
    """The ceilings of the machines, and the context of the measurements."""
    tables = [_titled(machine_table(machine)) for machine in machines]
    if facts:
        lines = (
            f"<dt>{escaped(key)}</dt><dd>{escaped(str(value))}</dd>" for key, value in facts.items()
        )
        tables.append(
            "<details>\n<summary>Machine, software and settings</summary>\n"
            f"<dl>\n{chr(10).join(lines)}\n</dl>\n</details>"
        )
    if not tables:
        return ""
    return "\n".join(['<section id="machines">\n<h2>Machines</h2>', *tables, "</section>"])


def _resource(name: str) -> str:
    return resources.files("adokernels.report").joinpath(name).read_text(encoding="utf-8")


def _context(records: Sequence[Reported]) -> dict[str, Any]:
    """Merge the contexts of the records, which agree within one session."""
    carriers: list[Machine | Measurement] = list(_machines(records))
    for record in records:
        if isinstance(record, SweepComparison):
            carriers += [m for change in record for m in (change.before, change.after)]
        else:
            carriers += [m for sweep in _sweeps_of(record) for m in sweep]
    return {key: value for carrier in carriers for key, value in carrier.context.items()}


def _sweeps_of(record: Reported) -> Sequence[Sweep]:
    if isinstance(record, Sweep):
        return (record,)
    return record.sweeps if isinstance(record, Scan) else ()


def _machines(records: Sequence[Reported]) -> list[Machine]:
    """Each machine once, even if several sweeps ran on it."""
    machines = (sweep.machine for record in records for sweep in _sweeps_of(record))
    return list({machine.title: machine for machine in machines if machine}.values())


def _inline_svg(figure: Figure, prefix: str, label: str) -> str:
    """Render a figure as an ``svg`` element with an alternative text. The page determines its size.

    Identifiers get a prefix, because Matplotlib uses the same ones in each figure, for example for
    glyphs and clip paths.
    """
    root = ElementTree.fromstring(to_svg(figure))
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in _DROPPED:
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(name): value for name, value in element.attrib.items()}
        element.attrib = {name: _renamed(name, v, prefix) for name, v in attributes.items()}
    words, box = printable(label, _LONGEST_LABEL), root.attrib["viewBox"]
    root.attrib = {"class": "chart", "role": "img", "aria-label": words, "viewBox": box}
    return ElementTree.tostring(root, encoding="unicode").strip()


def _local(name: str) -> str:
    """A name without its namespace. HTML needs none, and ``href`` replaces ``xlink:href``."""
    return name.rpartition("}")[2]


def _renamed(name: str, value: str, prefix: str) -> str:
    """The value of an attribute, with the prefix added to identifiers and references."""
    if name == "id":
        return prefix + value
    if name == "href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    return _REFERENCE.sub(rf"url(#{prefix}\1)", value)


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
    known = [name for name in rows[0] if any(row[name] for row in rows)] if rows else []
    table = new_table("Each variant", known, left=[_CHANGES])
    if _CHANGES in known:
        table.columns[-1].no_wrap = False
    for m, row in zip(measured, rows, strict=True):
        table.add_row(*(row[name] for name in known), style=FADED if m.ceiling else "")
    return table


def _summary(record: Reported) -> dict[str, str]:
    """The cells of a record by column; unknown cells are empty."""
    name, subject = _names(record)
    row = dict.fromkeys(_COLUMNS, "") | {"routine": name, "problem": subject}
    if isinstance(record, Sweep):
        return row | _summary_of_sweep(record)
    if isinstance(record, Scan):
        return row | {"fastest": record.finding}
    best = max(record, key=lambda change: change.comparison.ratio)
    return row | {
        "fastest": f"{best.variant}: {best.comparison.verdict}",
        "time": quantity(best.after.seconds, "s"),
        "speed-up": ratio(best.comparison.ratio),
    }


def _summary_of_sweep(sweep: Sweep) -> dict[str, str]:
    device = sweep.machine.title if sweep.machine else ""
    row = {
        "routine": f"{sweep.routine} (interrupted)" if sweep.interrupted else sweep.routine,
        "fastest": "no variant measured",
        "device": device or ", ".join(dict.fromkeys(m.machine_title or m.device for m in sweep)),
        "problem": "; ".join(dict.fromkeys(str(m.problem) for m in sweep)),
    }
    if not sweep.variants:
        return row
    first, best = sweep.variants[0], sweep.fastest
    gain = "" if best is first else ratio(best.speedup_over(first))
    fastest = f"{best.variant} ({sweep.lead})" if sweep.lead else best.variant
    return row | {"fastest": fastest, "speed-up": gain, **_result(sweep, best)}


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
