"""The limiter and the next step of synthetic profiles: every branch, and missing metrics."""

import dataclasses
import math

import numpy as np
import pytest
from charting import kernel_with, make_machine
from hypothesis import given, settings
from hypothesis import strategies as st

import adokernels as ado
from adokernels.diagnosis.advice import advise
from adokernels.diagnosis.evidence import bandwidth_of_dram
from adokernels.diagnosis.limiter import limiter
from adokernels.diagnosis.targets import TARGETS, change
from adokernels.records.definitions import STALLS
from adokernels.records.limiter import Kind, Provenance, Step
from adokernels.records.machine import Ceiling
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import METRIC_SETS, of_peak
from adokernels.records.profile import KernelProfile, Profile
from adokernels.text import ratio

SECONDS, CLOCK, PROCESSORS = 1e-3, 2e9, 132
CYCLES = SECONDS * CLOCK * PROCESSORS
ISSUE, FP64 = of_peak("sm__inst_issued"), of_peak("sm__pipe_fp64_cycles_active")
L1 = of_peak("l1tex__data_pipe_lsu_wavefronts")
L2 = of_peak("lts__t_sectors")
DRAM = of_peak("dram__bytes")
TAGS, LSU = of_peak("lts__t_tag_requests"), of_peak("sm__inst_executed_pipe_lsu")
ATOMICS = of_peak("lts__d_atomic_input_cycles_active")
LANES_IN_BRANCHES = "smsp__thread_inst_executed_per_inst_executed.ratio"
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
SASS = "sm__sass_data_bytes_mem_global_op_{}.sum"


def ceiling(level, operation, measured, kind="bandwidth"):
    return Ceiling(kind=kind, level=level, operation=operation, measured=measured)


BANDWIDTHS = {
    "cuda": {"DRAM copy": 4.2e12, "DRAM read": 4.6e12, "DRAM write": 4.4e12, "L2 read": 8.8e12}
    | {"L1 read": 30e12, "shared read": 32e12},
    "cpu": {"DRAM copy": 40e9, "DRAM read": 50e9, "L3 read": 100e9, "L2 read": 400e9},
}
PEAKS = {"cuda": {"FP64 fma": 33e12, "FP32 fma": 66e12}, "cpu": {"FP64 fma": 320e9}}
H200, CPU = (
    dataclasses.replace(
        make_machine(device, name, BANDWIDTHS[device].items(), PEAKS[device].items()),
        context={"cuda": {"multiprocessors": PROCESSORS}},
    )
    for device, name in (("cuda", "NVIDIA H200"), ("cpu", "CPU"))
)


def launched(grid=(4096,), block=(256,), resident=64, registers=8):
    limits = {"warps": 8, "registers": registers, "shared memory": 100, "blocks": 32}
    return kernel_with(
        name="copy<float>", grid=grid, block=block, resident_warps=resident, limits=limits
    )


def access(op, requests, sectors_each, bytes_each):
    return {
        GLOBAL.format("requests", op): requests,
        GLOBAL.format("sectors", op): requests * sectors_each,
        SASS.format(op): requests * bytes_each,
        **({SASS.format("ldgsts"): 0.0} if op == "ld" else {}),
    }


