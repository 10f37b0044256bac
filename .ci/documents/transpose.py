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
        ("01: The problem", "transpose[naive]"),
        ("naive 32 x 32.seconds", "naive 32 x 32.registers"),
        with_items=("B4",),
        stored="course/transpose-naive-blocks",
    ),
    Row(
        "B4",
        "Time, cycles and registers of the naive kernel.",
        ("01: The problem", "transpose[naive]", "course.figures"),
        ("naive 32 x 32.seconds", "naive 32 x 32.registers"),
        stored="course/transpose-naive-blocks",
    ),
    Row(
        "B5",
        "Source counters: branch instructions and branch efficiency.",
        ("01: Branches", "ado.profile", "course.figures"),
        ("naive 32 x 32.branch_efficiency",),
        stored="course/transpose-naive-blocks",
    ),
    Row(
        "B6",
        "Sampled lines of the kernel, with their stall reasons.",
        ("01: Where do the warps wait?", "ado.hotspots", "ado.warp_states"),
        ("naive.dominant_stall", "course/transpose-hotspots-naive: hottest"),
    ),
    Row(
        "B7",
        "Expected and found number of sectors of the stores.",
        ("01: Sectors: what the memory moves", "ado.memory_chart"),
        (
            "naive 32 x 32.load_requests",
            "naive 32 x 32.store_sectors",
            "naive 32 x 32.ideal_store_sectors",
        ),
        stored="course/transpose-naive-blocks",
    ),
    Row(
        "B8",
        "The memory chart of the kernel: requests, bytes and hit rates of each level.",
        ("01: Sectors: what the memory moves", "ado.memory_chart"),
        (
            "naive 32 x 32.l1_hit_rate",
            "naive 32 x 32.l2_hit_rate",
            "naive 32 x 32.l2_bytes",
            "naive 32 x 32.dram_bytes",
        ),
        stored="course/transpose-naive-blocks",
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
            "strided_copy[naive]",
            "gather[naive]",
            "06: Strides",
            "06: 5. Random access",
            "ado.sectors",
        ),
        (
            "pattern stride 32",
            "pattern random",
            "course/strided_copy-32: naive.load_sectors_per_request",
            "course/gather-random: in_order > naive",
        ),
    ),
    Row(
        "B14",
        "Access shifted by one element: one sector more.",
        ("strided_copy[naive]", "06: 1. Requests, sectors and cache lines", "ado.sectors"),
        (
            "pattern shifted 1",
            "course/strided_copy-offsets: naive(offset=1).load_sectors_per_request",
            "course/strided_copy-offsets: naive(offset=0).seconds",
            "course/strided_copy-offsets: naive(offset=1).seconds",
        ),
    ),
    Row(
        "B15",
        "Stride 3: a third of the bytes is used.",
        ("strided_copy[naive]", "strided_copy[staged]", "06: Strides", "ado.sectors"),
        (
            "pattern stride 3",
            "course/strided_copy-3: naive.load_sectors_per_request",
            "course/strided_copy-3: naive > staged",
        ),
    ),
    Row(
        "B16",
        "Array of structures or structure of arrays.",
        (
            "component[array_of_structures]",
            "component[structure_of_arrays]",
            "06: 4. Array of structures, structure of arrays",
            "ado.sectors",
        ),
        (
            "course/component-structures: array_of_structures.load_sectors_per_request",
            "course/component-structures: array_of_structures.seconds",
            "course/component-arrays: array_of_structures.load_sectors_per_request",
            "course/component-arrays: array_of_structures.seconds",
        ),
        note="The same kernel for both layouts.",
    ),
    Row(
        "B17",
        "All lanes read the same word.",
        ("gather[naive]", "06: 1. Requests, sectors and cache lines", "ado.sectors"),
        (
            "pattern same word",
            "course/gather-patterns: naive(pattern=same word).load_sectors_per_request",
        ),
        note="The counter includes the coalesced load of the index, 4 sectors per request.",
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
            "adokernels profile --ncu",
            "01: First steps of the profiler",
            "ado.profile",
            "ado.Profile.compare",
            "adokernels profile",
        ),
    ),
    Row(
        "B21",
        "Speed of light of compute, memory, L1, L2 and DRAM.",
        ("01: First steps of the profiler", "ado.speed_of_light", "course.speed_of_light_table"),
        (
            "naive 32 x 32.compute_sol",
            "naive 32 x 32.memory_sol",
            "naive 32 x 32.l1_sol",
            "naive 32 x 32.l2_sol",
            "naive 32 x 32.dram_sol",
        ),
        stored="course/transpose-naive-blocks",
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
        ("01: First change: only the shape of the block", "ado.Sweep.steps", "course.step"),
        ("course/transpose-naive-blocks: naive 32 x 8 > naive 8 x 32",),
    ),
    Row(
        "B26",
        "The SASS of the kernel, with excessive sectors per instruction.",
        ("ado.Variant.sass", "01: Sectors: what the memory moves", "ado.hotspots"),
        (
            "sass transpose-int64-8192-naive.accesses",
            "naive 32 x 32.excess_store_sectors",
            "naive 32 x 32.load_sectors",
            "naive 32 x 32.ideal_load_sectors",
        ),
        stored="course/transpose-naive-blocks",
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
        ("course/exercise-tiled_transpose: naive > solution",),
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
        ("06: 7. Divergence", "ado.divergence"),
        ("course/branch: by_lane.lanes", "course/branch: by_warp.lanes"),
    ),
    Row(
        "B32",
        "Divergence by the parity of the lane.",
        (
            "branch[by_lane]",
            "branch[by_warp]",
            "branch[branch_free]",
            "06: 7. Divergence",
            "ado.divergence",
        ),
        ("divergence", "course/branch: by_lane > by_warp", "course/branch: by_lane > branch_free"),
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
    remark=(
        "The slides use blocks of 32 x 32 threads, as in `transpose-naive-blocks`; the variant"
        " `naive` uses 32 x 8 by default."
    ),
)
