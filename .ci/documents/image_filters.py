"""Items of "CUDA Optimization with NVIDIA Nsight Eclipse Edition", GTC 2015."""

from __future__ import annotations

from documents.row import Document, Row

_RANKED = "Ours are possible gains: times beyond those of the compulsory bytes."

ROWS = (
    Row(
        "C1",
        "The optimisation cycle: profile, find the limiter and its indicators, reflect, change.",
        ("02: The optimisation cycle", "ado.diagnose"),
    ),
    Row("C2", "Conversion to grayscale.", ("02: The application", "grayscale[naive]")),
    Row(
        "C3",
        "Blur with a Gaussian of 7x7.",
        ("02: The application", "gaussian_blur[naive]"),
        ("naive.seconds",),
    ),
    Row(
        "C4",
        "Edges with the weights of Sobel.",
        ("02: The weights of Sobel, and the length of the gradient", "sobel[naive]"),
        note="The slide shows the root of Gx + Gy. Its code and ours add the squares.",
    ),
    Row(
        "C5",
        "Environment of the measurements.",
        ("02: The environment", "ado.machine", "adokernels info"),
        ("machine",),
    ),
    Row(
        "C6",
        "Prerequisites: memory spaces and the execution model.",
        ("02: Memory spaces and the execution model", "ado.memory_chart", "ado.Kernel"),
    ),
    Row(
        "C7",
        "A new session of the profiler.",
        ("02: A profiler session", "ado.profile", "adokernels profile"),
    ),
    Row(
        "C8",
        "The timeline of the application.",
        ("02: The timeline", "edge_detect[pipeline_naive]"),
    ),
    Row(
        "C9",
        "The first version: one thread per pixel loads its 49 neighbours.",
        ("02: The 7x7 filter kernel", "gaussian_blur[naive]"),
        ("naive.seconds",),
    ),
    Row(
        "C10",
        "Grid, blocks and registers of the kernel.",
        ("02: The 7x7 filter kernel", "ado.Variant.resources"),
        ("naive.grid", "naive.block", "naive.registers"),
    ),
    Row(
        "C11",
        "The limiter: latency, because compute and memory are below 60 %.",
        ("02: Identify the performance limiter", "ado.limiter", "card coalescing_latency"),
        ("naive.limiter", "naive.compute_sol", "naive.memory_sol"),
        note="On an H200, the first version is bound by L1.",
    ),
    Row(
        "C12",
        "Charts of the utilisation of compute and memory.",
        ("02: Identify the performance limiter", "ado.speed_of_light"),
        ("naive.compute_sol", "naive.memory_sol"),
    ),
    Row(
        "C13",
        "Stall reasons: memory operations fill the load/store unit.",
        ("02: Indicators: memory stalls", "ado.warp_states"),
        ("naive.dominant_stall", "course/image_filters-samples-naive: hottest"),
    ),
    Row(
        "C14",
        "Transactions per request of loads and stores.",
        (
            "02: More indicators: transactions per request",
            "ado.memory_chart",
            "card coalescing_latency",
        ),
        ("naive.load_sectors_per_request", "naive.store_sectors_per_request"),
    ),
    Row(
        "C15",
        "Table of the transactions of aligned and misaligned accesses.",
        ("02: Global memory transactions: aligned and misaligned accesses", "ado.sectors"),
        ("pattern aligned", "pattern shifted 1"),
    ),
    Row(
        "C16",
        "A warp view: a warp of an 8 x 8 block loads from four rows.",
        ("02: A warp view", "ado.sectors"),
        ("naive.load_sectors_per_request", "coalesced.load_sectors_per_request"),
    ),
    Row(
        "C17",
        "Blocks as wide as a warp.",
        ("02: Flatten the warp", "gaussian_blur[coalesced]"),
        ("coalesced.seconds", "naive > coalesced"),
    ),
    Row(
        "C18",
        "Card: coalescing, latency-bound.",
        (
            "02: Cards: coalescing, for latency-bound and for memory-bound kernels",
            "card coalescing_latency",
            "docs/cards.md",
        ),
    ),
    Row(
        "C19",
        "Card: coalescing, memory-bound.",
        (
            "02: Cards: coalescing, for latency-bound and for memory-bound kernels",
            "card coalescing_bandwidth",
            "docs/cards.md",
        ),
    ),
    Row(
        "C20",
        "Ranks of the kernels after step 1.",
        ("02: The hotspot after step 1",),
        ("ranks of coalesced",),
        note=_RANKED,
    ),
    Row(
        "C21",
        "The Gaussian is still latency-bound.",
        ("02: The limiter after step 1", "ado.limiter"),
        ("coalesced.limiter",),
        note="On an H200, it is bound by issue slots.",
    ),
    Row(
        "C22",
        "The stall reason of execution dependencies.",
        ("02: Execution dependencies", "ado.warp_states", "card instruction_parallelism"),
        (
            "coalesced.stall_wait",
            "coalesced.stall_long_scoreboard",
            "coalesced.dominant_stall",
            "course/image_filters-samples-coalesced: wait",
        ),
    ),
    Row(
        "C23",
        "Two independent chains per thread by unrolling.",
        (
            "02: Instruction-level parallelism: 2-way unrolling",
            "card instruction_parallelism",
            "gaussian_blur[two_pixels]",
            "instruction_parallelism[two_chains]",
            "06: 8. Instruction-level parallelism",
        ),
        (
            "separable > two_pixels",
            "course/instruction_parallelism: one_chain > two_chains",
            "course/instruction_parallelism: one_chain > four_chains",
        ),
    ),
    Row(
        "C24",
        "Achieved and theoretical occupancy, and its limiter.",
        ("02: Achieved and theoretical occupancy", "card occupancy", "ado.Variant.resources"),
        ("coalesced.occupancy", "coalesced.theoretical_occupancy"),
    ),
    Row(
        "C25",
        "Latency is hidden by many warps in flight.",
        ("02: Latency, and how warps hide it", "ado.warp_states", "card occupancy"),
        ("coalesced.eligible_warps",),
    ),
    Row(
        "C26",
        "Larger blocks for more resident warps.",
        ("02: Larger blocks", "gaussian_blur[occupancy]", "card occupancy"),
        ("occupancy.seconds", "coalesced > occupancy", "occupancy.occupancy"),
    ),
    Row(
        "C27",
        "Card: occupancy.",
        (
            "02: Cards: occupancy, and instruction-level parallelism",
            "card occupancy",
            "docs/cards.md",
        ),
    ),
    Row(
        "C28",
        "Card: instruction-level parallelism.",
        (
            "02: Cards: occupancy, and instruction-level parallelism",
            "card instruction_parallelism",
            "docs/cards.md",
        ),
        (
            "course/instruction_parallelism: one_chain.issue_active",
            "course/instruction_parallelism: four_chains.issue_active",
        ),
    ),
    Row(
        "C29",
        "Ranks of the kernels after step 2.",
        ("02: The hotspot after step 2",),
        ("ranks of occupancy",),
        note=_RANKED,
    ),
    Row(
        "C30",
        "Bandwidth of L2 and of device memory.",
        ("02: L2 and device memory", "ado.memory_chart"),
        ("occupancy.rate_L2", "occupancy.rate_DRAM"),
    ),
    Row(
        "C31",
        "The hit rate of L2.",
        ("02: The L2 hit rate", "ado.memory_chart", "card shared_memory_latency"),
        ("occupancy.l2_hit_rate", "occupancy.l1_hit_rate"),
        note="On an H200, L1 caches the loads, so L2 receives only what misses there.",
    ),
    Row(
        "C32",
        "The pixels of a block in shared memory.",
        ("02: The tile in shared memory", "gaussian_blur[shared]"),
        ("shared.seconds", "occupancy > shared"),
    ),
    Row(
        "C33",
        "Card: shared memory, latency-bound.",
        (
            "02: Cards: shared memory, for latency-bound and for memory-bound kernels",
            "card shared_memory_latency",
            "docs/cards.md",
        ),
    ),
    Row(
        "C34",
        "Card: shared memory, memory-bound.",
        (
            "02: Cards: shared memory, for latency-bound and for memory-bound kernels",
            "card shared_memory_traffic",
            "docs/cards.md",
        ),
    ),
    Row(
        "C35",
        "Ranks of the kernels after step 3.",
        ("02: The hotspot after step 3",),
        ("ranks of shared",),
        note=_RANKED,
    ),
    Row(
        "C36",
        "The load/store unit is busy.",
        ("02: The load/store unit", "ado.speed_of_light", "card read_only_path"),
        ("shared.pipe_lsu", "shared.limiter", "course/image_filters-samples-shared: hottest"),
    ),
    Row(
        "C37",
        "Issue slots: schedulers, pipes, and which of them saturate.",
        ("02: Issue slots and pipes", "ado.speed_of_light", "ado.profile"),
        ("shared.issue_active",),
    ),
    Row(
        "C38",
        "Loads through the read-only path.",
        ("02: Loads through the read-only path", "gaussian_blur[read_only]", "card read_only_path"),
        ("read_only.seconds", "shared > read_only"),
    ),
    Row(
        "C39",
        "Card: read-only path.",
        ("02: Card: read-only path", "card read_only_path", "docs/cards.md"),
    ),
    Row(
        "C40",
        "The result of the talk's steps.",
        ("02: The result of four iterations", "gaussian_blur[read_only]"),
        ("naive > read_only",),
    ),
    Row(
        "C41",
        "Next: fewer operations, more work per thread. Sobel becomes the hotspot.",
        ("02: What to investigate next", "sobel[naive]"),
        ("ranks of read_only",),
        note=_RANKED,
    ),
    Row(
        "C42",
        "Companion code: the separable filter.",
        ("02: Separable filter", "gaussian_blur[separable]"),
        ("separable.seconds", "read_only > separable"),
    ),
    Row(
        "C43",
        "Companion code: two pixels per thread.",
        ("02: Two pixels per thread", "gaussian_blur[two_pixels]"),
        ("two_pixels.seconds", "separable > two_pixels"),
    ),
    Row(
        "C44",
        "Companion code: 64-bit accesses to shared memory.",
        ("02: 64-bit accesses to shared memory", "gaussian_blur[wide_shared]"),
        ("wide_shared.seconds", "two_pixels > wide_shared"),
    ),
    Row(
        "C45",
        "Companion code: float instead of integer arithmetic.",
        ("02: Float instead of int", "gaussian_blur[float_taps]"),
        ("float_taps.seconds", "wide_shared > float_taps"),
    ),
    Row(
        "C46",
        "The last row of the table is left to the reader.",
        ("02: Beyond the talk: up to the memory roof", "gaussian_blur[sliding_window]"),
        ("sliding_window.seconds", "float_taps > sliding_window"),
    ),
    Row(
        "C47",
        "Start with the guided analysis, but do not follow it too closely.",
        ("02: Guided analysis: a starting point", "docs/diagnosis.md", "ado.diagnose"),
        note="The page scores the advice: how often it names the step that gained.",
    ),
    Row(
        "C48",
        "References: guides, talks and blogs.",
        ("02: References",),
    ),
    Row(
        "C49",
        "Summary: trace, find the hotspot, its limiter and indicators, optimise, iterate.",
        ("02: Summary", "ado.diagnose"),
    ),
    Row(
        "C50",
        "The companion code, which also has launch bounds and faster other filters.",
        ("02: Launch bounds", "02: The other two filters", "gaussian_blur[launch_bounds]"),
        ("occupancy > launch_bounds",),
    ),
)

DOCUMENT = Document(
    letter="C",
    count=50,
    title="CUDA Optimization with NVIDIA Nsight Eclipse Edition, GTC 2015",
    address="https://github.com/chmaruni/nsight-gtc2015",
    stored="gaussian_blur-2560x1600",
    rows=ROWS,
)
