"""Definitions and thresholds of the numbers in tables, charts and diagnoses.

Each number is defined here and nowhere else. docs/glossary.md is generated from this table.
Definitions of counters follow the documentation of Nsight Compute 2025.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# NVIDIA's thresholds (Nsight Compute 2025.3: SOLBottleneck and the other rules).
#: The unit with the largest share of its peak is the limiter from this share. Below it, the
#: limiter is latency, or too little work if the grid has fewer than FULL waves.
LIMITING = 0.6
#: A grid fills the device from this number of waves. NVIDIA's rule has 1, but a grid of 0.97 waves
#: leaves only 3 % of the places for blocks empty, so that more blocks can hardly help.
FULL = 0.9
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
    "l1_hit_rate": "sectors found in L1, relative to all sectors that L1 accesses",
    "l2_hit_rate": "sectors found in L2, relative to all sectors that L2 accesses",
    **_of_accesses("load"),
    **_of_accesses("store"),
    **_of_shared("load"),
    **_of_shared("store"),
    "conflict_share": "bank conflicts, relative to all wavefronts of shared loads and stores",
    "instructions": "executed instructions of warps",
    "issue_active": "share of the active cycles in which a scheduler issues an instruction",
    "eligible_warps": "warps per scheduler that could issue, mean over the active cycles",
    "active_warps": "resident warps per scheduler, mean over the active cycles",
    "occupancy": "resident warps per multiprocessor, relative to the maximum, in active cycles",
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
    "fma_share": "share of FMAs in the FP64 and FP32 instructions",
    **{f"{kind}_operations": f"{kind} instructions, one per thread" for kind in _OPERATIONS},
    "lanes": "lanes of a warp that take part in an instruction, mean",
    "unpredicated_lanes": "lanes of a warp that take part and are not switched off by a predicate",
    "branch_efficiency": "branch targets that all lanes share; 0 without such branches",
    "local_bytes": "bytes of accesses to local memory, mostly spilled registers",
    "atomics": "atomic instructions of warps to global memory that return the old value",
    "barriers": "executions of barriers by warps; counted on the emulator only",
    "sm_balance": "mean active cycles of a multiprocessor, relative to the busiest one",
    "sm_active": "share of the kernel's cycles in which a multiprocessor has a warp, mean",
}

#: The difference of each quantity of the emulator from the hardware's counter. The emulator does
#: not report other quantities, because they depend on the machine code or on time.
EMULATED: Mapping[str, str] = {
    **dict.fromkeys(("load_requests", "load_sectors", "store_requests"), "exact"),
    **dict.fromkeys(("ideal_load_sectors", "ideal_store_sectors"), "exact"),
    **dict.fromkeys(("load_sectors_per_request", "barriers", "atomics"), "exact"),
    **dict.fromkeys(("store_sectors", "store_sectors_per_request"), "within 1 %"),
    **dict.fromkeys(("flops", "flops_fp32", "flops_fp64"), "within 1 %"),
    "fma_share": "of PTX; the machine code may combine more operations",
    "lanes": "within 15 %",
    **dict.fromkeys(
        [
            f"shared_{access}_{of}"
            for access in ("load", "store")
            for of in ("wavefronts", "conflicts")
        ],
        "within 1 %, unless the machine code merges accesses",
    ),
    "conflict_share": "of these wavefronts",
}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


_LIMITS = (
    f"at least {_percent(LIMITING)} and the largest share: limiter; compute and memory below:"
    f" latency, or too little work below {FULL} waves; from {_percent(BOUND)}: high throughput;"
    f" shares that differ by less than {100 * BALANCED:.0f} points: balanced (SOLBottleneck)"
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
    Term(
        "time",
        "s",
        "median of the undisturbed samples; in a table with a variant that has too few of them, the"
        " times of all variants are medians of all samples",
        "timed samples",
    ),
    Term("speed-up", "", "ratio of the times in the table, before to after", "time"),
    Term("speed-up (total)", "", "speed-up compared with the first variant", "time"),
    Term("speed-up (step)", "", "speed-up compared with the previous variant", "time"),
    Term(
        "samples",
        "",
        "number of timed samples; each is the time of one call if the caches are cold, the mean of"
        " several calls if they are warm",
        "timed samples",
    ),
    Term(
        "disturbed",
        "",
        "a sample during which a thread waited for a processor for more than 5 % of the time, or"
        " during which the GPU ran below 80 % of the clock that the run reached",
        "waits of threads, SM clock",
    ),
    Term(
        "95 % CI",
        "%",
        "95 % interval of the time, relative to it; the range of the samples if there are fewer"
        " than 11",
        "order statistics of the samples",
    ),
    Term("95 % interval", "s", "as 95 % CI, in seconds", "order statistics of the samples"),
    Term(
        "99.9 % interval",
        "",
        "interval of the ratio of times that decides the verdict; it uses the ratios of the rounds"
        " if the two variants were timed in the same rounds",
        "timed samples of the same rounds",
    ),
    Term(
        "step is",
        "",
        "the verdict: faster, slower or same if the 99.9 % interval proves it, else unclear",
        "99.9 % interval",
    ),
    Term(
        "withheld",
        "",
        "a verdict that is unclear for a reason other than the interval: too few samples, too few"
        " undisturbed ones, a busy or slowed device, halves of the run that contradict each other,"
        " or medians that contradict the rounds",
        "samples and context of the run",
    ),
    Term(
        "resolution",
        "%",
        "the smallest difference of two times that 95 of 100 such runs would find",
        "99.9 % interval",
    ),
    Term("clock", "Hz", "median over the samples of the mean SM clock of a sample", "SM clock"),
    Term(
        "error",
        "ulp",
        "largest difference from the reference in higher precision, in distances between"
        " neighbouring numbers at the reference; for integers, differences of 1, called steps",
        "checks of the results",
    ),
    Term(
        "relative error",
        "",
        "largest difference from this reference, relative to the magnitude of the reference or, if"
        " this is larger, to the root mean square of all its elements",
        "checks of the results",
    ),
    Term("largest error", "ulp", "as error, with its unit in the cell", "checks of the results"),
    Term("useful", "B/s", "compulsory bytes divided by the time", "formula of the routine, time"),
    Term("executed", "FLOP/s", "FLOPs of the variant per second", "formula of the variant, time"),
    Term("AI", "FLOP/B", "executed FLOPs per requested byte", "formulas of the variant"),
    Term(
        "roof",
        "B/s",
        "bandwidth of the ladder's own ceiling, or of a copy in DRAM without one",
        "timed in the same rounds, or `ado.machine`",
    ),
    Term("of roof", "%", "useful bytes per second, relative to the roof", "useful / roof"),
    Term(
        "of FMA peak",
        "%",
        "executed FLOPs per second, relative to the measured FMA peak in the problem's precision",
        "executed / `ado.machine`",
    ),
    Term("of limit", "%", "the largest of the shares of the roof, FMA peak and mix limit", ""),
    Term(
        "of mix limit",
        "%",
        "executed FLOPs per second, relative to the limit of the variant's mix: (1 + f) / 2 of the"
        " FMA peak, if a fraction f of its floating-point instructions are FMAs; only on a GPU",
        "of FMA peak / ((1 + f) / 2)",
    ),
    Term(
        "nearest limit",
        "%",
        "the larger of the shares of the roof and the FMA peak, with the name of the limit;"
        " the peak of tensor cores replaces an FMA peak that the variant exceeds",
        "of roof, of FMA peak",
    ),
    Term(
        "limiter",
        "",
        "the unit with the largest share of its peak in the longest kernel, latency, or too little"
        " work; on a CPU, what experiments show; otherwise, a measured ceiling whose share follows"
        " from time and formulas",
        "compute, L1, L2 and DRAM",
        "see compute",
    ),
    Term(
        "of the measured DRAM bandwidth",
        "%",
        "counted DRAM bytes per second, relative to the bandwidth measured for the same mix of"
        " reads and writes; evidence beside the limiter, which it does not decide",
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
        f"below {FULL}: small grid (SOLBottleneck has 1)",
    ),
    Term(
        "theoretical occupancy",
        "%",
        "warps that registers, shared memory and block size allow, relative to the maximum",
        "resources of the kernel",
        f"below {_percent(BOUND)} (TheoreticalOccupancy)",
    ),
    Term(
        "break-even size",
        "B",
        "compulsory bytes from which a GPU is faster than the CPU at every larger measured size,"
        " interpolated between two sizes",
        "verdicts and ratios of a scan",
    ),
    Term(
        "host link",
        "B/s",
        "bandwidth of copies between host and device, of pageable or pinned memory, in one"
        " direction or both",
        "`ado.machine`",
    ),
    Term(
        "copies at the link's roof",
        "s",
        "time of the copies of operands and result at the measured bandwidth of pageable memory",
        "bytes / host link",
    ),
    Term("kernel alone", "s", "time of the kernel with operands on the GPU", "timed samples"),
    Term("GPU with copies", "s", "time of upload, kernel and download", "timed samples"),
    Term(
        "FP64 tensor peak",
        "FLOP/s",
        "measured peak of dense FP64 matrix products on tensor cores; also for other types",
        "`ado.machine`",
    ),
    Term(
        "possible gain",
        "s",
        "time of a stage beyond the time that its compulsory bytes take at the roof",
        "time, roof",
    ),
    Term("rank", "", "possible gain relative to the largest one, which has rank 100", "times"),
    Term("of all stages", "%", "time of a stage, relative to the sum of all stages", "time"),
    Term("compulsory bytes", "B", "bytes that the problem needs", "formula of the routine"),
    Term(
        "FLOP per level byte",
        "FLOP/B",
        "counted FLOPs per counted byte of L1, L2 or DRAM",
        "hardware counters",
    ),
    Term(
        "gains at most",
        "",
        "the largest ratio of times that a proposed step allows",
        "work that remains, at measured ceilings",
    ),
)

#: The other columns of tables: names, sentences, and numbers of the compiler and the launch.
COLUMNS: Mapping[str, str] = {
    "fastest": "the variant with the smallest time, and the variants that may be as fast",
    "variant": "name of the variant, ceiling or peer",
    "setting": "block shape and values of the parameters",
    "routine": "name of the ladder",
    "what it computes": "summary of the routine",
    "variants": "number of variants per device",
    "device": "processor on which it runs",
    "what it changes": "what distinguishes the variant from the previous one",
    "available": "yes, or why it cannot run here",
    "problem": "lengths of the operands; on a card, what is wrong",
    "CPU": "time of the default call with arrays in host memory on the CPU",
    "with copies, the GPU is": "verdict on the GPU, as in step is",
    "against the default": "speed-up compared with the default setting",
    "it is": "verdict on the setting, as in step is",
    "kernel": "name of the kernel without template arguments",
    "block": "threads per block",
    "registers": "registers per thread",
    "registers per thread": "registers per thread, as compiled",
    "compiler's limit": "limit of registers per thread that the source states",
    "registers left unused": "registers per thread that do not reduce the resident blocks",
    "local memory per thread": "bytes of local memory per thread, mostly spilled registers",
    "shared memory per block": "bytes of static and dynamic shared memory per block",
    "limited by": "the resource that limits the theoretical occupancy",
    "most frequent stall": "stall reason with the largest share of the cycles between instructions",
    "sectors per load": "as sectors per request of loads",
    "sectors per store": "as sectors per request of stores",
    "issue slots": "share of the active cycles in which a scheduler issues an instruction",
    "achieved occupancy": "resident warps, relative to the maximum of a multiprocessor",
    "compute": "share of peak, see the counters",
    "memory": "share of peak, see the counters",
    "L1": "share of peak, see the counters",
    "L2": "share of peak, see the counters",
    "DRAM": "share of peak, see the counters",
    "quantity": "a quantity of the counters",
    "total": "the quantity of all kernels together",
    "compared with the hardware": "difference of the emulator's count from the hardware's counter",
    "load requests": "emulated, as the quantity of the counters",
    "load sectors": "emulated, as the quantity of the counters",
    "store sectors": "emulated, as the quantity of the counters",
    "of ideal": "sectors, relative to the ideal number for the same bytes",
    "shared wavefronts": "emulated passes through the banks of shared memory, loads and stores",
    "of them conflicts": "bank conflicts, relative to these wavefronts",
    "FLOPs": "emulated FP64 and FP32 operations",
    "active lanes": "emulated lanes of a warp that take part in an instruction, mean",
    "change": "the value after, divided by the value before",
    "pipeline": "a variant that consists of several kernels",
    "stage": "kernel of a pipeline",
    "ceiling": "a measured limit of the machine",
    "measured": "measured value of a ceiling",
    "theoretical": "value of a ceiling that follows from clocks and widths",
    "share": "measured divided by theoretical value; for samples, the share of a line or kernel",
    "basis": "how the theoretical value is computed",
    "evidence": "the values that prove the limiter",
    "next step": "the proposed change, and the cards that support it",
    "step": "two successive variants",
    "proposed": "category of the proposed step",
    "changed": "categories of the changes of the next variant",
    "realised gain, 99.9 % interval": "ratio of times of the two variants: the median of the"
    " rounds, and its interval",
    "bound": "whether the realised gain is within gains at most: held, violated, or not tested",
    "target metric": "the metric that the step should improve, before and after",
    "named": "whether the proposal names a change of the next variant",
    "accesses": "kind of the accesses: loads or stores, of global or shared memory",
    "address": "offset of a machine instruction in its kernel",
    "instruction": "a machine instruction",
    "requests": "executed load or store instructions of warps",
    "transfers": "sectors of global memory, or wavefronts of shared memory",
    "ideal": "the transfers if the accesses were coalesced and without bank conflicts, rounded up"
    " for each request",
    "per request": "transfers divided by requests",
    "ideal per request": "ideal transfers divided by requests",
    "lanes": "active lanes per executed instruction, of 32",
    "card": "key of a quick-reference card",
    "indicators": "conditions of a card on counters",
    "strategy": "what a card proposes",
    "advice on an H200": "whether the advice of the card holds on this GPU",
    "indicator": "condition on the quantity",
    "holds before": "whether the condition holds before the step",
    "line": "line of the source",
    "not issued": "share of the samples of the line in which the warp did not issue",
    "stall reasons": "the most frequent warp states of the samples of the line",
    "code": "text of the line",
    "instructions": "machine instructions",
    "first": "address of the first instruction of a loop",
    "last": "address of the last instruction of a loop",
    "depth": "number of loops that contain the instruction",
    **{
        access: f"widths in bits of the {access}, and their number"
        for access in ("global loads", "global stores", "shared loads", "shared stores")
    },
    "copies to shared": "widths in bits of asynchronous copies to shared memory, and their number",
    "local loads": "widths in bits of the loads of local memory, and their number",
    "waits for global loads": "instructions that wait for the result of a global load",
    "source lines": "lines of the source in a loop",
}
