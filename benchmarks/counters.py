"""Compares the hardware counters of ado.profile with the counters of ncu.

    python benchmarks/counters.py transpose

Every default metric of every kernel of every CUDA variant is read in this process, and by ncu in
another process on the same operands, with cold caches. Counts that the code and the operands
alone determine must be equal; the exit status is 1 if one differs. All other metrics vary between
two runs of the same tool, above all for kernels shorter than 100 us. ncu empties L2 before each
kernel; ado.profile overwrites it, as the timer does. So only ado.profile counts the bytes that are
still in L2 at the end of a kernel, and DRAM traffic may differ by the size of L2. The script prints
the median and the largest relative difference of each metric.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from arguments import parser

import adokernels as ado
from adokernels import _core
from adokernels.measuring.ncu_import import _of_csv
from adokernels.measuring.nsight_report import recorded, run_ncu
from adokernels.measuring.profiling import collect
from adokernels.measuring.stored_call import StoredCall
from adokernels.records.metrics import METRIC_SETS

#: Shapes whose kernels run long enough to compare rates.
SHAPES = {"average_matvec": (256, 512, 1024), "max_plus": (64, 1 << 20), "gpp": (200, 128, 2048, 2)}
IMAGES = (8192, 8192)
#: Counts that the code and the operands alone determine, by the start of their names. Sectors of
#: stores are not among them, because the hardware replays some requests.
EXACT = (
    *("smsp__inst_executed", "smsp__sass_thread_inst_executed", "sm__sass_data_bytes_mem_global"),
    *("l1tex__t_requests", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld"),
)
#: Kernels that poll for other blocks, so their number of instructions varies between runs.
POLLING = ("average_matvec_overlapped",)

#: The name of a kernel, and the values of the metrics that a tool reports.
Launch = tuple[str, dict[str, float]]


class Pair(NamedTuple):
    """One metric of one kernel, as both tools report it."""

    variant: str
    kernel: str
    metric: str
    ours: float
    ncu: float

    @property
    def difference(self) -> float:
        """The difference, relative to the value of ncu."""
        return abs(self.ours - self.ncu) / (abs(self.ncu) or 1)

    @property
    def wrong(self) -> bool:
        """Whether the values differ although they must be equal."""
        exact = self.metric.startswith(EXACT) and self.kernel not in POLLING
        return exact and self.ours != self.ncu


def pairs_of(variant: str, ours: Sequence[Launch], ncu: Sequence[Launch]) -> Iterator[Pair]:
    """Pair the metrics of a variant's kernels. ValueError: the kernels are not the same."""
    if len(ours) != len(ncu):
        raise ValueError(f"{variant} must launch {len(ours)} kernels, got {len(ncu)}")
    for (kernel, mine), (other, theirs) in zip(ours, ncu, strict=True):
        base = kernel.partition("<")[0].rpartition("::")[2]  # ncu writes no namespaces
        if not re.search(rf"\b{re.escape(base)}\b", other):
            raise ValueError(f"{variant} must launch {base}, got {other}")
        for metric in (metric for metric in mine if metric in theirs):
            yield Pair(variant, base, metric, mine[metric], theirs[metric])


def both_profiled(name: str) -> Iterator[Pair]:
    """Read all counters of a routine with both tools, and pair them."""
    routine = ado.routines[name]
    metrics = _core.existing_metrics(list(METRIC_SETS["default"]), _core.chip())
    images = IMAGES if name == "transpose" or routine.halo is not None else None
    operands = routine.task.random_operands(SHAPES.get(name, images))
    problem = routine.problem(*operands, device="cuda")
    for variant in (v for v in routine if v.device == "cuda"):
        if variant.why_unavailable or problem.why_not(variant.name):
            continue
        found = collect(problem.prepare(variant.name).timed, variant.name, metrics, "cold")
        ours = [(k.kernel.name, dict(k.values)) for k in found]
        with tempfile.TemporaryDirectory() as folder:
            stored = StoredCall.of(variant, operands, {}, None)
            options = ["--metrics", ",".join(metrics)]
            report = recorded(stored, Path(folder), options, "cold")
            page = ["--csv", "--page", "raw", "--print-units", "base"]
            text = run_ncu(["--import", str(report), *page], report)
        theirs = [(launch.kernel, dict(launch.values)) for launch in _of_csv(text, report.name)]
        yield from pairs_of(variant.label, ours, theirs)


def summary(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield a line per metric, then a line per wrong count."""
    groups = defaultdict(list)
    for pair in pairs:
        groups[pair.metric].append(pair.difference)
    yield f"{'relative difference':70} kernels  median  largest"
    for metric, found in sorted(groups.items()):
        yield f"{metric:70} {len(found):7} {median(found):7.2%} {max(found):8.2%}"
    for p in (pair for pair in pairs if pair.wrong):
        yield f"{p.variant} {p.kernel} {p.metric} must be equal, got {p.ours:g} and {p.ncu:g}"


def main() -> int:
    names = parser(__doc__, ado.routines).parse_args().routines
    pairs = [pair for name in names for pair in both_profiled(name)]
    print(*summary(pairs), sep="\n")
    return int(not pairs or any(pair.wrong for pair in pairs))


if __name__ == "__main__":
    sys.exit(main())
