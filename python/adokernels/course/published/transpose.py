"""Figures of the course slides on the transpose (B): 8192 x 8192 int64, blocks of 32 x 32 threads.

Decimal commas of the slides are points here. The text of the slides lacks some separators; where a
figure is ambiguous, it is omitted, or a comment gives the reason for the reading.
"""

from __future__ import annotations

from adokernels.course.published.figure import Published

DOCUMENT = "Course slides"
DEVICE = "A100"
SOURCE = "CUDA course of the Juelich Supercomputing Centre, slides on performance optimisation"


def _figure(item: str, quantity: str, value: float | str, unit: str, title: str = "") -> Published:
    return Published(
        document=DOCUMENT,
        item=item,
        quantity=quantity,
        value=value,
        unit=unit,
        device=DEVICE,
        variant="naive",
        source=SOURCE,
        title=title,
    )


FIGURES: tuple[Published, ...] = (
    _figure("B4", "seconds", 2.72e-3, "s"),
    _figure("B4", "sm__cycles_elapsed.max", 2_961_102, "", "elapsed cycles"),
    _figure("B4", "registers", 16, ""),
    # The slide has "513"; all its other throughputs have two decimals.
    _figure("B21", "compute_sol", 0.0513, "%"),
    _figure("B21", "memory_sol", 0.5922, "%"),
    _figure("B21", "l1_sol", 0.4258, "%"),
    _figure("B21", "l2_sol", 0.6062, "%"),
    _figure("B21", "dram_sol", 0.2601, "%"),
    _figure("B23", "fp32_over_fp64", 2.0, "times", "ratio of the FP32 and FP64 peaks"),
    _figure("B7", "load_requests", "2.10 M", ""),
    _figure("B26", "load_sectors", 16_777_216, ""),
    _figure("B26", "ideal_load_sectors", 16_777_216, ""),
    _figure("B7", "store_sectors", 67_108_864, ""),
    _figure("B7", "ideal_store_sectors", 16_777_216, ""),
    _figure("B7", "store_sectors_over_ideal", 4.00, "times"),
    _figure("B26", "excess_store_sectors", 50_331_648, ""),
    _figure("B8", "l1_hit_rate", 0.75, "%"),
    _figure("B8", "loaded from L2", "512.00 MB", ""),
    _figure("B8", "stored to L2", "2.00 GB", ""),
    _figure("B5", "smsp__inst_executed_op_branch.sum", 4_194_304, "", "branch instructions"),
    _figure("B5", "branch_efficiency", 0.0, "%"),
    _figure(
        *("B5", "smsp__sass_branch_targets_threads_divergent.avg", 0.0, ""),
        "average divergent branches",
    ),
    _figure("B6", "samples_of_the_end", 0.54, "%", "samples at the end of the kernel"),
    _figure("B6", "samples_of_the_copy", 0.36, "%", "samples at the assignment"),
    _figure("B6", "stalled_long_scoreboard", 0.80, "%", "long scoreboard, of the assignment"),
    _figure("B6", "stalled_mio_throttle", 0.0036, "%", "MIO throttle, of the assignment"),
    _figure("B6", "stalled_wait", 0.0024, "%", "wait, of the assignment"),
)
