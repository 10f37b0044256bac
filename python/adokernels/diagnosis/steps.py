"""Categories of optimisation steps, and what each variant of the CUDA ladders really changes.

The table is the truth that the advice is scored against. It was written from the `changes`
sentences of the variants alone, before any advice was computed. A step has several categories if
its sentence names several changes.
"""

from __future__ import annotations

import enum


class Step(enum.StrEnum):
    """What an optimisation step changes."""

    COALESCING = "coalesce accesses"
    BANK_CONFLICTS = "avoid bank conflicts"
    PARALLELISM = "more work in parallel"
    OCCUPANCY = "raise occupancy"
    IN_FLIGHT = "more loads in flight"
    WIDER = "wider accesses"
    REUSE = "reuse in registers or shared memory"
    OPERATIONS = "fewer or cheaper operations"
    FMA = "fused multiply-add"
    DIVERGENCE = "avoid divergence"
    SPILLS = "avoid spills"
    BARRIERS = "fewer barriers"
    DRAM_REUSE = "less DRAM traffic"
    FUSION = "fuse or overlap kernels"
    DONE = "done"


_S = Step

#: What the steps of the ladders of single filters change, for the pipeline that takes the fastest
#: kernel of each: all of it at once, so that step tests little but the stage that is named.
_FILTERS = {_S.COALESCING, _S.OCCUPANCY, _S.REUSE, _S.WIDER, _S.IN_FLIGHT, _S.OPERATIONS, _S.FMA}

#: Categories by routine and variant, relative to the variant before it. The first variant of a
#: ladder changes nothing. An empty set is a step that no category describes.
CHANGES: dict[str, dict[str, set[Step]]] = {
    "transpose": {
        "tiled": {_S.COALESCING},
        "padded": {_S.BANK_CONFLICTS},
        "coarsened": {_S.IN_FLIGHT},
        "wide": {_S.WIDER},
        # Rows that start within a sector make a warp touch one more sector per row.
        "unaligned_rows": {_S.COALESCING},
        "in_place": set(),  # solves a different problem: the output is the input
    },
    "grayscale": {
        # Two pixels per load; dot products of bytes replace single multiplications.
        "two_pixels": {_S.WIDER, _S.OPERATIONS},
        "wide": {_S.IN_FLIGHT, _S.WIDER},
    },
    "gaussian_blur": {
        "coalesced": {_S.COALESCING},
        "occupancy": {_S.OCCUPANCY},
        "launch_bounds": {_S.OCCUPANCY},
        "shared": {_S.REUSE},
        "read_only": set(),  # the read-only path is the normal path since the Maxwell architecture
        "separable": {_S.OPERATIONS},
        # Two pixels of a column share loads; the loads are in pairs.
        "two_pixels": {_S.REUSE, _S.WIDER},
        # 2x2 pixels share loads; the accesses have 8 bytes.
        "wide_shared": {_S.WIDER, _S.REUSE},
        "float_taps": {_S.FMA, _S.OPERATIONS},
        # Four pixels per load, dot products instead of multiplications, all in registers.
        "dot_product": {_S.WIDER, _S.OPERATIONS, _S.REUSE},
        # Rows stay in registers; running sums replace sums of all taps.
        "sliding_window": {_S.REUSE, _S.OPERATIONS},
    },
    "sobel": {
        "shared": {_S.REUSE},
        "float_fast": {_S.OPERATIONS},
        # Four pixels per access; half precision computes two pixels per instruction.
        "vectorised": {_S.WIDER, _S.OPERATIONS},
        # The values of the last two rows are neither loaded nor computed again.
        "sliding_window": {_S.REUSE, _S.OPERATIONS},
    },
    "edge_detect": {
        "pipeline_best": _FILTERS,
        # Fusion is what keeps the intermediate images out of DRAM.
        "fused": {_S.FUSION, _S.DRAM_REUSE},
    },
    "average_matvec": {
        "block_per_set": {_S.PARALLELISM},
        "warp_average": {_S.COALESCING},
        # Two stages instead of ten have fewer barriers; shuffles exchange registers.
        "warp_shuffle": {_S.BARRIERS, _S.REUSE},
        # A matrix product loads the matrix once per tile of sets instead of once per set.
        "average_then_gemm": {_S.REUSE},
        "wide_average": {_S.WIDER, _S.IN_FLIGHT},
        "overlapped": {_S.FUSION},
    },
    "max_plus": {
        "vector_load_small": {_S.WIDER},
        "vector_load_both": {_S.WIDER},
        # More registers per thread let the compiler keep more loads in flight.
        "one_block_bounded": {_S.IN_FLIGHT},
        "vector_load_small_bounded": {_S.WIDER},
        "vector_load_both_bounded": {_S.WIDER},
        # Two blocks can run on two multiprocessors; the launch bounds also let both fit on one.
        "two_blocks": {_S.PARALLELISM, _S.OCCUPANCY},
        "whole_device": {_S.PARALLELISM},
        "scalar_batched": {_S.IN_FLIGHT},
        # Prefetching as before; shared memory instead of registers leaves room for more warps.
        "shared_batched": {_S.IN_FLIGHT, _S.OCCUPANCY},
        "scalar_rolling": {_S.IN_FLIGHT},
        "shared_rolling": {_S.IN_FLIGHT, _S.OCCUPANCY},
        "async_rolling": {_S.IN_FLIGHT},
        "padded": {_S.BANK_CONFLICTS},
        # 16 bytes of each of two rows at a time.
        "vectorised": {_S.WIDER, _S.IN_FLIGHT},
        "split_terms": {_S.PARALLELISM},
    },
    "gpp": {
        # Values that are loaded once come neither from DRAM nor from a cache again.
        "bands_inside": {_S.REUSE, _S.DRAM_REUSE},
        # One frequency per launch needs fewer registers per thread.
        "frequency_outside": {_S.OCCUPANCY},
        "reciprocal": {_S.OPERATIONS},
        "squared_moduli": {_S.OPERATIONS},
        # One branch less, and fewer operations in the others.
        "simplified_branches": {_S.DIVERGENCE, _S.OPERATIONS},
        "blocked": {_S.DRAM_REUSE, _S.REUSE},
        "swapped_indices": {_S.COALESCING},
        "large_blocks": {_S.OCCUPANCY},
        "hoisted_invariants": {_S.OPERATIONS},
        "one_reciprocal": {_S.OPERATIONS},
        "fast_reciprocal": {_S.OPERATIONS},
        "skip_empty_bands": {_S.OPERATIONS},
        "branch_free": {_S.DIVERGENCE},
        # Sorting gives all lanes of a warp the same case, and the simple case has fewer operations.
        "sorted_bands": {_S.OPERATIONS, _S.DIVERGENCE},
        "sorted_by_energy": {_S.OPERATIONS, _S.DIVERGENCE},
        "blocks_2d": {_S.REUSE},
        # Staging in shared memory, with copies that need no registers while they are in flight.
        "tiled": {_S.REUSE, _S.IN_FLIGHT},
        "two_rows": {_S.REUSE},
    },
}


def changed_by(routine: str, variant: str) -> set[Step] | None:
    """Look up what a variant changes; None if the table does not contain it."""
    return CHANGES.get(routine, {}).get(variant)
