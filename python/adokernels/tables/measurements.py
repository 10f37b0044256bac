"""Tables of measurements, machines and kernel resources."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from adokernels.tables.printable import printable
from adokernels.tables.rendering import FADED, new_table
from adokernels.tables.verdicts import FEW_SAMPLES, verdict_cell
from adokernels.text import (
    DIGITS,
    NO_LIMIT,
    bounds,
    number,
    percent,
    prefix,
    quantity,
    ratio,
    share_of_limit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.table import Table

    from adokernels.records.kernels import Resources
    from adokernels.records.measurement import Machine, Measurement, Sweep


#: Width of the column with limiters, in characters; longer names are folded.
_LIMITER = 10
#: Maximum number of characters of the description of a measurement.
_LONGEST_LINE = 2000


def describe(measurement: Measurement) -> str:
    """Describe a measurement in one line.

    For example ``transpose[tiled] on cuda, cold: 3.21 ms (95 % CI 3.19 to 3.25, 31 samples)``, then
    its rates and warnings.
    """
    m = measurement
    factor, unit = prefix(m.seconds, "s")
    # Enough digits to tell the ends of the interval apart, but no more than six.
    digits = next((d for d in range(DIGITS, 6) if len({number(t, d) for t in m.interval}) > 1), 6)
    low, high = (number(t / factor, digits) for t in m.interval)
    time = f"{number(m.seconds / factor, digits)} {unit}"
    count = len(m.samples)
    samples = f"{count} sample{'s' if count > 1 else ''}"
    if m.confidence is None:
        parts = [f"{time} (range {low} to {high}, only {samples})"]
    else:
        parts = [f"{time} (95 % CI {low} to {high}, {samples})"]
    if m.bytes:
        parts.append(quantity(m.bytes_per_second, "B/s"))
    if m.executed_flops:
        parts.append(quantity(m.flops_per_second, "FLOP/s"))
    if m.fma_share is not None:
        parts.append(f"{percent(m.fma_share)} FMA")
    line = f"{m.routine}[{m.variant}] on {m.device}, {m.cache}: {', '.join(parts)}"
    notes = [*(["ceiling: does not compute the result"] if m.ceiling else []), *m.flags]
    return printable("; ".join([line, *notes]), _LONGEST_LINE)


def sweep_records(sweep: Sweep) -> list[dict[str, Any]]:
    """Compute the step table, one dictionary per measurement, in SI units; peers come last.

    ``speedup`` is relative to the first variant, ``step_speedup`` to the previous one. Both are the
    median ratio of the rounds in which both were sampled. ``verdict`` states whether that step
    exceeds the noise. All three are None if there is nothing to compare with. ``confidence`` is
    the level of the interval from ``ci_low`` to ``ci_high``, and None if there are too few samples.
    ``share_of_roof`` is the larger of the shares of bandwidth (compulsory bytes) and of arithmetic
    (executed FLOPs). The FLOPs that a peer executes are unknown.
    """
    before = sweep.steps()
    records = [_record(sweep, m, before.get(m)) for m in sweep]
    unknown = {"peer": True, "flops_per_second": None, "intensity": None}
    return records + [_record(sweep, m, None) | unknown for m in sweep.peers]


def sweep_table(sweep: Sweep) -> Table:
    """Build the step table of a ladder; columns without a known value are omitted."""
    measured = (*sweep, *sweep.peers)
    intervals = ({"interval": interval_cell(m)} for m in measured)
    records = [r | i for r, i in zip(sweep_records(sweep), intervals, strict=True)]
    columns = [c for c in _sweep_columns(records) if any(record[c.key] for record in records)]
    headers = [("variant", True), *((c.header, c.left) for c in columns)]
    table = new_table(sweep.title, headers)
    for record in records:
        kind = " (ceiling)" if record["ceiling"] else ""
        if record["peer"]:
            kind = " (peer, unchecked)" if record["unchecked"] else " (peer)"
        cells = [record["variant"] + kind, *(_cell(c, record) for c in columns)]
        row = [cell if isinstance(cell, Text) else Text(cell) for cell in cells]
        table.add_row(*row, style=FADED if record["ceiling"] else "")
    flags = {m.variant: [f for f in m.flags if f != "unchecked"] for m in measured}
    notes = [f"{name}: {', '.join(words)}" for name, words in flags.items() if words]
    if any((record["share_of_roof"] or 0) > NO_LIMIT for record in records):
        words = f"no limit: above {percent(NO_LIMIT)} of the roof, because caches hold the data"
        notes.append(words)
    notes = [*interval_notes(sweep), *notes]
    notes += [f"skipped {variant}: {reason}" for variant, reason in sweep.skipped.items()]
    table.caption = Text("\n".join(notes)) if notes else None
    return table


def interval_cell(m: Measurement) -> str:
    """The bounds of the interval of the median, or of the range; empty for a single sample."""
    if len(m.samples) == 1:
        return ""
    low, high = m.interval
    words = bounds(low, m.seconds, high)
    return words if m.confidence else f"{words} (range)"


def interval_notes(sweep: Sweep) -> list[str]:
    """Notes for an interrupted sweep, and for intervals that are ranges."""
    missing = "samples, checks after timing, counters or ceilings may be missing"
    notes = [f"interrupted: {missing}"] if sweep.interrupted else []
    few = any(m.confidence is None for m in (*sweep, *sweep.peers))
    return [*notes, *([FEW_SAMPLES] if few else [])]


def sweep_tables(sweep: Sweep) -> list[Table]:
    """Build all tables of a sweep: steps, hotspots of pipelines, counters, resources of kernels."""
    tables = [sweep_table(sweep)]
    if sweep.stages:
        tables.append(hotspot_table(sweep))
    if any(m.profile for m in sweep):
        tables.append(counter_table(sweep))
    if any(m.kernels for m in sweep):
        tables.append(resource_table([m.resources for m in sweep.variants]))
    return tables


def resource_table(variants: Sequence[Resources]) -> Table:
    """List the resource usage of each variant's kernels, named without template arguments."""
    headers = [("variant", True), ("kernel", True), ("block", True)]
    headers += [("registers\nper thread", False), ("local memory\nper thread [B]", False)]
    headers += [("shared memory\nper block [B]", False)]
    headers += [("theoretical\noccupancy", False), ("limited by", True)]
    table = new_table("Resources of the kernels", headers)
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


