"""One page per ladder: operands, variants, links to measurements, and sources."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import adokernels as ado
from adobook.pages import cards
from adobook.pages.results import PAGES
from adobook.pages.stored import sweeps
from adobook.text import write_table

#: The title and the code of each notebook, by file name.
_Notebooks = Mapping[str, tuple[str, str]]

INDEX = """\
# Ladders

Each page lists the variants of one routine in order, and the source of each variant as the
difference from the variant before it.

{table}

```{{toctree}}
:hidden:

{names}
```
"""


def write_pages(root: Path, target: Path) -> None:
    """Write the page of each ladder, and the list of all ladders."""
    notebooks, stored = _notebooks(root), sweeps()
    links = {
        name: f"../results/{page.file}#{name}" for page in PAGES for name in page.names(stored)
    }
    target.mkdir(parents=True, exist_ok=True)
    rows = []
    for routine in ado.routines.values():
        records = {n: link for n, link in links.items() if stored[n].routine == routine.name}
        page = "\n\n".join(_page(routine, records, notebooks))
        (target / f"{routine.name}.md").write_text(page + "\n", encoding="utf-8")
        counts = Counter(v.device for v in routine if not v.ceiling)
        devices = f"{counts['cpu']} cpu, {counts['cuda']} cuda"
        rows.append((f"[{routine.name}]({routine.name}.md)", routine.summary, devices))
    table = write_table(("routine", "what it computes", "variants"), rows)
    index = INDEX.format(table=table, names="\n".join(ado.routines))
    (target / "index.md").write_text(index, encoding="utf-8")


def _notebooks(root: Path) -> _Notebooks:
    found = {}
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        title = "".join(cells[0]["source"]).splitlines()[0].removeprefix("# ")
        code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        found[path.name] = title, code
    return found


def _page(routine: ado.Routine, records: Mapping[str, str], notebooks: _Notebooks) -> Iterable[str]:
    yield f"# {routine.name}"
    yield routine.summary
    yield _links(routine, records, notebooks)
    yield "## Operands\n\n" + _operands(routine)
    yield f"Origin: {routine.source}"
    yield "## Variants\n\n" + _variants(routine)
    yield "## Source of each variant"
    yield (
        "The source of a variant is its declaration, its kernels and the definitions that these"
        " use. Each is shown as the difference from the variant before it on the same device. The"
        " first variants and the ceilings are shown in full. In Python:"
        f" `ado.{routine.name}[name].source` and `ado.{routine.name}[name].diff(other)`."
    )
    before: ado.Variant | None = None
    for variant in routine:
        yield _source(variant, before if before and before.device == variant.device else None)
        before = before if variant.ceiling else variant


def _links(routine: ado.Routine, records: Mapping[str, str], notebooks: _Notebooks) -> str:
    lines = [f"- API: {{py:func}}`adokernels.{routine.name}`"]
    if records:
        lines.append(f"- Measurements: {'; '.join(f'[{n}]({at})' for n, at in records.items())}")
    used = rf"\bado\.{routine.name}\b|[\"/]{routine.name}-"
    shown = {name: title for name, (title, code) in notebooks.items() if re.search(used, code)}
    if shown:
        links = (f"[{title}](../notebooks/{name})" for name, title in shown.items())
        lines.append(f"- Notebooks: {'; '.join(links)}")
    examples = [
        f"[{card.title}, {card.category}](../cards.md#{cards.anchor(card)})"
        for card in ado.cards.values()
        if any(example.routine == routine.name for example in card.examples)
    ]
    if examples:
        lines.append(f"- Quick-reference cards with steps of this ladder: {'; '.join(examples)}")
    return "\n".join(lines)


def _operands(routine: ado.Routine) -> str:
    rows = []
    for p in routine.parameters:
        kind = f"{p.shape}, {p.elements}" if p.role != "option" else f"default `{p.default!r}`"
        rows.append((_code(p.name), p.role, kind, p.doc))
    return write_table(("name", "role", "shape and elements", "meaning"), rows)


def _variants(routine: ado.Routine) -> str:
    rows = []
    for v in routine:
        mark = " (ceiling)" if v.ceiling else ""
        rows.append((f"[{_code(v.name)}](#{v.name}){mark}", v.device, v.changes, v.precision))
    return write_table(("variant", "device", "what it changes", "rounding"), rows)


def _source(variant: ado.Variant, before: ado.Variant | None) -> str:
    if before is None:
        title, language, text = "Source", "cuda", variant.source.text
    else:
        title = f"Difference from {_code(before.name)}"
        language, text = "diff", before.diff(variant).text
    where = variant.device + (", ceiling" if variant.ceiling else "")
    files = ", ".join(map(_code, variant.source.files))
    code = f"````{language}\n{text}\n````"
    folded = f":::::{{dropdown}} {title}\n{code}\n:::::"
    return f"### {variant.name}\n\n{variant.changes} ({where}; {files})\n\n{folded}"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