def shared(wavefronts, conflicts):
    values = {}
    for op in ("ld", "st"):
        values[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"] = wavefronts / 2
        values[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"] = conflicts / 2
    return values


def stalls(**shares):
    name = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    values = {name.format(reason): 0.0 for reason in STALLS}
    values["smsp__average_warp_latency_per_inst_issued.ratio"] = 10.0
    return values | {name.format(reason): 10 * share for reason, share in shares.items()}


def dram(read, written):
    return {
        "dram__bytes_read.sum": read,
        "dram__bytes_write.sum": written,
        "dram__bytes.sum": read + written,
    }


def floating_point(**operations):
    name = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
    zero = dict.fromkeys(("dadd", "dmul", "dfma", "fadd", "fmul", "ffma"), 0.0)
    return {name.format(op): number for op, number in (zero | operations).items()}


BASE = {
    "gpu__time_duration.sum": SECONDS * 1e9,
    "sm__cycles_elapsed.avg.per_second": CLOCK,
    "smsp__inst_executed.sum": 1e8,
    "l1tex__t_sector_hit_rate.pct": 0.0,
    "smsp__issue_active.avg.per_cycle_active": 0.2,
    ISSUE: 20.0,
    L1: 20.0,
    L2: 20.0,
    DRAM: 20.0,
    **access("ld", 1e6, 4, 128),
    **access("st", 1e6, 4, 128),
    **dram(0.5e9, 0.5e9),
    **stalls(long_scoreboard=0.6, barrier=0.2),
}


def profiled(*kernels, **fields):
    """A measurement whose kernels have the values of BASE, changed by each dictionary."""
    settings_of = [dict(values) for values in kernels or ({},)]
    profile = Profile(
        label="f",
        cache="cold",
        collector="none",
        kernels=tuple(
            KernelProfile(
                kernel=values.pop("kernel", launched()),
                values={k: v for k, v in (BASE | values).items() if v is not None},
                multiprocessors=PROCESSORS,
            )
            for values in settings_of
        ),
    )
    return timed(profile=profile, **fields)


def timed(**fields):
    defaults = {
        "routine": "f",
        "variant": "v",
        "device": "cuda",
        "problem": ado.records.Inputs.of([("a", (1024, 1024), "float64")]),
        "cache": "cold",
        "samples": np.full(15, SECONDS),
        "flops": 0.0,
        "bytes": 1e9,
        "executed_flops": 0.0,
        "requested_bytes": 0.0,
        "context": {"last_level_cache_bytes": 60e6},
    }
    return Measurement(**{**defaults, **fields})


def first(m, machine=H200):
    return advise(m, machine)[0]


# --- the decision tree ---------------------------------------------------------------------------


def test_a_busy_pipe_is_compute():
    found = limiter(profiled({FP64: 92.0}), H200)
    assert (found.kind, found.unit, found.share) == (Kind.COMPUTE, "FP64 pipe", 0.92)
    assert found.name == "compute (FP64 pipe)"
    assert found.evidence[0].provenance is Provenance.COUNTED
    assert "FP64 pipe at 92 % of peak (counted)" in repr(found)


@pytest.mark.parametrize(("metric", "kind"), [(L1, Kind.L1), (L2, Kind.L2), (DRAM, Kind.DRAM)])
@pytest.mark.parametrize("percent", [61.0, 95.0])
def test_the_busiest_memory_level(metric, kind, percent):
    assert limiter(profiled({metric: percent, **dram(1e8, 0.0)}), H200).kind is kind


def test_the_measured_bandwidth_is_evidence_and_does_not_decide():
    m = profiled({DRAM: 75.0, L2: 78.0, **dram(2e9, 1.9e9)})
    with_ceilings, without = limiter(m, H200), limiter(m)
    assert (with_ceilings.kind, without.kind) == (Kind.L2, Kind.L2)
    assert "balanced with DRAM at 75 % of peak (counted)" in repr(with_ceilings)
    assert "93 % of the DRAM bandwidth measured on this device" in repr(with_ceilings)
    assert "measured" not in repr(without)
    # 57 % of the peak are 65 % of the copy: below NVIDIA's threshold.
    below = profiled({DRAM: 57.0, **dram(1.4e9, 1.34e9)})
    assert limiter(below, H200).kind is Kind.LATENCY


def test_a_kernel_at_the_measured_bandwidth_is_done_whatever_unit_is_the_busiest():
    m = profiled({DRAM: 87.0, L1: 88.0, **dram(2e9, 2e9)}, bytes=4e9)
    assert limiter(m, H200).kind is Kind.L1
    assert first(m).step is Step.DONE
    assert first(m, None).step is not Step.DONE


def test_nothing_busy_is_latency_or_too_little_work():
    found = limiter(profiled(), H200)
    assert (found.kind, found.unit) == (Kind.LATENCY, "")
    assert "stall long scoreboard: 60 % of the time of a warp (counted)" in repr(found)
    one = limiter(profiled({"kernel": launched(grid=(1,))}), H200)
    assert one.kind is Kind.PARALLELISM
    assert repr(one).startswith("too little work: 1 block on 132 multiprocessors")


def test_few_blocks_that_keep_a_unit_busy_are_not_too_little_work():
    found = limiter(profiled({"kernel": launched(grid=(132,)), FP64: 90.0}), H200)
    assert found.kind is Kind.COMPUTE


def test_a_unit_that_is_busy_on_active_multiprocessors_is_evidence_and_advice():
    half = {"sm__cycles_active.avg": 1e6, "sm__cycles_elapsed.max": 2e6}
    m = profiled({ISSUE: 45.0, **half})
    found = limiter(m, H200)
    assert (found.kind, found.unit) == (Kind.LATENCY, "")
    text = "issue slots at 90 % of peak on active multiprocessors (active for 50 % of the time)"
    assert text in repr(found)
    assert first(m).step is Step.OPERATIONS
    in_l1 = profiled({L1: 45.0, **SCATTERED, **half})
    assert first(in_l1).step is Step.COALESCING
    for idle in ({ISSUE: 25.0}, {L2: 45.0}):  # L2 is not in a multiprocessor
        m = profiled(idle | half)
        assert "on active multiprocessors" not in repr(limiter(m, H200))
        assert first(m).step is Step.IN_FLIGHT


def test_the_longest_kernel_of_several():
    short = {FP64: 95.0, "gpu__time_duration.sum": 0.2e6}
    found = limiter(profiled(short, {L2: 90.0}), H200)
    assert found.kind is Kind.L2
    assert found.share_of_time == pytest.approx(1 / 1.2)
    assert "copy takes 83 % of the time" in repr(found)


def test_the_limiter_of_a_measurement_in_a_sweep_uses_its_machine():
    m = profiled({DRAM: 78.0, **dram(2e9, 1.9e9)})
    assert "measured on this device" not in repr(m.limiter)
    sweep = ado.records.Sweep(routine="f", measurements=(m,), machine=H200)
    assert "measured on this device" in repr(sweep["v"].limiter)
    assert "machine" not in sweep["v"].to_dict()
    bare = dataclasses.replace(sweep, machine=None)
    assert "measured on this device" not in repr(bare["v"].limiter)


def test_without_the_utilisation_of_any_unit_the_limiter_is_that_without_counters():
    empty = profiled(dict.fromkeys(BASE))
    found = limiter(empty, None)
    assert (found.kind, found.evidence, found.counted) == (Kind.UNKNOWN, (), False)
    assert advise(empty, None) == ()
    few = profiled(dict.fromkeys((ISSUE, L1, L2, DRAM)), bytes=4e9)
    assert limiter(few, H200).kind is Kind.DRAM
    assert not limiter(few, H200).counted


NO_LEVELS = dict.fromkeys((L1, L2))
MEMORY = of_peak("gpu__compute_memory_throughput")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({MEMORY: 62.3}, Kind.MEMORY),
        ({MEMORY: 62.3, DRAM: None, ISSUE: None}, Kind.MEMORY),
        ({MEMORY: 62.3, ISSUE: 70.0}, Kind.COMPUTE),
        ({MEMORY: 62.3, DRAM: 62.0}, Kind.DRAM),
        ({of_peak("lts__throughput"): 62.3}, Kind.MEMORY),
        ({"l1tex__throughput.avg.pct_of_peak_sustained_active": 62.3}, Kind.MEMORY),
        ({MEMORY: 62.3, L1: 20.0, L2: 20.0}, Kind.LATENCY),  # all levels were collected
        ({MEMORY: 45.0}, Kind.LATENCY),
        ({MEMORY: 45.0, ISSUE: None}, Kind.UNKNOWN),
        ({of_peak("lts__throughput"): 45.0}, Kind.UNKNOWN),
        ({of_peak("lts__throughput"): 45.0, L1: 20.0}, Kind.LATENCY),
        ({"kernel": launched(grid=(1,))}, Kind.UNKNOWN),
    ],
)
def test_levels_that_were_not_collected_are_named(values, kind):
    m = profiled(NO_LEVELS | values)
    found = limiter(m, H200)
    assert found.kind is kind
    assert found.counted
    assert ("not collected: " in found.unknown) == (kind in (Kind.MEMORY, Kind.UNKNOWN))
    if kind is Kind.MEMORY:
        assert found.name == "memory (level not collected)"
        assert found.share == pytest.approx(0.623)
        assert "L1, L2" in found.unknown
        assert advise(m, H200)
    if kind is not Kind.LATENCY:
        assert "no unit above" not in repr(found)


