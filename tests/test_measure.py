"""The measuring core: statistics, protocol, records. No test depends on measured times."""

import dataclasses
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from charting import make_transpose
from conftest import run_seed
from hypothesis import given
from hypothesis import strategies as st

import adokernels as ado
from adokernels import _core
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sampler, Timing
from adokernels.model import tasks
from adokernels.model.task import Task
from adokernels.records import statistics
from adokernels.records.inputs import Inputs
from adokernels.records.statistics import Verdict

DATA = Path(__file__).parent.parent / "notebooks" / "data"
A = np.random.default_rng(run_seed()).random((64, 48))
QUICK = {"seconds": 0.02, "progress": False}
SILENT = ProgressDisplay(enabled=False)


# --- Order statistics -----------------------------------------------------------------------------


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60))
def test_interval_holds_the_median(samples):
    low, high = statistics.median_interval(samples)
    assert min(samples) <= low <= np.median(samples) <= high <= max(samples)


#: The same noise in each run: a statement about other noise would be wrong with some probability.
#: benchmarks/verdicts.py counts wrong verdicts on real times.
@pytest.fixture
def noise():
    return np.random.default_rng(1)


def bursts(rng, n):
    """Realistic timing noise: skewed, with drift and with bursts of other load."""
    drift = 1 + 0.03 * np.sin(np.linspace(0, rng.uniform(1, 20), n) + rng.uniform(0, 6))
    load = 1 + 0.3 * (np.convolve(rng.random(n) < 0.02, np.ones(8))[:n] > 0)
    return drift * load


def decided(ours, theirs, *, paired):
    ratio = statistics.ratio_of_medians(ours, theirs)
    return statistics.compare(ours, theirs, ratio, paired=paired)


def test_equal_code_is_never_faster_or_slower(noise):
    """Paired comparisons never find a difference; unpaired comparisons rarely do."""
    wrong = 0
    for _ in range(400):
        n = int(noise.integers(5, 300))
        common = bursts(noise, n)
        ours, theirs = (common * (1 + noise.exponential(0.02, n)) for _ in range(2))
        assert decided(ours, theirs, paired=True)[0] in (Verdict.SAME, Verdict.UNCLEAR)
        verdict = decided(ours, bursts(noise, n), paired=False)[0]
        wrong += verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert wrong <= 2  # of 400


def test_three_percent_more_work_is_seen(noise):
    seen = 0
    for _ in range(100):
        common = bursts(noise, 100)
        ours = common * (1 + noise.exponential(0.01, 100))
        theirs = 1.03 * common * (1 + noise.exponential(0.01, 100))
        verdict, (low, high) = decided(ours, theirs, paired=True)
        seen += verdict is Verdict.FASTER
        assert low - 0.01 < 1.03 < high + 0.01
        assert decided(theirs, ours, paired=True)[0] in (Verdict.SLOWER, Verdict.UNCLEAR)
    assert seen >= 90


def test_half_a_percent_is_the_same_time(noise):
    """The interval excludes equal times, but the difference is too small to matter."""
    common = bursts(noise, 100)
    ours, theirs = (common * ratio * (1 + 1e-4 * noise.random(100)) for ratio in (1, 1.005))
    for pair in ((ours, theirs), (theirs, ours)):
        verdict, interval = decided(*pair, paired=True)
        assert not interval[0] <= 1 <= interval[1]
        assert verdict is Verdict.SAME


def test_few_samples_decide_nothing():
    for paired in (False, True):
        for count in (1, 2, 10):
            for ratio in (1.0, 1.2, 1.9):
                found = decided([1.0] * count, [ratio] * count, paired=paired)
                assert found == (Verdict.UNCLEAR, (ratio, ratio))
        assert decided([1.0] * 11, [1.2] * 11, paired=paired)[0] is Verdict.FASTER
        assert decided([1.0] * 11, [1.0] * 11, paired=paired)[0] is Verdict.SAME


def coverage(n, z):
    """The probability that the interval of n independent samples contains the true median."""
    ranks = np.arange(1.0, n + 1)
    low, high = statistics.median_interval(ranks, z)
    # The number of samples below the median has a binomial distribution.
    return sum(math.comb(n, k) for k in range(int(low), int(high))) / 2**n


