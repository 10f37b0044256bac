"""Thresholds of diagnoses, warp states, and the accuracy of emulated counts.

docs/glossary.md has the definitions of all numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    **dict.fromkeys(
        ("shared_atomic_wavefronts", "shared_atomic_conflicts"),
        "exact for 32 bits; the hardware repeats operations on 64 bits more often",
    ),
    "atomic_sectors": "within 4 %",
    "local_bytes": "of PTX, so without spilled registers",
}
