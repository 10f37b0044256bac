"""Compares the hardware counters of ado.profile with the counters of ncu.

    python benchmarks/counters.py transpose
    python benchmarks/counters.py max_plus --shape 64x4194304 --json counters.json

Every default metric of every kernel of every CUDA variant is read in this process, and by ncu in
another process on the same operands, with cold caches. Counts that the code and the operands
alone determine must be equal. All other metrics vary between two runs of the same tool. They must
agree within 3 %, or within half a unit where values are small. They are compared only for kernels
of at least 100 us, because the state of the device before a short kernel changes its rates.

ncu empties L2 before each kernel; ado.profile overwrites it, as the timer does. Only ado.profile
counts the bytes that are still in L2 at the end of a kernel, so DRAM traffic may differ by the size
of L2.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from arguments import parser, shape

import adokernels as ado
from adokernels import _core
from adokernels.measuring.ncu_import import _of_csv
from adokernels.measuring.nsight_report import recorded, run_ncu
from adokernels.measuring.profiling import collect
from adokernels.measuring.stored_call import StoredCall
from adokernels.records.metrics import METRIC_SETS

TOLERANCE = 0.03
#: Absolute differences that are allowed where values are small: half a percentage point or half a
#: warp, and counts of rare events.
SLACK, EVENTS = 0.5, 1000
#: Rates of shorter kernels are not compared.
SHORTEST_NANOSECONDS = 100e3
#: Shapes whose kernels run long enough to compare rates.
SHAPES = {"average_matvec": (256, 512, 1024), "max_plus": (64, 1 << 20), "gpp": (200, 128, 2048, 2)}
IMAGES = (8192, 8192)
#: Counts that the code and the operands alone determine, by the start of their names. Sectors of
#: stores are not among them, because the hardware replays some requests.
EXACT = (
    *("smsp__inst_executed", "smsp__sass_thread_inst_executed", "sm__sass_data_bytes_mem_global"),
    *("l1tex__t_requests", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld"),
)
#: Metrics that the state of L2 before the kernel changes by at most the size of L2.
DRAM = ("dram__", "gpu__dram_throughput", "lts__d_sectors", "lts__t_sector_hit_rate")
TIME, DRAM_BYTES = "gpu__time_duration.sum", "dram__bytes.sum"
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
    slack: float = 0.0  # additional difference due to the state of L2

    @property
    def exact(self) -> bool:
        """Whether the two values must be equal."""
        return self.metric.startswith(EXACT) and self.kernel not in POLLING

    @property
    def agree(self) -> bool:
        """Whether the values agree within the limits in the description of this script."""
        if self.exact:
            return self.ours == self.ncu
        limit = max(TOLERANCE * abs(self.ncu), EVENTS if self.metric.endswith(".sum") else SLACK)
        return abs(self.ours - self.ncu) <= limit + self.slack


def pairs_of(
    variant: str, ours: Sequence[Launch], ncu: Sequence[Launch], l2_bytes: float
) -> Iterator[Pair]:
    """Pair the metrics to compare. ValueError: the kernels are not the same."""
    if len(ours) != len(ncu):
        raise ValueError(f"{variant} must launch {len(ours)} kernels, got {len(ncu)}")
    for (kernel, mine), (other, theirs) in zip(ours, ncu, strict=True):
        base = kernel.partition("<")[0].rpartition("::")[2]  # ncu writes no namespaces
        if not re.search(rf"\b{re.escape(base)}\b", other):
            raise ValueError(f"{variant} must launch {base}, got {other}")
        moved = max(mine.get(DRAM_BYTES, 0), theirs.get(DRAM_BYTES, 0))
        from_l2 = min(l2_bytes / moved, 1.0) if moved else 0.0
        long = theirs.get(TIME, math.inf) >= SHORTEST_NANOSECONDS
        for metric in (metric for metric in mine if metric in theirs):
            a, b, slack = mine[metric], theirs[metric], 0.0
            if metric.startswith(DRAM):
                slack = l2_bytes if metric.endswith(".sum") else from_l2 * max(a, b)
            pair = Pair(variant, base, metric, a, b, slack)
            if long or pair.exact:
                yield pair


def both_profiled(name: str, lengths: tuple[int, ...] | None) -> Iterator[Pair]:
    """Read all counters of a routine with both tools, and pair them."""
    routine, l2_bytes = ado.routines[name], float(_core.cuda_properties()["l2_bytes"])
    metrics = _core.existing_metrics(list(METRIC_SETS["default"]), _core.chip())
    images = IMAGES if name == "transpose" or routine.halo is not None else None
    operands = routine.task.random_operands(lengths or SHAPES.get(name, images))
    problem = routine.problem(*operands, device="cuda")
    for variant in (v for v in routine if v.device == "cuda"):
        if variant.why_unavailable or problem.why_not(variant.name):
            continue
        found = collect(problem.prepare(variant.name).timed, variant.name, metrics, "cold")
        ours = [(k.kernel.name, dict(k.values)) for k in found]
        with tempfile.TemporaryDirectory() as folder:
            stored = StoredCall.of(variant, operands, {}, None)
            options = ["--metrics", ",".join(metrics)]
            report = recorded(stored.save, Path(folder), options, "cold")
            page = ["--csv", "--page", "raw", "--print-units", "base"]
            text = run_ncu(["--import", str(report), *page], report)
        theirs = [(launch.kernel, dict(launch.values)) for launch in _of_csv(text, report.name)]
        yield from pairs_of(variant.label, ours, theirs, l2_bytes)


def summary(pairs: Sequence[Pair]) -> Iterator[str]:
    """A line per pair that differs, then their number per metric."""
    differ = [pair for pair in pairs if not pair.agree]
    for p in differ:
        rule = "be equal" if p.exact else "agree"
        yield f"{p.variant} {p.kernel} {p.metric} must {rule}, got {p.ours:g} and {p.ncu:g}"
    known, wrong = (Counter(pair.metric for pair in some) for some in (pairs, differ))
    for metric in sorted(known):
        yield f"{metric:70} {known[metric]:4} kernels, {wrong[metric]:3} differ"


def main() -> int:
    options = parser(__doc__, ado.routines)
    options.add_argument("--shape", type=shape, help="its shape, for example 8192x8192")
    options.add_argument("--json", type=Path, help="output file for the compared values")
    given = options.parse_args()
    pairs = [pair for name in given.routines for pair in both_profiled(name, given.shape)]
    print(*summary(pairs), sep="\n")
    if given.json:
        given.json.write_text(json.dumps([pair._asdict() for pair in pairs]) + "\n")
    return int(not pairs or not all(pair.agree for pair in pairs))


if __name__ == "__main__":
    sys.exit(main())
