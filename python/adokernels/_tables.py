"""Measurements as words and tables.

A table is built once, as a :class:`rich.table.Table` of plain text; the terminal, Jupyter and
Markdown forms are written from its columns, so that they cannot disagree. This is the only place
where SI values turn into print: three significant digits, decimal prefixes.
"""

from __future__ import annotations

import copy
import html
import io
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.measure import Measurement as Extent
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import RenderableType

    from adokernels._records import Machine, Measurement, Resources, Sweep
    from adokernels._stats import Verdict

_PREFIXES = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
_TIMES = "\N{MULTIPLICATION SIGN}"
_DIGITS = 3
_WIDTH = 110
#: A name longer than this is folded rather than making the table wider.
_LONGEST_NAME = 24
_PRECISIONS = {"FP64": ("float64", "complex128"), "FP32": ("float32", "complex64")}


def number(value: float, digits: int = _DIGITS) -> str:
    """Write a number with so many significant digits and without an exponent: ``"0.0321"``."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{max(decimals, 0)}f}"


def prefix(value: float, unit: str) -> tuple[float, str]:
    """Find the decimal prefix that suits a value: its factor and the prefixed unit.

    Values are rounded first, so that 999.9 GB/s becomes 1.00 TB/s. Seconds take no prefix upwards.
    """
    if not math.isfinite(value) or value == 0:
        return 1.0, unit
    rounded = abs(float(f"{value:.{_DIGITS - 1}e}"))
    largest = 0 if unit == "s" else max(_PREFIXES)
    power = 3 * math.floor(math.log10(rounded) / 3)
    power = min(max(power, min(_PREFIXES)), largest)
    return 10.0**power, _PREFIXES[power] + unit


def quantity(value: float, unit: str, digits: int = _DIGITS) -> str:
    """Write a value with its unit: ``quantity(0.00321, "s")`` is ``"3.21 ms"``."""
    factor, name = prefix(value, unit)
    return f"{number(value / factor, digits)} {name}"


def ratio(value: float) -> str:
    """Write a ratio of times with three digits behind a multiplication sign."""
    return _TIMES + number(value)


def percent(value: float) -> str:
    """Write a share of one: ``"49 %"``, and below one percent ``"0.08 %"``."""
    return f"{100 * value:.0f} %" if value == 0 or value >= 0.01 else f"{number(100 * value, 1)} %"


def where(machine: Machine) -> str:
    """Name a machine, with its threads where those are a choice: ``"EPYC 9654, 8 threads"``."""
    if machine.device != "cpu":
        return machine.name
    return f"{machine.name}, {machine.threads} thread{'s' if machine.threads != 1 else ''}"


def title_of(sweep: Sweep) -> str:
    """Say what a sweep measured: routine, problem, device, threads, cold or warm."""
    parts = [sweep.routine]
    parts += _unique(m.problem for m in sweep)
    parts += [where(sweep.machine)] if sweep.machine else _unique(m.device for m in sweep)
    return ", ".join([*parts, *_unique(m.cache for m in sweep)])


def peak(measurement: Measurement, machine: Machine) -> float | None:
    """Find the FLOPs per second that no code exceeds: the fastest ceiling of its precision.

    Where the precision is unknown, all ceilings count: a limit that is too high misleads less than
    one that is too low.
    """
    compute = machine.of_kind("compute")
    ours = [c for c in compute if c.level == precision(measurement)]
    return max((c.measured for c in ours or compute), default=None)


def precision(measurement: Measurement) -> str | None:
    """Name the precision of a measurement's operands, None if they are mixed or have none."""
    named = [
        level
        for level, types in _PRECISIONS.items()
        if any(name in measurement.problem for name in types)
    ]
    return named[0] if len(named) == 1 else None


def describe(measurement: Measurement) -> str:
    """Put a measurement in one line.

    For example ``transpose[tiled] on cuda, cold: 3.21 ms (95 % CI 3.19 to 3.25, 31 samples)``, then
    rates and what to know before trusting it.
    """
    m = measurement
    factor, unit = prefix(m.seconds, "s")
    # As many digits as it takes to tell the ends of the interval apart, within reason.
    digits = next((d for d in range(_DIGITS, 6) if len({number(t, d) for t in m.interval}) > 1), 6)
    low, high = (number(t / factor, digits) for t in m.interval)
    time = f"{number(m.seconds / factor, digits)} {unit}"
    parts = [f"{time} (95 % CI {low} to {high}, {len(m.samples)} samples)"]
    if m.bytes:
        parts.append(quantity(m.bytes_per_second, "B/s"))
    if m.executed_flops:
        parts.append(quantity(m.flops_per_second, "FLOP/s"))
    if m.fma_share is not None:
        parts.append(f"{percent(m.fma_share)} FMA")
    line = f"{m.routine}[{m.variant}] on {m.device}, {m.cache}: {', '.join(parts)}"
    notes = [*(["a ceiling, not an answer"] if m.ceiling else []), *m.flags]
    return "; ".join([line, *notes])


