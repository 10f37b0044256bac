"""The seven quick-reference cards of a GTC 2015 talk on image filters, checked on an H200.

The talk is "CUDA Optimization with NVIDIA Nsight Eclipse Edition". Its profiler reported
transactions per request, execution dependencies and pipe-busy stalls. The indicators here are the
counters that Nsight Compute reports for the same effects.
"""

from __future__ import annotations

from adokernels.diagnosis.card import Card, Cards, Example, Indicator, Validity
from adokernels.diagnosis.evidence import BOUND, EXCESS, LEANING, STALL

_TALK, _NVIDIA, _OURS = "the talk", "Nsight Compute", "this package"

#: Ratio of L1 bytes to DRAM bytes from which reuse removes traffic.
_TRAFFIC = 2.0
#: Registers per thread that are allocated at a time.
_REGISTERS = 8.0
#: Share of loads in the requests to global memory from which a kernel mainly reads.
_LOADS = 0.5

# Latency-bound: all multiprocessors have work, and neither compute nor memory throughput reaches
# the threshold of a limiter.
_LATENCY = (
    Indicator(
        title="waves of blocks",
        quantities=("waves",),
        comparison=">=",
        threshold=1.0,
        source=_NVIDIA,
    ),
    Indicator(
        title="compute throughput",
        quantities=("compute_sol",),
        unit="%",
        comparison="<",
        threshold=LEANING,
        source=_TALK,
    ),
    Indicator(
        title="memory throughput",
        quantities=("memory_sol",),
        unit="%",
        comparison="<",
        threshold=LEANING,
        source=_TALK,
    ),
)
_MEMORY = (
    Indicator(
        title="memory throughput",
        quantities=("memory_sol",),
        unit="%",
        comparison=">=",
        threshold=LEANING,
        source=_TALK,
    ),
    Indicator(
        title="compute throughput",
        quantities=("compute_sol",),
        unit="%",
        comparison="<",
        threshold=LEANING,
        source=_TALK,
    ),
)
_SECTORS = Indicator(
    title="sectors of loads and stores, relative to the ideal",
    quantities=("load_sectors", "store_sectors"),
    per=("ideal_load_sectors", "ideal_store_sectors"),
    comparison=">=",
    threshold=EXCESS,
    source=_OURS,
)
_MEMORY_STALLS = Indicator(
    title="stalls for global memory",
    quantities=("stall_long_scoreboard", "stall_lg_throttle", "stall_drain"),
    per=("warp_latency",),
    unit="%",
    comparison=">=",
    threshold=STALL,
    source=_NVIDIA,
)
_DEPENDENCIES = Indicator(
    title="stalls for results of arithmetic and global loads",
    quantities=("stall_wait", "stall_long_scoreboard"),
    per=("warp_latency",),
    unit="%",
    comparison=">=",
    threshold=STALL,
    source=_NVIDIA,
)
_COALESCE = (
    "load cooperatively: neighbouring threads access neighbouring elements",
    "change the shape of the block, so that a warp covers one row",
    "align the rows and the first element",
    "change the layout of the data, so that values used together are neighbours",
)
_STAGE = (
    "let the threads of a block load shared data once, into shared memory",
    "keep values that one thread reuses in registers",
    "use constant memory for values that all threads read",
)

_BLUR = "gaussian_blur-16384"
_WIDER_BLOCKS = Example(
    routine="gaussian_blur", before="naive", after="coalesced", stored=_BLUR, published=True
)
_SHARED_PIXELS = Example(
    routine="gaussian_blur", before="occupancy", after="shared", stored=_BLUR, published=True
)

