"""Categories of optimisation steps, and the changes of each variant of the CUDA ladders.

The table is the reference for the score of the advice. It was derived only from the `changes`
sentences of the variants, before any advice was computed. A step has several categories if its
sentence names several changes.
"""

from __future__ import annotations

from adokernels.text import StrEnum


class Step(StrEnum):
    """Category of an optimisation step."""

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

#: Union of the changes in the ladders of the single filters, for the pipeline that uses the fastest
#: kernel of each filter. This step makes all changes at once, so it tests mainly the named stage.
_FILTERS = {_S.COALESCING, _S.OCCUPANCY, _S.REUSE, _S.WIDER, _S.IN_FLIGHT, _S.OPERATIONS, _S.FMA}

#: Categories by routine and variant, relative to the variant before it. The first variant of a
#: ladder changes nothing. An empty set means that no category fits.
CHANGES: dict[str, dict[str, set[Step]]] = {
    "transpose": {
        "narrow_blocks": {_S.COALESCING},
        "tiled": {_S.COALESCING},
        "padded": {_S.BANK_CONFLICTS},
        "coarsened": {_S.IN_FLIGHT},
        "wide": {_S.WIDER},
        # If a row starts within a sector, a warp accesses one more sector per row.
        "unaligned_rows": {_S.COALESCING},
        # Whole rows are contiguous. Asynchronous copies need no registers while they are in flight.
        "few_columns": {_S.COALESCING, _S.IN_FLIGHT},
        "few_rows": {_S.COALESCING, _S.IN_FLIGHT},
        "as_copy": {_S.WIDER},  # 16 bytes per access, without a tile
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
        "read_only": set(),  # since Maxwell, all global loads use the read-only path
        "separable": {_S.OPERATIONS},
        # Two pixels of a column share loads. Each load reads a pair.
        "two_pixels": {_S.REUSE, _S.WIDER},
        # 2x2 pixels share loads. An access has 8 bytes.
        "wide_shared": {_S.WIDER, _S.REUSE},
        "float_taps": {_S.FMA, _S.OPERATIONS},
        # Four pixels per load, dot products instead of multiplications, all in registers.
        "dot_product": {_S.WIDER, _S.OPERATIONS, _S.REUSE},
        # Rows remain in registers. Running sums replace sums of all taps.
        "sliding_window": {_S.REUSE, _S.OPERATIONS},
        # Blocks copy contiguous bytes, and each lane processes only pixels of its own rows.
        "lane_per_row": {_S.COALESCING, _S.OPERATIONS},
    },
    "sobel": {
        "shared": {_S.REUSE},
        "float_fast": {_S.OPERATIONS},
        # Four pixels per access. FP16 instructions compute two pixels each.
        "vectorised": {_S.WIDER, _S.OPERATIONS},
        # The values of the last two rows are reused: no second load or computation.
        "sliding_window": {_S.REUSE, _S.OPERATIONS},
        "lane_per_row": {_S.COALESCING, _S.OPERATIONS},
    },
    "edge_detect": {
        "pipeline_best": _FILTERS,
        # Fusion avoids DRAM transfers of the intermediate images.
        "fused": {_S.FUSION, _S.DRAM_REUSE},
        # Each warp has more loads in flight, and small images are divided among more warps.
        "small_tiles": {_S.IN_FLIGHT, _S.PARALLELISM},
        "pipeline_narrow": {_S.COALESCING, _S.OPERATIONS},
    },
    "average_matvec": {
        "block_per_set": {_S.PARALLELISM},
        "warp_average": {_S.COALESCING},
        # Two stages instead of ten need fewer barriers. Shuffles exchange registers.
        "warp_shuffle": {_S.BARRIERS, _S.REUSE},
        # A matrix product loads the matrix once per tile of sets instead of once per set.
        "average_then_gemm": {_S.REUSE},
        "wide_average": {_S.WIDER, _S.IN_FLIGHT},
        "overlapped": {_S.FUSION},
        # Several thread blocks process a long row. cuBLAS uses tensor cores in float64.
        "split_average_then_gemm": {_S.PARALLELISM, _S.OPERATIONS},
        # The launch and the first loads of the matrix product overlap the averages.
        "row_product": {_S.FUSION, _S.DRAM_REUSE},
        "small_sets": {_S.FUSION},
    },
    "max_plus": {
        "vector_load_small": {_S.WIDER},
        "vector_load_both": {_S.WIDER},
        # With more registers per thread, the compiler can keep more loads in flight.
        "one_block_bounded": {_S.IN_FLIGHT},
        "vector_load_small_bounded": {_S.WIDER},
        "vector_load_both_bounded": {_S.WIDER},
        # Two blocks can use two multiprocessors. With the launch bounds, both also fit on one.
        "two_blocks": {_S.PARALLELISM, _S.OCCUPANCY},
        "whole_device": {_S.PARALLELISM},
        "scalar_batched": {_S.IN_FLIGHT},
        # Prefetching is unchanged. Shared memory instead of registers allows more resident warps.
        "shared_batched": {_S.IN_FLIGHT, _S.OCCUPANCY},
        "scalar_rolling": {_S.IN_FLIGHT},
        "shared_rolling": {_S.IN_FLIGHT, _S.OCCUPANCY},
        "async_rolling": {_S.IN_FLIGHT},
        "padded": {_S.BANK_CONFLICTS},
        # 16 bytes of each of two rows at a time.
        "vectorised": {_S.WIDER, _S.IN_FLIGHT},
        "split_terms": {_S.PARALLELISM},
        # One barrier per block replaces two barriers per level of a tree reduction.
        "one_barrier": {_S.BARRIERS},
        "few_terms": {_S.WIDER, _S.IN_FLIGHT},
    },
    "strided_copy": {
        "batched": {_S.IN_FLIGHT},
        # Each vector is requested once, although a warp uses only a part of it.
        "staged": {_S.COALESCING, _S.WIDER},
    },
    "gather": {
        "batched": {_S.IN_FLIGHT},
        "vector_index": {_S.WIDER},
        "evict_first": {_S.DRAM_REUSE},
    },
    "component": {
        "batched": {_S.IN_FLIGHT},
        "staged": {_S.COALESCING, _S.WIDER},
        # Neighbouring points are neighbours in memory.
        "structure_of_arrays": {_S.COALESCING, _S.WIDER},
    },
    "gpp": {
        # Each value is loaded once, so reloads from DRAM and caches are avoided.
        "bands_inside": {_S.REUSE, _S.DRAM_REUSE},
        # A launch with one frequency needs fewer registers per thread.
        "frequency_outside": {_S.OCCUPANCY},
        "reciprocal": {_S.OPERATIONS},
        "squared_moduli": {_S.OPERATIONS},
        # One branch is removed, and the others have fewer operations.
        "simplified_branches": {_S.DIVERGENCE, _S.OPERATIONS},
        "blocked": {_S.DRAM_REUSE, _S.REUSE},
        "swapped_indices": {_S.COALESCING},
        "large_blocks": {_S.OCCUPANCY},
        "hoisted_invariants": {_S.OPERATIONS},
        "one_reciprocal": {_S.OPERATIONS},
        "fast_reciprocal": {_S.OPERATIONS},
        "skip_empty_bands": {_S.OPERATIONS},
        "branch_free": {_S.DIVERGENCE},
        # After sorting, all lanes of a warp take the same branch. The simple case has fewer
        # operations.
        "sorted_bands": {_S.OPERATIONS, _S.DIVERGENCE},
        "sorted_by_energy": {_S.OPERATIONS, _S.DIVERGENCE},
        "blocks_2d": {_S.REUSE},
        # Staging in shared memory with asynchronous copies. The same kernel adds the sums of the
        # thread blocks.
        "single_launch": {_S.REUSE, _S.IN_FLIGHT, _S.FUSION},
        # Staging in shared memory. Asynchronous copies need no registers while they are in flight.
        "tiled": {_S.REUSE, _S.IN_FLIGHT},
        "two_rows": {_S.REUSE},
        "moments": {_S.OPERATIONS},
    },
    "branch": {
        "branch_free": {_S.DIVERGENCE},
        # Each element takes one formula instead of both. All lanes of a warp take the same one.
        "by_warp": {_S.OPERATIONS, _S.DIVERGENCE},
        # Two elements per access. Without shared memory, there are no barriers.
        "pairs": {_S.WIDER, _S.BARRIERS},
    },
    "instruction_parallelism": {
        # Independent chains are instruction-level parallelism within a thread.
        "two_chains": {_S.PARALLELISM},
        "four_chains": {_S.PARALLELISM},
        "eight_chains": {_S.PARALLELISM},
        "more_warps": {_S.PARALLELISM, _S.OCCUPANCY},
        "warps_and_chains": {_S.PARALLELISM},
    },
}


def changed_by(routine: str, variant: str) -> set[Step] | None:
    """Return the categories of a variant; None if the table does not contain it."""
    return CHANGES.get(routine, {}).get(variant)
