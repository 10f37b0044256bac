"""docs/shapes.md, from results of benchmarks/shapes.py."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adokernels as ado
from adobook.pages.stored import fill_template, origin
from adobook.text import write_table
from adokernels.text import percent

#: Minimum ratio at which two times count as equal.
EQUAL = 0.97
#: The number of shapes in a table of the slowest shapes.
WORST = 10
#: Minimum traffic in bytes of a comparison with the copy.
LARGE = 64 * 2**20
_COMPARED_WITH_COPY = ("grayscale", "gaussian_blur", "sobel", "edge_detect", "transpose")


@dataclass(frozen=True)
class Result:
    """All shapes of one routine on one device, from the documents of several seeds."""

    routine: str
    gpu: bool
    documents: tuple[Mapping[str, Any], ...]

    @property
    def shapes(self) -> list[Mapping[str, Any]]:
        """All shapes."""
        return [shape for document in self.documents for shape in document["shapes"]]

    @property
    def compared(self) -> list[Mapping[str, Any]]:
        """The shapes with at least one peer, the slowest first."""
        return sorted((s for s in self.shapes if s["ratio"]), key=lambda s: s["ratio"])


def text(folder: Path) -> str:
    """Return the page as Markdown."""
    parts = []
    for machine, found in _by_machine(folder).items():
        made = origin(document["context"] for result in found for document in result.documents)
        parts += [f"## {machine}", _summary(found), made]
        for result in found:
            device = "cuda" if result.gpu else "cpu"
            seeds = sorted(d["seed"] for d in result.documents)
            words = f"seed{'s' if seeds[1:] else ''} {' and '.join(map(str, seeds))}"
            command = f"python benchmarks/shapes.py --device {device} --seed SEED {result.routine}"
            parts += [f"### {result.routine}", f"`{command}`, {words}. The slowest shapes:"]
            parts.append(_worst(result))
    return fill_template("shapes.md", equal=EQUAL, machines="\n\n".join(parts))


def _by_machine(folder: Path) -> dict[str, list[Result]]:
    """The results by machine, GPUs first. The results of several seeds are joined."""
    order = list(ado.routines)
    found: dict[tuple[bool, str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for path in sorted(folder.glob("shapes-*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        machine, place = _machine(document), order.index(document["routine"])
        found[document["device"] == "cpu", machine, place].append(document)
    machines: dict[str, list[Result]] = defaultdict(list)
    for cpu, machine, place in sorted(found):
        documents = tuple(found[cpu, machine, place])
        machines[machine].append(Result(order[place], not cpu, documents))
    return machines


def _machine(document: Mapping[str, Any]) -> str:
    """The device; for a CPU, also its threads and instruction set."""
    context = document["context"]
    if document["device"] == "cuda":
        return str(context["device_name"])
    isa = {"avx512": "AVX-512", "avx2": "AVX2"}.get(context["isa"], context["isa"])
    return f"{context['device_name']}, {context['threads']} threads, {isa}"


def _summary(found: Sequence[Result]) -> str:
    header = ["routine", "shapes", "mean ratio", "worst ratio", f"below {EQUAL}", "worst shape"]
    gpu = found[0].gpu
    if gpu:
        header.append("share of the copy from 64 MiB: median, minimum")
    rows = []
    for result in found:
        ratios = [s["ratio"] for s in result.compared]
        row: list[object] = [result.routine, len(ratios), *["-"] * 4]
        if ratios:
            worst, mean = result.compared[0], math.exp(sum(map(math.log, ratios)) / len(ratios))
            row[2:] = [f"{mean:.2f}", f"{ratios[0]:.2f}", sum(r < EQUAL for r in ratios)]
            row.append(f"{_lengths(worst)} {worst['dtype']}")
        rows.append([*row, _shares_of_copy(result)] if gpu else row)
    return write_table(header, rows)


def _shares_of_copy(result: Result) -> str:
    """The median and the minimum for large shapes."""
    shares = sorted(s["share_of_copy"] for s in result.shapes if s["bytes"] >= LARGE)
    if not shares or result.routine not in _COMPARED_WITH_COPY:
        return "-"
    return f"{percent(shares[(len(shares) - 1) // 2])}, {percent(shares[0])}"


def _worst(result: Result) -> str:
    header = ["shape", "type", "variant", "best peer", "ratio"]
    if result.gpu:  # on a shared CPU, only ratios are meaningful
        header += ["adokernels [us]", "best peer [us]", "share of the copy"]
    rows = []
    for s in result.compared[:WORST]:
        peer = s["best_peer"]
        row = [_lengths(s), s["dtype"], f"`{s['variant']}`", peer, f"{s['ratio']:.2f}"]
        if result.gpu:
            times = (s["times"][name]["median"] for name in ("adokernels", peer))
            row += [*(f"{1e6 * seconds:.4g}" for seconds in times), percent(s["share_of_copy"])]
        rows.append(row)
    return write_table(header, rows)


def _lengths(s: Mapping[str, Any]) -> str:
    return " x ".join(map(str, s["shape"]))
