"""Verdicts on samples that other processes disturbed.

The series were recorded on two processors, with an earlier ``benchmarks/verdicts.py load`` that
stored samples. "burst" means that the busy processes ran only for a fifth of the run.
"""

import dataclasses
import itertools
import json
import math
import mmap
import os
from pathlib import Path

import numpy as np
import pytest
from charting import Lab
from conftest import run_python

import adokernels as ado
from adokernels import _core
from adokernels.measuring import context
from adokernels.measuring.context import Contention
from adokernels.measuring.sampling import Sampler
from adokernels.records.contention import TimedSeries, judge, stolen
from adokernels.records.measurement import NEW_PAGES
from adokernels.records.statistics import compare, ratio_of_medians
from adokernels.tables.measurements import verdict_notes
from adokernels.tour import summary

COPY = {"routine": "copy", "device": "cuda", "flops": 0, "bytes": 8}
COPY |= {"executed_flops": 0, "requested_bytes": 8}
LINES = (Path(__file__).parent / "data" / "contention.jsonl").read_text().splitlines()
RECORDED = {
    (row["pair"], row["threads"], row["load"]): row for row in map(json.loads, LINES)
}  # the variant and NumPy: "NumPy"; a call and two calls: "double"; a call and the same: "same"


def recorded(row):
    facts = {"threads": row["threads"], "contention": row["contention"]}
    return [
        TimedSeries(*(np.array(s[n]) for n in ("seconds", "waits")), facts=facts)
        for s in row["sides"]
    ]


@pytest.mark.parametrize("key", RECORDED, ids=lambda key: " ".join(map(str, key)))
def test_no_load_makes_a_verdict_wrong(key):
    found = judge(*recorded(RECORDED[key]), paired=True)
    possible = {"unclear", "same"} if key[0] == "same" else {"faster", "unclear"}
    assert found.verdict in possible
    assert found.verdict == "unclear" or not found.reason


@pytest.mark.parametrize(
    ("pair", "threads", "load"),
    [
        *(("double", half, load) for half in (1, 8) for load in (0, 1, "burst")),
        *(("double", all_, load) for all_ in (2, 16) for load in (0, "burst")),
        *(("NumPy", *case) for case in ((1, 0), (1, 1), (8, 0))),
    ],
)
def test_free_processors_permit_a_verdict(pair, threads, load):
    found = judge(*recorded(RECORDED[pair, threads, load]), paired=True)
    assert (found.verdict, found.reason) == ("faster", "")
    assert pair == "NumPy" or found.interval[0] < 2 < found.interval[1]


@pytest.mark.parametrize(
    ("threads", "load"), [(2, 1), (2, 2), (2, 4), (16, 1), (16, 16), (16, 32), (8, 16), (8, 32)]
)
def test_threads_without_processors_withhold_the_verdict(threads, load):
    ours, theirs = recorded(RECORDED["double", threads, load])
    found = judge(ours, theirs, paired=True)
    assert found.verdict == "unclear"
    assert "threads waited for a processor; other processes used" in found.reason
    assert f"of {min(len(ours.seconds), len(theirs.seconds))} rounds" in found.reason


def test_disturbed_rounds_do_not_count():
    """In half of the rounds, other processes make the faster function appear slower."""
    seconds = np.random.default_rng(1).normal(1e-3, 1e-5, 60)
    waits = np.where(np.arange(60) % 2, 4e-3, 0)
    ours, theirs = TimedSeries(seconds + waits, waits), TimedSeries(1.5 * seconds, 0 * waits)
    both = ours.seconds, theirs.seconds
    assert compare(*both, ratio_of_medians(*both), paired=True)[0] == "unclear"
    found = judge(ours, theirs, paired=True)
    assert (found.verdict, found.samples) == ("faster", 30)
    assert found.ratio == pytest.approx(1.5, rel=0.05)
    assert np.median(ours.usable) == pytest.approx(1e-3, rel=0.05)


