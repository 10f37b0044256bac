"""CPU limiters from experiments: the rules on constructed times, the runs, and the records."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_limiter import ceiling, timed

import adokernels as ado
from adokernels import _core
from adokernels.diagnosis import cpu_rules
from adokernels.diagnosis.advice import advise
from adokernels.diagnosis.cpu_rules import by_experiment, proposals
from adokernels.measuring.experiments import CpuExperiments, footprint_of, scaled
from adokernels.records.experiments import GIVEN, SMALLEST, Experiments, Run
from adokernels.records.limiter import Kind, Step
from adokernels.records.machine import Machine

KIB, MIB = 1 << 10, 1 << 20
#: One core: 2 scalar additions per cycle at 2.5 GHz, 8 lanes, 128 bytes per cycle from L1.
ONE = {
    "L1 read": 320e9,
    "L2 read": 120e9,
    "L3 read": 30e9,
    "DRAM read": 15e9,
    "FP64 add": 40e9,
    "FP64 fma": 80e9,
}
SIXTEEN = Machine(
    device="cpu",
    name="CPU",
    threads=16,
    ceilings=(
        ceiling("DRAM", "copy", 150e9),
        ceiling("DRAM", "read", 160e9),
        ceiling("L3", "read", 400e9),
        ceiling("L2", "read", 1900e9),
        ceiling("L1", "read", 5000e9),
        ceiling("FP64", "fma", 1250e9, "compute"),
    ),
)
CONTEXT = {"isa": "avx512", "cache_bytes": {"L1": 48 * KIB, "L2": 2 * MIB, "L3": 100 * MIB}}
SIZES = {"L1": 24 * KIB, "L2": MIB, "L3": 8 * MIB, GIVEN: 256 * MIB, SMALLEST: 24}


def run(size, rate, *, flops=0.25, threads=1, isa="avx512", cache="warm", bytes=None, **fields):
    """A run that processes `rate` requested bytes per second, with FLOPs per byte."""
    moved = bytes or SIZES[size]
    return Run(
        size=size,
        cache=cache,
        isa=isa,
        threads=threads,
        seconds=np.full(5, moved / rate),
        flops=flops * moved,
        bytes=float(moved),
        footprint=float(SIZES[size]),
        **fields,
    )


def measured(*runs, cores=16, ceilings=ONE, **fields):
    """A measurement of a CPU variant with these runs, the first under its own conditions."""
    tried = Experiments(runs=runs, cores=cores, ceilings=ceilings)
    return timed(
        device="cpu",
        samples=runs[0].seconds,
        cache=runs[0].cache,
        bytes=runs[0].bytes,
        flops=runs[0].flops,
        executed_flops=runs[0].flops,
        requested_bytes=runs[0].bytes,
        context=CONTEXT,
        experiments=tried,
        **fields,
    )


def streams(given, one, l3, l2, l1, flops=0.25, **fields):
    """Rates of 16 threads and of one thread, and of one thread with operands in the caches."""
    return (
        run(GIVEN, given, threads=16, cache="cold", flops=flops, **fields),
        run("L1", l1, flops=flops),
        run("L2", l2, flops=flops),
        run("L3", l3, flops=flops),
        run(GIVEN, one, cache="cold", flops=flops),
    )


FAST = {"l3": 28e9, "l2": 110e9, "l1": 250e9}
CASES = {
    "all threads share DRAM": (streams(150e9, 12e9, **FAST), Kind.DRAM, "DRAM"),
    "random accesses": (
        streams(16e9, 1e9, l3=4e9, l2=20e9, l1=60e9),
        Kind.LATENCY,
        "accesses to DRAM",
    ),
    "vector arithmetic": (
        (*streams(128e9, 8e9, 8e9, 8e9, 8e9, flops=8.0), run("L1", 4e9, flops=8.0, isa="baseline")),
        Kind.COMPUTE,
        cpu_rules.VECTOR,
    ),
    "scalar code": (
        (*streams(256e9, 16e9, 16e9, 16e9, 16e9), run("L1", 16e9, isa="baseline")),
        Kind.COMPUTE,
        cpu_rules.SCALAR,
    ),
    "dependent operations": (
        (*streams(64e9, 4e9, 4e9, 4e9, 4e9), run("L1", 4e9, isa="baseline")),
        Kind.LATENCY,
        cpu_rules.CHAIN,
    ),
    "L1": (
        (run("L1", 240e9, flops=1 / 12), run("L1", 130e9, flops=1 / 12, isa="baseline")),
        Kind.L1,
        "L1",
    ),
    "L2": ((run("L2", 100e9), run("L1", 250e9)), Kind.L2, "L2"),
    "L3": ((run("L3", 28e9), run("L1", 250e9), run("L2", 100e9)), Kind.L3, "L3"),
    "one thread uses its thread well": (
        (run(GIVEN, 12e9, threads=16, cache="cold"), *streams(12e9, 12e9, **FAST)[1:]),
        Kind.PARALLELISM,
        cpu_rules.ONE_THREAD,
    ),
    "threads without balance": (
        (
            run(GIVEN, 20e9, threads=16, cache="cold", flops=8.0),
            *streams(1.0, 8e9, 8e9, 8e9, 8e9, flops=8.0)[1:],
        ),
        Kind.PARALLELISM,
        cpu_rules.BALANCE,
    ),
    "a call": (
        (run("L1", 1e9), run(SMALLEST, 24 / (0.9 * SIZES["L1"] / 1e9))),
        Kind.PARALLELISM,
        cpu_rules.CALL,
    ),
}
#: Cases whose measurement has one processor.
ALONE = ("L1", "L2", "L3", "a call")


def case(name):
    """The measurement of a case; its first run has the operands of the measurement."""
    first, *others = CASES[name][0]
    runs = (dataclasses.replace(first, size=GIVEN), *others)
    return measured(*runs, cores=1 if name in ALONE else 16)


@pytest.mark.parametrize("name", CASES)
def test_cpu_rules_name_constructed_limiters(name):
    _, kind, unit = CASES[name]
    m = case(name)
    found = by_experiment(m, SIXTEEN)
    assert (found.kind, found.unit) == (kind, unit), found
    assert "by experiment" in repr(found)
    assert all(e.provenance == "experiment" for e in found.evidence)
    assert m.limiter.kind is kind or m.machine is None


def test_each_limiter_has_a_next_step():
    steps = {}
    for name in CASES:
        m = case(name)
        advices = advise(m, SIXTEEN)
        assert advices, name
        assert all(a.bound is None or a.bound >= 1 for a in advices)
        steps[name] = advices[0].step
    assert steps["all threads share DRAM"] is Step.DONE
    assert steps["scalar code"] is Step.WIDER
    assert steps["random accesses"] is Step.COALESCING
    assert steps["one thread uses its thread well"] is Step.PARALLELISM


def test_a_cache_as_slow_as_dram_is_not_named():
    runs = streams(75e9, 12e9, l3=12.5e9, l2=110e9, l1=250e9)
    slow = ONE | {"L3 read": 16e9}
    assert by_experiment(measured(*runs), SIXTEEN).kind is Kind.L3
    assert by_experiment(measured(*runs, ceilings=slow), SIXTEEN).kind is Kind.DRAM


@pytest.mark.parametrize("name", ["scalar code", "dependent operations"])
def test_a_refused_peak_of_additions_is_half_of_that_of_fmas(name):
    ceilings = {key: value for key, value in ONE.items() if key != "FP64 add"}
    found = by_experiment(measured(*CASES[name][0], ceilings=ceilings), SIXTEEN)
    assert found.unit == CASES[name][2]


def test_threads_that_use_part_of_dram_are_not_done():
    """One thread alone reaches its ceiling; all threads together reach half of theirs."""
    m = measured(*streams(75e9, 14.9e9, **FAST))
    found = by_experiment(m, SIXTEEN)
    assert found.kind is Kind.DRAM
    assert found.share == pytest.approx(75 / 160)
    assert advise(m, SIXTEEN)[0].step is not Step.DONE


def test_contradicting_evidence_is_unknown():
    """The rate is a rate of vector code, but the baseline instruction set is as fast."""
    runs = (
        *streams(128e9, 8e9, 8e9, 8e9, 8e9, flops=8.0),
        run("L1", 8e9, flops=8.0, isa="baseline"),
    )
    found = by_experiment(measured(*runs), SIXTEEN)
    assert found.kind is Kind.UNKNOWN
    assert "baseline" in str(found.evidence[0])


def test_a_rate_above_the_one_of_scalar_code_is_not_scalar_code():
    """128 % of the peak of scalar additions: scalar FMAs, or vector code that does not limit."""
    runs = (*streams(410e9, 25.6e9, 25.6e9, 25.6e9, 25.6e9), run("L1", 25.6e9, isa="baseline"))
    found = by_experiment(measured(*runs), SIXTEEN)
    assert (found.kind, found.unit) == (Kind.UNKNOWN, "")
    assert "128 %" in str(found.evidence[0])
    assert not advise(measured(*runs), SIXTEEN)


def test_runs_with_the_same_operands_show_one_level():
    """The times of one small problem are not times in L1, L2 and L3."""
    given, *inside, one = streams(150e9, 12e9, l3=28e9, l2=30e9, l1=250e9)
    same = [dataclasses.replace(r, footprint=24e3) for r in inside]
    found = by_experiment(measured(given, *same, one), SIXTEEN)
    assert "1.00 in L1, 20.8 in DRAM" in repr(found)


def with_call(seconds, *smallest):
    """A stream of 12 GB/s from DRAM by a function whose calls take `seconds` each."""
    runs = [
        run(GIVEN, 12e9, threads=0, isa="", cache="cold"),
        *(run(f"L{n}", rate, threads=0, isa="") for n, rate in ((1, 250e9), (2, 110e9), (3, 28e9))),
    ]
    runs = [dataclasses.replace(r, seconds=r.seconds + seconds) for r in runs]
    tiny = (run(SMALLEST, 24 / seconds, threads=0, isa="", cache=cache) for cache in smallest)
    return measured(*runs, *tiny, cores=1)


def test_a_call_is_subtracted_from_runs_with_the_same_state_of_the_caches():
    """Otherwise, the call takes most of the time in each cache, and no time rises."""
    found = by_experiment(with_call(0.5e-3, "cold", "warm"), None)
    assert found.kind is Kind.DRAM
    assert "1.00 in L3, 2.33 in DRAM" in repr(found)  # a call took 98 % of the times in L1 and L2
    assert by_experiment(with_call(0.5e-3, "cold"), None).kind is not Kind.DRAM


def test_a_lower_time_in_dram_than_in_caches_is_a_contradiction():
    found = by_experiment(with_call(2e-3, "cold"), None)
    assert (found.kind, found.unit) == (Kind.UNKNOWN, "")
    assert "lower in DRAM than in every smaller memory" in str(found.evidence[0])
    assert not advise(with_call(2e-3, "cold"), None)


@pytest.mark.parametrize("part", ["timing", "experiments"])
def test_the_limiter_of_disturbed_experiments_is_unknown(part):
    runs = streams(150e9, 12e9, **FAST)
    waits = np.zeros(5)
    for disturbed, kind in ((1, Kind.DRAM), (2, Kind.UNKNOWN)):  # of five samples
        if part == "timing":
            waits[:disturbed] = runs[0].seconds[0]
        else:
            runs = (runs[0], *(dataclasses.replace(r, disturbed=disturbed / 5) for r in runs[1:]))
        found = by_experiment(measured(*runs, waits=waits), SIXTEEN)
        assert found.kind is kind
    assert "other work disturbed the experiments: 40 % of the samples" in repr(found)


rates = st.floats(1e6, 1e13)


@settings(max_examples=25, deadline=None)
@given(st.lists(rates, min_size=5, max_size=5), st.floats(0, 64), st.integers(1, 16))
def test_cpu_rules_accept_any_times(values, flops, cores):
    m = measured(*streams(*values, flops=flops), cores=cores)
    for machine in (None, SIXTEEN):
        found = by_experiment(m, machine)
        assert found is None or isinstance(found.kind, Kind)
        assert found is None or found.share is None or math.isfinite(found.share)
        assert all(bound is None or bound >= 1 for _, _, bound, _ in proposals(m, machine))
        advise(m, machine)


@pytest.mark.parametrize(("reads", "step"), [(1, Step.IN_FLIGHT), (2, Step.DRAM_REUSE)])
def test_bytes_that_are_moved_once_cannot_stay_in_a_cache(reads, step):
    m = measured(*streams(40e9, 6e9, **FAST))
    m = dataclasses.replace(m, bytes=m.bytes / reads)
    first, _, bound, basis = next(proposals(m, SIXTEEN))
    assert (first, basis) == (step, "the compulsory bytes at the measured DRAM bandwidth")
    assert bound == pytest.approx(reads * 160 / 40)


@pytest.mark.parametrize(("read", "step"), [(28e9, Step.PARALLELISM), (15e9, Step.DONE)])
def test_one_thread_at_its_bandwidth_is_done_if_the_machine_is(read, step):
    two = dataclasses.replace(SIXTEEN, ceilings=(ceiling("DRAM", "read", read),))
    runs = streams(14.9e9, 14.9e9, **FAST)
    m = measured(dataclasses.replace(runs[0], threads=1), *runs[1:4], cores=2)
    first, _, bound, _ = next(proposals(m, two))
    assert first is step
    assert bound == pytest.approx(read / 14.9e9 if step is Step.PARALLELISM else 1.0)


# --- Runs and records ----------------------------------------------------------------------------


def test_sweeps_store_experiments_of_cpu_variants(tmp_path):
    a = np.random.default_rng(0).random((512, 512))
    before = _core.isa(), _core.max_threads()
    found = ado.sweep(
        ado.transpose, a, device="cpu", variants=["naive_loops", "simd"], cache="warm",
        seconds=20, precision=0.5, ceilings=False, progress=False,
    )  # fmt: skip
    assert (_core.isa(), _core.max_threads()) == before
    for m in found.variants:
        assert m.experiments.given.size == GIVEN
        assert m.experiments.given.threads == _core.max_threads()
        sizes = {r.size: r.footprint for r in m.experiments.runs}
        assert sizes["L1"] < sizes[GIVEN] == 2 * a.nbytes
        assert all(r.time > 0 and r.work > 0 for r in m.experiments.runs)
        lower = [r.isa for r in m.experiments.runs if r.size == "L1" and r.isa != before[0]]
        assert bool(lower) == (before[0] != "baseline")
    found.save(tmp_path / "sweep.json")
    assert ado.load(tmp_path / "sweep.json") == found
    assert ado.diagnose(found)[0].limiter == found.variants[0].limiter


def test_experiments_can_be_skipped():
    a = np.ones((64, 64))
    for limiter in (False, None):
        found = ado.sweep(
            ado.transpose, a, device="cpu", variants="simd", seconds=0.01, ceilings=False,
            limiter=limiter, progress=False,
        )  # fmt: skip
        assert (found["simd"].experiments is None) == (limiter is False)
    with pytest.raises(TypeError, match="limiter must be a bool"):
        ado.sweep(ado.transpose, a, device="cpu", limiter="yes")


@pytest.mark.cuda
def test_experiments_are_for_the_cpu():
    with pytest.raises(ValueError, match=r"limiter needs device 'cpu', got 'cuda': ado\.what_if"):
        ado.sweep(ado.transpose, np.ones((64, 64)), device="emulator", limiter=True)


def test_functions_have_runs_of_several_sizes():
    add = ado.ladder("add", reference=lambda x, y: x + y, flops=lambda x, y: x.size)
    add.add(ado.variant(lambda x, y: x + y, name="numpy"))
    x = np.random.default_rng(0).random(200_000)
    found = ado.sweep(
        add, x, x, cache="warm", seconds=20, precision=0.5, ceilings=False, progress=False
    )
    tried = found["numpy"].experiments
    assert {r.isa for r in tried.runs} == {""}
    assert {r.threads for r in tried.runs} == {0}
    assert tried.given.processors > 0
    assert {"L1", SMALLEST, GIVEN} <= {r.size for r in tried.runs}


@pytest.mark.parametrize(
    ("sizes", "levels"),
    [((1, 1000, 600_000), {"L1": 1000}), ((1, 600_000), {}), ((1, 9, 20_000, 600_000), None)],
)
def test_a_problem_shows_one_level(sizes, levels, monkeypatch):
    caches = [(1, 32 * KIB, 1), (2, MIB, 1), (3, 64 * MIB, 1)]
    monkeypatch.setattr(_core, "caches", lambda: caches)
    problems = [(np.ones(n), np.ones(n)) for n in sizes]
    add = ado.ladder("add", reference=np.add, problems=lambda: problems)
    add.add(ado.variant(np.add, name="numpy"))
    tried = CpuExperiments(add.problem(*problems[-1]), "cold", None)
    found = {level: len(p.host_arguments[0]) for level, p in tried._inside.items()}
    assert found == ({"L1": 9, "L2": 20_000} if levels is None else levels)


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_the_smallest_problem_is_timed_in_the_state_of_the_other_runs(cache):
    problem = ado.transpose.problem(np.ones((2048, 2048)), device="cpu")
    given = {"size": GIVEN, "cache": cache, "isa": "baseline", "threads": 2}
    plan = [p.keywords for p in CpuExperiments(problem, cache, None)._plan("simd", given)]
    smallest = {p.get("cache", cache) for p in plan if p.get("size") == SMALLEST}
    others = {p["cache"] for p in plan if p.get("size", GIVEN) not in (GIVEN, SMALLEST)}
    assert others == {"warm"}
    assert smallest == {cache, "warm"}


@pytest.mark.parametrize("routine", ado.routines.values(), ids=lambda r: r.name)
def test_scaled_problems_fit_and_can_be_solved(routine):
    problem = routine.problem(*routine.task.random_operands(), device="cpu")
    for target in (24 * KIB, 512 * KIB):
        smaller = scaled(problem, target)
        if smaller is None or footprint_of(smaller) > 2 * target:
            assert footprint_of(problem) <= 2 * target
    smallest = scaled(problem, 0.0)
    assert footprint_of(smallest) < 100 * KIB
    smallest.prepare(smallest.best()).run()
