"""Records data of notebooks 01, 02 and 05 that the stored ladders lack.

    python benchmarks/course/notebooks.py FOLDER transpose [--only NAME ...]

transpose
    transpose-naive-blocks: the naive kernel with several block shapes, timed in the same rounds,
    each with the counters of the ladders and of branches. transpose-hotspots-naive,
    transpose-heatmap-naive: samples, stall reasons and counts by source line of the naive kernel,
    with the block shape of the slides.
image_filters
    The image has the size of the GTC 2015 talk. image_filters-application: the host time of each
    step of the application: copy the photograph to the device, run the naive variant of each
    filter, copy the edges back. The steps are the peers of a CPU variant of the whole pipeline.
    image_filters-samples-pipeline: samples of the warps of all three kernels.
    image_filters-samples-VARIANT, gaussian_blur-heatmap-VARIANT: samples of the warps of variants
    of the Gaussian, and counts by source line.
gpp
    gpp-samples-VARIANT: samples of the warps of the steps that replace divisions and square roots
    (figures 7 and 8 of the post), and where a later one waits. gpp-traffic-VARIANT: sectors between
    L1, L2 and DRAM by their source. gpp-si214-far, in the parent folder with the ladders: the last
    step with no energy near a pole. This group needs a GPU whose counters can be read.
machine_code
    The machine code of kernels in ladders of the parent folder. This needs a build with machine
    code for their GPU, and nvdisasm, but no GPU. Machine code of another build is
    rejected: its registers per thread must equal the measured ones.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from recording import Records, complete, require, run

import adokernels as ado
from adokernels import _core
from adokernels.records.metrics import METRIC_SETS

# --- 01 -------------------------------------------------------------------------------------------

MATRIX = (8192, 8192)
#: The block shapes that the notebook compares: from the slides, the default, and a narrow one.
BLOCKS = ((32, 32), (32, 8), (8, 32))
#: Branch instructions, and branches whose lanes take different targets.
BRANCHES = ("smsp__inst_executed_op_branch.sum", "smsp__sass_branch_targets_threads_divergent.avg")


def naive_blocks(a: Any) -> ado.records.Sweep:
    """The naive kernel with each of the blocks, as a sweep with counters."""
    naive = ado.transpose["naive"]
    sweep = ado.tune(naive, a, seconds=2, progress=False).sweep
    metrics = _core.existing_metrics([*METRIC_SETS["default"], *BRANCHES], _core.chip("cuda"))
    by_block = {m.block: m for m in sweep}
    measurements = tuple(
        dataclasses.replace(
            by_block[block],
            variant=f"naive {by_block[block].variant}",
            profile=ado.profile(naive, a, block=block, metrics=metrics),
        )
        for block in BLOCKS
    )
    return dataclasses.replace(sweep, measurements=measurements, machine=ado.machine("cuda"))


def transpose() -> Records:
    a = np.random.default_rng(7).integers(-(2**62), 2**62, MATRIX)
    yield "transpose-naive-blocks", partial(naive_blocks, a)
    naive, block = ado.transpose["naive"], BLOCKS[0]
    yield "transpose-hotspots-naive", partial(ado.hotspots, naive, a, block=block, seconds=0.3)
    yield "transpose-heatmap-naive", partial(ado.heatmap, naive, a, block=block)


# --- 02 -------------------------------------------------------------------------------------------

IMAGE = (1600, 2560)
#: Variants before and after the step to coalesced loads, and with the tile in shared memory.
BLURS = ("naive", "coalesced", "shared")


def application(rgba: Any) -> ado.records.Sweep:
    """Time the steps; each one waits for the GPU. The result of all steps together is checked."""
    photo = ado.to_device(rgba)
    gray, blurred, edges = (ado.to_device(rgba[..., 0].copy()) for _ in range(3))

    def finished(call: Callable[..., object], *args: Any, **options: Any) -> Callable[[], None]:
        def step() -> None:
            call(*args, **options)
            ado.synchronize()

        return step

    steps: dict[str, Callable[[], Any]] = {"copy to the device": finished(photo.copy_from, rgba)}
    arrays = ((photo, gray), (gray, blurred), (blurred, edges))
    routines = (ado.grayscale, ado.gaussian_blur, ado.sobel)
    for routine, (source, result) in zip(routines, arrays, strict=True):
        steps[routine.name] = finished(routine, source, variant="naive", out=result)
    works = [*steps.values()]

    def all_steps() -> Any:
        for work in works:
            work()
        return edges.numpy()

    def to_host() -> None:  # its result is not checked
        edges.numpy()

    steps |= {"copy to the host": to_host, "all steps": all_steps}
    cpu = [v.name for v in ado.edge_detect if v.device == "cpu" and not v.ceiling]
    sweep = ado.sweep(
        ado.edge_detect, rgba, device="cpu", variants=cpu[-1:], peers=steps, seconds=5,
        ceilings=False, progress=False,
    )  # fmt: skip
    return complete(sweep, steps)


def image_filters() -> Records:
    rgba = np.random.default_rng(7).integers(0, 256, (*IMAGE, 4), np.uint8)
    gray = np.random.default_rng(7).integers(0, 256, IMAGE, np.uint8)
    yield "image_filters-application", partial(application, rgba)
    pipeline = ado.edge_detect["pipeline_naive"]
    yield "image_filters-samples-pipeline", partial(ado.hotspots, pipeline, rgba, seconds=0.5)
    for name in BLURS:
        variant = ado.gaussian_blur[name]
        yield f"image_filters-samples-{name}", partial(ado.hotspots, variant, gray, seconds=0.5)
        yield f"gaussian_blur-heatmap-{name}", partial(ado.heatmap, variant, gray)


# --- 05 -------------------------------------------------------------------------------------------

#: The problem of notebooks/data/gpp-counted, the problem of the post, and a part of it.
SMALL, SI214, PART = (400, 256, 4096, 2), "si214", (800, 128, 11075, 2)
#: Variants before and with reciprocals, with squared moduli, and a later variant.
SAMPLED = {
    **dict.fromkeys(("frequency_outside", "reciprocal", "squared_moduli"), SMALL),
    "sorted_bands": PART,
}
#: Variants: the baseline; loads that share lines between or within blocks; copies that bypass L1.
TRAFFIC = ("collapse3", "blocked", "blocks_2d", "tiled", "two_rows")
#: Sectors at each level by their source. Metrics that the chip does not have are omitted.
METRICS = (
    *("gpu__time_duration.sum", "l1tex__t_bytes.sum"),
    *("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    *("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    *("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",),
    *("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "l1tex__m_xbar2l1tex_read_sectors.sum"),
    *("l1tex__m_xbar2l1tex_read_bytes.sum", "l1tex__m_l1tex2xbar_write_bytes.sum"),
    *("lrc__xbar2gpc_sectors_op_read.sum", "lrc__lts2lrc_sectors_op_read.sum"),
    *("smsp__inst_executed_op_ldgsts.sum", "smsp__inst_executed_op_ldgsts_cache_bypass.sum"),
    *("lts__t_sectors.sum", "lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum"),
    *("lts__t_sectors_srcunit_tex.sum", "lts__t_sectors_srcunit_tex_op_read.sum"),
    *("lts__t_sectors_srcunit_tex_op_write.sum", "lts__t_sectors_srcunit_tex_lookup_hit.sum"),
    *("lts__t_sectors_srcunit_tex_lookup_miss.sum", "lts__t_sectors_srcunit_ltcfabric.sum"),
    *("lts__t_requests_srcunit_tex.sum", "lts__t_tag_requests.sum"),
    *("dram__bytes_read.sum", "dram__bytes_write.sum", "dram__bytes.sum"),
)


def gpp() -> Records:
    for name, shape in SAMPLED.items():
        few = ado.gpp_operands(shape, seed=0)
        yield f"gpp-samples-{name}", partial(ado.hotspots, ado.gpp[name], *few, seconds=0.5)
    metrics = _core.existing_metrics(list(METRICS), _core.chip("cuda"))
    operands = [ado.to_device(a) for a in ado.gpp_operands(SI214, seed=0)]
    for name in TRAFFIC:
        yield f"gpp-traffic-{name}", partial(ado.profile, ado.gpp[name], *operands, metrics=metrics)
    last = [v.name for v in ado.gpp if v.device == "cuda"][-1]
    far = partial(ado.sweep, ado.gpp, *ado.gpp_operands(SI214, seed=0, near=False), device="cuda")
    yield "../gpp-si214-far", partial(far, variants=[last], progress=False)


# --- Machine code ---------------------------------------------------------------------------------


#: The driver reports at least this number of registers per thread.
LEAST_REGISTERS = 16
#: The variants whose machine code the notebooks and documents discuss, by stored ladder.
LADDERS = {
    "max_plus-float64": ("one_block", "vector_load_small", "vector_load_both"),
    "max_plus-float32": ("one_block",),
    "transpose-int64-8192": ("naive",),
}


def sass_of(ladder: str, variant: str) -> ado.records.Sass:
    """The machine code of a variant in a stored ladder."""
    sweep = ado.load(Path(sys.argv[1]).parent / f"{ladder}.json.xz")
    measured = [k.kernel for k in sweep[variant].profile.kernels]
    arch = f"sm_{sweep.machine.context['cuda']['compute']}"
    sass = ado.routines[sweep.routine][variant].sass(kernels=measured, arch=arch)
    for kernel, known in zip(sass, measured, strict=True):
        registers = max(kernel.registers, LEAST_REGISTERS), known.registers
        require(registers[0] == registers[1], f"registers must be as measured, got {registers}")
    return sass


def machine_code() -> Records:
    for ladder, variants in LADDERS.items():
        for name in variants:
            yield f"{ladder}-{name}-sass", partial(sass_of, ladder, name)


if __name__ == "__main__":
    run(__doc__, transpose, image_filters, gpp, machine_code)
