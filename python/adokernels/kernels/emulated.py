"""Launches of Triton and Numba kernels, unchanged, on the emulator."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from adokernels import _core
from adokernels.process import is_installed

#: The compute capabilities, times ten, whose kernels the emulator executes.
_OLDEST, LATEST_COMPUTE = 70, 90
#: The search for kernels ends after this number of values, and of items of a container.
_MOST_VALUES, _MOST_ITEMS = 1000, 100
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
    """The front end of a kernel that a function can launch, or an empty string.

    The code of the function, or user code that it calls, names the kernel or an object that
    contains it.
    """
    values: list[Any] = [function]
    seen = {id(function)}
    for value in values:
        if found := _front_end(value):
            return found
        if len(values) < _MOST_VALUES:
            new = {id(v): v for v in _reached_from(value) if id(v) not in seen}
            seen |= new.keys()
            values += new.values()
    return ""


def refuse_kernel(name: str, value: Any) -> None:
    """Raise TypeError if a kernel is given instead of a function that launches it."""
    if _front_end(value) and hasattr(value, "__getitem__"):
        kernel = getattr(value, "__name__", "kernel")
        raise TypeError(
            f"{name} must be a function that launches the kernel {kernel}, got the kernel: for "
            f"example lambda x, out: {kernel}[grid](x, out, x.size)"
        )


def _front_end(value: Any) -> str:
    defined_in = type(value).__module__
    if defined_in.startswith("triton.runtime"):
        return "triton"
    return "numba" if defined_in == "numba.cuda.dispatcher" else ""


def _reached_from(value: Any) -> Iterator[Any]:
    """The values that code names, and the values that an object of the user holds."""
    if isinstance(value, dict | list | tuple):
        items = value.values() if isinstance(value, dict) else value
        yield from itertools.islice(items, _MOST_ITEMS)
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif inspect.ismethod(value):
        yield from (value.__func__, value.__self__)
    elif inspect.isfunction(value) and not is_installed(value.__module__ or ""):
        names = value.__code__.co_names
        found = [inspect.unwrap(value), *map(value.__globals__.get, names)]
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # the variable has no value yet
                found.append(cell.cell_contents)
        modules = [vars(each) for each in found if isinstance(each, ModuleType)]
        yield from (*found, *(module.get(name) for module in modules for name in names))
    elif not isinstance(value, type | ModuleType) and not is_installed(type(value).__module__):
        yield from getattr(value, "__dict__", {}).values()
        if callable(value):
            yield type(value).__call__