def steps(measurements: Iterable[Measurement]) -> dict[Measurement, Measurement]:
    """Pair each rung with the previous one of the same ladder and problem."""
    rungs = [m for m in measurements if not m.ceiling]
    return {
        m: below
        for below, m in itertools.pairwise(rungs)
        if (m.routine, m.problem, m.cache) == (below.routine, below.problem, below.cache)
    }


def step_of(m: Measurement, below: Measurement) -> tuple[Verdict, float]:
    """Say what a step did: the verdict, and the median over the rounds of the ratio of times."""
    verdict, ratio, _ = m.compare(below)
    return verdict, ratio


def sweep_records(sweep: Sweep) -> list[dict[str, Any]]:
    """Compute the step table, one dictionary a measurement, in SI units; peers come last.

    ``speedup`` is over the first rung, a ratio of median times; ``step_speedup`` is over the
    previous one, the median ratio of the rounds that both were sampled in, and ``verdict`` says
    whether that step is real. All three are None where there is
    nothing to compare with. ``share_of_roof`` is the larger of the shares of bandwidth
    (compulsory bytes) and of arithmetic (executed FLOPs). What a peer executes is not known.
    """
    before = steps(sweep)
    records = [_record(sweep, m, before.get(m)) for m in sweep]
    unknown = {"peer": True, "flops_per_second": None, "intensity": None}
    return records + [_record(sweep, m, None) | unknown for m in sweep.peers]


def sweep_table(sweep: Sweep) -> Table:
    """Build the step table of a ladder; a column in which nothing is known is left out."""
    records = sweep_records(sweep)
    columns = [c for c in _sweep_columns(records) if any(record[c.key] for record in records)]
    headers = [("variant", True), *((c.header, c.left) for c in columns)]
    table = _table(title_of(sweep), headers)
    for record in records:
        kind = " (ceiling)" if record["ceiling"] else " (peer)" if record["peer"] else ""
        cells = [record["variant"] + kind, *(_cell(c, record) for c in columns)]
        table.add_row(*map(Text, cells), style="dim" if record["ceiling"] else "")
    flagged = [m for m in (*sweep, *sweep.peers) if m.flags]
    notes = [f"{m.variant}: {', '.join(m.flags)}" for m in flagged]
    notes += [f"skipped {variant}: {reason}" for variant, reason in sweep.skipped.items()]
    table.caption = Text("\n".join(notes)) if notes else None
    return table


def sweep_tables(sweep: Sweep) -> list[Table]:
    """Build all that a sweep has to say: steps, hotspots of pipelines, resources of kernels."""
    tables = [sweep_table(sweep)]
    if sweep.stages:
        tables.append(hotspot_table(sweep))
    if any(m.kernels for m in sweep):
        tables.append(resource_table([m.resources for m in sweep.rungs]))
    return tables


def resource_table(variants: Sequence[Resources]) -> Table:
    """List what each variant's kernels take of a multiprocessor, without template arguments."""
    headers = [("variant", True), ("kernel", True), ("block", True), ("registers\na thread", False)]
    headers += [("local memory\na thread [B]", False), ("shared memory\na block [B]", False)]
    headers += [("theoretical\noccupancy", False), ("limited by", True)]
    table = _table("Resources of the kernels", headers)
    for resources in variants:
        for place, k in enumerate(resources):
            cells = (
                "" if place else resources.variant,
                k.name.partition("<")[0],
                " x ".join(map(str, k.block)),
                str(k.registers),
                str(k.local_bytes),
                str(k.shared_bytes),
                percent(k.occupancy),
                k.limiter,
            )
            table.add_row(*map(Text, cells))
    return table


