"""Figures of the course slides on the transpose (B): 8192 x 8192 int64, blocks of 32 x 32 threads.

Decimal commas of the slides are points here. The text of the slides lacks some separators; where a
figure is ambiguous, it is omitted, or a comment gives the reason for the reading.
"""

from __future__ import annotations

from adokernels.course.published.figure import Published

DOCUMENT = "Course slides"
DEVICE = "A100"
_SOURCE = "GPU Programming with CUDA (JSC), slides on performance optimisation, slide "
_FIRST_STEPS = _SOURCE + "'Analysis with Nsight Compute, first steps'"
_DEMO = _SOURCE + "'Using Nsight Compute (demo)'"
_CHART = _SOURCE + "'Understanding the memory hierarchy'"
_SASS = _SOURCE + "'Source and SASS view'"


def _figure(
    item: str, quantity: str, value: float | str, unit: str, source: str, title: str = ""
) -> Published:
    return Published(
        document=DOCUMENT,
        item=item,
        quantity=quantity,
        value=value,
        unit=unit,
        device=DEVICE,
        variant="naive",
        source=source,
        title=title,
    )


FIGURES: tuple[Published, ...] = (
    _figure("B4", "seconds", 2.72e-3, "s", _FIRST_STEPS),
    _figure("B4", "sm__cycles_elapsed.max", 2_961_102, "", _FIRST_STEPS, "elapsed cycles"),
    _figure("B4", "registers", 16, "", _FIRST_STEPS),
    # The slide has "513"; all its other throughputs have two decimals.
    _figure("B21", "compute_sol", 0.0513, "%", _FIRST_STEPS),
    _figure("B21", "memory_sol", 0.5922, "%", _FIRST_STEPS),
    _figure("B21", "l1_sol", 0.4258, "%", _FIRST_STEPS),
    _figure("B21", "l2_sol", 0.6062, "%", _FIRST_STEPS),
    _figure("B21", "dram_sol", 0.2601, "%", _FIRST_STEPS),
    _figure("B7", "load_requests", 2.10e6, "", _CHART),
    _figure("B26", "load_sectors", 16_777_216, "", _SASS),
    _figure("B26", "ideal_load_sectors", 16_777_216, "", _SASS),
    _figure("B7", "store_sectors", 67_108_864, "", _DEMO),
    _figure("B7", "ideal_store_sectors", 16_777_216, "", _DEMO),
    _figure("B7", "found / expected", 4.00, "", _DEMO, "store sectors over the ideal"),
    _figure("B26", "excessive_store_sectors", 50_331_648, "", _SASS, "excessive store sectors"),
    _figure("B8", "l1_hit_rate", 0.75, "%", _CHART),
    _figure("B8", "loaded from L2", "512.00 MB", "", _CHART),
    _figure("B8", "stored to L2", "2.00 GB", "", _CHART),
    _figure("B5", "branch_instructions", 4_194_304, "", _DEMO, "branch instructions"),
    _figure("B5", "branch_efficiency", 0.0, "%", _DEMO),
    _figure("B5", "divergent_branches", 0.0, "", _DEMO, "average divergent branches"),
    _figure("B6", "samples_of_the_end", 0.54, "%", _DEMO, "samples at the end of the kernel"),
    _figure("B6", "samples_of_the_copy", 0.36, "%", _DEMO, "samples at the assignment"),
    _figure(
        "B6", "stalled_long_scoreboard", 0.80, "%", _DEMO, "long scoreboard, of the assignment"
    ),
    _figure("B6", "stalled_mio_throttle", 0.0036, "%", _DEMO, "MIO throttle, of the assignment"),
    _figure("B6", "stalled_wait", 0.0024, "%", _DEMO, "wait, of the assignment"),
)