def test_ten_undisturbed_rounds_are_enough():
    seconds = np.random.default_rng(1).normal(1e-3, 1e-5, 60)
    waits = np.where(np.arange(60) % 4, 4e-3, 0)  # a quarter is undisturbed
    ours, theirs = TimedSeries(seconds + waits, waits), TimedSeries(1.5 * seconds, 0 * waits)
    assert judge(ours, theirs, paired=True)[:1] == ("faster",)
    # The waits do not explain the times of the disturbed samples.
    unexplained = TimedSeries(seconds + 2 * waits, waits)
    found = judge(unexplained, theirs, paired=True)
    reason = "with the disturbed samples, the result is 'slower'"
    assert (found.verdict, found.reason) == ("unclear", reason)


@pytest.mark.parametrize("paired", [True, False])
def test_a_verdict_that_survives_the_worst_case_stands(paired):
    """All samples of one side waited; without its waits, it would still be slower."""
    fast, slow = np.full(12, 1e-3), np.full(12, 16e-3)
    for wait, verdict in ((10e-3, "faster"), (15.5e-3, "unclear")):
        found = judge(TimedSeries(fast), TimedSeries(slow, np.full(12, wait)), paired=paired)
        assert found.verdict == verdict
        assert bool(found.reason) is (verdict == "unclear")
    for wait, verdict in ((10e-3, "slower"), (15.5e-3, "unclear")):
        found = judge(TimedSeries(slow), TimedSeries(fast, np.full(12, wait)), paired=paired)
        assert found.verdict == verdict
    one = np.where(np.arange(11) == 3, 30e-3, 0.0)  # 1 of 11 rounds
    found = judge(TimedSeries(fast[:11] + one, one), TimedSeries(15.9 * fast[:11]), paired=paired)
    assert (found.verdict, found.ratio) == ("faster", pytest.approx(15.9))


@pytest.mark.parametrize(("ratio", "verdict"), [(443, "faster"), (2, "unclear")])
def test_a_large_ratio_survives_a_busy_machine(ratio, verdict):
    busy = {"waits": False, "processors": 2, "other_processes": 1.5}
    facts = {"threads": 2, "contention": busy}
    found = judge(
        TimedSeries(np.full(60, 1e-3), facts=facts),
        TimedSeries(np.full(60, ratio * 1e-3)),
        paired=True,
    )
    assert found.verdict == verdict
    words = "other processes left 0.5 processors to 2 threads"
    assert found.reason == ("" if verdict == "faster" else words)


@pytest.mark.parametrize("changed", [30, 95])
def test_a_lower_clock_of_the_gpu_disturbs_samples(changed):
    """One function depends on the clock, the other does not: at 0.6 GHz, their order changes."""
    n = 100
    slow = np.arange(n) >= n - changed
    clocks = np.where(slow, 0.6e9, 1.98e9)
    noise = np.random.default_rng(1).normal(1, 1e-3, (2, n))
    ours, theirs = np.where(slow, 3.3e-3, 1e-3) * noise[0], 2e-3 * noise[1]
    found = judge(
        TimedSeries(ours, clocks=clocks),
        TimedSeries(theirs, clocks=np.full(n, 1.98e9)),
        paired=True,
    )
    if changed == 30:
        assert (found.verdict, found.samples) == ("faster", 70)
    else:
        assert found.reason == "other work disturbed 95 of 100 rounds (lower clock of the GPU)"


def test_a_change_of_the_clock_of_the_cpu_cancels_in_the_rounds():
    """No clock is known on the CPU. Both functions take twice as long after half of the rounds."""
    clock = np.where(np.arange(60) < 30, 1.0, 2.0)
    noise = np.random.default_rng(1).normal(1, 5e-3, (2, 60))
    same = judge(*(TimedSeries(1e-3 * clock * side) for side in noise), paired=True)
    assert same.verdict in ("same", "unclear")
    twice = judge(
        *(TimedSeries(f * clock * side) for f, side in zip((1, 2), noise, strict=True)), paired=True
    )
    assert twice.verdict == "faster"


