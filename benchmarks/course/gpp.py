"""Records what notebooks/05_gpp_roofline.ipynb shows beyond the stored ladders of gpp.

It samples the warps of the steps that replace divisions and square roots (figures 7 and 8 of the
post), and counts the sectors that pass between L1, L2 and DRAM by their source: in gpp, and in
copies of an array with the three ways of loading. It needs the extra ``kernels``, a GPU whose
counters can be read, and 40 seconds on an H200. It exits with status 1 if a record is missing.

    python benchmarks/course/gpp.py FOLDER
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import adokernels as ado
from adokernels import _core

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "kernels" / "gpp" / "staging.cu"

#: The problem of notebooks/data/gpp-counted.json, and the post's.
SMALL, SI214 = (400, 256, 4096, 2), "si214"
#: The step before the reciprocals, the reciprocals, and the squared moduli.
SAMPLED = ("frequency_outside", "reciprocal", "squared_moduli")
#: The baseline; loads that share lines between blocks, or within one; copies that bypass L1.
TRAFFIC = ("collapse3", "bands_inside", "blocked", "blocks_2d", "tiled", "two_rows")
SECONDS = 1.0  # of sampling per variant
#: Ways of loading, as in the kernel's source, and the 16-byte vectors that a block of 128 threads
#: loads at a time: those of two_rows for its operands aqsn, aqsm, wx, occ and the range.
METHODS, VECTORS, ELEMENTS = ("load", "through_l1", "bypass"), (512, 128, 16, 8, 2), 1 << 22
#: Sectors at each level by their source. Those that the chip does not have are left out.
METRICS = (
    "gpu__time_duration.sum",
    "l1tex__t_bytes.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l1tex__m_l1tex2xbar_write_bytes.sum",
    "smsp__inst_executed_op_ldgsts.sum",
    "smsp__inst_executed_op_ldgsts_cache_bypass.sum",
    "lts__t_sectors.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum",
    "lts__t_sectors_srcunit_tex_lookup_hit.sum",
    "lts__t_sectors_srcunit_tex_lookup_miss.sum",
    "lts__t_sectors_srcunit_ltcfabric.sum",
    "lts__t_requests_srcunit_tex.sum",
    "lts__t_tag_requests.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__bytes.sum",
)


def staging() -> ado.Ladder:
    """Copies of an array, one per way of loading and number of vectors."""
    ladder = ado.ladder("staging", reference=lambda x: x.copy())
    for method, name in enumerate(METHODS):
        for vectors in VECTORS:
            ladder.cuda(
                f"{name}_{vectors}",
                source=SOURCE.read_text(encoding="utf-8"),
                kernel=f"staging<{method}, {vectors}>",
                block=128,
                grid=1024,
                file=SOURCE.name,
            )
    return ladder


def record(folder: Path) -> list[str]:
    """Write the records; return what is missing."""
    start, missing = time.perf_counter(), []
    small = ado.gpp_problem(SMALL, seed=0)
    for name in SAMPLED:
        hotspots = ado.hotspots(ado.gpp[name], *small, seconds=SECONDS)
        hotspots.save(folder / f"gpp-samples-{name}.json")
        print(f"== {name} ({time.perf_counter() - start:.1f} s)\n{hotspots!r}\n", flush=True)
        if not hotspots.samples:
            missing.append(f"samples of {name}")

    metrics = _core.existing_metrics(list(METRICS), _core.chip("cuda"))
    print("not on this chip:", ", ".join(m for m in METRICS if m not in metrics) or "none")
    operands = [ado.to_device(a) for a in ado.gpp_problem(SI214, seed=0)]
    for name in TRAFFIC:
        profile = ado.profile(ado.gpp[name], *operands, metrics=metrics)
        profile.save(folder / f"gpp-traffic-{name}.json")
        print(f"== {name} ({time.perf_counter() - start:.1f} s)", dict(profile.values), flush=True)
        if not profile.get("lts__t_sectors_srcunit_tex.sum"):
            missing.append(f"traffic of {name}")

    copies = staging()
    x = ado.to_device(np.random.default_rng(0).random(ELEMENTS))

    def every_copy() -> None:
        for variant in copies:
            variant(x)

    profile = ado.profile(every_copy, metrics=metrics)
    profile.save(folder / "gpp-staging.json")
    for kernel in profile:
        print(kernel.kernel.name, dict(kernel.values), flush=True)
    if len(profile) != len(METHODS) * len(VECTORS):
        missing.append(f"profile of every copy: {len(profile)} kernels")
    print(f"finished after {time.perf_counter() - start:.1f} s")
    return missing


def main() -> None:
    """Record, and exit with status 1 if something is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the records, which is created")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    missing = record(folder.resolve())
    for name in missing:
        print(f"FAILED: no {name}", file=sys.stderr)
    raise SystemExit(bool(missing))


if __name__ == "__main__":
    main()
