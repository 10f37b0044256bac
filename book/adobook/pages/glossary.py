"""docs/glossary.md: the numbers of tables, charts and diagnoses, from the table of the package."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from adobook.pages.stored import fill_template
from adobook.published import UNITS
from adobook.text import write_table
from adokernels.diagnosis.evidence import REACHED
from adokernels.records.definitions import BALANCED, COLUMNS, FULL, LIMITING, TERMS
from adokernels.records.metrics import QUANTITIES
from adokernels.text import percent

_HEADER = ("term", "unit", "definition", "{}", "NVIDIA's threshold")


def text() -> str:
    """Return the page in Markdown."""
    terms = write_table([name.format("obtained from") for name in _HEADER], TERMS)
    return fill_template(
        "glossary.md",
        limiting=percent(LIMITING),
        full=FULL,
        balanced=f"{100 * BALANCED:.0f}",
        reached=percent(REACHED),
        terms=terms,
        columns=write_table(("column", "content"), COLUMNS.items()),
        quantities="\n\n".join(_sections()),
    )


def _sections() -> Iterator[str]:
    """A table per section of the profile, in its order."""
    header = ("term", "`profile[...]`", *(name.format("metrics") for name in _HEADER[1:]))
    rows = defaultdict(list)
    for q in QUANTITIES:
        metrics = "<br>".join(f"`{metric}`" for metric in q.metrics)
        unit = q.unit or UNITS.get(q.section, "")
        row = (q.title, f"`{q.key}`", unit, q.definition, metrics, q.threshold)
        rows[q.section].append(row)
    for section, found in rows.items():
        yield f"### {section[0].upper()}{section[1:]}"
        yield write_table(header, found)