ACTIVE = "clocks_event_reasons.active"


@pytest.mark.parametrize(
    ("contention", "reason"),
    [
        *[({}, ""), ("hostile", "")],
        ({"waits": True, "processors": 4, "other_processes": 4.0}, ""),
        (
            {"waits": False, "processors": 4, "other_processes": 3.8},
            "other processes left 0.2 processors to 4 threads",
        ),
        ({"waits": False, "processors": 8, "other_processes": 3.8}, ""),
        ({"waits": True, "processors": 4, "steal": 1.0}, "the hypervisor used 1.0 of 4 processors"),
        ({"gpu_processes": 1, "gpu_utilization": 0}, ""),
        ({"gpu_processes": 1, "gpu_utilization": 60}, "another process used the GPU"),
        ({"nvidia_smi_before": {ACTIVE: "0x08"}}, "the GPU reduced its clock (hardware slowdown)"),
        ({"nvidia_smi_after": {ACTIVE: "0x0000000000000040"}}, "the GPU reduced its clock (heat)"),
        ({"nvidia_smi_after": {ACTIVE: "0x05"}}, ""),
        ({"nvidia_smi_after": {ACTIVE: "[N/A]"}}, ""),
    ],
)
def test_a_whole_run_can_be_disturbed(contention, reason):
    facts = {"threads": 4, "contention": contention}
    assert stolen(facts)[1] == reason
    assert stolen({"threads": 4}) == (0.0, "")
    unknown = {"processors": 2, "other_processes": 3}  # the threads of the function are unknown
    assert stolen({"contention": unknown}) == (0.0, "")
    seconds = np.full(20, 1e-3)
    found = judge(TimedSeries(seconds), TimedSeries(1.3 * seconds, facts=facts), paired=True)
    assert (found.verdict, found.reason) == ("unclear" if reason else "faster", reason)


@pytest.mark.parametrize(("ratio", "verdict"), [(2, "faster"), (156, "faster"), (0.5, "slower")])
def test_a_factor_of_two_in_five_rounds_is_a_verdict(ratio, verdict):
    ours, theirs = np.full(5, 1e-3), np.full(5, ratio * 1e-3)
    found = judge(TimedSeries(ours), TimedSeries(theirs), paired=True)
    assert (found.verdict, found.reason) == (verdict, "")
    assert found.resolution == math.inf
    assert judge(TimedSeries(ours), TimedSeries(theirs), paired=False).verdict == verdict
    few = "it requires 11 samples, got"
    assert judge(TimedSeries(ours[:4]), TimedSeries(theirs[:4]), paired=True).reason == f"{few} 4"
    close = np.where(np.arange(5) == 2, 1.2e-3, theirs)  # one round
    assert judge(TimedSeries(ours), TimedSeries(close), paired=True).reason == f"{few} 5"
    assert judge(TimedSeries(ours), TimedSeries(close), paired=False).reason == f"{few} 5"
    waits = np.where(np.arange(5) == 2, theirs, 0.0)
    busy = judge(TimedSeries(ours), TimedSeries(theirs, waits), paired=True)
    assert busy.reason.startswith("other work disturbed 1 of 5 rounds")


def test_a_step_in_one_half_of_a_run_gives_no_verdict():
    theirs = np.concatenate([np.full(38, 1.5e-3), np.full(4, 0.99e-3), np.full(8, 1.5e-3)])
    theirs[26:30] = 0.99e-3
    found = judge(TimedSeries(np.full(50, 1e-3)), TimedSeries(theirs), paired=True)
    assert found.interval == (1.5, 1.5)
    reason = "the two halves of the run contradict each other"
    assert (found.verdict, found.reason) == ("unclear", reason)


