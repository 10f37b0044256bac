"""Launches of Triton and Numba kernels, unchanged, on the emulator."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from adokernels import _core

#: The compute capabilities, times ten, whose kernels the emulator executes.
_OLDEST, LATEST_COMPUTE = 70, 90
#: The compute capabilities of the contexts that were entered.
_entered: list[int] = []


@contextmanager
def emulated(compute: int | None = None) -> Iterator[None]:
    """Run the launches of Triton and Numba kernels on the emulator.

    Within this context, ``kernel[grid](x, y, n, BLOCK=128)`` of Triton and ``kernel[grid, block](x,
    y)`` of Numba work without a GPU. Arrays are NumPy arrays or torch tensors on the CPU. Each
    launch executes a compiled kernel on copies of the arrays, and copies the results back.

    The emulator does not measure time: autotuning uses the first configuration,
    ``triton.testing.do_bench`` calls the function once and returns NaN, and reports of
    ``triton.testing.perf_report`` are skipped, with warnings. ``torch.cuda`` describes the
    emulated GPU, but ``torch.cuda.is_available()`` is false, because tensors must be on the CPU.
    Contexts can be nested. They belong to the process: launches in other threads run on the
    emulator, too.

    Parameters
    ----------
    compute
        The compute capability, times ten, for which the kernels are compiled, from 70 to 90.
        Default: 80, or the capability of the emulated GPU if it is older.

    Raises
    ------
    KernelError
        By a launch, if the kernel accesses memory that it must not access, or fails another check
        of ``ado.settings.emulator_checks``.
    Unavailable
        If the version of a front end is not supported, or, by a launch, if the emulator cannot
        execute the kernel.
    ValueError
        If `compute` is not in the range, or, by a launch, if an argument is not in host memory or a
        kernel writes to a read-only array.

    Examples
    --------
    >>> with ado.emulated():  # doctest: +SKIP
    ...     add[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)
    """
    if reason := _core.why_no_emulator():
        raise _core.Unavailable(f"kernels cannot be emulated: {reason}")
    if compute is None:
        compute = min(80, int(_core.cuda_properties("emulator")["compute"]))
    if not _OLDEST <= compute <= LATEST_COMPUTE:
        why = ": the emulator does not execute later instructions, such as tcgen05"
        raise ValueError(
            f"compute must be between {_OLDEST} and {LATEST_COMPUTE}, got {compute}"
            f"{why if compute > LATEST_COMPUTE else ''}"
        )
    with ExitStack() as stack:
        _entered.append(compute)
        stack.callback(_entered.pop)
        finder = _Finder(lambda name: stack.enter_context(_intercepted(name, compute)))
        sys.meta_path.insert(0, finder)
        stack.callback(sys.meta_path.remove, finder)
        for name in _ADAPTED:
            if name in sys.modules:
                finder.enter(name)
        yield


def is_emulated() -> bool:
    """Whether launches run on the emulator, because of :func:`emulated`."""
    return bool(_entered)


_ADAPTED = ("triton", "numba.cuda", "torch")


def _intercepted(name: str, compute: int) -> AbstractContextManager[None]:
    """The context of the adapter of a module."""
    if name == "triton":
        from adokernels.kernels import triton

        return triton.intercepted(compute)
    if name == "torch":
        from adokernels.kernels import torch

        return torch.intercepted(compute)
    from adokernels.kernels import numba

    return numba.intercepted(compute)


class _Finder:
    """Enters the context of an adapter when its module is imported."""

    def __init__(self, enter: Callable[[str], None]) -> None:
        self.enter = enter

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module with the other finders."""
        if name not in _ADAPTED:
            return None
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next(filter(None, (each.find_spec(name, path, target) for each in later)), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_enter(module: ModuleType) -> None:
                execute(module)
                self.enter(name)

            spec.loader.exec_module = execute_and_enter  # type: ignore[method-assign]
        return spec


def front_end_of(function: Callable[..., Any]) -> str:
    """The front end of a kernel that the code of a function names, or an empty string."""
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    if not inspect.isfunction(function):
        return ""
    names = function.__code__.co_names
    values = [function.__globals__.get(name) for name in names]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # the variable has no value yet
            values.append(cell.cell_contents)
    modules = [vars(value) for value in values if isinstance(value, ModuleType)]
    for value in [*values, *(module.get(name) for module in modules for name in names)]:
        defined_in = type(value).__module__
        if defined_in.startswith("triton.runtime"):
            return "triton"
        if defined_in == "numba.cuda.dispatcher":
            return "numba"
    return ""