@pytest.mark.parametrize(("z", "level"), [(statistics.Z95, 0.95), (statistics.Z999, 0.999)])
def test_intervals_from_11_samples_have_their_level(z, level):
    assert statistics.FEWEST_SAMPLES == 11
    assert all(coverage(n, z) >= level for n in range(11, 300))
    assert coverage(5, z) == 0.9375  # the range
    assert all(coverage(n, statistics.Z999) < 0.999 for n in range(1, 11))


def test_every_ratio_is_the_ratio_of_the_times_of_the_table():
    sweep = make_transpose()
    drift = np.linspace(1, 3, 41)
    ms = [
        dataclasses.replace(m, samples=seconds * drift**power, session="one")
        for m, (seconds, power) in zip(
            sweep.measurements[1:4], [(8.0, 1.0), (4.0, 1.0), (2.0, 1.5)], strict=True
        )
    ]
    first, second, third = ms
    total = third.speedup_over(first)
    assert total == first.seconds / third.seconds
    found = third.compare(first)
    assert found.ratio == total
    assert found.interval[0] <= np.median(first.samples / third.samples) <= found.interval[1]
    assert second.speedup_over(first) * third.speedup_over(second) == pytest.approx(total)
    assert first.speedup_over(first) == 1.0
    other = dataclasses.replace(third, session="two", samples=third.samples[::-1] ** 2)
    assert other.speedup_over(first) == other.compare(first).ratio
    assert other.speedup_over(first) == first.seconds / other.seconds


# --- The protocol ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_sweep_measures_every_variant(cache):
    sweep = ado.sweep(ado.transpose, A, device="cpu", cache=cache, **QUICK)
    ladder = [v for v in ado.transpose if v.device == "cpu"]
    assert [m.variant for m in sweep] == [v.name for v in ladder]
    assert not sweep.skipped
    assert sweep.machine.device == "cpu"
    assert {m.session for m in sweep} == {sweep.measurements[0].session}
    for m, v in zip(sweep, ladder, strict=True):
        assert m.cache == cache
        assert (m.ceiling, m.changes) == (v.ceiling, v.changes)
        assert m.error == (None if v.ceiling else 0.0)
        assert m.bytes == 2 * A.nbytes
        assert len(m.samples) >= 5
        assert (m.samples > 0).all()
        assert m.stopped in ("converged", "time", "count")
        assert m.context["threads"] == _core.max_threads()


def test_a_wrong_variant_is_named_and_not_timed(monkeypatch):
    right = tasks.TASKS["transpose"]

    def wrong(a):
        expected = right.expected(a)
        expected[0, 0] += 1
        return expected

    monkeypatch.setitem(tasks.TASKS, "transpose", Task(wrong))
    sweep = ado.sweep(ado.transpose, A, device="cpu", ceilings=False, **QUICK)
    assert not sweep.variants
    assert set(sweep.skipped) == {v.name for v in ado.transpose if v.device == "cpu"} - {
        m.variant for m in sweep
    }
    assert (
        "1 of 3072 elements is out of tolerance: the worst at [0, 0] is"
        in sweep.skipped["naive_loops"]
    )
    with pytest.raises(ValueError, match="wrong result"):
        ado.measure(ado.transpose["naive_loops"], A, seconds=0.01)


def test_a_built_in_variant_that_writes_nothing_is_wrong(monkeypatch):
    """Its check must not find the results of the variant that was checked before it."""
    run = _core.Call.run
    monkeypatch.setattr(
        _core.Call, "run", lambda call: None if call.variant == "simd" else run(call)
    )
    names = ["naive_loops", "simd"]
    sweep = ado.sweep(ado.transpose, A, device="cpu", variants=names, ceilings=False, **QUICK)
    assert [m.variant for m in sweep] == ["naive_loops"]
    assert "wrong result" in sweep.skipped["simd"]


def test_variants_are_sampled_in_changing_order():
    order = []
    samplers = {}
    for name in "abc":

        def take(repeats, name=name):
            order.append(name)
            return 1.0, 0.0, True, -1.0

        samplers[name] = Sampler(take=take, device="cpu", spent=0.0)
        samplers[name].warm_up = lambda warm, limit: None
    Timing("cold", 1e-9, 1e9).sample(list(samplers.values()), "cpu", SILENT)
    rounds = ["".join(order[i : i + 3]) for i in range(0, len(order), 3)]
    assert all(set(r) == set("abc") for r in rounds)
    assert len(set(rounds)) > 1
    assert all(len(s.seconds) == 30 and s.stopped == "converged" for s in samplers.values())


