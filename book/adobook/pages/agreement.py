"""The emulator against a GPU: the rows of benchmarks/emulated_counters.py, for its guide."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from adobook.pages.stored import ROOT
from adobook.published import read_toml
from adobook.text import write_table
from adokernels.records.metrics import BY_KEY

_STORE = ROOT / "tests" / "data" / "emulator" / "counters.json"
_CAUSES = read_toml(Path(__file__).with_suffix(".toml"))["causes"]
#: Variants that leave a part of their result unwritten.
_CEILINGS = ("read", "copy", "sectors")
#: Variants that a row of the table names.
_NAMED = 4


def tables() -> str:
    """Return the tables of agreement in Markdown."""
    stored = json.loads(_STORE.read_text(encoding="utf-8"))
    rows = stored["rows"]
    equal = sum(row["equal"] for row in rows)
    worst = max(row["difference"] for row in rows if row["variant"] not in _CEILINGS)
    return "\n\n".join(
        (
            f"{stored['context']['device_name']}, {len(rows)} rows of variants and problems."
            f" Results are equal bit for bit in {equal} rows. The largest difference of a variant"
            f" that computes a result is {worst:.1g}, relative to the largest element.",
            write_table(("quantity", "rows", "equal", "within 1 %", "range"), _quantities(rows)),
            "Rows that differ by more than 1 %, by cause:",
            write_table(("quantity", "variants", "rows", "range", "cause"), _far(rows)),
        )
    )


def _relative(row: Mapping[str, Any], key: str) -> float | None:
    ours, theirs = row["emulator"].get(key), row["gpu"].get(key)
    if ours is None or theirs is None:
        return None
    if ours == theirs:
        return 0.0
    return float((ours - theirs) / theirs) if theirs else None


def _quantities(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    for key in rows[0]["gpu"]:
        found = [r for row in rows if (r := _relative(row, key)) is not None]
        near = sum(abs(r) <= 0.01 for r in found)
        yield BY_KEY[key].title, len(found), found.count(0.0), near, _range(found)


def _range(relative: Sequence[float]) -> str:
    ends = (100 * min(relative), 100 * max(relative))
    low, high = (f"{end:+.0f}" if abs(end) >= 100 else f"{end:+.2g}" for end in ends)
    return f"{low} to {high} %"


def _cause(row: Mapping[str, Any], key: str) -> str:
    for cause in _CAUSES:
        names = cause.get("names", [row["variant"]])
        if cause.get("quantity", key) == key and {row["routine"], row["variant"]} & {*names}:
            return str(cause["cause"])
    raise ValueError(f"agreement.toml: no cause for {key} of {row['routine']}[{row['variant']}]")


def _far(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    found: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for key in rows[0]["gpu"]:
        for row in rows:
            relative = _relative(row, key) or 0.0
            if abs(relative) > 0.01:
                name = f"`{row['routine']}[{row['variant']}]`"
                found[key, _cause(row, key)].append((name, relative))
    for (key, cause), differing in found.items():
        variants = dict.fromkeys(name for name, _ in differing)
        names = ", ".join(variants) if len(variants) <= _NAMED else f"{len(variants)} variants"
        ranges = _range([relative for _, relative in differing])
        yield BY_KEY[key].title, names, len(differing), ranges, cause
