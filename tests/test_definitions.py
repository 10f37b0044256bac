"""Each number has one definition, and all tables, charts and diagnoses use it."""

import dataclasses
import json
from functools import cache
from pathlib import Path

import pytest
from charting import make_offloads
from matplotlib import pyplot as plt
from mutants import documents

import adokernels as ado
from adobook.pages import glossary
from adokernels.charts.counters import speed_of_light
from adokernels.charts.memory import memory_chart
from adokernels.records import definitions
from adokernels.records.limiter import Kind
from adokernels.records.loading import record_of
from adokernels.records.metrics import (
    BY_KEY,
    LARGEST_REQUEST,
    LEVEL_BYTES,
    QUANTITIES,
    SECTOR,
    units_of,
)
from adokernels.records.profile import Profile
from adokernels.records.sweep import Sweep
from adokernels.report import page
from adokernels.storage import read_file
from adokernels.tables import tables_of
from adokernels.tables.measurements import counter_table, machine_tables, resources_table
from adokernels.text import NO_LIMIT, share_of_limit

DATA = Path(__file__).parent.parent / "notebooks" / "data"
RECORDS = sorted(str(path.relative_to(DATA)) for path in DATA.rglob("*.json*"))
LEVELS = ("compute", "L1", "L2", "DRAM")


@cache
def stored(name):
    return ado.load(DATA / name)


def counted(name):
    """The measurements of a stored sweep whose longest kernel has the utilisation of units."""
    record = stored(name)
    if not isinstance(record, Sweep):
        return []
    return [m for m in record if m.profile and m.profile.longest.units]


def mentions_units(name):
    """Whether the text of a record is one with `counted` measurements; loading takes longer."""
    text = read_file(DATA / name)
    return b'"sweep"' in text and b"sm__throughput" in text


SWEEPS = [name for name in RECORDS if mentions_units(name)]


def by_hand(shares, waves):
    """NVIDIA's rule, applied to the shares of a row of the table."""
    level = max(shares, key=shares.get)
    if shares[level] >= 0.6:
        return level
    return "too little work" if waves < 0.9 else "latency"


@pytest.mark.parametrize("name", SWEEPS)
def test_table_chart_diagnosis_and_report_name_one_limiter(name):
    sweep, rows = stored(name), counted(name)
    table = counter_table(sweep)
    lines = zip(*(map(str, column.cells) for column in table.columns), strict=True)
    cells = {line[0]: line for line in lines}
    once = len({m.variant for m in sweep}) == len(sweep)
    findings = ado.diagnose(sweep) if once else ()
    for m in rows:
        kernel = m.profile.longest
        shares = {level: kernel[f"{level.lower()}_sol"] for level in LEVELS}
        wanted = by_hand(shares, kernel.waves)
        # Shared memory is part of L1, and has the name of the data that the wavefronts access.
        found = "L1" if m.limiter.kind is Kind.SHARED else str(m.limiter.kind)
        assert found == wanted, m.variant
        if found in LEVELS:
            assert m.limiter.share == pytest.approx(shares[found])
        assert page._result(sweep, m)["limiter"] == m.limiter.name
        if once:
            _, kind, compute, _, *levels = cells[m.variant][:7]
            assert kind == m.limiter.kind
            assert [compute, *levels] == [f"{100 * share:.0f}" for share in shares.values()]
    for finding in findings:
        assert finding.limiter == sweep[finding.variant].limiter


#: Largest difference of a share from NVIDIA's. Eight kernels of five ladders differ more than all
#: others. L2 is their busiest level of the memory. NVIDIA's share of L2 contains one unit that is
#: not collected, the fabric between the partitions of L2 (lts__ltcfabric2lts_cycles_active). It was
#: not measured whether this is the cause.
APART = 2e-3
FARTHER = {
    f"unseen/{name}.json.xz": 6e-3 for name in ("set1/stencil", "set2/spmv", "set3/column_sum")
}
FARTHER |= {"unseen/set3/black_scholes.json.xz": 0.018, "unseen/set3/gauss_jordan.json.xz": 0.081}


@pytest.mark.parametrize("name", sorted({*SWEEPS[::4], *FARTHER}))
def test_the_longer_bar_of_the_chart_is_the_limiter(name):
    rows = counted(name)
    ax = speed_of_light(rows)
    bars = sorted((b for c in ax.containers for b in c), key=lambda bar: bar.get_y())
    title = ax.get_title(loc="left")
    for m, compute, memory in zip(rows, bars[::2], bars[1::2], strict=True):
        kernel = m.profile.longest
        widths = compute.get_width(), memory.get_width()
        expected = kernel["compute_sol"], kernel["memory_sol"]
        assert widths == pytest.approx(expected, abs=FARTHER.get(name, APART))
        if max(widths) >= definitions.LIMITING:
            assert (m.limiter.kind is Kind.COMPUTE) == (widths[0] > widths[1]), m.variant
        else:
            assert m.limiter.kind in (Kind.LATENCY, Kind.PARALLELISM)
    fastest = min((m for m in rows if not m.ceiling), key=lambda m: m.seconds)
    assert f"{fastest.variant}: {fastest.limiter.name}" in title
    plt.close(ax.figure)
    ax = memory_chart(fastest)
    assert f"{fastest.variant}: {fastest.limiter.name}" in ax.get_title(loc="left")
    texts = {text.get_text() for text in ax.texts}
    for level in LEVELS[1:]:
        share = fastest.profile.longest[f"{level.lower()}_sol"]
        assert f"{100 * share:.0f} % of peak" in texts or share < 0.01
    plt.close(ax.figure)


