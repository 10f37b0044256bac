"""Tables of measurements, hardware counters, machines and kernel resources."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from adokernels.records.changes import SweepComparison
from adokernels.records.definitions import EMULATED, FULL, LIMITING
from adokernels.records.forms import number_in
from adokernels.records.kernels import Resources
from adokernels.records.limiter import Provenance
from adokernels.records.machine import Machine
from adokernels.records.measurement import FUNCTION, Measurement
from adokernels.records.metrics import BY_KEY, QUANTITIES, Quantity
from adokernels.records.profile import KernelProfile, Profile, ProfileComparison
from adokernels.records.scan import Scan, link_seconds
from adokernels.records.statistics import Comparison, rounded_up
from adokernels.records.sweep import Sweep
from adokernels.tables.rendering import FADED, ITALIC, new_table
from adokernels.text import (
    NO_LIMIT,
    binary_size,
    bounds,
    count,
    magnitude,
    number,
    percent,
    prefix,
    quantity,
    ratio,
    share_of_limit,
)

_STYLES = {"faster": "green", "slower": "red", "unclear": ITALIC}
#: The note of a table that contains "(range)".
FEW_SAMPLES = (
    "range: with fewer than 11 samples there is no 95 % interval, and a comparison is unclear "
    "unless at least 5 samples all differ by a factor of 2; increase seconds="
)
#: The title of a column with the largest errors of one measurement, or of two.
ERRORS = "largest\nerror"


def sweep_table(sweep: Sweep) -> Table:
    """Build the step table of a ladder; columns without a known value are omitted."""
    measured = (*sweep, *sweep.peers)
    records = [
        {**r, "interval": interval_cell(m), "share_of_limit": sweep.share_of_limit(m)}
        for m, r in zip(measured, sweep.records(), strict=True)
    ]

    def cells(
        key: str, show: Callable[[Any], str | Text] = str, *, zeros: bool = False
    ) -> list[str | Text]:
        """The cells of a column; none if no value is known or, unless `zeros`, all are 0."""
        values = [record[key] for record in records]
        known = any(value is not None if zeros else value for value in values)
        return ["" if value is None else show(value) for value in values] if known else []

    def quantities(name: str, key: str, unit: str) -> dict[str, list[str | Text]]:
        """A column with one prefix, so that its numbers are easy to compare."""
        known = [record[key] for record in records if record[key]]
        factor, unit = prefix(math.sqrt(min(known) * max(known)) if known else 0.0, unit)
        return {f"{name}\n[{unit}]": cells(key, lambda value: number(value / factor))}

    integers = all(record["error_relative"] is None for record in records)
    columns = {
        "device": cells("device") if len({m.device for m in measured}) > 1 else [],
        **quantities("time", "seconds", "s"),
        "95 %\nCI": cells("interval"),
        "samples": cells("samples"),
        "speed-up\n(total)": cells("speedup", ratio),
        "speed-up\n(step)": cells("step_speedup", ratio),
        "step is": cells("verdict", verdict_cell),
        **quantities("useful", "bytes_per_second", "B/s"),
        "\n".join(f"of {sweep.limit}".split()): cells("share_of_limit", share_of_limit),
        **quantities("executed", "flops_per_second", "FLOP/s"),
        "AI\n[FLOP/B]": cells("intensity", number),
        **quantities("clock", "clock", "Hz"),
        f"error\n[{'steps' if integers else 'ulp'}]": cells("error_ulp", magnitude, zeros=True),
        "relative\nerror": cells("error_relative", magnitude, zeros=True),
    }
    columns = {header: column for header, column in columns.items() if column}
    table = new_table(sweep.title, ["variant", *columns], left=("device", "step is"))
    for record, *row in zip(records, *columns.values(), strict=True):
        kind = " (ceiling)" if record["ceiling"] else ""
        if record["peer"]:
            kind = " (peer, unchecked)" if record["unchecked"] else " (peer)"
        table.add_row(record["variant"] + kind, *row, style=FADED if record["ceiling"] else "")
    flags = {m.variant: [f for f in m.flags if f != "unchecked"] for m in measured}
    notes = interval_notes(sweep)
    notes += [f"{name}: {', '.join(words)}" for name, words in flags.items() if words]
    if any((record["share_of_limit"] or 0) > NO_LIMIT for record in records):
        why = "caches hold the data" if sweep.limit == "roof" else "FMAs do not compute all FLOPs"
        notes.append(f"no limit: above {percent(NO_LIMIT)} of the {sweep.limit}, because {why}")
    notes += verdict_notes({m.variant: m.compare(b) for m, b in sweep.step_pairs().items()})
    notes += [f"skipped {variant}: {reason}" for variant, reason in sweep.skipped.items()]
    table.caption = "\n".join(notes)
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


def verdict_notes(comparisons: Mapping[str, Comparison]) -> list[str]:
    """Notes for withheld verdicts, small differences, and the resolution."""
    known = {name: found for name, found in comparisons.items() if found.confidence}
    withheld: dict[str, list[str]] = {}
    for name, found in comparisons.items():
        withheld.setdefault(found.reason, []).append(name)
    notes = [f"no verdict on {', '.join(of)}: {why}" for why, of in withheld.items() if why]
    notes += [f"{name}: the difference is {f.limit}" for name, f in known.items() if f.limit]
    shares = dict.fromkeys(rounded_up(f) for f in sorted(c.resolution for c in known.values()))
    if shares:
        ends = " to ".join(dict.fromkeys([*shares][i] for i in (0, -1)))
        notes.append(f"resolution: differences below {ends} are not found reliably")
    return notes


def scan_table(scan: Scan) -> Table:
    """One row per problem: time, share of the nearest limit and error of each variant and peer.

    With offloads: times of the three default calls, and the time of the copies at the link's roof.
    """
    if scan.offloads:
        return _offload_table(scan)
    headers = ["problem", "compulsory\nbytes", *scan.names]
    errors = any(m.shown_error for found in scan for m in (*found.measurements, *found.peers))
    more = ", share of the nearest limit, error" if errors else " and share of the nearest limit"
    table = new_table(f"{scan.title}: time{more}", headers)
    skipped: dict[str, None] = {}
    for found in scan:
        by_name = {m.variant: m for m in (*found.measurements, *found.peers)}
        skipped |= dict.fromkeys(f"skipped {name}: {why}" for name, why in found.skipped.items())
        if not by_name:
            continue
        first = next(iter(by_name.values()))
        times = dict.fromkeys(scan.names, "")
        for name, m in by_name.items():
            nearest = found.nearest_limit(m)
            parts = [quantity(m.seconds, "s"), str(nearest or ""), m.shown_error]
            times[name] = ", ".join(filter(None, parts))
        table.add_row(_shapes(first), quantity(first.bytes, "B"), *times.values())
    table.caption = "\n".join(skipped)
    return table


def _offload_table(scan: Scan) -> Table:
    headers = ["problem", "compulsory\nbytes", "CPU", "GPU with\ncopies"]
    headers += ["with copies,\nthe GPU is", "speed-up", "kernel\nalone"]
    headers += ["copies at the\nlink's roof"]
    errors = [pair_of_errors(o.cpu, o.gpu) for o in scan.offloads]
    headers += [ERRORS] * any(errors)
    table = new_table(f"{scan.title}: calls with NumPy arrays", headers, left=headers[4:5])
    comparisons = {}
    for found, kernel, o, error in zip(scan, scan.kernels, scan.offloads, errors, strict=True):
        size = binary_size(kernel.bytes)
        comparisons[size] = o.gpu.compare(o.cpu)
        copies = link_seconds(found.machine, o.uploaded, o.downloaded)
        cells = (
            _shapes(kernel),
            size,
            quantity(o.cpu.seconds, "s"),
            quantity(o.gpu.seconds, "s"),
            verdict_cell(comparisons[size].verdict.value),
            ratio(o.gpu.speedup_over(o.cpu)),
            quantity(kernel.seconds, "s"),
            quantity(copies, "s") if copies else "",
            error,
        )
        table.add_row(*cells[: len(headers)])
    table.caption = "\n".join([scan.finding, *verdict_notes(comparisons)])
    return table


def pair_of_errors(first: Measurement, second: Measurement) -> str:
    """The errors of two measurements, for example ``"0.5 ulp, 0.8 ulp"``; empty without both."""
    errors = [m.shown_error for m in (first, second)]
    return ", ".join(error or "unknown" for error in errors) if any(errors) else ""


def _shapes(m: Measurement) -> str:
    return "; ".join(" x ".join(map(str, o.shape)) for o in m.problem.operands if o.shape)


def changes_table(changes: SweepComparison) -> Table:
    """One row per variant: both times, the ratio with its interval, the verdict.

    If both variants were sampled in the same rounds, the ratio is the median of the ratios per
    round, and the interval belongs to this median. On a busy machine, the ratio of the two times
    can be outside the interval.
    """
    # Longer names are folded.
    labels = ["\n".join(textwrap.wrap(label, 24)) for label in changes.labels]
    kind = "function" if changes[0].after.routine == FUNCTION else "variant"
    headers = [kind, *labels, "speed-up", "99.9 %\ninterval", "samples", f"{labels[1]} is"]
    errors = [pair_of_errors(change.before, change.after) for change in changes]
    table = new_table(changes.title, [*headers, *[ERRORS] * any(errors)], left=headers[-1:])
    for change, error in zip(changes, errors, strict=True):
        verdict, gain, (low, high) = change.comparison
        few = " (range)" if change.comparison.confidence is None else ""
        table.add_row(
            change.variant,
            quantity(change.before.seconds, "s"),
            quantity(change.after.seconds, "s"),
            ratio(gain),
            f"{low:.3g} to {high:.3g}{few}",
            f"{len(change.before.samples)}, {len(change.after.samples)}",
            verdict_cell(verdict.value),
            *([error] if any(errors) else []),
        )
    notes = [
        f"only {label}: {', '.join(names)}"
        for label, names in zip(
            changes.labels, (changes.only_before, changes.only_after), strict=True
        )
        if names
    ]
    if any(change.comparison.confidence is None for change in changes):
        notes.append(FEW_SAMPLES)
    notes += verdict_notes({change.variant: change.comparison for change in changes})
    table.caption = "\n".join(notes)
    return table


def verdict_cell(verdict: str) -> Text:
    """The verdict in its style, which distinguishes "unclear" from "same"."""
    return Text(verdict, style=_STYLES.get(verdict, ""))


def sweep_tables(sweep: Sweep) -> list[Table]:
    """Build all tables of a sweep: steps, hotspots, counters or limiters, resources of kernels."""
    tables = [sweep_table(sweep)]
    if sweep.stages:
        tables.append(hotspot_table(sweep))
    if any(m.profile for m in sweep):
        tables.append(counter_table(sweep))
    elif any(m.experiments for m in sweep) and (limiters := _limiter_table(sweep)).row_count:
        tables.append(limiters)
    if any(m.kernels for m in sweep):
        tables.append(resources_table(*(m.resources for m in sweep.variants)))
    return tables


def resources_table(*variants: Resources) -> Table:
    """List the resource usage of each variant's kernels, named without template arguments."""
    headers = ["variant", "kernel", "block", "registers\nper thread"]
    headers += [
        "local memory\nper thread [B]",
        "shared memory\nper block [B]",
        "theoretical\noccupancy",
    ]
    left = ("kernel", "block", "limited by")
    table = new_table("Resources of the kernels", [*headers, "limited by"], left=left)
    for resources in variants:
        for place, k in enumerate(resources):
            table.add_row(
                "" if place else resources.variant,
                k.name.partition("<")[0],
                " x ".join(map(str, k.block)),
                str(k.registers),
                str(k.local_bytes),
                str(k.shared_bytes),
                percent(k.occupancy),
                k.limiter,
            )
    return table


