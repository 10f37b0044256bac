"""Generates type stubs, the README's tables, documents and the charts from the ladders.

``make generate`` runs it after a change to a ladder. A chart is drawn again only if its
measurements or the drawing code have changed. With ``--check``, which a test uses, nothing is
written: the texts are compared with the files.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import cards_document
import diagnosis_document
import documents_document
import registry_stub
import shapes_document
from matplotlib.figure import Figure
from PIL import Image

import adokernels as ado
from adokernels.tables.measurements import sweep_tables
from adokernels.tables.rendering import to_markdown

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "adokernels"
#: Folder of the results of benchmarks/shapes.py.
RESULTS = ROOT / "benchmarks" / "results"
#: Key of the text entry of a PNG with the hash of the chart's sources.
SOURCE_KEY = "adokernels-source"


def core_stub() -> str:
    """Types of the extension module, from pybind11's own docstrings."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["pybind11_stubgen", "adokernels._core", "-o", folder]
        subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)
        text = (Path(folder) / "adokernels" / "_core.pyi").read_text(encoding="utf-8")
    return ruff(text)


def ladders_stub() -> str:
    """Types of the routines, with the names of their variants."""
    return ruff(registry_stub.text())


def ruff(text: str) -> str:
    """The text of a stub file, formatted by ruff."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "x.pyi", "-"]
    done = subprocess.run(command, input=text, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout


def readme(sweeps: Mapping[Path, ado.Sweep]) -> str:
    """The README with current content between its markers."""
    tables = {routine.name: _ladder_table(routine) for routine in ado.routines.values()}
    folded = (
        f"<details><summary>{name}</summary>\n\n{table}\n\n</details>"
        for name, table in tables.items()
    )
    blocks = {"ladders": "\n".join(folded)}
    blocks["shapes"] = shapes_document.summary(RESULTS)
    blocks |= {f"ladder {name}": table for name, table in tables.items()}
    for path, sweep in sweeps.items():
        blocks[f"sweep {path.name}"] = "\n\n".join(map(to_markdown, sweep_tables(sweep)))
    return fill_markers((ROOT / "README.md").read_text(encoding="utf-8"), blocks, list(tables))


def stored_sweeps() -> dict[Path, ado.Sweep]:
    """The sweeps that the documents and notebooks show, by file."""
    paths = sorted((ROOT / "notebooks" / "data").glob("*.json"))
    records = {path: ado.load(path) for path in paths}
    return {path: record for path, record in records.items() if isinstance(record, ado.Sweep)}


def fill_markers(text: str, blocks: dict[str, str], routines: list[str]) -> str:
    """Replace the text between ``<!-- NAME -->`` and ``<!-- end -->`` by the block of that name.

    Raises
    ------
    ValueError
        If a marker has no block or no end, or if the ladder of a routine has no marker.
    """
    names = re.findall(r"<!-- ((?:ladders?|sweep|shapes)\b.*?) *-->", text)
    pattern = r"<!-- ((?:ladders?|sweep|shapes)\b[^>]*?) *-->\n(?:(?!<!-- ).)*?<!-- end -->"
    closed = [match[1] for match in re.finditer(pattern, text, re.S)]
    errors = [
        f"<!-- {name} --> must be `shapes`, a routine or a stored sweep"
        for name in names
        if name not in blocks
    ]
    errors += [f"<!-- {name} --> has no <!-- end -->" for name in names if name not in closed]
    errors += [
        f"no <!-- ladder {routine} --> for the routine {routine}"
        for routine in routines
        if not {"ladders", f"ladder {routine}"} & set(names)
    ]
    if errors:
        raise ValueError("\n".join(f"README.md: {error}" for error in errors))

    def block(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n{blocks[match[1]].strip()}\n<!-- end -->"

    return re.sub(pattern, block, text, flags=re.S)


def _ladder_table(routine: ado.Routine) -> str:
    rows = ["| variant | device | what it changes |", "| --- | --- | --- |"]
    for v in routine:
        name = f"`{v.name}`" + (" (ceiling)" if v.ceiling else "")
        rows.append(f"| {name} | {v.device} | {v.changes} |")
    return "\n".join(rows)


def draw_charts() -> None:
    """Draw the chart of each stored sweep next to it, unless it is up to date.

    A chart is up to date if the hash stored in the PNG is that of the measurements and the drawing
    code. The other bytes of the PNG depend on fonts and on the version of matplotlib.
    """
    code = sorted(Path(inspect.getfile(ado.roofline)).parent.glob("*.py"))
    for path, sweep in stored_sweeps().items():
        parts = (path, *code)
        source = hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()
        chart = path.with_suffix(".png")
        if drawn_from(chart) != source:
            figure = Figure(figsize=(10, 6), layout="constrained")
            ado.roofline(sweep, ax=figure.add_subplot())
            figure.savefig(chart, metadata={SOURCE_KEY: source})
            print(f"drew {chart.relative_to(ROOT)}")


def drawn_from(chart: Path) -> str | None:
    """The hash stored in a chart; None if there is none."""
    if not chart.exists():
        return None
    with Image.open(chart) as picture:
        return picture.info.get(SOURCE_KEY)


def main() -> int:
    """Write the files, or with --check list those that are out of date."""
    check = "--check" in sys.argv
    sweeps = stored_sweeps()
    texts = {
        PACKAGE / "_core.pyi": core_stub,
        PACKAGE / "ladders" / "registry.pyi": ladders_stub,
        ROOT / "README.md": lambda: readme(sweeps),
        ROOT / "docs" / "shapes.md": lambda: shapes_document.text(RESULTS),
        ROOT / "docs" / "diagnosis.md": lambda: diagnosis_document.text(sweeps),
        ROOT / "docs" / "cards.md": lambda: cards_document.text(sweeps),
        ROOT / "docs" / "documents.md": lambda: documents_document.text(sweeps),
        ROOT / "docs" / "diagnosis.json": lambda: diagnosis_document.record(sweeps),
    }
    stale = False
    for path, make in texts.items():
        try:
            text = make()
        except ValueError as error:
            sys.exit(str(error))
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale = True
        if check:
            print(f"out of date: {path.relative_to(ROOT)} (make generate)")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    if not check:
        draw_charts()
    return int(stale and check)


if __name__ == "__main__":
    sys.exit(main())