def counter_table(sweep: Sweep) -> Table:
    """List the limiter and main counters of each variant and peer; n/a if not counted."""
    headers = [("variant", True), ("limiter", True)]
    headers += [(f"{name}\n[%]", False) for name in ("compute", "memory", "L1", "L2", "DRAM")]
    headers += [("DRAM bytes /\ncompulsory", False), ("sectors\nper load", False)]
    headers += [("sectors\nper store", False), ("issue\nslots", False)]
    headers += [("achieved\noccupancy", False), ("most frequent stall", True)]
    table = new_table("Hardware counters; compute and memory levels in % of peak", headers)
    limiters = table.columns[1]
    limiters.no_wrap, limiters.overflow, limiters.max_width = False, "fold", _LIMITER
    counted = [(m, m.profile) for m in (*sweep, *sweep.peers) if m.profile]
    for m, profile in counted:
        values = profile.quantities
        shares = ("compute_sol", "memory_sol", "l1_sol", "l2_sol", "dram_sol")
        excess = values["dram_bytes"] / m.bytes if m.bytes and "dram_bytes" in values else None
        cells = [
            m.variant,
            m.limiter.kind,
            *(_known(values.get(key), lambda share: f"{100 * share:.0f}") for key in shares),
            _known(excess, number),
            _known(values.get("load_sectors_per_request"), number),
            _known(values.get("store_sectors_per_request"), number),
            _known(values.get("issue_active"), percent),
            _known(values.get("occupancy"), percent),
            _largest_stall(values),
        ]
        table.add_row(*map(Text, cells), style=FADED if m.ceiling else "")
    notes = dict.fromkeys(f"Counted with {profile.collector}." for _, profile in counted)
    units = "Throughputs of L1, L2 and DRAM as in Nsight Compute; that of L1 in its active cycles."
    table.caption = Text(" ".join([*notes, units]))
    return table


def _known(value: float | None, show: Callable[[float], str]) -> str:
    return "n/a" if value is None else show(value)


def _largest_stall(values: Mapping[str, float]) -> str:
    """The most frequent stall reason, with its share of the cycles between instructions."""
    stalls = {k.removeprefix("stall_"): v for k, v in values.items() if k.startswith("stall_")}
    total = sum(stalls.values())
    stalls.pop("selected", None)  # the cycle in which the warp issues
    if not stalls or not total:
        return "n/a"
    name = max(stalls, key=lambda reason: stalls[reason])
    return f"{name.replace('_', ' ')}, {percent(stalls[name] / total)}"


