"""Records the data of notebooks/05_gpp_roofline.ipynb beyond the stored ladders of gpp.

It samples the warps of the steps that replace divisions and square roots (figures 7 and 8 of the
post), and counts the sectors that pass between L1, L2 and DRAM by their source: in gpp, and in
copies of an array with the three ways of loading. It measures the last step with no energy near a
pole (gpp-si214-far in the parent folder, with the ladders). It needs the extra ``kernels`` and
a GPU whose counters can be read.

    python benchmarks/course/gpp.py FOLDER
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from recording import require, run

import adokernels as ado
from adokernels import _core

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "kernels" / "gpp" / "staging.cu"
#: The problem of notebooks/data/gpp-counted, the problem of the post, and a part of it.
SMALL, SI214, PART = (400, 256, 4096, 2), "si214", (800, 128, 11075, 2)
#: Variants: before the reciprocals, with reciprocals, and with squared moduli; and later ones.
SAMPLED = {
    **dict.fromkeys(("frequency_outside", "reciprocal", "squared_moduli"), SMALL),
    **dict.fromkeys(("sorted_bands", "sorted_by_energy", "blocks_2d", "single_launch"), PART),
}
#: Variants: the baseline; loads that share lines between or within blocks; copies that bypass L1.
TRAFFIC = ("collapse3", "blocked", "blocks_2d", "tiled", "two_rows")
#: Ways of loading, as in the kernel's source, and the 16-byte vectors that a block of 128 threads
#: loads at a time: in tiled, 512 of aqsn, 16 of wx, and 2 of the range of energies.
METHODS, VECTORS, ELEMENTS = ("load", "through_l1", "bypass"), (512, 16, 2), 1 << 22
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


def staging(metrics: list[str]) -> ado.records.Profile:
    """The counters of copies of an array, one per way of loading and number of vectors."""
    ladder = ado.ladder("staging", reference=lambda x: x.copy())
    for method, name in enumerate(METHODS):
        for vectors in VECTORS:
            ladder.cuda_variant(
                f"{name}_{vectors}", source=SOURCE.read_text(encoding="utf-8"), file=SOURCE.name,
                kernel=f"staging<{method}, {vectors}>", block=128, grid=1024,
            )  # fmt: skip
    x = ado.to_device(np.random.default_rng(0).random(ELEMENTS))

    def every_copy() -> None:
        for variant in ladder:
            variant(x)

    profile = ado.profile(every_copy, metrics=metrics)
    require(len(profile) == len(ladder), f"{len(ladder)} kernels must run, got {len(profile)}")
    return profile


def records() -> Iterator[tuple[str, Callable[[], Any]]]:
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
    yield "gpp-staging", partial(staging, metrics)


if __name__ == "__main__":
    run(records(), __doc__)