def counter_table(sweep: Sweep) -> Table:
    """List the limiter and main counters of each variant and peer; n/a if not counted.

    The shares of peak are the quantities from which the limiter is derived.
    """
    units = [f"{name}\n[%]" for name in ("compute", "memory", "L1", "L2", "DRAM")]
    headers = ["variant", "limiter", *units, "DRAM bytes /\ncompulsory", "sectors\nper load"]
    headers += ["sectors\nper store", "issue\nslots", "achieved\noccupancy", "most frequent stall"]
    title = "Hardware counters; compute and memory levels in % of peak"
    left = ["limiter", "most frequent stall"]
    table = new_table(title, headers, left=left, widths={1: 10})
    basis = dict.fromkeys(
        f"Counted with {m.profile.collector}." for m in (*sweep, *sweep.peers) if m.profile
    )
    for m in (*sweep, *sweep.peers):
        if not m.profile:
            continue
        values, longest = m.profile.quantities, m.profile.longest
        shares = ("compute_sol", "memory_sol", "l1_sol", "l2_sol", "dram_sol")
        excess = values["dram_bytes"] / m.bytes if m.bytes and "dram_bytes" in values else None
        table.add_row(
            m.variant,
            m.limiter.kind,
            *(_known(longest.get(key), lambda share: f"{100 * share:.0f}") for key in shares),
            _known(excess, number),
            _known(values.get("load_sectors_per_request"), number),
            _known(values.get("store_sectors_per_request"), number),
            _known(values.get("issue_active"), percent),
            _known(values.get("occupancy"), percent),
            _largest_stall(values),
            style=FADED if m.ceiling else "",
        )
    table.caption = (
        f"{' '.join(basis)} Shares of peak: of the busiest unit, over the time of the longest "
        f"kernel. The largest is the limiter if it is at least {percent(LIMITING)}; otherwise "
        f"latency, or too little work (fewer than {FULL} waves of blocks)."
    )
    return table


