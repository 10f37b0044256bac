"""Executes a notebook from top to bottom in place; with --check, does not write the outputs."""

from __future__ import annotations

import argparse
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def main() -> None:
    """Run the notebook; an error in any cell is raised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--check", action="store_true", help="do not write the outputs back")
    options = parser.parse_args()
    notebook = nbformat.read(options.notebook, as_version=4)
    if options.check and not all(c.get("execution_count") for c in notebook.cells if _code(c)):
        raise SystemExit(f"{options.notebook} must be executed, got cells that are not")
    NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(options.notebook.parent)}}
    ).execute()
    if not options.check:
        nbformat.write(notebook, options.notebook)


def _code(cell: nbformat.NotebookNode) -> bool:
    return cell.cell_type == "code" and bool(cell.source.strip())


if __name__ == "__main__":
    main()