cards = Cards(
    Card(
        key="coalescing_latency",
        title="Coalescing",
        category="latency-bound",
        problem="Each memory request needs many transfers, so warps wait longer for its data.",
        goal="Fewer sectors per request, and thus a lower latency.",
        indicators=(*_LATENCY, _MEMORY_STALLS, _SECTORS),
        strategy=_COALESCE,
        examples=(
            _WIDER_BLOCKS,
            Example(
                routine="grayscale", before="naive", after="two_pixels", stored="grayscale-16384"
            ),
        ),
        validity=Validity.HOLDS,
        why=(
            "A request is still divided into sectors, and each of them is a separate transfer from"
            " L1 or L2. The step of the talk gains here too, but its first kernel is not"
            " latency-bound on an H200: the wavefronts of L1 are the limiter, so the card for"
            " memory-bound kernels applies. The first kernel of grayscale is latency-bound: it"
            " loads the bytes of a pixel one by one, and each load accesses all sectors of the"
            " pixels."
        ),
        item="C18",
    ),
    Card(
        key="coalescing_bandwidth",
        title="Coalescing",
        category="memory-bound",
        problem="Sectors contain unused bytes, and they occupy the memory system.",
        goal="More useful bytes per sector, and thus less traffic.",
        indicators=(*_MEMORY, _SECTORS),
        strategy=_COALESCE,
        examples=(
            _WIDER_BLOCKS,
            Example(
                routine="transpose",
                before="naive",
                after="tiled",
                stored="transpose-float32-8192",
            ),
        ),
        validity=Validity.HOLDS,
        why=(
            "L1 and L2 still transfer whole sectors. Both caches are larger than on a Tesla K40,"
            " so more of these sectors are cache hits and cause no DRAM traffic. Unused bytes in"
            " them still consume bandwidth of L1 and of the crossbar to L2, which can then limit"
            " the kernel."
        ),
        item="C19",
    ),
    Card(
        key="occupancy",
        title="Occupancy",
        category="latency-bound",
        problem="Too few warps are resident to hide the latency.",
        goal="More resident warps, so that a scheduler finds an eligible warp in each cycle.",
        indicators=(
            *_LATENCY,
            Indicator(
                title="achieved occupancy",
                quantities=("occupancy",),
                unit="%",
                comparison="<",
                threshold=LEANING,
                source=_TALK,
            ),
            _DEPENDENCIES,
            Indicator(
                title="eligible warps per scheduler",
                quantities=("eligible_warps",),
                comparison="<",
                threshold=1.0,
                source=_OURS,
            ),
        ),
        strategy=(
            "change the block size",
            "use less shared memory per block",
            "use fewer registers per thread, for example by launch bounds or by a smaller kernel",
        ),
        examples=(
            Example(
                routine="gaussian_blur",
                before="coalesced",
                after="occupancy",
                stored=_BLUR,
                published=True,
            ),
            Example(
                routine="gpp",
                before="bands_inside",
                after="frequency_outside",
                stored="gpp-counted",
            ),
        ),
        validity=Validity.HOLDS,
        why=(
            "The step of the talk gains nothing here. A multiprocessor of an H200 holds twice as"
            " many blocks as one of a Tesla K40, so the small blocks already reach the full"
            " theoretical occupancy. The advice holds for kernels that are limited by registers,"
            " such as those of gpp. Fewer registers per thread help only if the compiler does not"
            " spill."
        ),
        item="C27",
    ),
    Card(
        key="instruction_parallelism",
        title="Instruction-level parallelism",
        category="latency-bound",
        problem="A thread has too few independent instructions between dependent ones.",
        goal="More independent work per thread.",
        indicators=(
            *_LATENCY,
            _DEPENDENCIES,
            Indicator(
                title="achieved occupancy",
                quantities=("occupancy",),
                unit="%",
                comparison=">=",
                threshold=LEANING,
                source=_TALK,
            ),
            Indicator(
                title="unused registers per thread",
                quantities=("free_registers",),
                comparison=">=",
                threshold=_REGISTERS,
                source=_OURS,
            ),
        ),
        strategy=(
            "unroll loops",
            "compute several results per thread",
            "issue several independent loads before the first use",
        ),
        examples=(
            Example(
                routine="gaussian_blur",
                before="separable",
                after="two_pixels",
                stored=_BLUR,
                published=True,
            ),
            Example(
                routine="transpose",
                before="padded",
                after="coarsened",
                stored="transpose-float32-8192",
            ),
        ),
        validity=Validity.HOLDS,
        why=(
            "The latency of DRAM has hardly changed, but the bandwidth of an H200 is many times"
            " that of a Tesla K40, so more bytes must be in flight. The Gaussian of the talk gains"
            " for another reason: it is bound by issue slots here, and two pixels per thread share"
            " instructions."
        ),
        item="C28",
    ),
    Card(
        key="shared_memory_latency",
        title="Shared memory",
        category="latency-bound",
        problem="Warps wait for caches, and neither more warps nor more work per thread hides it.",
        goal="A lower latency, by keeping data in shared memory or registers.",
        indicators=(
            *_LATENCY,
            _MEMORY_STALLS,
            Indicator(
                title="L2 hit rate",
                quantities=("l2_hit_rate",),
                unit="%",
                comparison=">=",
                threshold=BOUND,
                source=_OURS,
            ),
            Indicator(
                title="blocks that fit into shared memory, relative to resident ones",
                quantities=("shared_headroom",),
                comparison=">=",
                threshold=_TRAFFIC,
                source=_OURS,
            ),
        ),
        strategy=_STAGE,
        examples=(
            _SHARED_PIXELS,
            Example(routine="gpp", before="blocks_2d", after="tiled", stored="gpp-counted"),
        ),
        validity=Validity.HOLDS,
        why=(
            "Shared memory still has a lower latency than L2, and since Ampere asynchronous copies"
            " fill it without registers. The Gaussian of the talk gains too, but its kernel is no"
            " longer latency-bound: L1 caches global loads on an H200, which a Tesla K40 does not"
            " do by default. Its gain comes from fewer load instructions."
        ),
        item="C33",
    ),
    Card(
        key="shared_memory_traffic",
        title="Shared memory",
        category="memory-bound",
        problem="The same data are transferred several times.",
        goal="Less traffic between the multiprocessors and global memory.",
        indicators=(
            *_MEMORY,
            Indicator(
                title="L1 bytes, relative to DRAM bytes",
                quantities=("l1_bytes",),
                per=("dram_bytes",),
                comparison=">=",
                threshold=_TRAFFIC,
                source=_OURS,
            ),
        ),
        strategy=_STAGE,
        examples=(
            _SHARED_PIXELS,
            Example(
                routine="transpose",
                before="naive",
                after="tiled",
                stored="transpose-float32-8192",
            ),
        ),
        validity=Validity.HOLDS,
        why=(
            "Caches now absorb most of the repeated transfers from DRAM, so the traffic that"
            " limits a kernel is the traffic of L1 and L2. A tile in shared memory removes it."
            " Registers are even better if one thread reuses the data, because accesses to shared"
            " memory also use the wavefronts of L1."
        ),
        item="C34",
    ),
    Card(
        key="read_only_path",
        title="Read-only data path",
        category="latency-bound",
        problem="Loads and stores saturate the load/store unit.",
        goal="Fewer accesses through the load/store unit.",
        indicators=(
            Indicator(
                title="utilisation of the LSU pipe",
                quantities=("pipe_lsu",),
                unit="%",
                comparison=">=",
                threshold=LEANING,
                source=_OURS,
            ),
            Indicator(
                title="stalls for busy pipes and memory queues",
                quantities=(
                    "stall_lg_throttle",
                    "stall_mio_throttle",
                    "stall_tex_throttle",
                    "stall_math_pipe_throttle",
                ),
                per=("warp_latency",),
                unit="%",
                comparison=">=",
                threshold=STALL,
                source=_NVIDIA,
            ),
            Indicator(
                title="share of loads in requests to global memory",
                quantities=("load_requests",),
                per=("load_requests", "store_requests"),
                unit="%",
                comparison=">=",
                threshold=_LOADS,
                source=_OURS,
            ),
        ),
        strategy=(
            "declare read-only pointers const __restrict__",
            "load with __ldg()",
            "on an H200, use fewer and wider accesses instead",
        ),
        examples=(
            Example(
                routine="gaussian_blur",
                before="shared",
                after="read_only",
                stored=_BLUR,
                published=True,
            ),
        ),
        validity=Validity.OBSOLETE,
        why=(
            "On a Tesla K40, read-only loads used the texture units, which are separate from the"
            " load/store unit. Since Maxwell, both kinds of loads use the same cache, and on an"
            " H200 the LSU pipe executes both: its utilisation is unchanged, and the TEX pipe"
            " remains idle."
        ),
        item="C39",
    ),
)
