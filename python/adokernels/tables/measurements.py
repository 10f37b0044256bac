"""Tables of measurements, hardware counters, machines and kernel resources."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from adokernels.records import contention
from adokernels.records.changes import SweepComparison
from adokernels.records.definitions import EMULATED, FULL, LIMITING
from adokernels.records.forms import number_in
from adokernels.records.kernels import Resources
from adokernels.records.limiter import Provenance
from adokernels.records.machine import Machine, contradictions
from adokernels.records.measurement import FUNCTION, NEW_PAGES, Measurement
from adokernels.records.metrics import BY_KEY, QUANTITIES, Quantity
from adokernels.records.profile import KernelProfile, Profile, ProfileComparison
from adokernels.records.scan import Scan, elements, link_seconds
from adokernels.records.statistics import Comparison, rounded_up
from adokernels.records.sweep import Sweep
from adokernels.tables.rendering import FADED, ITALIC, new_table, table_of
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
#: Headers, without units, of the columns that a narrow terminal omits first, in this order.
_EXPENDABLE = ("samples", "95 %", "clock", "AI", "relative", "error", "executed", "useful")


def sweep_table(sweep: Sweep) -> Table:
    """Build the step table of a ladder; columns without a known value are omitted."""
    measured = (*sweep, *sweep.peers)
    pairs = zip(measured, sweep.records(), strict=True)
    records = [{**r, "share": sweep.share_of_limit(m)} for m, r in pairs]
    errors = ("error_ulp", "error_relative")  # 0 is a known error
    known = {key for r in records for key, value in r.items() if value or key in errors}
    if not any(m.flops for m in measured):  # a routine of integers
        known -= {"flops_per_second", "intensity"}
    unit_of_error = "ulp" if any(r["error_relative"] is not None for r in records) else "steps"
    limit = "\n".join(f"of {sweep.limit}".split())
    several = len({m.device for m in measured}) > 1

    def cell(record: Mapping[str, Any], key: str, show: Callable[[Any], Any]) -> str | Text:
        return "" if record[key] is None or key not in known else show(record[key])

    def scaled(record: Mapping[str, Any], name: str, key: str, unit: str) -> dict[str, str | Text]:
        """A cell of a column with one prefix, so that its numbers are easy to compare."""
        values = [r[key] for r in records if r[key]]
        factor, unit = prefix(math.sqrt(min(values) * max(values)) if values else 0.0, unit)
        return {f"{name}\n[{unit}]": cell(record, key, lambda value: number(value / factor))}

    rows = []
    for m, r in zip(measured, records, strict=True):
        kind = " (ceiling)" if r["ceiling"] else ""
        if r["peer"]:
            kind = " (peer, unchecked)" if r["unchecked"] else " (peer)"
        rows.append(
            {
                "variant": r["variant"] + kind,
                "device": r["device"] if several else "",
                **scaled(r, "time", "seconds", "s"),
                "95 %\nCI": interval_cell(m),
                "samples": cell(r, "samples", str),
                "speed-up\n(total)": cell(r, "speedup", ratio),
                "speed-up\n(step)": cell(r, "step_speedup", ratio),
                "step is": cell(r, "verdict", verdict_cell),
                **scaled(r, "useful", "bytes_per_second", "B/s"),
                limit: cell(r, "share", share_of_limit),
                **scaled(r, "executed", "flops_per_second", "FLOP/s"),
                "AI\n[FLOP/B]": cell(r, "intensity", number),
                **scaled(r, "clock", "clock", "Hz"),
                f"error\n[{unit_of_error}]": cell(r, "error_ulp", magnitude),
                "relative\nerror": cell(r, "error_relative", magnitude),
            }
        )
    flags = {m.variant: [f for f in m.flags if f != "unchecked"] for m in measured}
    notes = interval_notes(sweep)
    notes += [f"{name}: {', '.join(words)}" for name, words in flags.items() if words]
    if any((r["share"] or 0) > NO_LIMIT for r in records):
        why = sweep.why_above(sweep.limit)
        notes.append(f"no limit: above {percent(NO_LIMIT)} of the {sweep.limit}, because {why}")
    notes += _remarks([sweep])
    notes += verdict_notes({m.variant: m.compare(b) for m, b in sweep.step_pairs().items()})
    notes += [f"skipped {variant}: {reason}" for variant, reason in sweep.skipped.items()]
    text, faded = ("device", "step is"), [m.ceiling for m in measured]
    headers = [header for row in rows[:1] for header in row]
    first = [header for name in _EXPENDABLE for header in headers if header.startswith(name)]
    first += ["speed-up\n(total)"]
    return table_of(
        sweep.title, rows, text, notes=notes, faded=faded, sparse=True, expendable=first
    )


def _remarks(sweeps: Iterable[Sweep]) -> list[str]:
    """A note for each machine whose ceilings may be too low."""
    return list(dict.fromkeys(s.machine.remark for s in sweeps if s.machine and s.machine.remark))


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

    For functions: times, and the ratio and the verdict of each peer. With offloads:
    times of the three default calls, and the time of the copies at the link's roof.
    """
    if scan.offloads:
        return _offload_table(scan)
    if scan.lengths:
        return _function_table(scan)
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
    table.caption = "\n".join([*skipped, *_remarks(scan)])
    return table


