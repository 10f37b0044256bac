"""Items of "Boosting Application Performance with GPU Memory Access Tuning"."""

from __future__ import annotations

from documents.row import Document, Row

_DEVICES = "04: The devices"
_SMALL = "04: Wide loads of the small array"
_PARITY = "04: Parity and alignment"
_BOTH = "04: Wide loads of both arrays"
_SASS = "04: The inner loop in machine code"
_LATENCIES = "04: Registers and exposed latencies"
_UNUSED = "04: Registers left unused"
_WIDE_BOUNDS = "04: Launch bounds and wide loads"
_PREFETCH = "04: Prefetching, and what it still gains"

ROWS = (
    Row(
        "D1",
        "The device: resident warps per multiprocessor, number of multiprocessors.",
        (
            _DEVICES,
            "ado.machine",
            "ado.Kernel",
        ),
        ("one_block.max_warps", "machine multiprocessors"),
    ),
    Row(
        "D2",
        "The situation: warps wait for memory, and bandwidth is not used.",
        (
            "04: One block",
            "max_plus[one_block]",
        ),
        ("one_block.dram_sol", "one_block.dominant_stall"),
    ),
    Row(
        "D3",
        "The original loop: one point per thread and iteration.",
        (
            "04: One block",
            "max_plus[one_block]",
        ),
        ("one_block.seconds",),
    ),
    Row(
        "D4",
        "Why the small array matters: it is in L1, but is requested at a high rate.",
        (
            "04: Why the small array matters",
            "max_plus[vector_load_small]",
        ),
        (
            "one_block.load_requests",
            "one_block.pipe_lsu",
            "one_block.l1_hit_rate",
            "vector_load_small.load_requests",
        ),
        note="The rate of requests is not the limit here.",
    ),
    Row(
        "D5",
        "Wide loads of the small array.",
        (
            _SMALL,
            "max_plus[vector_load_small]",
        ),
        ("vector_load_small.seconds", "one_block > vector_load_small"),
    ),
    Row(
        "D6",
        "The number of terms must be even.",
        (
            _PARITY,
            "max_plus[vector_load_small]",
        ),
        note="The kernels compute any number of terms; the last ones are loaded one by one.",
    ),
    Row(
        "D7",
        "The small array must be aligned.",
        (
            _PARITY,
            "max_plus[vector_load_small]",
        ),
        note="If it is not aligned, the kernels load its terms one by one.",
    ),
    Row(
        "D8",
        "Wide loads of the big array: two points per thread.",
        (
            _BOTH,
            "max_plus[vector_load_both]",
        ),
        ("vector_load_both.seconds", "one_block > vector_load_both"),
    ),
    Row(
        "D9",
        "The number of points must be even, and rows aligned.",
        (
            _PARITY,
            "max_plus[vector_load_both]",
            "max_plus[vectorised]",
        ),
        note="The variant declines rows that are not aligned. `vectorised` handles them.",
    ),
    Row(
        "D10",
        "The gain of wide loads of both arrays.",
        (
            _BOTH,
            "04: Why the gain differs from the post",
            "max_plus[vector_load_both]",
        ),
        ("one_block > vector_load_both",),
        note="The kernel of the post had more blocks. Here, nearly all time is latency.",
    ),
    Row(
        "D11",
        "Sectors per request of loads of 8 and 16 bytes; their sum does not change.",
        (
            "04: Sectors per request",
            "06: Wider elements",
            "ado.sectors",
            "ado.memory_chart",
        ),
        (
            "pattern aligned of 8 bytes",
            "pattern aligned of 16 bytes",
            "one_block.load_sectors",
            "vector_load_both.load_sectors",
        ),
    ),
    Row(
        "D12",
        "Registers per thread if a multiprocessor holds all possible warps.",
        (
            _DEVICES,
            _LATENCIES,
            "ado.Variant.resources",
        ),
        ("one_block.registers",),
    ),
    Row(
        "D13",
        "How to find the inner loop in SASS.",
        (
            _SASS,
            "ado.Variant.sass",
            "ado.hotspots",
        ),
        ("sass max_plus-float64-one_block.loop",),
    ),
    Row(
        "D14",
        "The load instructions LDG.E.64 and LDG.E.128.",
        (
            _SASS,
            "ado.Variant.sass",
        ),
        (
            "sass max_plus-float64-one_block.accesses",
            "sass max_plus-float64-vector_load_both.accesses",
        ),
    ),
    Row(
        "D15",
        "A register that is reused exposes the latency of a load.",
        (
            _LATENCIES,
            "ado.warp_states",
        ),
        (
            "one_block.stall_long_scoreboard",
            "vector_load_small.stall_long_scoreboard",
            "vector_load_both.stall_long_scoreboard",
        ),
    ),
    Row(
        "D16",
        "Exposed latencies per inner loop of the three versions.",
        (
            _LATENCIES,
            "ado.Variant.sass",
        ),
        (
            "sass max_plus-float64-one_block.waits",
            "sass max_plus-float64-vector_load_small.waits",
            "sass max_plus-float64-vector_load_both.waits",
        ),
        note="Counted in the machine code: first uses of loads that overlap each other.",
    ),
    Row(
        "D17",
        "Wide loads need fewer registers for addresses.",
        (
            _LATENCIES,
            "ado.Variant.sass",
        ),
        (
            "sass max_plus-float64-one_block.loop",
            "sass max_plus-float64-vector_load_both.loop",
        ),
    ),
    Row(
        "D18",
        "Registers of the three versions.",
        (
            _LATENCIES,
            "ado.Variant.resources",
        ),
        ("one_block.registers", "vector_load_small.registers", "vector_load_both.registers"),
    ),
    Row(
        "D19",
        "The compiler saves registers because it does not know the number of warps.",
        (_UNUSED,),
        ("one_block.registers", "one_block_bounded.registers"),
    ),
    Row(
        "D20",
        "Registers left unused.",
        (
            _UNUSED,
            _LATENCIES,
            _WIDE_BOUNDS,
            "ado.Variant.sass",
            "card instruction_parallelism",
        ),
        (
            "sass max_plus-float64-one_block.registers_unused",
            "sass max_plus-float64-vector_load_small.registers_unused",
            "sass max_plus-float64-vector_load_both.registers_unused",
        ),
    ),
    Row(
        "D21",
        "Launch bounds, and the registers of the three versions with them.",
        (
            "04: The change: launch bounds",
            _WIDE_BOUNDS,
            "max_plus[one_block_bounded]",
        ),
        (
            "one_block_bounded.registers",
            "vector_load_small_bounded.registers",
            "vector_load_both_bounded.registers",
        ),
    ),
    Row(
        "D22",
        "With launch bounds, the original loop is as fast as wide loads.",
        (
            _WIDE_BOUNDS,
            "max_plus[one_block_bounded]",
            "max_plus[vector_load_both_bounded]",
        ),
        ("one_block > one_block_bounded", "one_block > vector_load_both_bounded"),
    ),
    Row(
        "D23",
        "Two blocks of 512 threads.",
        (
            "04: Two blocks",
            "max_plus[two_blocks]",
        ),
        ("one_block > two_blocks", "two_blocks.registers"),
    ),
    Row(
        "D24",
        "Conclusion: a hint about the launch may replace a change of the kernel.",
        (
            "04: The whole device",
            "04: Single precision reverses the lesson",
            "max_plus[whole_device]",
        ),
        (
            "one_block_bounded > whole_device",
            "max_plus-float32: one_block > one_block_bounded",
            "max_plus-float32: one_block > vector_load_both_bounded",
        ),
        note="In single precision, bounds alone gain less than bounds and wide loads.",
    ),
    Row(
        "D25",
        "The preceding post: prefetching in registers and in shared memory.",
        (
            _PREFETCH,
            "04: Padding",
            "04: Prefetching in single precision",
            "max_plus[scalar_batched]",
            "max_plus[shared_batched]",
            "max_plus[scalar_rolling]",
            "max_plus[shared_rolling]",
            "max_plus[async_rolling]",
            "max_plus[padded]",
        ),
        ("whole_device > scalar_batched", "whole_device > padded", "async_rolling > padded"),
    ),
    Row(
        "D26",
        "The preceding post: the stall reason long scoreboard.",
        (
            "04: One block",
            "04: The whole device",
            _PREFETCH,
            "ado.warp_states",
        ),
        ("one_block.stall_long_scoreboard", "whole_device.stall_long_scoreboard"),
    ),
)

DOCUMENT = Document(
    letter="D",
    count=26,
    title="Boosting Application Performance with GPU Memory Access Tuning",
    address=(
        "https://developer.nvidia.com/blog/boosting-application-performance-with-gpu-memory-access-"
        "tuning/"
    ),
    stored="max_plus-float64",
    rows=ROWS,
)
