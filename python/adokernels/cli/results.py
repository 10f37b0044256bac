"""What commands leave behind: files, and the exit status."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

import adokernels as ado

#: A wrong result, a slower variant, or not enough memory.
WRONG = 1
#: A wrong argument.
USAGE = 2
#: A missing device, compiler or library.
NO_DEVICE = 3
#: Interrupted with Ctrl-C, as shells report it.
INTERRUPTED = 130

_DOTS_PER_INCH = 150


def write_files(record: Any, options: argparse.Namespace, console: Console) -> None:
    """Write a record and its chart to the files that ``--json`` and ``--plot`` name."""
    given = vars(options)
    if path := given.get("json"):
        record.save(path)
        console.print(f"wrote {path}")
    if path := given.get("plot"):
        from adokernels.charts.files import closing, save  # loads matplotlib

        with closing(ado.plot, record) as figure:
            save(figure, path, dpi=_DOTS_PER_INCH)
        console.print(f"wrote {path}")