def lab_pair(ours, theirs, **fields):
    """Two measurements of one session."""
    lab = Lab()
    sides = (lab.measure(1e-3, variant=name, **COPY) for name in ("a", "b"))
    return [
        dataclasses.replace(side, samples=np.array(s), session="1", **fields)
        for side, s in zip(sides, (ours, theirs), strict=True)
    ]


def test_a_measurement_flags_and_ignores_disturbed_samples():
    waits = np.where(np.arange(40) % 2, 4e-3, 0.0)
    ours, theirs = lab_pair(1e-3 + waits, np.full(40, 2e-3), waits=waits)
    assert ours.seconds == 1e-3
    assert ours.interval == (1e-3, 1e-3)
    comparison = ours.compare(theirs)
    assert (comparison.verdict, comparison.samples) == ("faster", 20)
    assert ours.speedup_over(theirs) == pytest.approx(2)
    disturbed, _ = lab_pair(1e-3 + waits, np.full(40, 2e-3), waits=np.full(40, 4e-3))
    assert repr(disturbed.compare(theirs)).startswith(
        "No verdict on copy[a] and copy[b], because other work disturbed 40 of 40 rounds"
    )
    sweep = ado.records.Sweep(routine="copy", measurements=(disturbed, theirs))
    assert sweep.tied
    assert sweep.lead.startswith("no verdict on a: other work disturbed 40 of 40 rounds")


def disturbed_sweep(hopeless):
    """A ladder under load: every variant is disturbed in half of its rounds, or `hopeless` in all.

    Disturbed samples take three times as long.
    """
    rng, times = np.random.default_rng(5), {"a": 8e-3, "b": 4e-3, "c": 1e-3, "d": 0.9e-3}
    lab, ms = Lab(), []
    for name, seconds in times.items():
        late = rng.random(60) < (0.9 if name == hopeless else 0.5)
        samples = seconds * rng.normal(1, 0.05, 60) * np.where(late, 3, 1)
        m = lab.measure(seconds, variant=name, **COPY)
        waits = np.where(late, samples / 2, 0)
        ms.append(dataclasses.replace(m, samples=samples, waits=waits, session="1"))
    return ado.records.Sweep(routine="copy", measurements=tuple(ms))


@pytest.mark.parametrize("hopeless", ["", "a", "c", "d"])
def test_a_table_cannot_contradict_itself(hopeless):
    sweep = disturbed_sweep(hopeless)
    records = sweep.records()
    for m, record in zip(sweep, records, strict=True):
        samples = m.samples if m.variant == hopeless else m.samples[m.waits == 0]
        assert record["seconds"] == np.median(samples)
        assert record["speedup"] == records[0]["seconds"] / record["seconds"]
    order = sorted(records, key=lambda r: r["seconds"])
    assert order == sorted(records, key=lambda r: -r["speedup"])
    found = ado.diagnose(sweep).findings
    for (before, record), finding in zip(itertools.pairwise(records), found, strict=False):
        assert record["step_speedup"] == before["seconds"] / record["seconds"]
        assert finding.outcome.ratio == record["step_speedup"]
        agrees = {"faster": record["step_speedup"] > 1, "slower": record["step_speedup"] < 1}
        assert agrees.get(record["verdict"], True)