def sampler_of(times):
    times = iter(times)
    return Sampler(take=lambda repeats: (next(times), 0.0, True, -1.0), device="cpu")


def test_sampling_goes_on_while_it_is_noisy(noise):
    noisy = sampler_of(noise.uniform(1, 2, 5000))
    while not noisy.stopped:
        noisy.sample(precision=0.001, budget=1e9)
    assert (noisy.stopped, len(noisy.seconds)) == ("count", 2000)


def test_sampling_stops_when_the_time_is_up():
    for spent, count in ((3.1, 11), (11.9, 11), (13.0, 5)):
        slow = sampler_of([1.0] * 100)
        slow.spent = spent
        while not slow.stopped:
            slow.sample(precision=0.01, budget=3.0)
        assert (slow.stopped, len(slow.seconds)) == ("time", count)


def test_warm_samples_are_long_enough_to_time():
    quick = Sampler(take=lambda repeats: (1e-5, 0.0, True, -1.0), device="cpu")
    quick.warm_up(warm=True)
    assert quick.calls == 100
    quick.warm_up(warm=False)
    assert quick.calls == 100  # chosen once; cold samples are single calls and do not use it


def test_peers_are_timed_in_the_same_rounds():
    sweep = ado.sweep(
        ado.transpose, A, device="cpu", peers={"numpy": A.T.copy}, ceilings=False, **QUICK
    )
    (numpy,) = sweep.peers
    assert sweep["numpy"] is numpy
    assert numpy.session == sweep.measurements[0].session
    assert numpy.bytes == 2 * A.nbytes
    assert "numpy" not in [m.variant for m in sweep.variants]
    assert "numpy" in repr(sweep)


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_caches_are_in_the_same_state_for_variants_stages_and_peers(cache, monkeypatch):
    cold, sample = set(), _core.sample

    def recorded(*arguments):
        cold.update(value for value in arguments if isinstance(value, bool))
        return sample(*arguments)

    monkeypatch.setattr(_core, "sample", recorded)
    monkeypatch.setattr(Sampler, "warm_up", lambda sampler, **_: None)  # never evicts them
    image = np.zeros((30, 40, 3), np.uint8)
    peers = {"peer": lambda: None}
    sweep = ado.sweep(
        ado.edge_detect,
        image,
        device="cpu",
        cache=cache,
        peers=peers,
        ceilings=False,
        limiter=False,
        **QUICK,
    )
    assert sweep.stages
    assert {m.cache for m in (*sweep, *sweep.stages, *sweep.peers)} == {cache}
    assert cold == {cache == "cold"}


def test_low_clocks_are_flagged():
    sampler = sampler_of([])
    sampler.clocks = [1.98e9] * 80 + [1.2e9] * 20
    assert sampler.flags(1.98e9) == ("throttled",)
    sampler.clocks = [1.98e9] * 100
    assert sampler.flags(1.98e9) == ()
    assert sampler.flags(2.6e9) == ("throttled",)  # in all samples, unlike another variant
    sampler.blocked = False
    assert sampler.flags(1.98e9) == ("launch overhead included",)
    sampler.blocked, sampler.device, sampler.seconds = True, "cuda", [8e-6] * 9
    assert sampler.flags(1.98e9) == ("near the clock's resolution",)
    sampler.calls = 20
    assert sampler.flags(1.98e9) == ()


def test_callables_of_anybody():
    calls = []
    m = ado.measure(lambda x, y=0: calls.append((x, y)), A, y=2, flops=10, bytes=20, seconds=0.02)
    assert calls[0][1] == 2
    assert len(calls) > len(m.samples)  # warm-up
    assert (m.flops, m.bytes, m.executed_flops, m.requested_bytes) == (10, 20, 10, 20)
    assert m.intensity == 0.5
    assert m.problem == Inputs.of([("", (64, 48), "float64")])


def test_problems_that_differ_are_not_compared():
    small, large = (
        ado.measure(ado.transpose["naive_loops"], np.zeros(shape), seconds=0.01)
        for shape in [(8, 8), (64, 64)]
    )
    with pytest.raises(ValueError, match=r"a: \(8, 8\) float64 with a: \(64, 64\)"):
        small.compare(large)