def kernels():
    """The names of all stored measurements and profiles, and their kernels."""
    for name in RECORDS:
        record = stored(name)
        profiles = [record] if isinstance(record, Profile) else []
        if isinstance(record, Sweep):
            profiles = [m.profile for m in (*record, *record.peers, *record.stages) if m.profile]
        for profile in profiles:
            yield from ((name, kernel) for kernel in profile)


def test_the_units_are_the_breakdown_of_nvidias_speed_of_light():
    checked = far = 0
    for name, kernel in kernels():
        for side in ("compute", "memory"):
            shares = [
                u.share for u in kernel.units if (u.level == "compute") == (side == "compute")
            ]
            if shares:
                apart = abs(max(shares) - kernel[f"{side}_sol"])
                assert apart <= FARTHER.get(name, APART)
                far += apart > APART
                checked += 1
    assert checked > 800
    assert far <= 7


def test_the_share_of_a_level_without_units_is_unknown():
    assert units_of({}) == ()
    assert BY_KEY["l1_sol"].of({}) is None
    assert BY_KEY["l1_sol"].of({BY_KEY["l1_sol"].metrics[2]: 0.0}) == 0.0
    # Nsight Compute's throughputs of L1 and L2 are other quantities.
    other = {metric: 90.0 for key in ("l1_active", "l2_all") for metric in BY_KEY[key].metrics}
    assert units_of(other) == ()


def test_an_ideal_is_exact():
    checked = 0
    for _, kernel in kernels():
        for access in ("load", "store"):
            ideal, requests = (
                kernel.get(f"ideal_{access}_sectors"),
                kernel.get(f"{access}_requests"),
            )
            if ideal and requests:
                assert SECTOR * ideal == int(SECTOR * ideal)
                assert requests <= ideal <= LARGEST_REQUEST * requests
                checked += 1
    assert checked > 500
    narrow = stored("transpose-int64-8192.json.xz")["narrow_blocks"].profile.longest
    assert narrow.ideal_sectors_per_request("store") == 8
    assert narrow["store_sectors_per_request"] == pytest.approx(7.99, abs=0.01)


def test_every_quantity_has_one_definition_in_the_glossary():
    lines = glossary.text().splitlines()
    for q in QUANTITIES:
        (line,) = (line for line in lines if f"| `{q.key}` |" in line)
        assert all(f"`{metric}`" in line for metric in q.metrics)


#: Records without tables, and records whose columns have the names of kernels or records.
OTHER = ("measurement", "check", "profile", "comparison", "scan")


def shown_columns():
    """The column titles of the tables of all kinds of records."""
    sweep = stored("gpp-counted.json.xz")
    others = documents().items()
    records = [record_of(json.dumps(d).encode(), name) for name, d in others if name not in OTHER]
    records += [sweep, sweep.machine, ado.diagnose(sweep), make_offloads(), ado.transpose]
    tables = [table for record in records for table in tables_of(record)]
    tables += [resources_table(), counter_table(sweep), *machine_tables([sweep, sweep])]
    for column in (c for table in tables for c in getattr(table, "columns", ())):
        yield " ".join(str(column.header).split()).partition(" [")[0]


def test_every_column_of_every_table_is_in_the_glossary():
    levels = {f"FLOP per {level} byte": "FLOP per level byte" for level in LEVEL_BYTES}
    levels["FLOP per requested byte"] = "AI"
    gpp = stored("gpp-counted.json.xz")
    found = {*shown_columns(), *(levels.get(n, n) for n in page._details(gpp, gpp[-1]))}
    rows = glossary.text().partition("## Counters")[0].splitlines()
    known = {row.split(" | ")[0].removeprefix("| ") for row in rows if row.startswith("| ")}
    assert found - {""} <= known, sorted(found - known)


def test_the_report_and_the_step_table_have_one_rule_for_shares_of_the_peak():
    sweep = stored("gpp-counted.json.xz")
    m = sweep.fastest
    known = page._result(sweep, m)["of FMA peak"]
    assert known == share_of_limit(sweep.share_of_peak(m)) != "no limit"
    quick = dataclasses.replace(m, samples=m.samples / 3)  # as a product on tensor cores
    assert sweep.share_of_peak(quick) > NO_LIMIT
    assert page._result(sweep, quick)["of FMA peak"] == "no limit"
