"""Items of the course slides on memory access patterns and branch divergence."""

from __future__ import annotations

from documents.row import Document, Row

_STEPS = "01: Step by step"
_COUNTERS = "01: What the hardware counters say"

ROWS = (
    Row(
        "B1",
        "Topics: access patterns, coalescing, divergence, profiling of kernels.",
        (_STEPS, "ado.diagnose"),
    ),
    Row(
        "B2",
        "The matrix transpose on the CPU.",
        ("transpose[naive_loops]", "01: The same steps on this machine's CPU, live"),
    ),
    Row(
        "B3",
        "The naive kernel: 64-bit integers, 8192 x 8192.",
        ("transpose[naive]", _STEPS),
        ("naive.seconds",),
        with_items=("B4",),
        note="The slides use blocks of 32 x 32 threads, the variant 32 x 8 by default.",
    ),
    Row(
        "B4",
        "Time, cycles and registers of the naive kernel.",
        ("transpose[naive]", "course.figures"),
        ("naive.seconds", "naive.registers"),
    ),
    Row(
        "B5",
        "Source counters: branch instructions and branch efficiency.",
        ("ado.profile", "course.figures"),
        ("naive.branch_efficiency",),
    ),
    Row(
        "B6",
        "Sampled lines of the kernel, with their stall reasons.",
        ("ado.hotspots", "ado.warp_states"),
        ("naive.dominant_stall",),
    ),
    Row(
        "B7",
        "Expected and found number of sectors of the stores.",
        ("ado.memory_chart", _COUNTERS),
        ("naive.store_sectors", "naive.ideal_store_sectors"),
    ),
    Row(
        "B8",
        "The memory chart of the kernel: requests, bytes and hit rates of each level.",
        ("ado.memory_chart", _COUNTERS),
        ("naive.l1_hit_rate", "naive.l2_hit_rate", "naive.l2_bytes", "naive.dram_bytes"),
    ),
    Row(
        "B9",
        "Sectors of 32 bytes, cache lines of 128 bytes.",
        ("ado.sectors",),
        ("pattern aligned",),
    ),
    Row(
        "B10",
        "Transactions are naturally aligned.",
        ("ado.sectors", "transpose[unaligned_rows]"),
        ("pattern shifted 1",),
    ),
    Row(
        "B11",
        "Degree of coalescing: bytes requested, of the bytes transferred.",
        ("ado.sectors", "card coalescing_bandwidth"),
        ("pattern stride 2",),
    ),
    Row(
        "B12",
        "Unit stride: all bytes of the sectors are used.",
        ("ado.sectors", "transpose[copy]"),
        ("pattern aligned",),
    ),
    Row(
        "B13",
        "Stride 32 and random access: one sector per lane.",
        ("ado.sectors",),
        ("pattern stride 32", "pattern random"),
    ),
    Row(
        "B14",
        "Access shifted by one element: one sector more.",
        ("ado.sectors",),
        ("pattern shifted 1",),
    ),
    Row(
        "B15",
        "Stride 3: a third of the bytes is used.",
        ("ado.sectors",),
        ("pattern stride 3",),
    ),
    Row(
        "B16",
        "Array of structures or structure of arrays.",
        ("ado.sectors",),
    ),
    Row(
        "B17",
        "All lanes read the same word.",
        ("ado.sectors",),
        ("pattern same word",),
    ),
    Row(
        "B18",
        "A column of a matrix is an access with a large stride.",
        (_STEPS, "ado.sectors"),
        ("naive.store_sectors_per_request",),
    ),
    Row(
        "B19",
        "The tile in shared memory: coalesced reads, a transposed block, coalesced writes.",
        ("transpose[tiled]", _STEPS),
        ("naive > tiled", "tiled.store_sectors_per_request"),
    ),
    Row(
        "B20",
        "First steps of the profiler: baseline, imported source, tooltips.",
        ("ado.profile", "ado.Profile.compare", "adokernels profile"),
    ),
    Row(
        "B21",
        "Speed of light of compute, memory, L1, L2 and DRAM.",
        ("ado.speed_of_light", "course.speed_of_light_table"),
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
        ("ado.limiter", "card coalescing_latency"),
        ("naive.limiter",),
    ),
    Row(
        "B23",
        "Ratio of the peak rates in single and double precision.",
        ("ado.machine", "01: What is the limit?"),
        ("machine FP32 / FP64",),
    ),
    Row(
        "B24",
        "Categories of limiters: compute, memory, both, latency.",
        ("ado.limiter", "ado.speed_of_light", "docs/diagnosis.md"),
    ),
    Row(
        "B25",
        "Iterate and compare with the previous version.",
        ("ado.Sweep.steps", "course.step", _STEPS),
    ),
    Row(
        "B26",
        "The SASS of the kernel, with excessive sectors per instruction.",
        ("ado.hotspots",),
        ("naive.excess_store_sectors",),
    ),
    Row(
        "B27",
        "Exercise: complete the transpose with a tile in shared memory.",
        (
            "notebooks/exercises/tiled_transpose.cu",
            "ado.Routine.with_variants",
            "course.check_exercise",
        ),
    ),
    Row(
        "B28",
        "Steps of the exercise: change, profile, observe.",
        ("01: Exercises", "ado.profile"),
    ),
    Row(
        "B29",
        "A transpose computes nothing, so bandwidth is its measure.",
        ("01: What is the limit?", "transpose[copy]"),
        ("copy.seconds", "wide.seconds"),
    ),
    Row(
        "B30",
        "The roofline chart: FLOPs, bytes, achieved performance and roofs.",
        ("ado.roofline", "01: The ladder"),
    ),
    Row(
        "B31",
        "Single instruction, multiple threads: masked lanes of a warp.",
        ("ado.divergence",),
    ),
    Row(
        "B32",
        "Divergence by the parity of the lane.",
        ("ado.divergence",),
        ("divergence",),
    ),
    Row(
        "B33",
        "Conclusions: fix the access pattern, use shared memory, avoid divergence, use the tools.",
        ("docs/cards.md", "ado.diagnose"),
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