def _offload_table(scan: Scan) -> Table:
    comparisons, rows = {}, []
    for found, kernel, o in zip(scan, scan.kernels, scan.offloads, strict=True):
        size = binary_size(kernel.bytes)
        comparisons[size] = o.gpu.compare(o.cpu)
        copies = link_seconds(found.machine, o.uploaded, o.downloaded)
        rows.append(
            {
                "problem": _shapes(kernel),
                "compulsory\nbytes": size,
                "CPU": quantity(o.cpu.seconds, "s"),
                "GPU with\ncopies": quantity(o.gpu.seconds, "s"),
                "with copies,\nthe GPU is": verdict_cell(comparisons[size].verdict.value),
                "speed-up": ratio(o.gpu.speedup_over(o.cpu)),
                "kernel\nalone": quantity(kernel.seconds, "s"),
                "copies at the\nlink's roof": quantity(copies, "s") if copies else "",
                ERRORS: _pair_of_errors(o.cpu, o.gpu),
            }
        )
    notes, title = verdict_notes(comparisons), f"{scan.title}: calls with NumPy arrays"
    text = ("with copies,\nthe GPU is",)
    return table_of(title, rows, text, notes=[scan.finding, *notes], sparse=True)


def _function_table(scan: Scan) -> Table:
    rows: list[dict[str, Any]] = []
    judged: dict[str, Comparison] = {}
    timed: dict[str, Measurement] = {}
    for place, (n, sweep) in enumerate(zip(scan.sizes, scan, strict=True)):
        rows.append({"n": f"{n:.0f}", scan.routine: quantity(sweep[0].seconds, "s")})
        timed |= {f"{m.variant}, {elements(n)}": m for m in (sweep[0], *sweep.peers)}
        for peer in sweep.peers:
            name, found = peer.variant, scan.comparisons[peer.variant][place]
            judged[f"{name}, {elements(n)}"] = found
            rows[-1] |= {
                name: quantity(peer.seconds, "s"),
                f"{name}:\nspeed-up": ratio(found.ratio),
            }
            rows[-1] |= {f"{name}:\n99.9 % interval": _interval_of(found)}
            rows[-1] |= {f"{name} is": verdict_cell(found.verdict.value)}
    few = any(found.confidence is None for found in judged.values())
    notes = [scan.finding, *[FEW_SAMPLES] * few, *verdict_notes(judged), *_page_notes(timed)]
    text = [f"{name} is" for name in scan.comparisons]
    return table_of(scan.title, rows, text, notes=filter(None, notes))


def _page_notes(measured: Mapping[str, Measurement]) -> list[str]:
    """A note that names the functions whose time depends on the allocator of the process."""
    names = [name for name, m in measured.items() if any(NEW_PAGES in flag for flag in m.flags)]
    text = f"{NEW_PAGES}, so the time can differ between processes"
    return [f"{text}: {'; '.join(names)}"] * bool(names)


def _interval_of(found: Comparison) -> str:
    """The interval of a ratio of times, or its range."""
    low, high = found.interval
    return f"{low:.3g} to {high:.3g}{' (range)' if found.confidence is None else ''}"


