"""docs/limiters.md, from the scores of benchmarks/limiter_truth.py and limiter_blind.py."""

from __future__ import annotations

import collections
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adobook.pages.stored import fill_template
from adobook.text import write_table
from adokernels.records.limiter import Kind
from adokernels.text import percent


def text(folder: Path) -> str:
    """Return the page as Markdown; `folder` contains the scores."""
    cpu = json.loads((folder / "limiters-cpu.json").read_text(encoding="utf-8"))
    path = folder / "limiters-gpu.json"
    gpu = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return fill_template(
        "limiters.md",
        scores=_scores(cpu),
        kernels=_kernels(cpu),
        gpu=_of_gpu(gpu) if gpu else "The comparison has not been measured yet.",
    )


def _scores(scores: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for place, score in enumerate(scores, 1):
        right, of = sum(row["right"] for row in score["rows"]), len(score["rows"])
        named = sum(row["found"] != Kind.UNKNOWN for row in score["rows"])
        cells = (place, score["rules"], score["machine"], f"{right} of {of}", named, score["note"])
        rows.append(cells)
    return write_table(("run", "rules", "machine", "right", "named", "note"), rows)


def _kernels(scores: Sequence[Mapping[str, Any]]) -> str:
    """One row per kernel, with the limiters that each run found."""
    found: dict[str, list[str]] = collections.defaultdict(lambda: [""] * len(scores))
    known = {}
    for place, score in enumerate(scores):
        counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for row in score["rows"]:
            known[row["kernel"]] = row["known"].removesuffix(" (accesses to)")
            counts[row["kernel"]]["right" if row["right"] else row["found"]] += 1
        for kernel, counted in counts.items():
            found[kernel][place] = ", ".join(f"{n} {what}" for what, n in counted.most_common())
    header = ("kernel", "known limiter", *(f"run {place + 1}" for place in range(len(scores))))
    return write_table(header, [(name, known[name], *cells) for name, cells in found.items()])


def _of_gpu(score: Mapping[str, Any]) -> str:
    rows, named, agree = (score[key] for key in ("rows", "named", "agree"))
    sentence = (
        f"{score['machine']}, rules of {score['rules']}: {named} of {rows} rows are named"
        f" ({percent(named / rows)}), and {agree} of these agree with the counters"
        f" ({percent(agree / max(named, 1))})."
    )
    pairs = collections.Counter((row["counters"], row["experiments"]) for row in score["found"])
    kinds = [str(kind) for kind in Kind if any(str(kind) in pair for pair in pairs)]
    matrix = [
        (counters, *(pairs[counters, found] or "" for found in kinds))
        for counters in kinds
        if any(pairs[counters, found] for found in kinds)
    ]
    table = write_table(("counters \\ experiments", *kinds), matrix)
    wrong = [
        (row["ladder"], f"`{row['variant']}`", row["counters"], row["experiments"])
        for row in score["found"]
        if row["experiments"] not in (row["counters"], Kind.UNKNOWN)
    ]
    header = ("ladder", "variant", "counters", "experiments")
    differing = write_table(header, wrong) if wrong else "None."
    note = score.get("note", "")
    return "\n\n".join(filter(None, [sentence, note, table, "Rows that differ:", differing]))
