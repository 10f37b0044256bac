"""The measuring core: statistics, protocol, records. No test depends on how fast anything is."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adokernels as ado
from adokernels import _core, _measure, _stats, oracles
from adokernels._stats import Verdict

A = np.random.default_rng(0).random((64, 48))
QUICK = {"seconds": 0.02, "progress": False}


# --- Order statistics -----------------------------------------------------------------------------


def test_interval_by_hand():
    # n = 100: ranks floor((100 - 19.6) / 2) = 40 and ceil(1 + (100 + 19.6) / 2) = 61, from 1
    assert _stats.median_interval(np.arange(1.0, 101.0)) == (40.0, 61.0)


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60))
def test_interval_holds_the_median(samples):
    low, high = _stats.median_interval(samples)
    assert min(samples) <= low <= np.median(samples) <= high <= max(samples)


def test_interval_covers_the_true_median():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(500):
        low, high = _stats.median_interval(rng.lognormal(0, 0.3, 51))
        hits += low <= 1.0 <= high
    assert hits >= 0.92 * 500  # the nominal 95 %, less three standard errors


def bursts(rng, n):
    """Timing noise as it is: skewed, drifting, with bursts from the neighbours."""
    drift = 1 + 0.03 * np.sin(np.linspace(0, rng.uniform(1, 20), n) + rng.uniform(0, 6))
    load = 1 + 0.3 * (np.convolve(rng.random(n) < 0.02, np.ones(8))[:n] > 0)
    return drift * load


def test_a_against_a_never_fools():
    rng = np.random.default_rng(2)
    for _ in range(400):
        n = int(rng.integers(5, 300))
        common = bursts(rng, n)
        ours, theirs = (common * (1 + rng.exponential(0.02, n)) for _ in range(2))
        verdict, _, _ = _stats.compare(ours, theirs, paired=True)
        assert verdict in (Verdict.SAME, Verdict.UNCLEAR)
        verdict, _, _ = _stats.compare(ours, bursts(rng, n), paired=False)
        assert verdict in (Verdict.SAME, Verdict.UNCLEAR)


def test_three_percent_more_work_is_seen():
    rng = np.random.default_rng(3)
    seen = 0
    for _ in range(100):
        common = bursts(rng, 100)
        ours = common * (1 + rng.exponential(0.01, 100))
        theirs = 1.03 * common * (1 + rng.exponential(0.01, 100))
        verdict, ratio, _ = _stats.compare(ours, theirs, paired=True)
        seen += verdict is Verdict.FASTER
        assert ratio == pytest.approx(1.03, abs=0.01)
        assert _stats.compare(theirs, ours, paired=True)[0] in (Verdict.SLOWER, Verdict.UNCLEAR)
    assert seen >= 90


def test_few_samples_decide_nothing():
    for paired in (False, True):
        assert _stats.compare([1.0] * 10, [1.2] * 10, paired=paired)[0] is Verdict.UNCLEAR
        assert _stats.compare([1.0] * 10, [1.0] * 10, paired=paired)[0] is Verdict.UNCLEAR
        assert _stats.compare([1.0] * 10, [9.0] * 10, paired=paired)[0] is Verdict.FASTER
        assert _stats.compare([1.0] * 11, [1.2] * 11, paired=paired)[0] is Verdict.FASTER


# --- The protocol ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_sweep_measures_every_rung(cache):
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


def test_a_wrong_rung_is_named_and_not_timed(monkeypatch):
    right = oracles.ORACLES["transpose"]

    def wrong(a):
        expected = right.expected(a)
        expected[0, 0] += 1
        return expected

    monkeypatch.setitem(oracles.ORACLES, "transpose", oracles.Oracle(wrong))
    sweep = ado.sweep(ado.transpose, A, device="cpu", ceilings=False, **QUICK)
    assert not sweep.rungs
    assert set(sweep.skipped) == {v.name for v in ado.transpose if v.device == "cpu"} - {
        m.variant for m in sweep
    }
    assert "the first at (0, 0)" in sweep.skipped["textbook"]
    with pytest.raises(ValueError, match="wrong result"):
        ado.measure(ado.transpose["textbook"], A, seconds=0.01)


def test_every_rung_of_a_round_is_sampled_in_changing_order():
    order = []
    subjects = {}
    for name in "abc":

        def take(repeats, name=name):
            order.append(name)
            return 1.0, 0.0, True

        subjects[name] = _measure._Subject(take=take, device="cpu", spent=0.0)
        subjects[name].warm_up = lambda warm: None
    _measure._sample_interleaved(
        list(subjects.values()), warm=False, precision=1e-9, budget=1e9, progress=False, title=""
    )
    rounds = ["".join(order[i : i + 3]) for i in range(0, len(order), 3)]
    assert all(set(r) == set("abc") for r in rounds)
    assert len(set(rounds)) > 1
    assert all(len(s.seconds) == 30 and s.stopped == "converged" for s in subjects.values())


def subject_of(times):
    times = iter(times)
    return _measure._Subject(take=lambda repeats: (next(times), 0.0, True), device="cpu")


def test_sampling_goes_on_while_it_is_noisy():
    rng = np.random.default_rng(4)
    noisy = subject_of(rng.uniform(1, 2, 5000))
    while not noisy.stopped:
        noisy.sample(precision=0.001, budget=1e9)
    assert (noisy.stopped, len(noisy.seconds)) == ("count", 2000)


def test_sampling_stops_when_the_time_is_up():
    slow = subject_of([1.0] * 100)
    slow.spent = 10.0
    while not slow.stopped:
        slow.sample(precision=0.01, budget=3.0)
    assert (slow.stopped, len(slow.seconds)) == ("time", 5)


def test_warm_samples_are_long_enough_to_time():
    quick = _measure._Subject(take=lambda repeats: (1e-5, 0.0, True), device="cpu")
    quick.warm_up(warm=True)
    assert quick.calls == 100
    quick.warm_up(warm=False)
    assert quick.calls == 100  # chosen once; a cold sample is one call and never asks


def test_peers_are_timed_in_the_same_rounds():
    sweep = ado.sweep(
        ado.transpose, A, device="cpu", peers={"numpy": A.T.copy}, ceilings=False, **QUICK
    )
    (numpy,) = sweep.peers
    assert sweep["numpy"] is numpy
    assert numpy.session == sweep.measurements[0].session
    assert numpy.bytes == 2 * A.nbytes
    assert "numpy" not in [m.variant for m in sweep.rungs]
    assert "numpy" in repr(sweep)


def test_low_clocks_are_flagged():
    subject = subject_of([])
    subject.clocks = [1.98e9] * 80 + [1.2e9] * 20
    assert subject.flags(1.98e9) == ("throttled",)
    subject.clocks = [1.98e9] * 100
    assert subject.flags(1.98e9) == ()
    assert subject.flags(2.6e9) == ("throttled",)  # all the time, beside a rung that was not
    subject.blocked = False
    assert subject.flags(1.98e9) == ("launch overhead included",)
    subject.blocked, subject.device, subject.seconds = True, "cuda", [8e-6] * 9
    assert subject.flags(1.98e9) == ("near the clock's resolution",)
    subject.calls = 20
    assert subject.flags(1.98e9) == ()


def test_callables_of_anybody():
    calls = []
    m = ado.measure(lambda x, y=0: calls.append((x, y)), A, y=2, flops=10, bytes=20, seconds=0.02)
    assert calls[0][1] == 2
    assert len(calls) > len(m.samples)  # warm-up
    assert (m.flops, m.bytes, m.executed_flops, m.requested_bytes) == (10, 20, 10, 20)
    assert m.intensity == 0.5
    assert m.problem == "(64, 48) float64"


def test_a_failing_callable_raises_its_own_error():
    def fail():
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        ado.measure(fail)


def test_problems_that_differ_are_not_compared():
    small, large = (
        ado.measure(ado.transpose["textbook"], np.zeros(shape), seconds=0.01)
        for shape in [(8, 8), (64, 64)]
    )
    with pytest.raises(ValueError, match=r"cannot compare a: \(8, 8\) float64 with a: \(64, 64\)"):
        small.compare(large)


def test_names_that_clash_or_do_not_exist():
    with pytest.raises(ValueError, match="a peer has the name of a variant: simd"):
        ado.sweep(ado.transpose, A, device="cpu", peers={"simd": A.T.copy}, **QUICK)
    with pytest.raises(KeyError, match="blocks names 'padedd'"):
        ado.sweep(ado.transpose, A, device="cpu", blocks={"padedd": (32, 32)}, **QUICK)
    with pytest.raises(ValueError, match="disagree: cpu and cuda"):
        ado.sweep(ado.transpose, A, device="cuda", variants=["simd"], **QUICK)


def test_who_has_stopped_keeps_the_others_company():
    steady = _measure._Subject(take=lambda repeats: (1.0, 0.0, True), device="cpu")
    noise = np.random.default_rng(0).uniform(1, 3, 5000)
    noisy = _measure._Subject(
        take=lambda repeats: (noise[len(noisy.seconds)], 0.0, True), device="cpu"
    )
    how = {"warm": False, "precision": 0.05, "budget": 10.0, "progress": False, "title": ""}
    _measure._sample_interleaved([steady, noisy], **how)
    assert steady.stopped == noisy.stopped == "converged"
    assert len(steady.seconds) == len(noisy.seconds) > 30


def test_long_queues_are_measured_in_shorter_samples():
    subject = _measure._Subject(take=lambda repeats: (1e-7, 1.9e9, repeats <= 50), device="cuda")
    subject.warm_up(warm=True)
    assert subject.calls == 32  # 256, halved until the host kept ahead


@pytest.mark.parametrize("bad", [{"seconds": -1}, {"seconds": np.nan}, {"precision": np.inf}])
def test_budgets_that_mean_nothing(bad):
    with pytest.raises(ValueError, match="must be a finite number of at least 0"):
        ado.measure(ado.transpose, A, **bad)
    with pytest.raises(ValueError, match="must be a finite number of at least 0"):
        ado.sweep(ado.transpose, A, **bad)


def test_cold_and_warm_are_not_compared():
    cold = ado.measure(ado.transpose["textbook"], A, seconds=0.01)
    warm = ado.measure(ado.transpose["textbook"], A, cache="warm", seconds=0.01)
    with pytest.raises(ValueError, match="cannot compare a cold with a warm"):
        cold.compare(warm)


# --- The machine ----------------------------------------------------------------------------------


def test_machine_is_measured_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("ADOKERNELS_CACHE", str(tmp_path / "new"))
    first = ado.machine("cpu")
    assert ado.machine("cpu") == first
    (file,) = (tmp_path / "new").iterdir()
    file.write_text("{}", encoding="utf-8")
    again = ado.machine("cpu")  # a damaged cache is measured anew
    assert [c.name for c in again.ceilings] == [c.name for c in first.ceilings]
    names = [c.name for c in first.ceilings]
    assert names[:3] == ["DRAM copy", "DRAM read", "DRAM write"]
    assert {"FP64 fma", "FP64 add", "FP32 fma", "FP32 add"} <= set(names)
    assert all(c.measured > 0 for c in first.ceilings)
    with pytest.raises(KeyError, match="there is DRAM copy"):
        first["DRAM swap"]


def test_probe_counts_what_it_does():
    probe = next(r for r in _core.routines() if r.name == "ceilings")
    src = np.zeros(1 << 16)
    for row in probe.variants:
        if row.device != "cpu":
            continue
        one, three = (probe.cost(row.name, (src,), {"passes": n}) for n in (1, 3))
        if row.name == "read":
            assert three.requested_bytes == 3 * one.requested_bytes
            assert 0.95 * src.nbytes < one.requested_bytes <= src.nbytes  # whole vectors only
        elif "fp" in row.name:
            assert one.requested_bytes == 0
            assert three.executed_flops == 3 * one.executed_flops > 0
            fused = probe.cost(row.name.replace("add", "fma"), (src,), {"passes": 1})
            assert fused.executed_flops >= one.executed_flops


def test_options_are_checked():
    probe = next(r for r in _core.routines() if r.name == "ceilings")
    with pytest.raises(TypeError, match="passes must be int, got"):
        probe.cost("read", (A[0],), {"passes": "three"})


@pytest.mark.parametrize("peers", [{3: len}, {"a": 1}])
def test_peers_are_checked_before_timing(peers):
    with pytest.raises(TypeError, match="peers maps names to functions"):
        ado.sweep(ado.transpose, A, device="cpu", peers=peers, **QUICK)


def test_nothing_to_measure():
    with pytest.raises(ValueError, match="nothing to measure"):
        ado.sweep(ado.transpose, A, variants=[], **QUICK)


def test_a_variant_takes_no_variant():
    with pytest.raises(TypeError, match=r"transpose\['simd'\] is a variant"):
        ado.transpose["simd"](A, variant="textbook")


# --- Records --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADOKERNELS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        return ado.sweep(ado.transpose, A, device="cpu", **QUICK)


def test_records_survive_a_file(sweep, tmp_path):
    for record in (sweep, sweep.machine, sweep.measurements[0]):
        path = tmp_path / "record.json"
        record.save(path)
        assert json.loads(path.read_text())["schema"] == 1
        assert ado.load(path).to_dict() == record.to_dict()


def test_sweep_is_indexed_by_variant(sweep):
    assert sweep["simd"].variant == "simd"
    assert sweep.fastest in sweep.rungs
    with pytest.raises(KeyError, match="'sind' was not measured; there is"):
        sweep["sind"]


def test_frames(sweep):
    frame = sweep.to_frame()
    assert list(frame.index) == [m.variant for m in sweep]
    assert frame.loc["simd", "seconds"] == sweep["simd"].seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("not json", "is not JSON"),
        ("[1]", "holds no adokernels record"),
        ('{"kind": "soup"}', "holds no adokernels record"),
        ('{"kind": "sweep", "schema": 99}', "has schema 99; this version reads schema 1"),
        ('{"kind": "sweep", "schema": 1}', "is damaged: KeyError"),
        ('{"kind": []}', "holds no adokernels record"),
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
            assert not sweep.skipped
            for m in sweep:
                assert m.block == ado.transpose[m.variant].blocks[0] or m.ceiling
                assert len(m.clocks) > 0
                assert 0.2e9 < m.clock < 4e9
                assert "launch overhead included" not in m.flags

    def test_cold_is_not_warm(self):
        a = ado.to_device(np.random.default_rng(0).random((1024, 1024), dtype=np.float32))
        cold, warm = (
            ado.measure(ado.transpose, a, cache=cache, seconds=0.3) for cache in ("cold", "warm")
        )
        assert cold.cache != warm.cache
        assert warm.calls_per_sample > 1 == cold.calls_per_sample

    def test_callable_on_the_current_stream(self):
        cupy = pytest.importorskip("cupy")
        x = cupy.ones((4096, 4096), dtype="f4")
        nbytes = 2 * x.nbytes
        default = ado.measure(x.copy, device="cuda", bytes=nbytes, seconds=0.3)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            current = ado.measure(x.copy, device="cuda", bytes=nbytes, seconds=0.3)
            named = ado.measure(x.copy, device="cuda", bytes=nbytes, stream=stream, seconds=0.3)
        # A copy cannot be quicker than memory allows: a wrong stream would time nothing.
        for m in (default, current, named):
            assert m.bytes_per_second < 1.1 * ado.machine("cuda").roof

    def test_a_callable_that_waits_for_the_device_is_flagged(self):
        m = ado.measure(ado.synchronize, device="cuda", seconds=0.5)
        assert "launch overhead included" in m.flags

    def test_machine(self):
        machine = ado.machine("cuda")
        for ceiling in machine.ceilings:
            assert ceiling.measured > 0
            if ceiling.theoretical:
                assert ceiling.measured < 1.03 * ceiling.theoretical
