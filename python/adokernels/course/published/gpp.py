"""Figures that are published for GPP: a post, a paper, counted codes, and ceilings of a V100.

* The post: "Accelerating HPC Applications with NVIDIA Nsight Compute Roofline Analysis", NVIDIA
  Technical Blog, 2020. OpenACC (Fortran). Its arithmetic intensities refer to DRAM.
* The paper: C. Yang, "8 Steps to 3.7 TFLOP/s on NVIDIA V100 GPU", arXiv:2008.11326.
* The codes: the Fortran codes of the paper, counted by ncu in coursework with a copy of them. Their
  times are not comparable: that GPU has one FP64 unit per 64 FP32 units.
* The ceilings: measured on a V100 with the Empirical Roofline Toolkit, with a simpler kernel of the
  same family.
"""

from __future__ import annotations

from adokernels.charts.published import PublishedPoint, PublishedPoints
from adokernels.course.published.figure import Published
from adokernels.records.machine import Ceiling, Machine

V100 = "V100"
ADA = "GPU of compute capability 8.9"
#: The documents, as tables name them.
POST, PAPER, CODES, TOOLKIT = "Post", "Paper", "Codes", "Toolkit"
SOURCES = {
    POST: "https://developer.nvidia.com/blog/"
    "accelerating-hpc-applications-with-nsight-compute-roofline-analysis/",
    PAPER: "https://arxiv.org/abs/2008.11326",
    CODES: "https://github.com/rashwanth/RooflineAnalysis_On_NVIDIA_GPU",
    TOOLKIT: "https://github.com/cyanguwa/nersc-roofline",
}


def _figure(
    document: str,
    item: str,
    quantity: str,
    value: float | str,
    unit: str,
    variant: str,
    place: str,
    title: str = "",
) -> Published:
    return Published(
        document=document,
        item=item,
        quantity=quantity,
        value=value,
        unit=unit,
        device=ADA if document == CODES else V100,
        variant=variant,
        source=f"{place}, {SOURCES[document]}",
        title=title,
    )


_AI = ("intensity_DRAM", "FLOP/B", "FLOPs per byte, DRAM")


def _intensity(item: str, value: float, variant: str, place: str) -> Published:
    quantity, unit, title = _AI
    return _figure(POST, item, quantity, value, unit, variant, place, title)


_POST = (
    _intensity("E6", 7.39, "collapse3", "figure 2"),
    _figure(POST, "E6", "balance", 7.5, "FLOP/B", "", "figure 2", "FLOPs per byte of the machine"),
    _figure(POST, "E9", "seconds", 1.74, "s", "collapse3", "step 1"),
    _figure(POST, "E9", "seconds", 1.92, "s", "bands_inside", "step 1"),
    _intensity("E9", 20.0, "bands_inside", "figure 3"),
    _figure(POST, "E10", "memory_sol", 0.34, "%", "collapse3", "figure 4"),
    _figure(POST, "E10", "memory_sol", 0.11, "%", "bands_inside", "figure 4"),
    _figure(POST, "E13", "flops_per_second", 2.5e12, "FLOP/s", "frequency_outside", "figure 5"),
    _figure(POST, "E13", "flops_per_second", 2.9e12, "FLOP/s", "squared_moduli", "figure 6"),
    _intensity("E13", 6.3, "squared_moduli", "figure 6"),
    _figure(POST, "E13", "overall", "twice as fast", "", "squared_moduli", "step 3"),
    _figure(POST, "E14", "samples", "fewer, and fewer in wait", "", "reciprocal", "figures 7, 8"),
)
_PAPER = (
    _figure(PAPER, "E21", "flops_per_second", 3.7e12, "FLOP/s", "large_blocks", "abstract"),
    _figure(PAPER, "E21", "fma_share", 0.58, "%", "large_blocks", "abstract"),
    _figure(PAPER, "E21", "peak", 6.7e12, "FLOP/s", "", "abstract, at 1312 MHz"),
)

