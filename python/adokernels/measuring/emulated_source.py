"""Kernels in CUDA C++ source on the emulator: results, counts and errors, without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adokernels import _core
from adokernels.model.values import is_array
from adokernels.process import settings

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from adokernels.model.cuda_variant import CudaVariant
    from adokernels.model.problem import Block, Problem

#: Alignment of memory that cudaMalloc returns. The number of sectors depends on it.
_ALIGNMENT = 256


class EmulatedRun(NamedTuple):
    """A launch on the emulator.

    `counts` are those of ``EmulatedModule.launch``. `error` is the first error of the kernel, or
    empty; the results are then incomplete.
    """

    kernel: str
    results: tuple[NDArray[Any], ...]
    counts: Mapping[str, Any]
    error: str


def emulated_run(variant: CudaVariant, problem: Problem, block: Block | None = None) -> EmulatedRun:
    """Run a kernel on the emulator, with packed copies of the operands of a problem on the host.

    Raises
    ------
    CompilationError
        If the source does not compile.
    ValueError
        If the variant refuses the operands, or the kernel has other parameters.
    Unavailable
        If there is no compiler.
    """
    if reason := variant.refusal(problem.host_arguments, problem.options):
        raise ValueError(f"{variant.label}: {reason}")
    operands = [_copied(o) if is_array(o) else o for o in problem.host_arguments]
    results = [_aligned(r.shape, r.dtype) for r in problem.result_types]
    arrays = [o for o in (*operands, *results) if isinstance(o, np.ndarray)]
    compiled = variant.ptx(arrays[0].dtype.name)
    launch = variant.configured(problem, operands, results, variant.shape(block))
    launch = launch._replace(given=tuple(map(_passed, launch.given)))
    module = _core.EmulatedModule(compiled.code.decode())
    layout = module.parameters(compiled.symbol)
    params = b""
    for (offset, _), argument in zip(layout, launch.packed([s for _, s in layout]), strict=True):
        params = params.ljust(offset, b"\0") + argument
    named = [(n, o, True) for n, o in zip(problem.names, operands, strict=True) if is_array(o)]
    named += [(f"result {i + 1}", result, False) for i, result in enumerate(results)]
    found = module.launch(
        compiled.symbol,
        _extent(launch.grid),
        _extent(launch.block),
        params,
        named,
        shared_bytes=launch.shared_bytes,
        threads=settings.threads,
    )
    error = found["error"]["text"] if found["error"] else ""
    name = _core.kernel_name(compiled.symbol)
    return EmulatedRun(name, tuple(results), found["counts"], error)


def _aligned(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    element = np.dtype(dtype)
    size = int(np.prod(shape)) * element.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(element).reshape(shape)


def _copied(operand: Any) -> NDArray[Any]:
    """A packed copy that kernels must not write."""
    copy = _aligned(operand.shape, operand.dtype)
    copy[...] = operand
    copy.flags.writeable = False
    return copy


def _passed(value: Any) -> Any:
    """A kernel argument: the address of an array."""
    return np.uint64(value.ctypes.data) if isinstance(value, np.ndarray) else value


def _extent(shape: Block) -> tuple[int, int, int]:
    x, y, z = (*shape, 1, 1)[:3]
    return x, y, z
