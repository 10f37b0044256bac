"""Shared code of the comparisons with peers: options, table and files."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    import adokernels as ado

Peers = dict[str, Callable[[], Any]]

_SLOW_LAUNCH = "launch overhead included"


@dataclass(frozen=True)
class Problem:
    """One row of a table: the operands, and the peers that work on them."""

    cells: tuple[str, ...]  # identify the row
    args: tuple[Any, ...]
    peers: Peers
    file: str  # name of the stored measurements, without the device


def made(
    makers: Mapping[str, Callable[..., Peers]], args: Sequence[Any]
) -> tuple[Peers, dict[str, str]]:
    """Return the peers of each library, and the reason for each library that is left out."""
    peers: Peers = {}
    left_out: dict[str, str] = {}
    for library, make in makers.items():
        if not importlib.util.find_spec(library.partition(".")[0]):  # torch.compile needs torch
            left_out[library] = "not installed"
            continue
        try:
            peers |= make(*args)
        except Exception as error:  # any error of another library
            left_out[library] = first_line(error)
    return peers, left_out


def correct(
    peers: Peers, error_of: Callable[[str, Any], float], tolerance: float
) -> tuple[Peers, dict[str, str], dict[str, str]]:
    """Return the correct peers, the reasons why others are left out, and the wrong peers."""
    kept: Peers = {}
    left_out: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for name, run in peers.items():
        try:
            found = error_of(name, run())
        except Exception as error:  # any error of another library
            left_out[name] = first_line(error)
            continue
        if found <= tolerance:
            kept[name] = run
        else:
            wrong[name] = f"error {found:.3g} exceeds the tolerance of {tolerance:.3g}"
    return kept, left_out, wrong


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]


def shape(text: str) -> tuple[int, ...]:
    return tuple(int(length) for length in text.lower().split("x"))


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options of every comparison."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--shapes", type=shape, nargs="+", help="for example 8192x8192")
    options.add_argument("--variant", help="default: the default variant")
    options.add_argument("--seconds", type=float, default=2.0, help="maximum time per function")
    options.add_argument("--cache", choices=("cold", "warm"), default="cold")
    options.add_argument("--json", type=Path, help="folder for the raw measurements")
    return options


def compare(
    routine: ado.Routine,
    headings: Sequence[str],
    problems: Iterable[Problem],
    roof: ado.records.Machine,
    options: argparse.Namespace,
) -> None:
    """Measure one variant and its peers in the same rounds, and print one row per problem."""
    import adokernels as ado

    ceilings = [v.name for v in routine if v.device == options.device and v.ceiling][:1]
    measured: list[str] = []
    lines: list[tuple[list[str], dict[str, str]]] = []
    for problem in problems:
        ours = options.variant
        if ours is None:  # the variant that a call would run
            ours = routine.problem(*problem.args, device=options.device).best()
        sweep = ado.sweep(
            routine,
            *problem.args,
            device=options.device,
            variants=[*ceilings, ours],
            peers=problem.peers,
            cache=options.cache,
            seconds=options.seconds,
            progress=False,
        )
        if ours in sweep.skipped:
            print(f"{routine.name}[{ours}], {', '.join(problem.cells)}: {sweep.skipped[ours]}")
            continue
        if options.json:
            options.json.mkdir(parents=True, exist_ok=True)
            sweep.save(options.json / f"{options.device}-{problem.file}.json")
        measured.append(ours)
        m = sweep[ours]
        cells = [*problem.cells, f"{1e3 * m.seconds:.4g}", f"{m.bytes_per_second / 1e9:.4g}"]
        for name in ceilings:
            share = "-" if name in sweep.skipped else f"{sweep[name].seconds / m.seconds:.1%}"
            cells.append(share)
        cells.append(f"{m.bytes_per_second / roof.roof:.1%}")
        ratios = {
            p.variant: f"{p.seconds / m.seconds:.2f}" + "*" * (_SLOW_LAUNCH in p.flags)
            for p in sweep.peers
        }
        lines.append((cells, ratios))

    ours = ", ".join(dict.fromkeys(measured))
    table = Table(
        title=escape(
            f"{routine.name}[{ours}] on {roof.name}, {options.cache}; speed-up over each peer"
        ),
        caption=f"* {_SLOW_LAUNCH}" if "*" in str(lines) else None,
    )
    names = list(dict.fromkeys(name for _, ratios in lines for name in ratios))
    shares = [f"of {name}" for name in [*ceilings, "DRAM copy"]]
    for heading in [*headings, "ms", "GB/s", *shares, *names]:
        table.add_column(heading, justify="right")
    for cells, ratios in lines:
        table.add_row(*cells, *(ratios.get(name, "-") for name in names))
    Console(width=140).print(table)