# --- without counters ----------------------------------------------------------------------------


def test_without_counters_only_what_is_proved():
    slow = limiter(timed(), H200)
    assert slow.kind is Kind.UNKNOWN
    assert "without counters" in repr(slow)
    assert "known only with counters" in repr(slow)
    assert limiter(timed(bytes=4e9), H200).kind is Kind.DRAM
    assert limiter(timed(requested_bytes=29e9), H200).kind is Kind.L1
    assert limiter(timed(requested_bytes=90e9), H200).kind is Kind.UNKNOWN
    one = limiter(timed(kernels=(launched(grid=(1,)),)), H200)
    assert one.kind is Kind.PARALLELISM


def test_flops_are_compared_with_the_peak_of_their_mix():
    m = timed(executed_flops=18e9, executed_instructions=12e9)  # half of them FMAs
    found = limiter(m, H200)
    assert found.kind is Kind.COMPUTE
    assert found.share == pytest.approx(18e12 / 33e12 / 0.75)


def test_cpu_variants_without_experiments_by_dram_and_arithmetic():
    assert limiter(timed(device="cpu", bytes=40e6), CPU).kind is Kind.DRAM
    warm = timed(device="cpu", bytes=90e6, cache="warm", context={"last_level_cache_bytes": 1e9})
    assert limiter(warm, CPU).kind is Kind.UNKNOWN  # rates do not show which cache
    fields = {"device": "cpu", "bytes": 1e6, "context": {"isa": "avx512"}}
    assert limiter(timed(executed_flops=300e6, **fields), CPU).kind is Kind.COMPUTE
    assert limiter(timed(executed_flops=9e6, **fields), CPU).kind is Kind.UNKNOWN