def test_the_fastest_variant_is_tied_unless_a_verdict_says_otherwise():
    lab, noise = Lab(), np.random.default_rng(1).normal(1, 0.02, (3, 60))
    ms = [
        dataclasses.replace(lab.measure(1e-3, variant=n, **COPY), samples=s * e, session="1")
        for n, s, e in zip("abc", (2e-3, 1.005e-3, 1e-3), noise, strict=True)
    ]
    sweep = ado.records.Sweep(routine="copy", measurements=tuple(ms))
    best, other = sorted(sweep.variants[1:], key=lambda m: m.seconds)
    assert (sweep.fastest, sweep.tied) == (best, (other,))
    assert sweep.lead.startswith(f"tied with {other.variant}: the difference is smaller than ")
    assert f"({sweep.lead})" in summary(sweep)
    clear = dataclasses.replace(sweep, measurements=(sweep["a"], best))
    assert (clear.tied, clear.lead) == ((), "")
    assert "tied" not in summary(clear)
    busy = [dataclasses.replace(m, waits=np.full(60, 1e-3)) for m in clear]
    withheld = summary(dataclasses.replace(clear, measurements=tuple(busy)))
    assert "unclear: other work disturbed 60 of 60 rounds" in withheld


def test_the_sampler_flags_and_replaces_disturbed_samples():
    waits = iter([0.0, 4e-3] * 1000)

    def take(repeats):
        waited = next(waits)
        return 1e-3 + waited, 0.0, True, waited

    sampler = Sampler(take=take, device="cpu")
    while not sampler.stopped:
        sampler.sample(precision=0.01, budget=1e9)
    assert (sampler.stopped, len(sampler.seconds)) == ("converged", 60)
    assert sampler.flags(0) == ("disturbed: 50 % of the samples waited for a processor",)
    late = Sampler(take=take, device="cpu", spent=3.1)
    while not late.stopped:
        late.sample(precision=0.01, budget=3.0)
    assert 40 <= len(late.seconds) <= 50  # a quarter of the rounds of two such variants counts
    hopeless = Sampler(take=lambda repeats: (1e-3, 0.0, True, 1e-3), device="cpu", spent=3.1)
    while not hopeless.stopped:
        hopeless.sample(precision=0.01, budget=3.0)
    assert len(hopeless.seconds) == 11
    record = hopeless.record(0.0)
    assert len(record["switches"]) == len(record["cpu_seconds"]) == 11


def test_a_small_difference_has_a_limit():
    noise = np.random.default_rng(1).normal(1, 0.02, (2, 60))
    ours, theirs = lab_pair(1e-3 * noise[0], 1.01e-3 * noise[1])
    comparison = ours.compare(theirs)
    low, high = comparison.interval
    assert comparison.verdict == "unclear"
    assert comparison.limit.startswith("smaller than ")
    percent = float(comparison.limit.split()[2])
    assert percent >= 100 * (high - 1)
    assert percent >= 100 * (1 / low - 1)
    assert repr(comparison).startswith("The difference between copy[a] and copy[b] is smaller than")
    assert comparison.resolution == pytest.approx(0.01 + 0.75 * (high - low) / comparison.ratio)
    assert "resolution:" in repr(comparison)
    notes = verdict_notes({"a": comparison})
    assert notes[0] == f"a: the difference is {comparison.limit}"
    assert notes[1].startswith("resolution: differences below ")


