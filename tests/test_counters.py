"""benchmarks/counters.py: reading the output of ncu and comparing, without running ncu."""

import pytest
from scripts import load_script

counters = load_script("benchmarks/counters.py")

TIME = "gpu__time_duration.sum"
INSTRUCTIONS = "smsp__inst_executed.sum"
HIT_RATE = "l1tex__t_sector_hit_rate.pct"
WRITTEN = "dram__bytes_write.sum"
METRICS = (TIME, INSTRUCTIONS, HIT_RATE, WRITTEN)


def row(*cells):
    return ",".join(f'"{cell}"' for cell in cells)


def written(*launches, time_unit="ns", metrics=METRICS):
    """A CSV as ncu writes it: messages, metrics in alphabetical order, units, launches."""
    names = sorted(metrics)
    lines = [
        "==WARNING== Note: Running with unmodified GPU clocks.",
        "==PROF== Connected to process 673 (python)",
        "what the program printed",
        row("ID", "Kernel Name", "Block Size", *names, "z"),
        row("", "", "", *(time_unit if name == TIME else "inst" for name in names), "%"),
    ]
    for i, (kernel, values) in enumerate(launches):
        cells = [values.get(name, "n/a") for name in names]
        lines.append(row(i, kernel, "(256, 1, 1)", *cells, "0"))
    return lines


NCU = {TIME: "1,146,400", INSTRUCTIONS: "48,288,052", HIT_RATE: "12.5", WRITTEN: "1,000"}
CSV = written(("void ado::cuda::<unnamed>::terms<(int)2>(View)", NCU), ("add_up(double2 *)", {}))


def test_numbers_are_read_and_unknown_ones_are_missing():
    first, second = counters.read_csv(CSV, METRICS)
    assert first.kernel.endswith("terms<(int)2>(View)")
    assert first.values == {TIME: 1146400, INSTRUCTIONS: 48288052, HIT_RATE: 12.5, WRITTEN: 1000}
    assert second.values == {}


def test_metrics_that_ncu_did_not_report_are_missing():
    lines = written(("terms", NCU), metrics=(TIME,))
    assert counters.read_csv(lines, METRICS)[0].values == {TIME: 1146400}


def test_no_launch_gives_an_empty_list():
    assert counters.read_csv(["==ERROR== No kernels were profiled"], METRICS) == []
    assert counters.read_csv(written(), METRICS) == []


def test_another_unit_of_time_is_an_error():
    with pytest.raises(ValueError, match="must be in ns, got usecond"):
        counters.read_csv(written(("terms", NCU), time_unit="usecond"), METRICS)


def launch(kernel, **values):
    return counters.Launch(kernel, values or {INSTRUCTIONS: 1.0})


def test_kernels_are_paired_by_order_and_name():
    ours = [launch("gpp::terms<2>"), launch("add_up")]
    ncu = [launch("void ado::cuda::<unnamed>::terms<(int)2>(View)"), launch("add_up(double2 *)")]
    assert [p.kernel for p in counters.pairs_of("collapse3", ours, ncu, 50e6)] == [
        "terms",
        "add_up",
    ]


@pytest.mark.parametrize(
    ("ncu", "message"),
    [
        ([], "collapse3 must launch 1 kernels, got 0"),
        ([launch("other(int)")], r"collapse3 must launch terms, got other\(int\)"),
        ([launch("more_terms(int)")], "collapse3 must launch terms, got more_terms"),
    ],
)
def test_other_kernels_are_an_error(ncu, message):
    with pytest.raises(ValueError, match=message):
        list(counters.pairs_of("collapse3", [launch("terms<2>")], ncu, 50e6))


@pytest.mark.parametrize(
    ("metric", "ours", "ncu", "agree"),
    [
        *[(INSTRUCTIONS, 100.0, 100.0, True), (INSTRUCTIONS, 1e6 + 1, 1e6, False)],
        *[(TIME, 1.02e6, 1e6, True), (TIME, 1.04e6, 1e6, False), (HIT_RATE, 0.4, 0.0, True)],
        *[(HIT_RATE, 0.6, 0.0, False), (HIT_RATE, float("nan"), 0.0, False)],
    ],
)
def test_counts_are_equal_and_rates_are_close(metric, ours, ncu, agree):
    assert counters.Pair("v", "k", metric, ours, ncu).agree is agree


def test_dram_traffic_may_differ_by_the_size_of_l2():
    def pair(ours, ncu):
        ours = launch("k", **{counters.DRAM_BYTES: 200e6, WRITTEN: ours})
        ncu = launch("k", **{counters.DRAM_BYTES: 151e6, WRITTEN: ncu})
        return next(p for p in counters.pairs_of("v", [ours], [ncu], 50e6) if p.metric == WRITTEN)

    assert pair(120e6, 90e6).agree
    assert not pair(150e6, 90e6).agree


def test_rates_of_short_kernels_are_not_compared():
    assert not counters.Pair("v", "k", HIT_RATE, 1, 50, nanoseconds=99e3).compared
    assert counters.Pair("v", "k", HIT_RATE, 1, 50, nanoseconds=101e3).compared
    assert counters.Pair("v", "k", INSTRUCTIONS, 1, 50, nanoseconds=99e3).compared
    assert not counters.Pair("v", "average_matvec_overlapped", INSTRUCTIONS, 1, 50).exact
