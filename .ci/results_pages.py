"""The pages of docs/results: the ladders on each page, and the text about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Page:
    """One page of stored ladders.

    Attributes
    ----------
    file, title
        Name of the page in docs/results, and its title.
    summary
        The subject of the ladders; also shown on the first page of the results.
    routines
        The routines of the page, in order.
    introduction
        Further text above the ladders.
    notes
        Text about single records, by their names.
    peers
        True if the page shows the records with functions of other libraries, False if it shows all
        other records.
    """

    file: str
    title: str
    summary: str
    routines: tuple[str, ...]
    introduction: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    peers: bool = False


PAGES = (
    Page(
        file="transpose.md",
        title="Transpose",
        summary="A computation without arithmetic: only the memory access pattern matters.",
        routines=("transpose",),
        notes={"transpose-float32-odd": "The rows of this matrix are not aligned to 16 bytes."},
    ),
    Page(
        file="image_filters.md",
        title="Image filters",
        summary="From L1-bound filters to a DRAM-bound pipeline in one kernel.",
        routines=("grayscale", "gaussian_blur", "sobel", "edge_detect"),
        notes={
            "gaussian_blur-2560x1600": (
                "The first variants are the steps of a talk, [CUDA Optimization with NVIDIA Nsight"
                " Eclipse Edition](https://github.com/chmaruni/nsight-gtc2015) (GTC 2015). The"
                " image has the size of the image in the talk."
            ),
            "edge_detect-16384": (
                "The pipeline on a large image. The table of stages ranks them by what optimising"
                " them could gain."
            ),
        },
    ),
    Page(
        file="reductions.md",
        title="Reductions",
        summary="Kernels that read many bytes and write few. Their ceiling is a pure read.",
        routines=("average_matvec", "max_plus"),
        notes={
            "average_matvec-1024": (
                "The first variants are the steps of *Analysis-Driven Optimization with NVIDIA"
                " Nsight Compute*."
            ),
            "max_plus-float64": (
                "The variants use wide loads, launch bounds and prefetching. They are the steps of"
                " *Boosting Application Performance with GPU Memory Access Tuning*."
            ),
        },
    ),
    Page(
        file="gpp.md",
        title="A compute-bound kernel",
        summary="The self-energy of BerkeleyGW by the generalised plasmon-pole model.",
        routines=("gpp",),
        introduction=(
            "The variants up to `large_blocks` are the steps of *Accelerating HPC Applications with"
            " NVIDIA Nsight Compute Roofline Analysis* and of *8 Steps to 3.7 TFLOP/s on NVIDIA"
            " V100 GPU* ([arXiv:2008.11326](https://arxiv.org/abs/2008.11326))."
        ),
        notes={
            "gpp-counted": (
                "A smaller problem. Counting FLOPs and bytes of accesses makes kernels much slower,"
                " so those counters were read here."
            ),
            "gpp-si214-far": (
                "This problem has the size of gpp-si214, but no energy is near a pole, so every"
                " term takes the same branch."
            ),
        },
    ),
    Page(
        file="access_patterns.md",
        title="Access patterns",
        summary="The cost of strides, indices, structures, branches and dependent instructions.",
        routines=("strided_copy", "gather", "component", "branch", "instruction_parallelism"),
    ),
    Page(
        file="libraries.md",
        title="Other libraries",
        summary="Default variants compared with the same computation in other libraries.",
        routines=(
            *("grayscale", "gaussian_blur", "sobel", "edge_detect"),
            *("average_matvec", "max_plus"),
        ),
        introduction=(
            "Each table contains the default variants of that version, and the installed peers."
            " `python benchmarks/image_filters.py --device cuda` and `python"
            " benchmarks/reductions.py --device cuda` repeat these comparisons."
        ),
        peers=True,
    ),
)

#: The ladder that the README shows for each routine, and its notebook.
HEADLINES = {
    "transpose-float32-8192": "01_transpose",
    "grayscale-16384": "02_image_filters",
    "gaussian_blur-16384": "02_image_filters",
    "sobel-16384": "02_image_filters",
    "edge_detect-16384": "02_image_filters",
    "average_matvec-1024": "03_vector_average_matvec",
    "max_plus-float64": "04_memory_access_tuning",
    "gpp-si214": "05_gpp_roofline",
}
