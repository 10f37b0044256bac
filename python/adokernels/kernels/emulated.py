"""Launches of Triton and Numba kernels, unchanged, on the emulator."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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
    launch executes a compiled kernel on copies of the arrays, whose results are copied back. Import
    the front end first. Autotuning uses the first configuration and warns. Contexts can be nested.
    They belong to the process: launches in other threads run on the emulator, too.

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
        if "triton" in sys.modules:
            from adokernels.kernels import triton

            stack.enter_context(triton.intercepted(compute))
        if "numba.cuda" in sys.modules:
            from adokernels.kernels import numba

            stack.enter_context(numba.intercepted(compute))
        yield


def is_emulated() -> bool:
    """Whether launches run on the emulator, because of :func:`emulated`."""
    return bool(_entered)


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