def test_names_that_clash_or_do_not_exist():
    with pytest.raises(ValueError, match="peers must not have names of variants, got simd"):
        ado.sweep(ado.transpose, A, device="cpu", peers={"simd": A.T.copy}, **QUICK)
    with pytest.raises(KeyError, match="must name variants to measure, got 'padedd'"):
        ado.sweep(ado.transpose, A, device="cpu", blocks={"padedd": (32, 32)}, **QUICK)
    with pytest.raises(ValueError, match=r"simd runs on cpu.*cuda"):
        ado.sweep(ado.transpose, A, device="cuda", variants=["simd"], **QUICK)


def test_converged_samplers_stay_active_until_all_have_converged(noise):
    steady = Sampler(take=lambda repeats: (1.0, 0.0, True, -1.0), device="cpu")
    times = noise.uniform(1, 3, 5000)  # not an iterator: the warm-up takes any number of samples
    noisy = Sampler(take=lambda repeats: (times[len(noisy.seconds)], 0.0, True, -1.0), device="cpu")
    Timing("cold", 0.05, 1e9).sample([steady, noisy], "cpu", SILENT)
    assert (steady.error, noisy.error) == (None, None)
    assert steady.stopped == noisy.stopped == "converged"
    assert len(steady.seconds) == len(noisy.seconds) > 30


def test_long_queues_are_measured_in_shorter_samples():
    sampler = Sampler(take=lambda repeats: (1e-7, 1.9e9, repeats <= 50), device="cuda")
    sampler.warm_up(warm=True)
    assert sampler.calls == 32  # 256, halved until the host stayed ahead


def test_known_keywords_include_options_and_operands():
    gray = np.zeros((9, 9), np.uint8)
    with pytest.raises(TypeError, match=r"'bordr': did you mean 'border'.*seconds"):
        ado.sweep(ado.gaussian_blur, gray, bordr="zero")
    with pytest.raises(TypeError, match=r"'variant': did you mean 'variants'"):
        ado.sweep(ado.gaussian_blur, gray, variant="simd")
    named = {"gray": gray, "border": "replicate", "variants": "simd", "ceilings": False}
    assert len(ado.sweep(ado.gaussian_blur, **named, **QUICK)) == 1


@pytest.mark.parametrize("bad", [-1, np.nan, np.inf])
def test_budgets_that_mean_nothing(bad):
    with pytest.raises(ValueError, match="seconds must be a finite number of at least 0"):
        ado.measure(ado.transpose, A, seconds=bad)
    with pytest.raises(ValueError, match="seconds must be a finite number of at least 0"):
        ado.sweep(ado.transpose, A, seconds=bad)


@pytest.mark.parametrize("bad", [-0.01, 1, 2, np.nan, np.inf])
def test_precision_is_a_fraction(bad):
    words = "precision must be at least 0 and less than 1, got .*: .* precision=0.01 for 1 %"
    for call in (ado.measure, ado.sweep):
        with pytest.raises(ValueError, match=words):
            call(ado.transpose, A, precision=bad)
    with pytest.raises(ValueError, match=words):
        ado.compare(np.sort, np.sort, A, precision=bad)


def test_cold_and_warm_are_not_compared(eviction):
    cold = ado.measure(ado.transpose["naive_loops"], A, seconds=0.01)
    warm = ado.measure(ado.transpose["naive_loops"], A, cache="warm", seconds=0.01)
    with pytest.raises(ValueError, match="cannot compare a cold with a warm"):
        cold.compare(warm)


# --- The machine ----------------------------------------------------------------------------------


def test_machine_is_measured_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("ADOKERNELS_CACHE", str(tmp_path / "new"))
    first = ado.machine("cpu")
    assert ado.machine("cpu") == first
    assert len(list((tmp_path / "new").iterdir())) == 1
    names = {c.name for c in first.ceilings} | first.refused.keys()
    assert names >= {"DRAM copy", "DRAM read", "DRAM write", "FP64 fma", "FP64 add", "FP32 fma"}
    assert all(c.measured > 0 for c in first.ceilings)
    with pytest.raises(KeyError, match=r"[Vv]alid names: DRAM copy"):
        first["DRAM swap"]


