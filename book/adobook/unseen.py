"""Ladders of textbooks on which the rules of the diagnosis are tested: check and sweep.

``python -m adobook.unseen check FOLDER`` executes each variant on the emulator, with small
operands, and compares its results with the reference. ``python -m adobook.unseen sweep FOLDER OUT
[NAME ...]`` measures the ladders on a GPU, with counters, and stores one record per ladder. A
folder contains one module per ladder, with its kernels in a file of the same name.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

import adokernels as ado
from adokernels.measuring.emulating import all_checks
from adokernels.model.values import as_tuple


def modules(folder: str | Path) -> dict[str, ModuleType]:
    """The modules of a folder by name; each has ``ladder`` and ``operands(rng, small=False)``."""
    found = {}
    for path in sorted(Path(folder).glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"unseen_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        found[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[path.stem])
    return found


def check(module: ModuleType, seed: int = 1) -> Iterator[str]:
    """Execute all variants of a ladder twice on the emulator; yield the errors.

    The second launch has other operands, and finds state that the first one has left behind.
    """
    ladder = module.ladder
    for variant in ladder.variants:
        for case in range(2):
            operands = module.operands(np.random.default_rng(seed + case), small=True)
            try:
                with all_checks():
                    found = ladder(*operands, variant=variant.name, device="emulator")
                ladder.task.check(as_tuple(found), ladder.task.expected(*operands))
            except (ValueError, ado.KernelError) as error:
                yield f"{variant.label}: {error}"
                break


def sweep(
    folder: str | Path, out: str | Path, names: Iterable[str] = (), seconds: float = 4.0
) -> None:
    """Measure ladders of a folder on a GPU, with counters, and store one record per ladder.

    Without names, all ladders of the folder are measured.
    """
    Path(out).mkdir(parents=True, exist_ok=True)
    known = modules(folder)
    for name in names or known:
        module = known[name]
        operands = module.operands(np.random.default_rng(0))
        found = ado.sweep(
            module.ladder, *operands, device="cuda", counters=True, seconds=seconds, progress=False
        )
        found.save(Path(out) / f"{name}.json")
        print(found, file=sys.stderr)


def main() -> int:
    """Run a command of this module; see its documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("check", "sweep"):
        sub = commands.add_parser(command)
        sub.add_argument("folder")
        if command == "sweep":
            sub.add_argument("out")
            sub.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.command == "sweep":
        sweep(given.folder, given.out, given.names)
        return 0
    errors = [error for module in modules(given.folder).values() for error in check(module)]
    print("\n".join(errors) or "all variants are correct")
    return bool(errors)


if __name__ == "__main__":
    raise SystemExit(main())