# --- the next step -------------------------------------------------------------------------------

SCATTERED = access("ld", 1e6, 32, 128)
BYTEWISE = access("ld", 4e6, 4, 32) | {"l1tex__t_sector_hit_rate.pct": 75.0}
AGAIN = access("ld", 4e7, 4, 128)
IN_L2 = {"lts__t_sectors_srcunit_tex.sum": 2e7}
CASES = {
    "one block": ({"kernel": launched(grid=(1,))}, Step.PARALLELISM),
    "stores": ({L2: 85.0, **access("st", 1e6, 32, 128)}, Step.COALESCING),
    "loads": ({L1: 85.0, **SCATTERED}, Step.COALESCING),
    "conflicts": (
        stalls(long_scoreboard=0.6, mio_throttle=0.2)
        | {L1: 55.0, **shared(0.5 * CYCLES, 0.4 * CYCLES)},
        Step.BANK_CONFLICTS,
    ),
    "conflicts for which no warp waits": (
        {L1: 55.0, **shared(0.5 * CYCLES, 0.4 * CYCLES)},
        Step.IN_FLIGHT,
    ),
    "bytes": (BYTEWISE, Step.WIDER),
    "latency": ({}, Step.IN_FLIGHT),
    "few warps": ({"kernel": launched(resident=16, registers=2)}, Step.OCCUPANCY),
    "barriers": (stalls(barrier=0.7), Step.BARRIERS),
    "branches": (stalls(branch_resolving=0.7), Step.DIVERGENCE),
    "dependencies": (stalls(wait=0.5, math_pipe_throttle=0.3), Step.OPERATIONS),
    "special functions": (stalls(short_scoreboard=0.7), Step.OPERATIONS),
    "shared memory": (
        stalls(short_scoreboard=0.7) | shared(0.15 * CYCLES, 0.0) | {L1: 50.0},
        Step.REUSE,
    ),
    "loads again": ({L1: 85.0, **AGAIN}, Step.REUSE),
    "load instructions": ({ISSUE: 90.0, **AGAIN}, Step.REUSE),
    "operations": ({ISSUE: 90.0}, Step.OPERATIONS),
    "no floating-point operations": ({ISSUE: 90.0, **access("ld", 4e6, 1, 32)}, Step.WIDER),
    "shared memory beside scattered loads": (
        {L1: 85.0, **SCATTERED, **shared(0.82 * CYCLES, 0.0)},
        Step.REUSE,
    ),
    "most bytes come from DRAM": ({DRAM: 50.0}, Step.WIDER),
    "cache hits beside DRAM": ({DRAM: 50.0, **AGAIN}, Step.WIDER),
    "DRAM balanced with a pipe": ({DRAM: 65.0, ISSUE: 64.0, **AGAIN}, Step.REUSE),
    "parts of lines": ({L2: 30.0, TAGS: 85.0}, Step.COALESCING),
    "parts of lines, fences": ({L2: 30.0, TAGS: 85.0, **stalls(membar=0.6)}, Step.OPERATIONS),
    "whole lines": ({L2: 85.0, TAGS: 85.0}, Step.IN_FLIGHT),
    "bytes are parts of lines": ({L2: 21.0, TAGS: 80.0, **access("ld", 1.5e7, 1, 32)}, Step.WIDER),
    "stores again": ({L2: 85.0, **access("st", 4e7, 8, 128)}, Step.REUSE),
    "atomics": (
        {ISSUE: 4.0, ATOMICS: 2.0, "smsp__issue_active.avg.per_cycle_active": 0.04, **IN_L2},
        Step.REUSE,
    ),
    "asynchronous copies": ({ISSUE: 4.0, **IN_L2}, Step.IN_FLIGHT),
    "LSU": ({ISSUE: 75.0, LSU: 70.0, **BYTEWISE}, Step.WIDER),
    "diverged loads": ({LANES_IN_BRANCHES: 12.0}, Step.DIVERGENCE),
    "unfused": (
        {
            FP64: 90.0,
            **floating_point(dadd=1e9, dmul=1e9),
        },
        Step.FMA,
    ),
    "half the lanes": (
        {ISSUE: 90.0, "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": 16.0},
        Step.DIVERGENCE,
    ),
    "spills": (
        {
            L1: 85.0,
            "l1tex__t_bytes.sum": 1e9,
            "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": 1e7,
            "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": 1e7,
        },
        Step.SPILLS,
    ),
    "excess traffic": ({DRAM: 85.0, **dram(3e9, 0.9e9)}, Step.DRAM_REUSE),
    "almost at the bandwidth": ({DRAM: 78.0, **dram(1.8e9, 1.7e9)}, Step.WIDER, {"bytes": 3.5e9}),
    "at the peak": ({FP64: 95.0}, Step.DONE, {"flops": 31e9, "bytes": 1e6}),
    "most useful FLOPs": ({FP64: 85.0}, Step.DONE, {"flops": 26e9}),
    "fewer useful FLOPs": ({FP64: 85.0}, Step.OPERATIONS, {"flops": 24e9}),
    "operands of unknown types": (
        {DRAM: 85.0, **dram(3e9, 0.9e9)},
        Step.DRAM_REUSE,
        {"problem": ado.records.Inputs.of([("a", (1 << 40,), "not a type of NumPy")])},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_next_step(case):
    values, step, *fields = CASES[case]
    assert first(profiled(values, **(fields[0] if fields else {}))).step is step


def test_streaming_at_the_measured_bandwidth_is_done():
    m = profiled({DRAM: 88.0, **dram(2e9, 2e9)}, bytes=4e9)
    advice = first(m)
    assert advice.step is Step.DONE
    assert advice.bound == pytest.approx(1.03 * 4.2 / 4)
    assert Provenance.CEILING in advice.provenance


def test_several_kernels():
    apart = {DRAM: 88.0, **dram(2e9, 2e9)}
    through_dram = first(profiled(apart, apart, bytes=4e9, samples=np.full(15, 2 * SECONDS)))
    assert through_dram.step is Step.FUSION
    small = {"gpu__time_duration.sum": 0.2e6, **dram(0.0, 0.0)}
    one_after_another = first(profiled(apart, small, bytes=4e9))
    assert one_after_another.step is Step.FUSION
    assert "17 % of the time" in one_after_another.sentence


def test_gaps_between_kernels():
    m = profiled({}, {}, samples=np.full(15, 3 * SECONDS))
    assert "kernels take 67 % of the measured time" in repr(limiter(m, H200))
    assert first(m).step is Step.FUSION
    assert first(profiled({}, {}, samples=np.full(15, 2.1 * SECONDS))).step is Step.IN_FLIGHT


def test_light_metrics_still_show_scattered_stores():
    stores = access("st", 1e6, 32, 128) | {SASS.format("st"): None}
    assert first(profiled({L2: 85.0} | stores)).step is Step.COALESCING
    wide = access("st", 1e6, 16, 512) | {SASS.format("st"): None}
    assert first(profiled({L2: 85.0} | wide)).step is not Step.COALESCING


def test_light_metrics_show_reuse_as_an_upper_limit():
    again = access("ld", 4e7, 4, 128) | {L1: 85.0}
    exact = first(profiled(again))
    assert exact.step is Step.REUSE
    assert "up to" not in exact.sentence
    light = first(profiled(again | {SASS.format("ld"): None}))
    assert light.step is Step.REUSE
    assert "up to" in light.sentence


def test_more_blocks_only_for_idle_multiprocessors():
    def steps(blocks):
        few = {"kernel": launched(grid=(blocks,))}
        m = profiled(few)
        assert limiter(m, H200).kind is Kind.PARALLELISM
        return [advice.step for advice in advise(m, H200)]

    assert steps(PROCESSORS - 1)[0] is Step.PARALLELISM
    assert steps(PROCESSORS)[0] is Step.IN_FLIGHT
    assert Step.PARALLELISM in steps(PROCESSORS)


def test_more_warps_only_for_schedulers_that_lack_one():
    few = {"kernel": launched(resident=16, registers=2)}
    eligible = "smsp__warps_eligible.avg.per_cycle_active"
    assert first(profiled(few | {eligible: 0.9})).step is Step.OCCUPANCY
    offered = [advice.step for advice in advise(profiled(few | {eligible: 1.1}), H200)]
    assert Step.OCCUPANCY not in offered


def test_latency_of_arithmetic_on_a_device_that_is_not_full_needs_more_parallelism():
    eligible = "smsp__warps_eligible.avg.per_cycle_active"
    one_warp = {"kernel": launched(grid=(PROCESSORS,), block=(128,)), eligible: 0.2}
    waiting = stalls(wait=0.7)
    advice = first(profiled(one_warp | waiting))
    assert advice.step is Step.PARALLELISM
    assert "several independent results per thread" in advice.sentence
    assert "schedulers issue in 20 % of the cycles" in advice.sentence
    assert advice.bound == pytest.approx(1.03 * 4.2)  # from the compulsory bytes
    for other in (
        waiting | {"kernel": launched()},  # a full device
        waiting | {eligible: 1.5},  # a scheduler has a warp to issue in each cycle
        waiting | {"smsp__issue_active.avg.per_cycle_active": 0.7},
        stalls(wait=0.35, math_pipe_throttle=0.4),  # the pipe is busy
    ):
        assert first(profiled(one_warp | other)).step is Step.OPERATIONS


#: One of three components of 2^28 points: sectors are partly needed, and each is read once.
POINTS = ado.records.Inputs.of([("points", (1 << 28, 3), "float32")])
COMPONENT = {
    "sm__warps_active.avg.pct_of_peak_sustained_active": 50.0,
    **access("ld", (1 << 28) / 32, 12, 128),
    **access("st", (1 << 28) / 32, 4, 128),
    **dram(3 << 30, 1 << 30),
}


def busy_dram(seconds, moved):
    """The share of DRAM for these bytes, at 4.8 TB/s."""
    return {"gpu__time_duration.sum": seconds * 1e9, DRAM: 100 * moved / seconds / 4.8e12}


def component(seconds, **values):
    moved = values.get("dram__bytes.sum", 4 << 30)
    values = COMPONENT | busy_dram(seconds, moved) | values
    return profiled(values, problem=POINTS, bytes=2 << 30, samples=np.full(15, seconds))


def test_bytes_that_are_not_needed_require_another_layout():
    share = (4 << 30) / 4.4e12 / SECONDS
    advices = advise(component(SECONDS), H200)
    layout = advices[0]
    assert layout.step is Step.COALESCING
    assert "change the data layout" in layout.sentence
    assert "2.00 times the compulsory bytes" in layout.sentence
    assert "12.0 sectors, ideally 4.00" in layout.sentence
    assert f"other steps gain at most {ratio(1.03 / share)}" in layout.sentence
    assert layout.bound == pytest.approx(1.03 / (share / 2))
    bounds = {advice.step: advice.bound for advice in advices}
    assert bounds[Step.IN_FLIGHT] == pytest.approx(1.03 / share)
    assert Step.DRAM_REUSE not in bounds


def test_a_kernel_that_requests_unneeded_bytes_may_avoid_them():
    whole = access("ld", (3 << 30) / 512, 16, 512)
    advices = advise(component(SECONDS, **whole), H200)
    assert advices[0].step is Step.COALESCING
    assert "with this layout" not in advices[0].sentence
    in_flight = next(advice for advice in advices if advice.step is Step.IN_FLIGHT)
    assert in_flight.bound == advices[0].bound


def test_loads_in_flight_come_first_if_no_load_waits_in_a_queue():
    slower = first(component(1.2 * SECONDS))
    assert slower.step is Step.IN_FLIGHT
    assert "a load takes only 363 ns" in slower.sentence
    assert slower.bound == pytest.approx(1.03 * 4.4e12 * 1.2 * SECONDS / (4 << 30))
    # A third of the requests, each with three times the bytes: loads take three times as long.
    wide = access("ld", (1 << 28) / 96, 36, 384)
    assert first(component(1.2 * SECONDS, **wide)).step is Step.COALESCING
    assert first(component(1.2 * SECONDS, **stalls(barrier=0.9))).step is Step.COALESCING


def test_partly_used_sectors_are_coalesced_before_data_are_reused():
    gathered = {DRAM: 85.0, **dram(2.9e9, 0.9e9)}
    loads = access("ld", 0.5e7, 32, 128)
    steps = [advice.step for advice in advise(profiled(gathered | loads, bytes=1e9), H200)]
    assert steps[:2] == [Step.COALESCING, Step.DRAM_REUSE]
    # Twice the compulsory bytes are requested: some are loaded again.
    again = access("ld", 1.5e7, 32, 128)
    assert first(profiled(gathered | again, bytes=1e9)).step is Step.DRAM_REUSE
    whole = access("ld", 0.5e7, 4, 128)
    assert first(profiled(gathered | whole, bytes=1e9)).step is Step.DRAM_REUSE


def test_another_layout_only_for_unneeded_operands_that_are_read_once():
    slow, whole = 1.5 * SECONDS, access("ld", (3 << 30) / 512, 16, 512)
    # The compulsory bytes include the whole operand and an output.
    everything = profiled(
        COMPONENT | whole | busy_dram(slow, 5 << 30) | dram(3.5 * 2**30, 1.5 * 2**30),
        problem=POINTS,
        bytes=3.5 * 2**30,
        samples=np.full(15, slow),
    )
    assert first(everything).step is Step.DRAM_REUSE
    again = first(component(slow, **dram(4.5 * 2**30, 2**30)))
    assert again.step is Step.COALESCING
    assert "another order of the accesses" in again.sentence


def test_flops_beyond_the_useful_ones_come_first_unless_warps_wait_for_memory():
    def step(executed, **waits):
        work = {"flops": 1e9, "executed_flops": executed, "executed_instructions": executed / 2}
        return first(profiled(stalls(**waits), **work)).step

    few, many = (1e9 + share * 33e12 * SECONDS for share in (0.09, 0.11))
    assert step(few, barrier=0.7) is Step.BARRIERS
    assert step(many, barrier=0.7) is Step.OPERATIONS
    assert step(many, long_scoreboard=0.6) is Step.IN_FLIGHT


def test_counted_flops_beyond_the_useful_ones_come_before_registers():
    """Own kernels declare only their useful FLOPs."""
    held = {L1: 85.0, **shared(0.82 * CYCLES, 0.0)}
    for number, step in ((2e9, Step.REUSE), (4e9, Step.OPERATIONS)):
        assert first(profiled(held | floating_point(dfma=number), flops=1e9)).step is step


def test_a_short_kernel_reaches_the_bandwidth_of_its_active_cycles():
    active = {"sm__cycles_active.avg": 0.85, "sm__cycles_elapsed.max": 1.0}
    m = profiled({DRAM: 70.0, **dram(1.8e9, 1.8e9)}, bytes=3.6e9)
    assert first(m).step is not Step.DONE
    m = profiled({DRAM: 70.0, **dram(1.8e9, 1.8e9), **active}, bytes=3.6e9)
    assert first(m).step is Step.DONE


def test_the_stage_of_a_pipeline_is_named():
    stages = (("grayscale", "naive"), ("sobel", "naive"))
    short = {"gpu__time_duration.sum": 0.2e6}
    advice = first(profiled(short, {L1: 85.0, **SCATTERED}, stages=stages))
    assert "the stage sobel[naive]" in advice.sentence


def test_without_counters_there_is_little_advice():
    assert first(timed(bytes=4.5e9)).step is Step.DONE
    assert first(timed(kernels=(launched(grid=(1,)),))).step is Step.PARALLELISM
    assert first(timed(executed_flops=30e9)).step is Step.OPERATIONS


# --- bounds --------------------------------------------------------------------------------------


def test_coalescing_leaves_the_instructions():
    advice = first(profiled({L1: 95.0, ISSUE: 50.0, **SCATTERED}, bytes=2e8))
    assert advice.bound == pytest.approx(2.0)
    assert "issue slots" in advice.basis


def test_a_few_blocks_can_at_most_fill_the_device():
    active = {"sm__cycles_active.avg": 1.0, "sm__cycles_elapsed.max": 132.0}
    values = {"kernel": launched(grid=(1,)), ISSUE: 0.25, L1: 0.5, **active}
    advice = first(profiled(values, bytes=1e6))
    assert advice.bound == pytest.approx(1 / 0.005)
    # The same step may coalesce accesses: 28 of 36 million sectors are excess.
    advice = first(profiled(values | access("ld", 1e6, 32, 128), bytes=1e6))
    assert advice.bound == pytest.approx(1 / 0.0025)


def test_useful_flops_bound_every_step():
    m = profiled({ISSUE: 90.0}, flops=16.5e9, bytes=1e6)
    assert first(m).bound == pytest.approx(1.03 * 2)


def test_dram_bandwidth_depends_on_the_share_of_writes():
    shares = [bandwidth_of_dram(H200, w) for w in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert shares == pytest.approx([4.6e12, 4.4e12, 4.2e12, 4.3e12, 4.4e12])
    assert bandwidth_of_dram(None, 0.0) is None


def test_every_step_but_done_has_a_target():
    assert set(TARGETS) == set(Step) - {Step.DONE}


@pytest.mark.parametrize("step", TARGETS)
def test_a_metric_that_is_missing_or_equal_has_not_moved(step):
    before = profiled().profile
    found = change(step, before, before)
    assert found is None or not found.moved
    assert change(step, before, None) is None


@st.composite
def any_profile(draw):
    names = draw(st.sets(st.sampled_from(METRIC_SETS["default"])))
    positive = st.floats(0, 1e13, allow_nan=False)
    percent = st.floats(0, 101, allow_nan=False)
    values = {name: draw(percent if ".pct" in name else positive) for name in sorted(names)}
    grid = draw(st.integers(1, 1 << 20))
    return {**dict.fromkeys(BASE), **values, "kernel": launched(grid=(grid,))}


@settings(max_examples=150, deadline=None)
@given(
    kernels=st.lists(any_profile(), min_size=0, max_size=3),
    machine=st.sampled_from([None, H200]),
    work=st.tuples(*[st.sampled_from([0.0, 1e3, 1e9, 1e13])] * 4),
)
def test_never_raises_and_bounds_are_at_least_one(kernels, machine, work):
    names = ("flops", "bytes", "executed_flops", "requested_bytes")
    fields = dict(zip(names, work, strict=True))
    m = profiled(*kernels, **fields) if kernels else timed(**fields)
    assert isinstance(repr(limiter(m, machine)), str)
    for advice in advise(m, machine):
        assert advice.bound is None or (math.isfinite(advice.bound) and advice.bound >= 1)
        assert "{of}" not in str(advice)
