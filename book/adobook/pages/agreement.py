"""The emulator against a GPU: the rows of benchmarks/emulated_counters.py."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adobook.pages.stored import ROOT
from adobook.text import write_table
from adokernels.records.metrics import QUANTITIES
from adokernels.text import number

_STORE = ROOT / "tests" / "data" / "emulator" / "counters.json"
_EXACT = ("load_requests", "load_sectors", "store_requests")
#: Why counts differ by more than 1 %. Other causes have not been examined.
_CAUSES = {"overlapped": "blocks poll for results of other blocks, so the number depends on time"}


def tables() -> str:
    """Return the tables of agreement in Markdown."""
    stored = json.loads(_STORE.read_text(encoding="utf-8"))
    rows = stored["rows"]
    equal, worst = sum(row["equal"] for row in rows), max(_differences(rows))
    return "\n\n".join(
        (
            f"{stored['context']['device_name']}, {len(rows)} rows of variants and problems."
            f" Results are equal bit for bit in {equal} rows. The largest difference of a variant"
            f" that computes a result is {worst:.1g}, relative to the largest element.",
            write_table(("quantity", "rows", "equal", "within 1 %", "range"), _quantities(rows)),
            "Rows in which a request or a load sector differs by more than 1 %:",
            write_table(("variant", "lengths", "quantity", "GPU", "emulator", "cause"), _far(rows)),
        )
    )


def _differences(rows: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    """The differences of variants that compute a result; ceilings leave part of it unwritten."""
    ceilings = {"read", "copy", "sectors"}
    return (row["difference"] for row in rows if row["variant"] not in ceilings)


def _relative(row: Mapping[str, Any], key: str) -> float | None:
    ours, theirs = row["emulator"].get(key), row["gpu"].get(key)
    if ours is None or theirs is None:
        return None
    if ours == theirs:
        return 0.0
    return float((ours - theirs) / theirs) if theirs else None


def _quantities(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    titles = {quantity.key: quantity.title for quantity in QUANTITIES}
    for key in rows[0]["gpu"]:
        found = [r for row in rows if (r := _relative(row, key)) is not None]
        equal, near = found.count(0.0), sum(abs(r) <= 0.01 for r in found)
        extremes = f"{100 * min(found):+.2g} to {100 * max(found):+.2g} %"
        yield titles[key], len(found), equal, near, extremes


def _far(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    for row in rows:
        for key in _EXACT:
            if abs(_relative(row, key) or 0.0) > 0.01:
                yield (
                    f"`{row['routine']}[{row['variant']}]`",
                    " x ".join(map(str, row["lengths"])),
                    key,
                    number(row["gpu"][key]),
                    number(row["emulator"][key]),
                    _CAUSES.get(row["variant"], "not examined"),
                )