def _limiter_table(sweep: Sweep) -> Table:
    """List the limiters that experiments show, with the decisive evidence."""
    headers = ["variant", "limiter", "evidence"]
    title = "Limiters by experiment, without counters"
    table = new_table(title, headers, left=headers, widths={1: 24, 2: 60})
    for m in sweep.variants:
        found = m.limiter
        if found.tried:
            table.add_row(m.variant, found.name, found.evidence[0].statement)
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


def shown(q: Quantity, value: float) -> str:
    """Format a value of a quantity with its unit."""
    if q.unit == "%":
        return percent(value)
    if q.unit:
        return quantity(value, q.unit)
    return count(value)


def profile_table(profile: Profile) -> Table:
    """Build the table of a profile: one column per kernel, and the total if there are several."""
    columns: list[KernelProfile | Profile] = list(profile.kernels)
    headers = ["quantity", *(k.kernel.name.partition("<")[0] for k in profile.kernels)]
    if len(columns) > 1:
        columns.append(profile)
        headers += ["total"]
    emulated = profile.provenance is Provenance.EMULATED
    headers += ["compared with the hardware"] if emulated else []
    title = f"{profile.label}, {profile.provenance if emulated else profile.cache}"
    table = new_table(title, headers, widths={0: None})
    section = ""
    for q in QUANTITIES:
        values = [of.get(q.key) for of in columns]
        if not any(values):
            continue
        if q.section != section:
            section = q.section
            table.add_row(section, *[""] * (len(headers) - 1), style="dim")
        cells = ["n/a" if v is None else shown(q, v) for v in values]
        table.add_row(f"  {q.title}", *cells, *([EMULATED.get(q.key, "")] if emulated else []))
    table.caption = f"Counted with {profile.collector}. Quantities that are 0 are omitted."
    if emulated:
        table.caption += " Time, stalls and hit rates are not available."
    return table


