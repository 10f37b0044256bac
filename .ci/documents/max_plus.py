"""Items of "Boosting Application Performance with GPU Memory Access Tuning"."""

from __future__ import annotations

from documents.row import Document, Row

_WIDE = "04: Wide loads and registers"
_BOUNDS = "04: Launch bounds"
_PREFETCH = "04: Prefetching, and what it still gains"

ROWS = (
    Row(
        "D1",
        "The device: resident warps per multiprocessor, number of multiprocessors.",
        ("ado.machine", "ado.Kernel"),
        ("one_block.max_warps", "machine multiprocessors"),
    ),
    Row(
        "D2",
        "The situation: warps wait for memory, and bandwidth is not used.",
        ("max_plus[one_block]", "04: One block"),
        ("one_block.dram_sol", "one_block.dominant_stall"),
    ),
    Row(
        "D3",
        "The original loop: one point per thread and iteration.",
        ("max_plus[one_block]", "04: One block"),
        ("one_block.seconds",),
    ),
    Row(
        "D4",
        "Why the small array matters: it is in L1, but is requested at a high rate.",
        (_WIDE, "max_plus[vector_load_small]"),
        ("one_block.load_requests", "vector_load_small.load_requests"),
    ),
    Row(
        "D5",
        "Wide loads of the small array.",
        ("max_plus[vector_load_small]", _WIDE),
        ("vector_load_small.seconds", "one_block > vector_load_small"),
    ),
    Row(
        "D6",
        "The number of terms must be even.",
        ("max_plus[vector_load_small]",),
        note="The kernels compute any number of terms; the last ones are loaded one by one.",
    ),
    Row(
        "D7",
        "The small array must be aligned.",
        ("max_plus[vector_load_small]",),
        note="If it is not aligned, the kernels load its terms one by one.",
    ),
    Row(
        "D8",
        "Wide loads of the big array: two points per thread.",
        ("max_plus[vector_load_both]", _WIDE),
        ("vector_load_both.seconds", "one_block > vector_load_both"),
    ),
    Row(
        "D9",
        "The number of points must be even, and rows aligned.",
        ("max_plus[vector_load_both]", "max_plus[vectorised]"),
        note="The variant declines rows that are not aligned. `vectorised` handles them.",
    ),
    Row(
        "D10",
        "The gain of wide loads of both arrays.",
        (_WIDE, "max_plus[vector_load_both]"),
        ("one_block > vector_load_both",),
        note="The kernel of the post had more blocks. One block, as here, lacks loads in flight.",
    ),
    Row(
        "D11",
        "Sectors per request of loads of 8 and 16 bytes; their sum does not change.",
        (
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
        ("ado.Variant.resources", _WIDE),
        ("one_block.registers",),
    ),
    Row(
        "D13",
        "How to find the inner loop in SASS.",
        ("ado.hotspots",),
    ),
    Row(
        "D14",
        "The load instructions LDG.E.64 and LDG.E.128.",
        ("ado.hotspots",),
    ),
    Row(
        "D15",
        "A register that is reused exposes the latency of a load.",
        (_WIDE, "ado.warp_states"),
        ("one_block.stall_long_scoreboard",),
    ),
    Row(
        "D16",
        "Exposed latencies per inner loop of the three versions.",
        (_WIDE,),
        (
            "one_block.stall_long_scoreboard",
            "vector_load_small.stall_long_scoreboard",
            "vector_load_both.stall_long_scoreboard",
        ),
        note="No counter reports them. The cycles of the stall per instruction show the same.",
    ),
    Row(
        "D17",
        "Wide loads need fewer registers for addresses.",
        (_WIDE, "ado.Variant.resources"),
    ),
    Row(
        "D18",
        "Registers of the three versions.",
        ("ado.Variant.resources", _WIDE),
        ("one_block.registers", "vector_load_small.registers", "vector_load_both.registers"),
    ),
    Row(
        "D19",
        "The compiler saves registers because it does not know the number of warps.",
        (_BOUNDS,),
    ),
    Row(
        "D20",
        "Registers left unused.",
        ("ado.Variant.resources", "card instruction_parallelism"),
        (
            "one_block.unused_registers",
            "vector_load_small.unused_registers",
            "vector_load_both.unused_registers",
        ),
    ),
    Row(
        "D21",
        "Launch bounds, and the registers of the three versions with them.",
        ("max_plus[one_block_bounded]", _BOUNDS),
        (
            "one_block_bounded.registers",
            "vector_load_small_bounded.registers",
            "vector_load_both_bounded.registers",
        ),
    ),
    Row(
        "D22",
        "With launch bounds, the original loop is as fast as wide loads.",
        ("max_plus[one_block_bounded]", "max_plus[vector_load_both_bounded]", _BOUNDS),
        ("one_block > one_block_bounded", "one_block > vector_load_both_bounded"),
    ),
    Row(
        "D23",
        "Two blocks of 512 threads.",
        ("max_plus[two_blocks]", _BOUNDS),
        ("one_block > two_blocks", "two_blocks.registers"),
    ),
    Row(
        "D24",
        "Conclusion: a hint about the launch may replace a change of the kernel.",
        (_BOUNDS, "04: The whole device"),
        ("one_block_bounded > whole_device",),
    ),
    Row(
        "D25",
        "The preceding post: prefetching in registers and in shared memory.",
        (
            "max_plus[scalar_batched]",
            "max_plus[shared_batched]",
            "max_plus[scalar_rolling]",
            "max_plus[shared_rolling]",
            "max_plus[async_rolling]",
            "max_plus[padded]",
            _PREFETCH,
        ),
        ("whole_device > scalar_batched", "whole_device > padded"),
    ),
    Row(
        "D26",
        "The preceding post: the stall reason long scoreboard.",
        ("ado.warp_states", _PREFETCH),
        ("whole_device.stall_long_scoreboard", "whole_device.dominant_stall"),
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