def hotspot_table(sweep: Sweep) -> Table:
    """Rank the stages of each pipeline by the possible gain, as NVIDIA's profilers do.

    The gain is the excess over the time that the stage's compulsory bytes take at the roof. The
    stage with the largest gain has rank 100. Other ranks are proportional to the gain.
    """
    headers = [("pipeline", True), ("rank", False), ("stage", True), ("time", False)]
    headers += [("of all\nstages", False), ("of\nroof", False), ("possible\ngain", False)]
    table = new_table("Hotspots: the stages where optimisation gains most", headers)
    for m in sweep.variants:
        stages = sweep.stages_of(m)
        gains = {stage: _possible_gain(sweep, stage) for stage in stages}
        largest = max(gains.values(), default=0) or 1
        total = sum(stage.seconds for stage in stages)
        for place, stage in enumerate(sorted(stages, key=lambda s: -gains[s])):
            share = sweep.share_of_roof(stage)
            cells = (
                "" if place else m.variant,
                f"{100 * gains[stage] / largest:.0f}",
                f"{stage.routine}[{stage.variant}]",
                quantity(stage.seconds, "s"),
                percent(stage.seconds / total),
                "" if share is None else share_of_limit(share),
                quantity(gains[stage], "s"),
            )
            table.add_row(*map(Text, cells))
    return table


def machine_table(machine: Machine) -> Table:
    """Build the table of a machine's ceilings; theoretical figures are shown if there are any."""
    units = {"bandwidth": "B/s", "compute": "FLOP/s", "instructions": "inst/s"}
    headers = [("ceiling", True), ("measured", False)]
    issue = machine.issue_rate
    ceilings = (*machine.ceilings, *([issue] if issue else []))
    known = any(c.theoretical for c in ceilings)
    if known:
        headers += [("theoretical", False), ("share", False), ("basis", True)]
    table = new_table(machine.title, headers)
    for c in ceilings:
        theory = quantity(c.theoretical, units[c.kind]) if c.theoretical else ""
        share = percent(c.measured / c.theoretical) if c.theoretical else ""
        cells = (c.name, quantity(c.measured, units[c.kind]), theory, share, c.basis)
        table.add_row(*map(Text, cells[: len(headers)]))
    if known:
        table.columns[-1].no_wrap = False
    return table


@dataclass(frozen=True)
class _Column:
    header: str
    key: str
    show: Callable[[Any], str | Text]
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
        _Column("95 %\nCI", "interval", str),
        _Column("samples", "samples", str),
        _Column("speed-up\n(total)", "speedup", ratio),
        _Column("speed-up\n(step)", "step_speedup", ratio),
        _Column("step is", "verdict", verdict_cell, left=True),
        column("useful", "bytes_per_second"),
        _Column("of\nroof", "share_of_roof", share_of_limit),
        column("executed", "flops_per_second"),
        _Column("AI\n[FLOP/B]", "intensity", number),
        column("clock", "clock"),
    ]


def _record(sweep: Sweep, m: Measurement, before: Measurement | None) -> dict[str, Any]:
    first = None if m.ceiling else next(iter(sweep.variants), None)
    same = first and (first.problem, first.cache) == (m.problem, m.cache)
    verdict, step = m.compare(before)[:2] if before else (None, None)
    return {
        "variant": m.variant,
        "device": m.device,
        "ceiling": m.ceiling,
        "peer": False,
        "seconds": m.seconds,
        "ci_low": m.interval[0],
        "ci_high": m.interval[1],
        "confidence": m.confidence,
        "noise": m.noise,
        "samples": len(m.samples),
        "speedup": m.speedup_over(first) if first and same else None,
        "step_speedup": step,
        "verdict": verdict.value if verdict else None,
        "bytes_per_second": m.bytes_per_second,
        "flops_per_second": m.flops_per_second,
        "intensity": m.intensity if m.executed_flops else 0.0,
        "share_of_roof": sweep.share_of_roof(m),
        "clock": m.clock,
        "error": m.error,
        "unchecked": "unchecked" in m.flags,
        "changes": m.changes,
    }


def _possible_gain(sweep: Sweep, stage: Measurement) -> float:
    share = sweep.share_of_roof(stage) or 0.0
    return stage.seconds * max(1 - share, 0.0)


def _cell(column: _Column, record: dict[str, Any]) -> str | Text:
    value = record[column.key]
    return "" if value is None else column.show(value)


def _common_prefix(values: Sequence[float | None], unit: str) -> tuple[float, str]:
    """One prefix for a whole column, so that its numbers are easy to compare."""
    known = [value for value in values if value]
    return prefix(math.sqrt(min(known) * max(known)), unit) if known else (1.0, unit)