def comparison_table(comparison: ProfileComparison) -> Table:
    """Build the table of two profiles; quantities that are 0 in both are omitted."""
    before, after = comparison.before, comparison.after
    headers = ["quantity", before.label, after.label, "change"]
    title = f"{after.label} compared with {before.label}"
    table = new_table(title, headers, widths={0: None})
    for key, old, new in comparison:
        if old or new:
            q, change = BY_KEY[key], ratio(new / old) if old else ""
            table.add_row(q.title, shown(q, old), shown(q, new), change)
    return table


def hotspot_table(sweep: Sweep) -> Table:
    """Rank the stages of each pipeline by the possible gain, as NVIDIA's profilers do.

    The gain is the excess over the time that the stage's compulsory bytes take at the roof. Ranks
    are proportional to it; the largest is 100.
    """
    headers = ["pipeline", "rank", "stage", "time", "of all\nstages", "of\nroof", "possible\ngain"]
    title = "Hotspots: the stages where optimisation gains most"
    table = new_table(title, headers, left=["stage"])
    for m in sweep.variants:
        shares = {stage: sweep.share_of_roof(stage) for stage in sweep.stages_of(m)}
        gains = {s: s.seconds * max(1 - (share or 0.0), 0.0) for s, share in shares.items()}
        largest = max(gains.values(), default=0) or 1
        total = sum(stage.seconds for stage in shares)
        for place, (stage, share) in enumerate(sorted(shares.items(), key=lambda s: -gains[s[0]])):
            table.add_row(
                "" if place else m.variant,
                f"{100 * gains[stage] / largest:.0f}",
                f"{stage.routine}[{stage.variant}]",
                quantity(stage.seconds, "s"),
                percent(stage.seconds / total),
                "" if share is None else share_of_limit(share),
                quantity(gains[stage], "s"),
            )
    return table


