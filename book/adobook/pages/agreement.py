"""The emulator against a GPU: the rows of benchmarks/emulated_counters.py."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adobook.pages.stored import ROOT
from adobook.text import write_table
from adokernels.records.metrics import QUANTITIES

_STORE = ROOT / "tests" / "data" / "emulator" / "counters.json"
_TITLES = {quantity.key: quantity.title for quantity in QUANTITIES}
#: Variants that a row of the table names.
_NAMED = 4
#: Why counts differ by more than 1 %: quantity, routine or variant (empty: any), cause. The first
#: entry that fits is used.
_CAUSES = (
    ("", "overlapped", "blocks poll for results of other blocks, so the number depends on timing"),
    (
        "store_sectors",
        "",
        "the hardware's counter is not exact: it shows 77 to 86 for 10 kernels that store the same"
        " 84 sectors, and fewer sectors than requests for 3 kernels",
    ),
    *(
        (
            "flops",
            variant,
            "the machine code computes 11 FLOPs per term in all lanes and selects the result; PTX"
            " branches over them for empty bands and beyond the cut-off",
        )
        for variant in ("blocked", "swapped_indices", "large_blocks")
    ),
    (
        "flops",
        "gpp",
        "lanes outside a matrix of 33 columns divide zeros, for which the machine code calls a"
        " subroutine of about 30 FLOPs; ptxas removes operations that PTX repeats in another basic"
        " block",
    ),
    (
        "lanes",
        "",
        "a mean over the instructions of the PTX or of the machine code, which differ in number",
    ),
    (
        "shared_load_wavefronts",
        "gpp",
        "in the machine code, `gpp_sort_by_kind` reads four neighbouring words with one load of 16"
        " bytes",
    ),
    (
        "shared_store_wavefronts",
        "cluster",
        "stores to the shared memory of other blocks are not shared stores for the counter",
    ),
    ("shared_store_wavefronts", "", "the counter includes waits for other accesses"),
)


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
            "Rows that differ by more than 1 %, by cause:",
            write_table(("quantity", "variants", "rows", "range", "cause"), _far(rows)),
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
    for key in rows[0]["gpu"]:
        found = [r for row in rows if (r := _relative(row, key)) is not None]
        equal, near = found.count(0.0), sum(abs(r) <= 0.01 for r in found)
        yield _TITLES[key], len(found), equal, near, _range(found)


def _range(relative: Sequence[float]) -> str:
    ends = (100 * min(relative), 100 * max(relative))
    low, high = (f"{end:+.0f}" if abs(end) >= 100 else f"{end:+.2g}" for end in ends)
    return f"{low} to {high} %"


def _cause(row: Mapping[str, Any], key: str) -> str:
    names = ("", row["routine"], row["variant"])
    return next(why for of, name, why in _CAUSES if of in ("", key) and name in names)


def _far(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for key, row in ((key, row) for key in rows[0]["gpu"] for row in rows):
        relative = _relative(row, key) or 0.0
        if abs(relative) > 0.01:
            name = f"`{row['routine']}[{row['variant']}]`"
            found.setdefault((key, _cause(row, key)), {}).setdefault(name, []).append(relative)
    for (key, cause), variants in found.items():
        all_of_cause = [each for several in variants.values() for each in several]
        names = ", ".join(variants) if len(variants) <= _NAMED else f"{len(variants)} variants"
        yield _TITLES[key], names, len(all_of_cause), _range(all_of_cause), cause