def hotspot_table(sweep: Sweep) -> Table:
    """Rank the stages of each pipeline by what could be gained, as NVIDIA's profilers do.

    The gain is the time above what the stage's compulsory bytes take at the roof; the stage where
    it is largest has the rank 100, the others in proportion.
    """
    headers = [("pipeline", True), ("rank", False), ("stage", True), ("time", False)]
    headers += [("of all\nstages", False), ("of\nroof", False), ("to gain", False)]
    table = _table("Hotspots: where optimising pays most", headers)
    for m in sweep.rungs:
        stages = sweep.stages_of(m)
        gains = {stage: _to_gain(sweep, stage) for stage in stages}
        most = max(gains.values(), default=0) or 1
        total = sum(stage.seconds for stage in stages)
        for place, stage in enumerate(sorted(stages, key=lambda s: -gains[s])):
            share = share_of_roof(sweep, stage)
            cells = (
                "" if place else m.variant,
                f"{100 * gains[stage] / most:.0f}",
                f"{stage.routine}[{stage.variant}]",
                quantity(stage.seconds, "s"),
                percent(stage.seconds / total),
                "" if share is None else percent(share),
                quantity(gains[stage], "s"),
            )
            table.add_row(*map(Text, cells))
    return table


def _to_gain(sweep: Sweep, stage: Measurement) -> float:
    share = share_of_roof(sweep, stage) or 0.0
    return stage.seconds * max(1 - share, 0.0)


def machine_table(machine: Machine) -> Table:
    """Build the table of a machine's ceilings; without theoretical figures, only the measured."""
    units = {"bandwidth": "B/s", "compute": "FLOP/s"}
    headers = [("ceiling", True), ("measured", False)]
    known = any(c.theoretical for c in machine.ceilings)
    if known:
        headers += [("theoretical", False), ("share", False), ("basis", True)]
    table = _table(where(machine), headers)
    for c in machine.ceilings:
        theory = quantity(c.theoretical, units[c.kind]) if c.theoretical else ""
        share = percent(c.measured / c.theoretical) if c.theoretical else ""
        cells = (c.name, quantity(c.measured, units[c.kind]), theory, share, c.basis)
        table.add_row(*map(Text, cells[: len(headers)]))
    if known:
        table.columns[-1].no_wrap = False
    return table


def width_of(table: Table, console: Console) -> int:
    """How wide a table must be so that nothing is broken but names of unusual length."""
    body = copy.copy(table)
    body.title = body.caption = None
    return Extent.get(console, console.options.update(width=10 * _WIDTH), body).maximum


def show(console: Console, tables: Iterable[Table]) -> None:
    """Print tables, as wide as they need to be: the terminal may wrap lines, but loses nothing."""
    before = console.width
    for table in tables:
        console.width = max(before, width_of(table, console))
        console.print(table)
    console.width = before


def to_text(table: Table, width: int = _WIDTH) -> str:
    """Render a table as plain text.

    Numbers are never broken: a table that needs more than `width` columns gets them, for lines that
    the terminal wraps can still be read, unlike columns squeezed to a letter each.
    """
    console = Console(file=io.StringIO(), color_system=None, width=width, legacy_windows=False)
    console.width = max(width, width_of(table, console))
    body = copy.copy(table)  # rich would wrap title and caption to the width of the table
    body.title = body.caption = None
    with console.capture() as capture:
        console.print(*(part for part in (table.title, body, table.caption) if part), sep="\n")
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def to_html(table: Table) -> str:
    """Render a table as HTML that takes its colours from the page, be it light or dark."""
    aligned = [(f' style="text-align:{_align(c.justify)}"', c) for c in table.columns]
    head = "".join(f"<th{style}>{_lines(c.header)}</th>" for style, c in aligned)
    body = ""
    for style, cells in _rows(table):
        faded = ' style="opacity:0.65;font-style:italic"' if style else ""
        pairs = zip(aligned, cells, strict=True)
        data = "".join(f"<td{align}>{html.escape(cell)}</td>" for (align, _), cell in pairs)
        body += f"<tr{faded}>{data}</tr>\n"
    caption = '<caption style="text-align:left;caption-side:top;color:inherit">{}</caption>\n'
    title = caption.format(f"<strong>{_lines(table.title)}</strong>") if table.title else ""
    note = f"<p>{_lines(table.caption)}</p>\n" if table.caption else ""
    return (
        f'<div class="adokernels" style="overflow-x:auto"><table>\n{title}'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>\n{note}</div>"
    )


def to_markdown(table: Table) -> str:
    """Render a table as GitHub-flavoured Markdown, with its title above and its caption below."""
    rules = ["---:" if c.justify == "right" else ":---" for c in table.columns]
    rows = [[_plain(c.header).replace("\n", " ") for c in table.columns]]
    rows += [cells for _, cells in _rows(table)]
    lines = ["| " + " | ".join(map(_escape, row)) + " |" for row in rows]
    lines.insert(1, "| " + " | ".join(rules) + " |")
    title = [f"**{_escape(_plain(table.title))}**", ""] if table.title else []
    notes = [f"- {_escape(note)}" for note in _plain(table.caption or "").splitlines()]
    return "\n".join([*title, *lines, *([""] if notes else []), *notes])


