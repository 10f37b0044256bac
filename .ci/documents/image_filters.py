"""Items of "CUDA Optimization with NVIDIA Nsight Eclipse Edition", GTC 2015."""

from __future__ import annotations

from documents.row import Document, Row

_STEPS = "02: Step by step"
_HOTSPOTS = "02: The hotspots"
_AGAIN = "02: Profile again"
_DEVICES = "02: The talk's device and this one"
_RANKED = "The notebook computes ranks of ours from times and compulsory bytes."

ROWS = (
    Row(
        "C1",
        "The optimisation cycle: profile, find the limiter and its indicators, reflect, change.",
        (_STEPS, "ado.diagnose"),
    ),
    Row("C2", "Conversion to grayscale.", ("grayscale[naive]", "02: The application")),
    Row("C3", "Blur with a Gaussian of 7x7.", ("gaussian_blur[naive]", "02: The application")),
    Row(
        "C4",
        "Edges with the weights of Sobel.",
        ("sobel[naive]", "02: The application"),
        note="The slide shows the root of Gx + Gy. Its code and ours add the squares.",
    ),
    Row(
        "C5",
        "Environment of the measurements.",
        ("ado.machine", "adokernels info"),
        ("machine",),
    ),
    Row(
        "C6",
        "Prerequisites: memory spaces and the execution model.",
        ("ado.memory_chart", "ado.Kernel"),
        cannot="prerequisites of the talk, which are not taught here",
    ),
    Row(
        "C7",
        "A new session of the profiler.",
        ("ado.profile", "adokernels profile"),
        cannot="the profiler of the talk no longer exists; one call replaces the session",
    ),
    Row(
        "C8",
        "The timeline of the application.",
        (_HOTSPOTS, "edge_detect[pipeline_naive]"),
        cannot="no timeline is drawn; a pipeline is timed per kernel instead",
    ),
    Row(
        "C9",
        "The first version: one thread per pixel loads its 49 neighbours.",
        ("gaussian_blur[naive]", _STEPS),
        ("naive.seconds",),
    ),
    Row(
        "C10",
        "Grid, blocks and registers of the kernel.",
        ("ado.Variant.resources",),
        ("naive.grid", "naive.block", "naive.registers"),
    ),
    Row(
        "C11",
        "The limiter: latency, because compute and memory are below 60 %.",
        ("ado.limiter", "card coalescing_latency"),
        ("naive.limiter", "naive.compute_sol", "naive.memory_sol"),
        note="On an H200, the first version is bound by L1.",
    ),
    Row(
        "C12",
        "Charts of the utilisation of compute and memory.",
        ("ado.speed_of_light",),
        ("naive.compute_sol", "naive.memory_sol"),
    ),
    Row(
        "C13",
        "Stall reasons: memory operations fill the load/store unit.",
        ("ado.warp_states",),
        ("naive.dominant_stall",),
    ),
    Row(
        "C14",
        "Transactions per request of loads and stores.",
        ("ado.memory_chart", "card coalescing_latency"),
        ("naive.load_sectors_per_request", "naive.store_sectors_per_request"),
    ),
    Row(
        "C15",
        "Table of the transactions of aligned and misaligned accesses.",
        (
            "06: 1. Requests, sectors and cache lines",
            "ado.sectors",
        ),
        ("pattern aligned", "pattern shifted 1"),
    ),
    Row(
        "C16",
        "A warp view: a warp of an 8 x 8 block loads from four rows.",
        (
            "06: The blur of the GTC talk",
            _STEPS,
            "ado.sectors",
        ),
        ("naive.load_sectors_per_request",),
    ),
    Row(
        "C17",
        "Blocks as wide as a warp.",
        ("gaussian_blur[coalesced]", _STEPS),
        ("coalesced.seconds", "naive > coalesced"),
    ),
    Row("C18", "Card: coalescing, latency-bound.", ("card coalescing_latency", "docs/cards.md")),
    Row("C19", "Card: coalescing, memory-bound.", ("card coalescing_bandwidth", "docs/cards.md")),
    Row("C20", "Ranks of the kernels after step 1.", (_HOTSPOTS, _AGAIN), note=_RANKED),
    Row(
        "C21",
        "The Gaussian is still latency-bound.",
        (_STEPS, "ado.limiter"),
        ("coalesced.limiter",),
        note="On an H200, it is bound by issue slots.",
    ),
    Row(
        "C22",
        "The stall reason of execution dependencies.",
        (
            "06: 8. Instruction-level parallelism",
            "ado.warp_states",
            "card instruction_parallelism",
        ),
        ("coalesced.stall_wait", "coalesced.stall_long_scoreboard", "coalesced.dominant_stall"),
    ),
    Row(
        "C23",
        "Two independent chains per thread by unrolling.",
        (
            "06: 8. Instruction-level parallelism",
            "card instruction_parallelism",
            "gaussian_blur[two_pixels]",
        ),
    ),
    Row(
        "C24",
        "Achieved and theoretical occupancy, and its limiter.",
        ("card occupancy", "ado.Variant.resources"),
        ("coalesced.occupancy", "coalesced.theoretical_occupancy"),
    ),
    Row(
        "C25",
        "Latency is hidden by many warps in flight.",
        ("ado.warp_states", "card occupancy"),
        ("coalesced.eligible_warps",),
    ),
    Row(
        "C26",
        "Larger blocks for more resident warps.",
        ("gaussian_blur[occupancy]", "card occupancy"),
        ("occupancy.seconds", "coalesced > occupancy", "occupancy.occupancy"),
    ),
    Row("C27", "Card: occupancy.", ("card occupancy", "docs/cards.md")),
    Row(
        "C28",
        "Card: instruction-level parallelism.",
        ("card instruction_parallelism", "docs/cards.md"),
    ),
    Row("C29", "Ranks of the kernels after step 2.", (_HOTSPOTS, _AGAIN), note=_RANKED),
    Row(
        "C30",
        "Bandwidth of L2 and of device memory.",
        ("ado.memory_chart",),
        ("occupancy.rate_L2", "occupancy.rate_DRAM"),
    ),
    Row(
        "C31",
        "The hit rate of L2.",
        ("ado.memory_chart", "card shared_memory_latency"),
        ("occupancy.l2_hit_rate", "occupancy.l1_hit_rate"),
        note="On an H200, L1 caches the loads, so L2 receives only what misses there.",
    ),
    Row(
        "C32",
        "The pixels of a block in shared memory.",
        ("gaussian_blur[shared]", _STEPS),
        ("shared.seconds", "occupancy > shared"),
    ),
    Row(
        "C33",
        "Card: shared memory, latency-bound.",
        ("card shared_memory_latency", "docs/cards.md"),
    ),
    Row(
        "C34",
        "Card: shared memory, memory-bound.",
        ("card shared_memory_traffic", "docs/cards.md"),
    ),
    Row("C35", "Ranks of the kernels after step 3.", (_HOTSPOTS, _AGAIN), note=_RANKED),
    Row(
        "C36",
        "The load/store unit is busy.",
        ("ado.speed_of_light", "card read_only_path"),
        ("shared.pipe_lsu", "shared.limiter"),
    ),
    Row(
        "C37",
        "Issue slots: schedulers, pipes, and which of them saturate.",
        ("ado.speed_of_light", "ado.profile"),
        ("shared.issue_active",),
    ),
    Row(
        "C38",
        "Loads through the read-only path.",
        ("gaussian_blur[read_only]", "card read_only_path"),
        ("read_only.seconds", "shared > read_only"),
    ),
    Row("C39", "Card: read-only path.", ("card read_only_path", "docs/cards.md")),
    Row(
        "C40",
        "The result of the talk's steps.",
        (_DEVICES, "gaussian_blur[read_only]"),
        ("naive > read_only",),
    ),
    Row(
        "C41",
        "Next: fewer operations, more work per thread. Sobel becomes the hotspot.",
        (_AGAIN, "sobel[naive]"),
        note=_RANKED,
    ),
    Row(
        "C42",
        "Companion code: the separable filter.",
        ("gaussian_blur[separable]", _STEPS),
        ("separable.seconds", "read_only > separable"),
    ),
    Row(
        "C43",
        "Companion code: two pixels per thread.",
        ("gaussian_blur[two_pixels]", _STEPS),
        ("two_pixels.seconds", "separable > two_pixels"),
    ),
    Row(
        "C44",
        "Companion code: 64-bit accesses to shared memory.",
        ("gaussian_blur[wide_shared]", _STEPS),
        ("wide_shared.seconds", "two_pixels > wide_shared"),
    ),
    Row(
        "C45",
        "Companion code: float instead of integer arithmetic.",
        ("gaussian_blur[float_taps]", _STEPS),
        ("float_taps.seconds", "wide_shared > float_taps"),
    ),
    Row(
        "C46",
        "The last row of the table is left to the reader.",
        ("gaussian_blur[sliding_window]", "02: Beyond the talk: up to the memory roof"),
        ("sliding_window.seconds", "float_taps > sliding_window"),
    ),
    Row(
        "C47",
        "Start with the guided analysis, but do not follow it too closely.",
        ("docs/diagnosis.md", "ado.diagnose"),
        note="The page scores the advice: how often it names the step that gained.",
    ),
    Row(
        "C48",
        "References: guides, talks and blogs.",
        cannot="the lists of references are not repeated",
    ),
    Row(
        "C49",
        "Summary: trace, find the hotspot, its limiter and indicators, optimise, iterate.",
        (_HOTSPOTS, _AGAIN, "ado.diagnose"),
    ),
    Row(
        "C50",
        "The companion code, which also has launch bounds and faster other filters.",
        ("gaussian_blur[launch_bounds]", "02: The other two filters", "edge_detect[pipeline_best]"),
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
