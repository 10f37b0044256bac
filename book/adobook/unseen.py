"""Ladders of textbooks on which the rules of the diagnosis are tested: check and sweep.

``python -m adobook.unseen check FOLDER`` executes each variant on the CPU, with small operands, and
compares its results with the reference. ``python -m adobook.unseen sweep FOLDER OUT [NAME ...]``
measures the ladders on a GPU, with counters, and stores one record per ladder. A folder contains
one module per ladder, with its kernels in a file of the same name.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

import adokernels as ado
from adokernels import _core, toolkit
from adokernels.model.cuda_variant import CudaVariant, _evaluated, _grid_of, packed_argument
from adokernels.model.values import as_tuple

#: Largest number of instructions of warps in one emulated launch.
_LIMIT = 200_000_000


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


def ptx_of(source: str) -> _core.EmulatedModule:
    """Compile CUDA C++ source to PTX, for the emulator."""
    nvcc = toolkit.program("nvcc")
    if not nvcc:
        raise ado.Unavailable("the kernels cannot be compiled: nvcc is missing")
    with tempfile.TemporaryDirectory() as folder:
        file, ptx = Path(folder) / "kernels.cu", Path(folder) / "kernels.ptx"
        file.write_text(source, encoding="utf-8")
        command = [nvcc, "-ptx", "-arch=compute_90", "-std=c++20", str(file), "-o", str(ptx)]
        subprocess.run(command, check=True)
        return _core.EmulatedModule(ptx.read_text(encoding="utf-8"))


def emulate(
    module: _core.EmulatedModule, variant: CudaVariant, operands: tuple[Any, ...]
) -> tuple[np.ndarray[Any, Any], ...]:
    """Execute a variant on the CPU; return its results, or raise ValueError."""
    task = variant.ladder.task
    expected = as_tuple(task.expected(*operands))
    results = [_aligned(task.rounded(e)) for e in expected]
    for result in results:
        result.view(np.uint8)[...] = 0xA5
    given = [_aligned(o) if isinstance(o, np.ndarray) else o for o in operands]
    views = [_view(o) if isinstance(o, np.ndarray) else o for o in (*given, *results)]
    lengths = task.lengths_of(operands)
    block = variant.blocks[0]
    settings = {"block": block, **variant.default_parameters}
    before = views[: len(given)]
    grid = _grid_of(variant, block, before, settings, results[0].shape, lengths)
    arguments = [*views, *lengths.values()]
    if variant.arguments is not None:
        arguments = list(_evaluated(variant.arguments, views, settings))
    entry = next(e for e in module.entries if f"{len(variant.kernel)}{variant.kernel}" in e)
    packed = b""
    for (offset, size), argument in zip(module.parameters(entry), arguments, strict=True):
        packed = packed.ljust(offset, b"\0") + packed_argument("argument", argument, size)
    arrays = [
        *(("operand", a, True) for a in given if isinstance(a, np.ndarray)),
        *(("result", a, False) for a in results),
    ]
    shared = _evaluated(variant.shared_bytes, before, settings)
    launched = module.launch(
        entry, _three(grid), _three(block), packed, arrays, int(shared), limit=_LIMIT, threads=2
    )
    if launched["error"] is not None:
        raise ValueError(launched["error"]["text"])
    return tuple(results)


def _aligned(values: Any) -> np.ndarray[Any, Any]:
    """A copy with the alignment of device memory, 256 bytes."""
    values = np.ascontiguousarray(values)
    raw = np.zeros(values.nbytes + 256, np.uint8)
    start = -raw.ctypes.data % 256
    array: np.ndarray[Any, Any] = raw[start : start + values.nbytes].view(values.dtype)
    array = array.reshape(values.shape)
    array[...] = values
    return array


def _view(array: np.ndarray[Any, Any]) -> Any:
    """An array as variants receive it: with its address and its shape."""
    interface = {"data": (array.ctypes.data, False), "shape": array.shape}
    return SimpleNamespace(
        __cuda_array_interface__=interface, shape=array.shape, dtype=array.dtype, size=array.size
    )


def _three(extent: tuple[int, ...]) -> list[int]:
    return [*extent, *(1,) * (3 - len(extent))]


def check(module: ModuleType, seed: int = 1) -> Iterator[str]:
    """Execute all variants of a ladder twice on the CPU; yield the errors.

    The second launch has other operands, and finds state that the first one has left behind.
    """
    emulated = ptx_of(module.SOURCE)
    for variant in module.ladder.variants:
        task = variant.ladder.task
        for case in range(2):
            operands = module.operands(np.random.default_rng(seed + case), small=True)
            try:
                task.check(emulate(emulated, variant, operands), task.expected(*operands))
            except ValueError as error:
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
