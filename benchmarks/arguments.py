"""Arguments of several scripts: names of routines, and shapes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable


def parser(description: str | None, names: Iterable[str]) -> argparse.ArgumentParser:
    """Make a parser whose positional arguments are routines; the default is all `names`."""
    formatter = argparse.RawTextHelpFormatter
    options = argparse.ArgumentParser(description=description, formatter_class=formatter)
    text = f"default: all of {', '.join(names)}"
    options.add_argument("routines", nargs="*", metavar="ROUTINE", default=[*names], help=text)
    return options


def shape(text: str) -> tuple[int, ...]:
    """Convert a text such as 8192x8192 to lengths."""
    return tuple(map(int, text.split("x")))
