"""docs/shapes.md, from results of benchmarks/shapes.py."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import adokernels as ado
from adobook.pages.stored import fill_template, origin
from adobook.text import write_table
from adokernels.storage import read_file
from adokernels.text import percent

#: Minimum ratio at which two times count as equal.
EQUAL = 0.97
#: The number of shapes in a table of the slowest shapes.
WORST = 10
#: Minimum traffic in bytes of a comparison with the copy.
LARGE = 64 * 2**20
_COMPARED_WITH_COPY = ("grayscale", "gaussian_blur", "sobel", "edge_detect", "transpose")

#: The shapes of one routine on one device, drawn with one seed.
_Document = Mapping[str, Any]


def text(folder: Path) -> str:
    """Return the page as Markdown."""
    order = list(ado.routines)
    files = sorted(folder.glob("shapes-*.json.xz"))
    found = [json.loads(read_file(path)) for path in files]
    found.sort(key=lambda d: (not _on_gpu(d), _machine(d), order.index(d["routine"])))
    parts = []
    for machine, group in groupby(found, _machine):
        documents = list(group)
        routines = [list(several) for _, several in groupby(documents, lambda d: d["routine"])]
        made = origin(d["context"] for d in documents)
        parts += [f"## {machine}", _summary(routines), made]
        for several in routines:
            routine, device = several[0]["routine"], several[0]["device"]
            seeds = " and ".join(map(str, sorted(d["seed"] for d in several)))
            words = f"seed{'s' if several[1:] else ''} {seeds}"
            command = f"python benchmarks/shapes.py --device {device} --seed SEED {routine}"
            parts += [f"### {routine}", f"`{command}`, {words}. The slowest shapes:"]
            parts.append(_worst(several))
    return fill_template("shapes.md", equal=EQUAL, machines="\n\n".join(parts))


def _on_gpu(document: _Document) -> bool:
    return bool(document["device"] == "cuda")


def _machine(document: _Document) -> str:
    """The device; for a CPU, also its threads and instruction set."""
    context = document["context"]
    if _on_gpu(document):
        return str(context["device_name"])
    isa = {"avx512": "AVX-512", "avx2": "AVX2"}.get(context["isa"], context["isa"])
    return f"{context['device_name']}, {context['threads']} threads, {isa}"


def _compared(documents: Sequence[_Document]) -> list[Mapping[str, Any]]:
    """The shapes with at least one peer, the slowest first."""
    shapes = (shape for document in documents for shape in document["shapes"])
    return sorted((s for s in shapes if s["ratio"]), key=lambda s: s["ratio"])


def _summary(routines: Sequence[Sequence[_Document]]) -> str:
    header = ["routine", "shapes", "mean ratio", "worst ratio", f"below {EQUAL}", "worst shape"]
    gpu = _on_gpu(routines[0][0])
    of = "the copy" if gpu else "the measured DRAM bandwidth"
    header.append(f"share of {of} from 64 MiB: median, minimum")
    rows = []
    for documents in routines:
        shapes = _compared(documents)
        ratios = [s["ratio"] for s in shapes]
        row: list[object] = [documents[0]["routine"], len(ratios), *["-"] * 4]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            row[2:] = [f"{mean:.2f}", f"{ratios[0]:.2f}", sum(r < EQUAL for r in ratios)]
            row.append(f"{_lengths(shapes[0])} {shapes[0]['dtype']}")
        rows.append([*row, _shares(documents)])
    return write_table(header, rows)


def _shares(documents: Sequence[_Document]) -> str:
    """The share of a GPU's copy, or of a CPU's DRAM bandwidth: median and minimum."""
    gpu, shares = _on_gpu(documents[0]), []
    for document in documents:
        for s in (s for s in document["shapes"] if s["bytes"] >= LARGE):
            rate, roof = s["bytes"] / s["times"]["adokernels"]["median"], document.get("roof")
            shares += [s["share_of_copy"]] if gpu else [rate / roof] if roof else []
    if not shares or (gpu and documents[0]["routine"] not in _COMPARED_WITH_COPY):
        return "-"
    shares.sort()
    return f"{percent(shares[(len(shares) - 1) // 2])}, {percent(shares[0])}"


def _worst(documents: Sequence[_Document]) -> str:
    header, gpu = ["shape", "type", "variant", "best peer", "ratio"], _on_gpu(documents[0])
    if gpu:  # on a shared CPU, only ratios are meaningful
        header += ["adokernels [us]", "best peer [us]", "share of the copy"]
    rows = []
    for s in _compared(documents)[:WORST]:
        peer = s["best_peer"]
        row = [_lengths(s), s["dtype"], f"`{s['variant']}`", peer, f"{s['ratio']:.2f}"]
        if gpu:
            times = (s["times"][name]["median"] for name in ("adokernels", peer))
            row += [*(f"{1e6 * seconds:.4g}" for seconds in times), percent(s["share_of_copy"])]
        rows.append(row)
    return write_table(header, rows)


def _lengths(s: Mapping[str, Any]) -> str:
    return " x ".join(map(str, s["shape"]))