@dataclass(frozen=True)
class _Column:
    header: str
    key: str
    show: Callable[[Any], str]
    left: bool = False


def _sweep_columns(records: Sequence[dict[str, Any]]) -> list[_Column]:
    scaled = {
        key: _common_prefix([record[key] for record in records], unit)
        for key, unit in (
            ("seconds", "s"),
            ("bytes_per_second", "B/s"),
            ("flops_per_second", "FLOP/s"),
            ("clock", "Hz"),
        )
    }

    def column(name: str, key: str) -> _Column:
        factor, unit = scaled[key]
        return _Column(f"{name}\n[{unit}]", key, lambda value: number(value / factor))

    devices = len({record["device"] for record in records}) > 1
    return [
        *([_Column("device", "device", str, left=True)] if devices else []),
        column("time", "seconds"),
        _Column("95 %\nCI", "noise", lambda value: f"± {100 * value:.1f} %"),
        _Column("speed-up\n(total)", "speedup", ratio),
        _Column("speed-up\n(step)", "step_speedup", ratio),
        _Column("step is", "verdict", str, left=True),
        column("useful", "bytes_per_second"),
        _Column("of\nroof", "share_of_roof", percent),
        column("executed", "flops_per_second"),
        _Column("AI\n[FLOP/B]", "intensity", number),
        column("clock", "clock"),
    ]


def _record(sweep: Sweep, m: Measurement, before: Measurement | None) -> dict[str, Any]:
    first = None if m.ceiling else next(iter(sweep.rungs), None)
    verdict, step = step_of(m, before) if before else (None, None)
    return {
        "variant": m.variant,
        "device": m.device,
        "ceiling": m.ceiling,
        "peer": False,
        "seconds": m.seconds,
        "ci_low": m.interval[0],
        "ci_high": m.interval[1],
        "noise": m.noise,
        "samples": len(m.samples),
        "speedup": first.seconds / m.seconds if first and first.cache == m.cache else None,
        "step_speedup": step,
        "verdict": verdict.value if verdict else None,
        "bytes_per_second": m.bytes_per_second,
        "flops_per_second": m.flops_per_second,
        "intensity": m.intensity if m.executed_flops else 0.0,
        "share_of_roof": share_of_roof(sweep, m),
        "clock": m.clock,
        "error": m.error,
        "changes": m.changes,
    }


def share_of_roof(sweep: Sweep, m: Measurement) -> float | None:
    """Compute how much of the nearer limit is used, bandwidth or arithmetic, if any is known."""
    limit = peak(m, sweep.machine) if sweep.machine else None
    shares = [m.bytes_per_second / sweep.roof] if sweep.roof else []
    shares += [m.flops_per_second / limit] if limit else []
    return max(shares, default=None)


def _cell(column: _Column, record: dict[str, Any]) -> str:
    value = record[column.key]
    return "" if value is None else column.show(value)


def _common_prefix(values: Sequence[float | None], unit: str) -> tuple[float, str]:
    """One prefix for a whole column, so that its numbers compare at a glance."""
    known = [value for value in values if value]
    return prefix(math.sqrt(min(known) * max(known)), unit) if known else (1.0, unit)


def _table(title: str, headers: Iterable[tuple[str, bool]]) -> Table:
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.title_justify = table.caption_justify = "left"
    for header, left in headers:
        table.add_column(Text(header), justify="left" if left else "right", no_wrap=True)
    names = table.columns[0]
    names.no_wrap, names.overflow, names.max_width = False, "fold", _LONGEST_NAME
    return table


def _rows(table: Table) -> list[tuple[str, list[str]]]:
    cells = zip(*(map(_plain, column.cells) for column in table.columns), strict=True)
    return [(str(row.style or ""), list(line)) for row, line in zip(table.rows, cells, strict=True)]


def _plain(content: RenderableType) -> str:
    return content.plain if isinstance(content, Text) else Text.from_markup(str(content)).plain


def _lines(content: RenderableType | None) -> str:
    return "<br>".join(html.escape(line) for line in _plain(content or "").splitlines())


def _align(justify: str) -> str:
    return "right" if justify == "right" else "left"


def _escape(text: str) -> str:
    return "".join("\\" + letter if letter in "\\|<*`" else letter for letter in text)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