def machine_table(machine: Machine) -> Table:
    """Build the table of a machine's ceilings; theoretical figures are shown if there are any."""
    units = {"bandwidth": "B/s", "link": "B/s", "instructions": "inst/s"}
    issue = machine.issue_rate
    ceilings = (*machine.ceilings, *([issue] if issue else []))
    known = any(c.theoretical for c in ceilings)
    headers = ["ceiling", "measured", *(["theoretical", "share", "basis"] if known else [])]
    widest = max(len(c.name) for c in ceilings)
    table = new_table(machine.title, headers, left=["basis"], widths={0: widest})
    for c in ceilings:
        unit = units.get(c.kind, "OP/s" if c.level == "INT8 tensor" else "FLOP/s")
        theory = quantity(c.theoretical, unit) if c.theoretical else ""
        share = percent(c.measured / c.theoretical) if c.theoretical else ""
        cells = (c.name, quantity(c.measured, unit), theory, share, c.basis)
        table.add_row(*cells[: len(headers)])
    if known:
        table.columns[-1].no_wrap = False
    refused: dict[str, list[str]] = {}  # one sentence per reason
    for name, reason in machine.refused.items():
        refused.setdefault(reason, []).append(name)
    kept = {c.name for c in machine.ceilings}
    notes = [
        f"{'Doubtful' if kept.intersection(ours) else 'Refused'}: {', '.join(ours)}: {reason}."
        for reason, ours in refused.items()
    ]
    measured, load = machine.context.get("time"), number_in(machine.context, "load")
    if isinstance(measured, str):
        words = "" if load is None else f", load of the machine {load:.1f}"
        notes.append(f"Measured {measured[:10]} {measured[11:16]} UTC{words}.")
    table.caption = "\n".join(notes)
    return table
