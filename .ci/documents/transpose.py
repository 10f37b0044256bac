"""Items of the course slides on memory access patterns and branch divergence."""

from __future__ import annotations

from documents.row import Document, Row

ROWS = (
    Row(
        "B1",
        "Topics: access patterns, coalescing, divergence, profiling of kernels.",
        (
            "06: Summary",
            "01: First steps of the profiler",
            "ado.diagnose",
        ),
    ),
    Row(
        "B2",
        "The matrix transpose on the CPU.",
        (
            "01: The same steps on this machine's CPU, live",
            "transpose[naive_loops]",
        ),
    ),
    Row(
        "B3",
        "The naive kernel: 64-bit integers, 8192 x 8192.",
        (
            "01: The problem",
            "transpose[naive]",
        ),
        ("naive.seconds",),
        with_items=("B4",),
        note="The slides use blocks of 32 x 32 threads, the variant 32 x 8 by default.",
    ),
    Row(
        "B4",
        "Time, cycles and registers of the naive kernel.",
        (
            "01: The problem",
            "transpose[naive]",
            "course.figures",
        ),
        ("naive.seconds", "naive.registers"),
    ),
    Row(
        "B5",
        "Source counters: branch instructions and branch efficiency.",
        (
            "01: Branches",
            "ado.profile",
            "course.figures",
        ),
        ("naive.branch_efficiency",),
    ),
    Row(
        "B6",
        "Sampled lines of the kernel, with their stall reasons.",
        (
            "01: Where do the warps wait?",
            "ado.hotspots",
            "ado.warp_states",
        ),
        ("naive.dominant_stall",),
    ),
    Row(
        "B7",
        "Expected and found number of sectors of the stores.",
        (
            "01: Sectors: what the memory moves",
            "ado.memory_chart",
        ),
        ("naive.store_sectors", "naive.ideal_store_sectors"),
    ),
    Row(
        "B8",
        "The memory chart of the kernel: requests, bytes and hit rates of each level.",
        (
            "01: Sectors: what the memory moves",
            "ado.memory_chart",
        ),
        ("naive.l1_hit_rate", "naive.l2_hit_rate", "naive.l2_bytes", "naive.dram_bytes"),
    ),
    Row(
        "B9",
        "Sectors of 32 bytes, cache lines of 128 bytes.",
        (
            "06: 1. Requests, sectors and cache lines",
            "ado.sectors",
        ),
        ("pattern aligned",),
    ),
    Row(
        "B10",
        "Transactions are naturally aligned.",
        (
            "06: 1. Requests, sectors and cache lines",
            "ado.sectors",
            "transpose[unaligned_rows]",
        ),
        ("pattern shifted 1",),
    ),
    Row(
        "B11",
        "Degree of coalescing: bytes requested, of the bytes transferred.",
        (
            "06: 1. Requests, sectors and cache lines",
            "ado.sectors",
            "card coalescing_bandwidth",
        ),
        ("pattern stride 2",),
    ),
    Row(
        "B12",
        "Unit stride: all bytes of the sectors are used.",
        (
            "06: 1. Requests, sectors and cache lines",
            "ado.sectors",
            "transpose[copy]",
        ),
        ("pattern aligned",),
    ),
    Row(
        "B13",
        "Stride 32 and random access: one sector per lane.",
        (
            "06: Strides",
            "06: 5. Random access",
            "ado.sectors",
        ),
        ("pattern stride 32", "pattern random"),
    ),
    Row(
        "B14",
        "Access shifted by one element: one sector more.",
        (
            "06: 1. Requests, sectors and cache lines",
            "ado.sectors",
        ),
        ("pattern shifted 1",),
    ),
    Row(
        "B15",
        "Stride 3: a third of the bytes is used.",
        (
            "06: Strides",
            "ado.sectors",
        ),
        ("pattern stride 3",),
    ),
    Row(
        "B16",
        "Array of structures or structure of arrays.",
        (
            "06: 4. Array of structures, structure of arrays",
            "ado.sectors",
        ),
    ),
    Row(
        "B17",
        "All lanes read the same word.",
        (
            "06: 1. Requests, sectors and cache lines",
            "ado.sectors",
        ),
        ("pattern same word",),
    ),
    Row(
        "B18",
        "A column of a matrix is an access with a large stride.",
        (
            "06: The transpose of the slides",
            "01: Sectors: what the memory moves",
            "ado.sectors",
        ),
        ("naive.store_sectors_per_request",),
    ),
    Row(
        "B19",
        "The tile in shared memory: coalesced reads, a transposed block, coalesced writes.",
        (
            "course.draw_tile_transpose",
            "01: Shared memory: a tile",
            "transpose[tiled]",
        ),
        ("naive > tiled", "tiled.store_sectors_per_request"),
    ),
    Row(
        "B20",
        "First steps of the profiler: baseline, imported source, tooltips.",
        (
            "01: First steps of the profiler",
            "ado.profile",
            "ado.Profile.compare",
            "adokernels profile",
        ),
    ),
    Row(
        "B21",
        "Speed of light of compute, memory, L1, L2 and DRAM.",
        (
            "01: First steps of the profiler",
            "ado.speed_of_light",
            "course.speed_of_light_table",
        ),
        (
            "naive.compute_sol",
            "naive.memory_sol",
            "naive.l1_sol",
            "naive.l2_sol",
            "naive.dram_sol",
        ),
    ),
    Row(
        "B22",
        "The rule about latency issues.",
        (
            "01: First steps of the profiler",
            "ado.limiter",
            "card coalescing_latency",
        ),
        ("naive.limiter",),
    ),
    Row(
        "B23",
        "Ratio of the peak rates in single and double precision.",
        (
            "01: What is the limit?",
            "ado.machine",
        ),
        ("machine FP32 / FP64",),
    ),
    Row(
        "B24",
        "Categories of limiters: compute, memory, both, latency.",
        (
            "01: First steps of the profiler",
            "ado.limiter",
            "ado.speed_of_light",
            "docs/diagnosis.md",
        ),
    ),
    Row(
        "B25",
        "Iterate and compare with the previous version.",
        (
            "01: First change: only the shape of the block",
            "ado.Sweep.steps",
            "course.step",
        ),
    ),
    Row(
        "B26",
        "The SASS of the kernel, with excessive sectors per instruction.",
        (
            "01: Sectors: what the memory moves",
            "ado.hotspots",
        ),
        ("naive.excess_store_sectors",),
    ),
    Row(
        "B27",
        "Exercise: complete the transpose with a tile in shared memory.",
        (
            "01: Exercise: write the tile",
            "notebooks/exercises/tiled_transpose.cu",
            "ado.Routine.with_variants",
            "course.check_exercise",
        ),
    ),
    Row(
        "B28",
        "Steps of the exercise: change, profile, observe.",
        (
            "01: Exercise: write the tile",
            "ado.profile",
        ),
    ),
    Row(
        "B29",
        "A transpose computes nothing, so bandwidth is its measure.",
        (
            "01: What is the limit?",
            "transpose[copy]",
        ),
        ("copy.seconds", "wide.seconds"),
    ),
    Row(
        "B30",
        "The roofline chart: FLOPs, bytes, achieved performance and roofs.",
        (
            "01: What is the limit?",
            "ado.roofline",
        ),
    ),
    Row(
        "B31",
        "Single instruction, multiple threads: masked lanes of a warp.",
        (
            "06: 7. Divergence",
            "ado.divergence",
        ),
    ),
    Row(
        "B32",
        "Divergence by the parity of the lane.",
        (
            "06: 7. Divergence",
            "ado.divergence",
        ),
        ("divergence",),
    ),
    Row(
        "B33",
        "Conclusions: fix the access pattern, use shared memory, avoid divergence, use the tools.",
        (
            "06: Summary",
            "01: When to stop",
            "docs/cards.md",
            "ado.diagnose",
        ),
    ),
)

DOCUMENT = Document(
    letter="B",
    count=33,
    title="GPU performance optimisation, slides of a course (JSC and NVIDIA)",
    address="",
    stored="transpose-int64-8192",
    rows=ROWS,
)
