"""Definitions and thresholds of the numbers in tables, charts and diagnoses.

Each number is defined here and nowhere else. docs/glossary.md is generated from this table.
Definitions of counters follow the documentation of Nsight Compute 2025.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# NVIDIA's thresholds (Nsight Compute 2025.3: SOLBottleneck and the other rules).
#: The unit with the largest share of its peak is the limiter from this share. Below it, the
#: limiter is latency, or too little work if the grid has less than one wave.
LIMITING = 0.6
#: From this share, the unit is so busy that only less work for it makes the kernel faster.
BOUND = 0.8
#: Two units whose shares differ by less than this are balanced.
BALANCED = 0.1
#: Bank conflicts and floating-point instructions other than FMAs are significant from this share.
NOTABLE = 0.1
#: A stall reason is significant from this share of the cycles between two instructions of a warp.
STALL = 0.3
#: Divergence is significant below this number of active lanes per instruction.
LANES = 24

#: Warp states by their names in Nsight Compute: stall reasons, and "selected" (the warp issues).
STALLS = {
    "long_scoreboard": "waits for the result of an access through L1TEX (global, local, surface or"
    " texture memory); hits in L1 are included",
    "lg_throttle": "waits because the queue of local and global memory instructions is full",
    "mio_throttle": "waits because the queue of MIO instructions is full: shared memory, special"
    " functions, dynamic branches",
    "short_scoreboard": "waits for the result of an MIO operation other than L1TEX: shared memory,"
    " special functions (MUFU), special registers, dynamic branches",
    "tex_throttle": "waits because the queue of texture instructions is full",
    "math_pipe_throttle": "waits because the pipe of its next instruction is busy",
    "wait": "waits for the fixed latency of its previous instruction",
    "not_selected": "could issue, but the scheduler selected another warp; not a stall",
    "dispatch_stall": "waits because the dispatcher holds the instruction back",
    "barrier": "waits at a barrier of its block",
    "membar": "waits at a memory barrier",
    "branch_resolving": "waits for the target of a branch",
    "no_instruction": "waits for its next instruction to be fetched",
    "imc_miss": "waits for a miss in the cache of immediate constants",
    "drain": "has ended, and waits for its stores",
    "sleeping": "all threads sleep or yield",
    "misc": "waits for another reason",
    "gmma": "waits for an instruction of the tensor cores of its warp group",
    "selected": "issues an instruction; not a stall",
}

_PIPES = {
    "ALU": "integer and logic instructions, comparisons, minimum and maximum",
    "FMA": "FP32 arithmetic and integer multiplication",
    "FP64": "FP64 arithmetic",
    "FP16": "FP16 arithmetic",
    "tensor": "matrix instructions",
    "XU": "special functions and conversions",
    "LSU": "loads and stores",
    "TEX": "texture instructions",
    "uniform": "instructions that are the same for all lanes",
    "ADU": "addresses of branches and indexed constants",
    "CBU": "branches and convergence of lanes",
    "TMA": "asynchronous copies of tiles (tensor memory access)",
}
_OPERATIONS = ("integer", "conversion", "memory", "control", "bit", "misc")


def _of_accesses(name: str) -> dict[str, str]:
    return {
        f"{name}_requests": f"{name} instructions of warps to global memory",
        f"{name}_sectors": f"sectors of 32 bytes that these {name}s access in L1",
        f"ideal_{name}_sectors": "requested bytes in sectors of 32 bytes, from exact counts,"
        " and at least one sector per request; a word that several lanes access counts once",
        f"{name}_sectors_per_request": f"sectors divided by requests of {name}s; the ideal is the"
        " ideal number of sectors divided by the same requests",
    }


def _of_shared(name: str) -> dict[str, str]:
    return {
        f"shared_{name}_wavefronts": f"passes of {name}s through the banks of shared memory",
        f"shared_{name}_conflicts": "passes that are necessary only because lanes access different"
        " words of one bank",
    }


#: The definition of each quantity of a profile, by key.
QUANTITY_DEFINITIONS: Mapping[str, str] = {
    "seconds": "time of the kernel while counters are read",
    "clock": "mean clock of the multiprocessors",
    "compute_sol": "share of the peak that the busiest unit of the multiprocessors reaches, over"
    " the time of the kernel",
    "memory_sol": "the largest of the shares of L1, L2 and DRAM",
    "l1_sol": "share of the peak that the busiest unit of L1 and shared memory reaches, over the"
    " time of the kernel",
    "l2_sol": "share of the peak that the busiest unit of L2 reaches, over the time of the kernel",
    "dram_sol": "share of the peak that DRAM reaches, over the time of the kernel",
    "l1_active": "throughput of L1 in the cycles in which it is active, as in Nsight Compute's"
    " table; larger than the share of L1 if multiprocessors are idle",
    "l2_all": "throughput of L2 as in Nsight Compute's table, with units that the share of memory"
    " does not include",
    "l1_bytes": "bytes of all sectors that L1 accesses, without shared memory",
    "shared_bytes": "bytes that threads request from shared memory",
    "l2_bytes": "bytes of the sectors that L1 requests from L2 or writes to it",
    "dram_read_bytes": "bytes read from DRAM",
    "dram_write_bytes": "bytes written to DRAM",
    "dram_bytes": "bytes read from and written to DRAM",
    "l1_hit_rate": "sectors found in L1, of all sectors that L1 accesses",
    "l2_hit_rate": "sectors found in L2, of all sectors that L2 accesses",
    **_of_accesses("load"),
    **_of_accesses("store"),
    **_of_shared("load"),
    **_of_shared("store"),
    "conflict_share": "bank conflicts, of all wavefronts of loads and stores of shared memory",
    "instructions": "executed instructions of warps",
    "issue_active": "share of the active cycles in which a scheduler issues an instruction",
    "eligible_warps": "warps per scheduler that could issue, mean over the active cycles",
    "active_warps": "resident warps per scheduler, mean over the active cycles",
    "occupancy": "resident warps, of the maximum of a multiprocessor, in its active cycles",
    "warp_latency": "mean number of cycles between two instructions of a warp",
    **{f"stall_{name}": f"cycles in which a warp {why}" for name, why in STALLS.items()},
    **{
        f"pipe_{name.lower()}": f"utilisation in active cycles of the pipe for {work}"
        for name, work in _PIPES.items()
    },
    "flops": "FP64 and FP32 operations; an FMA counts two, other operations one",
    "flops_fp64": "FP64 operations",
    "flops_fp32": "FP32 operations",
    "flops_fp16": "FP16 operations; compilers also move constants with them",
    "fma_share": "FMAs, of the FP64 and FP32 instructions",
    **{f"{kind}_operations": f"{kind} instructions, one per thread" for kind in _OPERATIONS},
    "lanes": "lanes of a warp that take part in an instruction, mean",
    "unpredicated_lanes": "lanes of a warp that take part and are not switched off by a predicate",
    "branch_efficiency": "branch targets that all lanes share; 0 without such branches",
    "local_bytes": "bytes of accesses to local memory, mostly spilled registers",
    "sm_balance": "mean active cycles of a multiprocessor, of those of the busiest one",
    "sm_active": "share of the kernel's cycles in which a multiprocessor has a warp, mean",
}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


_LIMITS = (
    f"at least {_percent(LIMITING)} and the largest share: limiter; compute and memory below:"
    f" latency, or too little work below 1 wave; from {_percent(BOUND)}: high throughput; shares"
    f" that differ by less than {100 * BALANCED:.0f} points: balanced (SOLBottleneck)"
)
_OF_SECTORS = "more sectors than the ideal number (UncoalescedGlobalAccess)"
_LANES_BELOW = f"below {LANES} of 32 (ThreadDivergence)"
#: NVIDIA's threshold of a quantity, and the rule that has it, by key; most quantities have none.
QUANTITY_THRESHOLDS: Mapping[str, str] = {
    "compute_sol": _LIMITS,
    "memory_sol": "as for compute",
    **dict.fromkeys(("load_sectors", "store_sectors"), _OF_SECTORS),
    "conflict_share": f"at least {_percent(NOTABLE)} (SharedMemoryConflicts)",
    "issue_active": f"below {_percent(LIMITING)} (IssueSlotUtilization)",
    "occupancy": f"{100 * BALANCED:.0f} points below the theoretical one (AchievedOccupancy)",
    **{
        f"stall_{name}": f"above {_percent(STALL)} of the cycles between instructions, if less than"
        f" {_percent(BOUND)} of the issue slots are used (CPIStall)"
        for name in STALLS
        if name not in ("selected", "not_selected")
    },
    **{
        f"pipe_{name.lower()}": f"at least {_percent(LIMITING)} (HighPipeUtilization)"
        for name in _PIPES
    },
    "fma_share": f"below {_percent(1 - NOTABLE)} (FPInstructions)",
    "lanes": _LANES_BELOW,
    "unpredicated_lanes": _LANES_BELOW,
}


class Term(NamedTuple):
    """A number of tables, charts and diagnoses that is not a counter."""

    name: str
    unit: str
    definition: str
    source: str  # how it is obtained
    threshold: str = ""


TERMS = (
    Term("time", "s", "median of the times of one call", "timed samples"),
    Term("speed-up", "", "ratio of times, before to after", "timed samples of the same rounds"),
    Term("useful", "B/s", "compulsory bytes divided by the time", "formula of the routine, time"),
    Term("executed", "FLOP/s", "FLOPs of the variant, by the time", "formula of the variant, time"),
    Term("AI", "FLOP/B", "executed FLOPs per requested byte", "formulas of the variant"),
    Term(
        "roof",
        "B/s",
        "bandwidth of the ladder's own ceiling, or of a copy in DRAM without one",
        "timed in the same rounds, or `ado.machine`",
    ),
    Term("of roof", "%", "useful bytes per second, of the roof", "useful / roof"),
    Term(
        "of FMA peak",
        "%",
        "executed FLOPs per second, of the measured peak of FMAs in the problem's precision",
        "executed / `ado.machine`",
    ),
    Term(
        "of mix limit",
        "%",
        "executed FLOPs per second, of the limit of the variant's mix: (1 + f) / 2 of the FMA peak,"
        " if a fraction f of its floating-point instructions are FMAs; only on a GPU",
        "of FMA peak / ((1 + f) / 2)",
    ),
    Term(
        "nearest limit",
        "%",
        "the larger one of the shares of the roof and of the FMA peak, with the name of the limit;"
        " the peak of tensor cores replaces an FMA peak that the variant exceeds",
        "of roof, of FMA peak",
    ),
    Term(
        "limiter",
        "",
        "the unit with the largest share of its peak in the longest kernel, latency, or too little"
        " work; without counters, a measured ceiling of which time and formulas prove a share",
        "compute, L1, L2 and DRAM",
        "see compute",
    ),
    Term(
        "of the measured DRAM bandwidth",
        "%",
        "counted DRAM bytes per second, of the bandwidth measured for the same mix of reads and"
        " writes; evidence beside the limiter, which it does not decide",
        "DRAM bytes / time / `ado.machine`",
    ),
    Term(
        "DRAM bytes / compulsory",
        "",
        "counted DRAM bytes per byte that the problem needs",
        "DRAM bytes / formula of the routine",
    ),
    Term(
        "waves",
        "",
        "blocks of the grid, divided by the blocks that can be resident on the device",
        "launch and resources of the kernel",
        "below 1: small grid (SOLBottleneck)",
    ),
    Term(
        "theoretical occupancy",
        "%",
        "warps that registers, shared memory and block size allow, of the maximum",
        "resources of the kernel",
        f"below {_percent(BOUND)} (TheoreticalOccupancy)",
    ),
    Term(
        "gains at most",
        "",
        "the largest ratio of times that a proposed step allows",
        "work that remains, at measured ceilings",
    ),
)