def _pair_of_errors(first: Measurement, second: Measurement) -> str:
    """The errors of two measurements, for example ``"0.5 ulp, 0.8 ulp"``; empty without both."""
    errors = [m.shown_error for m in (first, second)]
    return ", ".join(error or "unknown" for error in errors) if any(errors) else ""


def _shapes(m: Measurement) -> str:
    return "; ".join(" x ".join(map(str, o.shape)) for o in m.problem.operands if o.shape)


def changes_table(changes: SweepComparison) -> Table:
    """One row per variant: both times, the ratio with its interval, the verdict."""
    # Longer names are folded.
    labels = ["\n".join(textwrap.wrap(label, 24)) for label in changes.labels]
    kind = "function" if changes[0].after.routine == FUNCTION else "variant"
    headers = [kind, *labels, "speed-up", "99.9 %\ninterval", "samples", f"{labels[1]} is"]
    errors = [_pair_of_errors(change.before, change.after) for change in changes]
    table = new_table(changes.title, [*headers, *[ERRORS] * any(errors)], left=headers[-1:])
    table.expendable = "samples", "99.9 %\ninterval", ERRORS, *labels, "speed-up"
    for change, error in zip(changes, errors, strict=True):
        verdict, gain, _ = change.comparison
        table.add_row(
            change.variant,
            quantity(change.before.seconds, "s"),
            quantity(change.after.seconds, "s"),
            ratio(gain),
            _interval_of(change.comparison),
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
    notes += _page_notes({m.variant: m for c in changes for m in (c.before, c.after)})
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
    elif tried := [
        (m.variant, m.limiter) for m in sweep.variants if m.experiments and m.limiter.tried
    ]:
        rows = [
            {"variant": name, "limiter": found.name, "evidence": found.evidence[0].statement}
            for name, found in tried
        ]
        text = {"variant": 24, "limiter": 24, "evidence": 60}
        tables.append(table_of("Limiters by experiment, without counters", rows, text))
    if any(m.kernels for m in sweep):
        tables.append(resources_table(*(m.resources for m in sweep.variants)))
    return tables


def resources_table(*variants: Resources) -> Table:
    """List the resource usage of each variant's kernels, named without template arguments."""
    rows = [
        {
            "variant": "" if place else resources.variant,
            "kernel": k.name.partition("<")[0],
            "block": " x ".join(map(str, k.block)),
            "registers\nper thread": str(k.registers),
            "local memory\nper thread [B]": str(k.local_bytes),
            "shared memory\nper block [B]": str(k.shared_bytes),
            "theoretical\noccupancy": percent(k.occupancy),
            "limited by": k.limiter,
        }
        for resources in variants
        for place, k in enumerate(resources)
    ]
    return table_of("Resources of the kernels", rows, ("kernel", "block", "limited by"))


def counter_table(sweep: Sweep) -> Table:
    """List the limiter and main counters of each variant and peer; n/a if not counted.

    The shares of peak are the quantities from which the limiter is derived.
    """
    counted = [(m, m.profile) for m in (*sweep, *sweep.peers) if m.profile]
    rows = []
    for m, profile in counted:
        values = profile.quantities
        excess = values["dram_bytes"] / m.bytes if m.bytes and "dram_bytes" in values else None
        row: dict[str, str] = {"variant": m.variant, "limiter": m.limiter.kind}
        for name in ("compute", "memory", "L1", "L2", "DRAM"):
            share = profile.longest.get(f"{name.lower()}_sol")
            row[f"{name}\n[%]"] = _known(share, lambda share: f"{100 * share:.0f}")
        row["DRAM bytes /\ncompulsory"] = _known(excess, number)
        row["sectors\nper load"] = _known(values.get("load_sectors_per_request"), number)
        row["sectors\nper store"] = _known(values.get("store_sectors_per_request"), number)
        row["issue\nslots"] = _known(values.get("issue_active"), percent)
        row["achieved\noccupancy"] = _known(values.get("occupancy"), percent)
        row["most frequent stall"] = _largest_stall(values)
        rows.append(row)
    basis = " ".join(dict.fromkeys(f"Counted with {p.collector}." for _, p in counted))
    note = (
        f"{basis} Shares of peak: of the busiest unit, over the time of the longest "
        f"kernel. The largest is the limiter if it is at least {percent(LIMITING)}; otherwise "
        f"latency, or too little work (fewer than {FULL} waves of blocks)."
    )
    title = "Hardware counters; compute and memory levels in % of peak"
    text = {"limiter": 10, "most frequent stall": 0}
    return table_of(title, rows, text, notes=[note], faded=[m.ceiling for m, _ in counted])


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
            table.add_row(section, style=FADED)
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
    rows = []
    for m in sweep.variants:
        shares = {stage: sweep.share_of_roof(stage) for stage in sweep.stages_of(m)}
        gains = {s: s.seconds * max(1 - (share or 0.0), 0.0) for s, share in shares.items()}
        largest = max(gains.values(), default=0) or 1
        total = sum(stage.seconds for stage in shares)
        for place, (stage, share) in enumerate(sorted(shares.items(), key=lambda s: -gains[s[0]])):
            rows.append(
                {
                    "pipeline": "" if place else m.variant,
                    "rank": f"{100 * gains[stage] / largest:.0f}",
                    "stage": f"{stage.routine}[{stage.variant}]",
                    "time": quantity(stage.seconds, "s"),
                    "of all\nstages": percent(stage.seconds / total),
                    "of\nroof": "" if share is None else share_of_limit(share),
                    "possible\ngain": quantity(gains[stage], "s"),
                }
            )
    return table_of("Hotspots: the stages where optimisation gains most", rows, ("stage",))


def machine_table(machine: Machine) -> Table:
    """Build the table of a machine's ceilings; theoretical figures are shown if there are any."""
    units = {"bandwidth": "B/s", "link": "B/s", "instructions": "inst/s"}
    issue = machine.issue_rate
    rows = []
    for c in (*machine.ceilings, *([issue] if issue else [])):
        unit = units.get(c.kind, "OP/s" if c.level == "INT8 tensor" else "FLOP/s")
        rows.append(
            {
                "ceiling": c.name,
                "measured": quantity(c.measured, unit),
                "theoretical": quantity(c.theoretical, unit) if c.theoretical else "",
                "share": percent(c.measured / c.theoretical) if c.theoretical else "",
                "basis": c.basis,
            }
        )
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
    notes += [machine.remark] if machine.remark else []
    text = {"ceiling": None, "basis": None}
    return table_of(machine.title, rows, text, notes=notes, sparse=True)


def refusal(sweep: Sweep) -> str:
    """Return why the times of a sweep do not describe its machine; empty if they do."""
    for m in sweep.variants:
        if reason := contention.stolen(m.context)[1]:
            return reason
        if "throttled" in m.flags:
            return f"the clock was reduced while {m.variant} was measured"
    if sweep.machine is not None:
        for name, reason in contradictions(sweep.machine.ceilings).items():
            return f"the ceiling {name} is impossible: {reason}"
    return "" if sweep.variants else "no variant was measured"


def machine_tables(sweeps: Iterable[Sweep]) -> list[Table]:
    """One table per ladder and problem that several machines have measured.

    Per machine: the time, the speed-up over the previous variant, the share of its nearest limit,
    and the limiter.
    """
    ladders: dict[tuple[str, str], dict[str, Sweep]] = {}
    for sweep in sweeps:
        first = sweep.variants[0]
        title = first.machine_title or first.device
        ladders.setdefault((sweep.routine, str(first.problem)), {})[title] = sweep
    tables: list[Table] = []
    for (routine, problem), of in ladders.items():
        if len(of) < 2:
            continue
        headers = ["variant"]
        for name in of:
            headers += [f"{name}:\ntime", "step", "of limit", "limiter"]
        table = new_table(f"{routine}, {problem}", headers, left=["limiter"])
        for name in dict.fromkeys(m.variant for sweep in of.values() for m in sweep.variants):
            cells = [name]
            for sweep in of.values():
                m = next((m for m in sweep.variants if m.variant == name), None)
                if m is None:
                    cells += [""] * 4
                    continue
                before = sweep.step_pairs().get(m)
                step = ratio(m.speedup_over(before)) if before else ""
                share = str(sweep.nearest_limit(m) or "")
                cells += [quantity(m.seconds, "s"), step, share, m.limiter.name]
            table.add_row(*cells)
        table.caption = "\n".join(_remarks(of.values()))
        tables.append(table)
    return tables