# Per iteration of the innermost loop: FLOPs, share of FMAs, and bytes at DRAM, L2 and L1.
_COUNTED = {
    "divisions, frequency outside": ("frequency_outside", 160.0, 0.598, 11.0, 18.4, 37.1),
    "reciprocals, collapse(3)": ("", 105.8, 0.460, 21.0, 26.1, 52.5),
    "squared moduli, collapse(3)": ("", 94.6, 0.488, 20.6, 26.1, 52.5),
    "bands inside": ("", 94.6, 0.488, 6.1, 10.7, 51.5),
    "frequency outside": ("simplified_branches", 89.1, 0.508, 13.4, 18.5, 37.1),
    "blocked": ("blocked", 90.5, 0.504, 2.6, 19.6, 42.4),
}
_COLUMNS = {
    "flops": "FLOP",
    "fma_share": "%",
    "bytes_DRAM": "B",
    "bytes_L2": "B",
    "bytes_L1": "B",
}
_CODES = tuple(
    _figure(CODES, "E22", quantity, value, unit, variant, code, f"{code}: {quantity}")
    for code, (variant, *values) in _COUNTED.items()
    for (quantity, unit), value in zip(_COLUMNS.items(), values, strict=True)
)

#: All figures with an item of docs/documents.md.
FIGURES: tuple[Published, ...] = (*_POST, *_PAPER, *_CODES)


def figure(quantity: str, variant: str = "", document: str = POST) -> float:
    """One number, by its quantity and variant."""
    for p in FIGURES:
        if (p.quantity, p.variant, p.document) == (quantity, variant, document):
            return float(p.value)
    raise KeyError(
        f"no published {quantity!r} of {variant or 'the machine'} in the {document.lower()}"
    )


def counted_codes() -> dict[str, dict[str, float]]:
    """FLOPs and bytes of the published codes per iteration, by code and quantity."""
    return {
        code: dict(zip(_COLUMNS, values, strict=True)) for code, (_, *values) in _COUNTED.items()
    }


def _bandwidth(level: str, operation: str, measured: float) -> Ceiling:
    return Ceiling(kind="bandwidth", level=level, operation=operation, measured=measured)


def _peak(operation: str, measured: float) -> Ceiling:
    return Ceiling(kind="compute", level="FP64", operation=operation, measured=measured)


#: A V100 with the ceilings that were measured with the simpler kernel. That of L1 is 80
#: multiprocessors x 128 B x 1.4 GHz.
V100_MACHINE = Machine(
    device="cuda",
    name=V100,
    threads=0,
    ceilings=(
        _bandwidth("DRAM", "copy", 828.758e9),
        _bandwidth("L2", "read", 2996.77e9),
        _bandwidth("L1", "read", 14336e9),
        _peak("fma", 7068.86e9),
        _peak("add", 3535.79e9),
    ),
    context={"source": SOURCES[TOOLKIT]},
)
#: Bytes of L2, and of L1 with shared memory per multiprocessor, from the data sheets.
V100_L2, V100_L1, H200_L1 = 6 << 20, 128 << 10, 256 << 10

#: The points of the post and of the paper.
STEPS = PublishedPoints(
    machine=V100_MACHINE,
    points=(
        PublishedPoint(label="post: baseline", intensities={"DRAM": figure(_AI[0], "collapse3")}),
        PublishedPoint(label="post: step 1", intensities={"DRAM": figure(_AI[0], "bands_inside")}),
        PublishedPoint(
            label="post: before step 3",
            flops_per_second=figure("flops_per_second", "frequency_outside"),
        ),
        PublishedPoint(
            label="post: step 3",
            flops_per_second=figure("flops_per_second", "squared_moduli"),
            intensities={"DRAM": figure(_AI[0], "squared_moduli")},
        ),
        PublishedPoint(
            label="paper: last",
            flops_per_second=figure("flops_per_second", "large_blocks", PAPER),
        ),
    ),
)

# For 1 to 6 frequencies: GFLOP/s, and FLOPs per byte at DRAM, L2 and L1.
_SIMPLER = (
    (2085.8, 2.58, 2.25, 0.87),
    (3593.6, 4.74, 3.34, 1.56),
    (4381.7, 6.89, 3.25, 2.22),
    (4625.5, 9.05, 3.77, 2.86),
    (4599.8, 11.09, 4.36, 3.45),
    (4692.2, 13.21, 5.18, 4.03),
)
#: The simpler kernel with 1 and with 6 frequencies. The points of all six would overlap.
SIMPLER = PublishedPoints(
    machine=V100_MACHINE,
    points=tuple(
        PublishedPoint(
            label=f"{count} frequenc{'ies' if count > 1 else 'y'}",
            flops_per_second=1e9 * rate,
            intensities={"DRAM": dram, "L2": l2, "L1": l1},
        )
        for count, (rate, dram, l2, l1) in enumerate(_SIMPLER, 1)
        if count in (1, 6)
    ),
)
