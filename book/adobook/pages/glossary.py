"""docs/glossary.md: the numbers of tables, charts and diagnoses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from adobook.pages.stored import fill_template
from adobook.published import UNITS, read_toml
from adobook.text import write_table
from adokernels.diagnosis.evidence import REACHED
from adokernels.records import definitions
from adokernels.records.metrics import QUANTITIES
from adokernels.text import percent

_TEXTS = read_toml(Path(__file__).with_suffix(".toml"))
_NUMBERS = {
    "limiting": percent(definitions.LIMITING),
    "bound": percent(definitions.BOUND),
    "notable": percent(definitions.NOTABLE),
    "fused": percent(1 - definitions.NOTABLE),
    "stall": percent(definitions.STALL),
    "balanced": f"{100 * definitions.BALANCED:.0f}",
    "full": definitions.FULL,
    "lanes": definitions.LANES,
    "reached": percent(REACHED),
}


def text() -> str:
    """Return the page in Markdown."""
    return fill_template("glossary.md", **_NUMBERS, quantities="\n\n".join(_sections()))


def definition_of(key: str) -> str:
    """The definition of a quantity."""
    kind, _, name = key.partition("_")
    if kind == "stall":
        return f"cycles in which a warp {definitions.STALLS[name]}"
    if kind == "pipe":
        return f"utilisation in active cycles of the pipe for {_TEXTS['pipes'][name]}"
    found: str = _TEXTS["definitions"][key]
    return found


def threshold_of(key: str) -> str:
    """NVIDIA's threshold of a quantity, with its rule; empty without one."""
    if key in ("stall_selected", "stall_not_selected"):
        return ""
    texts = _TEXTS["thresholds"]
    found: str = texts.get(key) or texts.get(key.partition("_")[0], "")
    return found.format(**_NUMBERS)


def _sections() -> Iterator[str]:
    """A table per section of the profile, in its order."""
    header = "term", "`profile[...]`", "unit", "definition", "metrics", "NVIDIA's threshold"
    rows = defaultdict(list)
    for q in QUANTITIES:
        metrics = "<br>".join(f"`{metric}`" for metric in q.metrics)
        unit = q.unit or UNITS.get(q.section, "")
        row = (q.title, f"`{q.key}`", unit, definition_of(q.key), metrics, threshold_of(q.key))
        rows[q.section].append(row)
    for section, found in rows.items():
        yield f"### {section[0].upper()}{section[1:]}"
        yield write_table(header, found)