# --- Records --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sweep():
    return ado.sweep(ado.transpose, A, device="cpu", **QUICK)


def test_records_survive_a_file(sweep, tmp_path):
    for record in (sweep, sweep.machine, sweep.measurements[0]):
        path = tmp_path / "record.json"
        record.save(path)
        assert json.loads(path.read_text())["schema"] == 2
        assert ado.load(path) == record


def test_sweep_is_indexed_by_variant(sweep):
    assert sweep["simd"].variant == "simd"
    assert sweep.fastest in sweep.variants
    with pytest.raises(KeyError, match=r"'sind' was not measured: did you mean 'simd'\?"):
        sweep["sind"]


def test_frames(sweep, monkeypatch):
    frame = sweep.to_frame()
    assert list(frame.index) == [m.variant for m in sweep]
    assert frame.loc["simd", "seconds"] == sweep["simd"].seconds
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas; remedy: pip install 'pandas>=2'"):
        sweep.to_frame()


def test_stored_problems_are_data(tmp_path):
    """Operands and options are unchanged after loading, and compare equal."""
    gray = np.zeros((3, 20, 30), np.uint8)
    how = {"border": "replicate", "taps": [1] * 7, "device": "cpu", "seconds": 0}
    m = ado.measure(ado.gaussian_blur, gray, **how)
    assert m.problem.operands == (("gray", (3, 20, 30), "uint8"),)
    assert m.problem.options == {"border": "replicate", "taps": (1,) * 7}
    assert (
        str(m.problem) == "gray: (3, 20, 30) uint8, border='replicate', taps=(1, 1, 1, 1, 1, 1, 1)"
    )
    m.save(tmp_path / "m.json")
    stored = json.loads((tmp_path / "m.json").read_text())["problem"]
    assert stored["operands"] == [["gray", [3, 20, 30], "uint8"]]
    assert stored["options"] == {"border": "replicate", "taps": [1] * 7}
    loaded = ado.load(tmp_path / "m.json")
    assert loaded.problem == m.problem
    assert loaded.compare(m)[0] in set(Verdict)
    other = ado.measure(ado.gaussian_blur, gray, **{**how, "border": "constant"})
    with pytest.raises(ValueError, match="cannot compare"):
        other.compare(m)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json.xz")), ids=lambda p: p.name)
def test_published_files_load(path):
    loaded = ado.load(path)
    assert all(m.problem.operands for m in loaded)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("not json", "is not JSON"),
        ("[1]", "is not an adokernels record"),
        ('{"kind": "soup"}', "is not an adokernels record"),
        ('{"kind": "sweep", "schema": 99}', "has schema 99; this version reads schema 2"),
        ('{"kind": "sweep", "schema": 0}', "has schema 0"),
        ('{"kind": "sweep", "schema": true}', "has schema True"),
        ('{"kind": "sweep"}', "has schema None"),
        ('{"kind": "sweep", "schema": 1}', "has schema 1"),
        ('{"kind": "sweep", "schema": 2}', r"x\.json: routine is missing"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_foreign_files_are_refused(text, why, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=why):
        ado.load(path)


@pytest.mark.gpu
class TestOnTheGpu:
    def test_sweep(self):
        a = np.random.default_rng(0).random((2048, 2048), dtype=np.float32)
        for operand in (a, ado.to_device(a)):
            sweep = ado.sweep(ado.transpose, operand, device="cuda", seconds=0.2, progress=False)
            assert set(sweep.skipped) == {"as_copy", "few_columns", "few_rows", "in_place"}
            for m in sweep:
                assert m.block == ado.transpose[m.variant].blocks[0] or m.ceiling
                assert len(m.clocks) > 0
                assert 0.2e9 < m.clock < 4e9
                assert "launch overhead included" not in m.flags

    def test_machine(self):
        machine = ado.machine("cuda")
        assert all(ceiling.measured > 0 for ceiling in machine.ceilings)
        names = {c.name for c in machine.ceilings} | machine.refused.keys()
        assert {"DRAM copy", "L2 read", "FP64 fma", "FP64 tensor mma"} <= names
        ways = ("to device", "to host", "both ways")
        assert names >= {f"host link {m} {way}" for m in ("pageable", "pinned") for way in ways}