class TestSystem:
    def test_samples_on_the_cpu_have_waits(self):
        m = ado.measure(lambda: sum(range(1000)), seconds=0.02)
        known = Path("/proc/self/schedstat").exists()
        assert len(m.waits) == (len(m.samples) if known else 0)
        assert (m.waits >= 0).all()
        assert m.context["contention"]["waits"] is known

    @pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="no schedstat")
    def test_two_threads_on_one_processor_wait(self):
        """A process on the same processor is busy, so samples longer than its time slice wait."""
        code = """if True:
            import os, subprocess, sys, time
            from adokernels import _core

            def work():
                end = time.thread_time() + 0.05
                while time.thread_time() < end: pass

            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
            command = [sys.executable, "-c", "print(flush=True)\\nwhile True: pass"]
            busy = subprocess.Popen(command, stdout=subprocess.PIPE)
            busy.stdout.readline()
            try:
                taken = [_core.sample(work, "cpu", False, 1, 0) for _ in range(5)]
            finally:
                busy.kill()
            print(max(waited / seconds for seconds, _, _, waited in taken))
        """
        assert float(run_python(code)) > 0.05

    @pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="no schedstat")
    def test_the_name_of_the_process_does_not_matter(self):
        """The main thread of the installed program is called adokernels."""
        code = """if True:
            import pathlib
            pathlib.Path("/proc/self/comm").write_text("adokernels")
            import adokernels as ado
            m = ado.measure(lambda: sum(range(1000)), seconds=0.02)
            print(m.context["contention"]["waits"])
        """
        assert run_python(code) == "True"

    def test_other_processes_are_observed(self):
        found = Contention("cpu").facts(waits=True)
        assert found["waits"] is True
        assert found["other_processes"] >= 0
        assert found["processors"] >= _core.cores()

    @pytest.mark.parametrize(
        ("listed", "utilization", "busy"),
        [
            ("", "0 0", 0),
            ("", "60 30 0", 0),  # own work, until the average does not contain it
            ("{own}\n", "60 0", 0),
            ("", "60", 60),  # a process outside of the container
            ("{own}\n", "60", 60),
            ("{own}\n77\n", "60", 60),
            ("{own}\n77\n", "0", 0),
            ("", "[N/A]", 0),
        ],
    )
    def test_other_processes_on_the_gpu_are_observed(self, listed, utilization, busy, monkeypatch):
        left, now = utilization.split(), iter(np.arange(0, 100, 0.1))

        def answer(uuid, query):
            if "compute-apps" in query:
                return listed.format(own=os.getpid())
            if "utilization" in query:
                return f"{left.pop(0) if len(left) > 1 else left[0]} %\n"
            return "45, 80.00 W\n"

        monkeypatch.setattr(context, "_nvidia_smi", answer)
        monkeypatch.setattr(context.time, "sleep", lambda seconds: None)
        monkeypatch.setattr(context.time, "perf_counter", lambda: next(now))
        monkeypatch.setattr(context._core, "cuda_properties", lambda device: {"uuid": "0" * 32})
        found = Contention("cuda").facts(waits=False)
        assert (found["gpu_processes"], found["gpu_utilization"]) == (int("77" in listed), busy)
        state = {"temperature.gpu": "45", "power.draw": "80.00 W"}
        assert found["nvidia_smi_before"] == found["nvidia_smi_after"] == state
        words = "another process used the GPU" if busy else ""
        assert stolen({"contention": found}) == (min(busy, 100) / 100, words)

    @pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no smaps_rollup")
    def test_the_eviction_of_caches_writes_to_its_whole_buffer(self):
        """After a fork, pages that are only read remain shared with the parent."""
        child = """if True:
            import os
            from adokernels import _core

            def private():
                lines = open("/proc/self/smaps_rollup").read().splitlines()
                (line,) = (line for line in lines if line.startswith("Private_Dirty:"))
                return 1024 * int(line.split()[1])

            def flush():
                _core.sample(lambda: None, "cpu", True, 1, 0)

            flush()
            if os.fork() == 0:
                before = private()
                flush()
                share = (private() - before) / (2 * _core.last_level_cache_bytes())
                print(share, flush=True)
                os._exit(0)
            os.wait()
        """
        assert 0.95 < float(run_python(child)) < 1.5


@pytest.mark.parametrize("touched", [True, False])
def test_new_pages_of_the_calls_are_flagged(touched):
    def take(repeats):
        pages = mmap.mmap(-1, 1 << 20)
        if touched:
            np.frombuffer(pages, np.uint8)[::4096] = 1
        return 1e-4, 0.0, True, 0.0

    sampler = Sampler(take=take, device="cpu")
    for _ in range(5):
        sampler.sample(precision=0.01, budget=1.0)
    found = [flag for flag in sampler.flags(0.0) if flag.endswith(NEW_PAGES)]
    assert len(found) == touched
    assert not touched or int(found[0].split()[0]) >= 256
