"""Comparing functions, timed in the same rounds; or stored sweeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from adokernels import _core
from adokernels.measuring.functions import Function, Setup, name_of
from adokernels.measuring.pipeline import measure_functions
from adokernels.measuring.progress import ProgressDisplay, displayed
from adokernels.measuring.sampling import Timing, require_finite
from adokernels.model.ladder import options_of
from adokernels.model.task import Task
from adokernels.records.changes import SweepComparison, of_functions, of_sweeps
from adokernels.records.loading import load
from adokernels.records.measurement import Cache, Measurement
from adokernels.records.sweep import Sweep
from adokernels.text import kind_of, require

Stored = Sweep | Measurement | str | Path


def compare(
    before: Stored | Callable[..., Any] | Mapping[str, Callable[..., Any]],
    after: Any = None,
    *args: Any,
    setup: Setup | None = None,
    check: bool = True,
    tolerance: float | None = None,
    device: str | None = None,
    stream: Any = None,
    cache: Cache = "warm",
    precision: float | None = None,
    seconds: float = 3.0,
    across_machines: bool = False,
    progress: bool | ProgressDisplay = True,
    **options: Any,
) -> SweepComparison:
    """Check functions against each other, then time them interleaved, with warm caches by default.

    >>> import numpy as np
    >>> import adokernels as ado
    >>> x = np.random.default_rng(0).random(100_000)
    >>> found = ado.compare(np.sort, lambda x: np.sort(x, kind="stable"), x)
    >>> found.labels
    ('sort', '<lambda>')

    Two stored sweeps of the same problem are compared variant by variant. Samples of two runs are
    never paired, so a difference of less than 5 % is then neither "faster" nor "slower".

    Parameters
    ----------
    before, after
        Two functions of the operands: NumPy, CuPy, torch, Numba, variants of ladders, anything
        callable. Or sweeps, single measurements, or the paths of their files.
        Instead of two functions, `before` can map names to functions; the operands follow, and
        each function is compared with the first one: ``ado.compare({"f": f, "g": g}, x)``.
    *args, **options
        The operands of the functions.
    setup
        For functions that change their operands: called with the operands before each call, outside
        of the timed interval. It returns the operands of this call, several as a tuple, for example
        ``setup=np.copy``. None: the operands may stay as the previous call left them.
    check
        Whether to check that the results agree, before timing. Functions that return None must
        leave the same values in the operands that `setup` returns.
    tolerance
        Largest allowed difference of results: absolute for integers, relative to the largest
        magnitude in the result for floating-point numbers. Default: 0 for integers, 64 machine
        epsilons for floating-point numbers (4 for float16), and the element types must agree.
    device, stream, precision
        See :func:`adokernels.measure`.
    cache : {"warm", "cold"}
        As for :func:`adokernels.measure`. Overwriting a large cache before each sample takes longer
        than most functions, so the default is ``"warm"``.
    seconds
        The time for the whole call. A slow function may take up to four times its share of this
        time, to reach 11 samples.
    across_machines
        Whether stored sweeps may come from different machines. The result then names the machines.
    progress
        Whether to show a progress bar on a terminal or in Jupyter.

    Returns
    -------
    SweepComparison
        One comparison per function after the first one; or one per variant that both sweeps
        contain, ceilings and peers included. It is shown as a table, ``plot`` draws it, and
        ``save`` stores it.

    Raises
    ------
    ValueError
        If results differ; the message states where. If a function changes its operands and `setup`
        is None. For sweeps, if the problems differ, if one is cold and the other warm, if the
        machines differ and `across_machines` is false, if they have no variant in common, or if a
        file does not contain a sweep or a measurement.
    TypeError
        If a function returns a lazy result or an iterator, whose work would not be timed.
    OSError
        If a file cannot be read.
    Unavailable
        If a function runs kernels on the emulator, which does not measure time.
    """
    timing = Timing(cache, precision, seconds)
    if isinstance(before, Stored):
        for option in options:
            hint = _core.suggest(option, options_of(compare))
            raise TypeError(f"compare has no option {option!r} for stored sweeps{hint}")
        if args or setup is not None:
            raise TypeError("operands and setup= are for functions, not for stored sweeps")
        records: list[Any] = [load(x) if isinstance(x, str | Path) else x for x in (before, after)]
        return of_sweeps(*records, across_machines=across_machines)
    functions = _functions(before, after, args, options, setup)
    require(bool, "a bool", check=check)
    require_finite(tolerance=tolerance)
    task = Task(name_of, tolerance=tolerance) if check else None
    with displayed(progress) as display:
        measured = measure_functions(
            functions, timing, display, "comparison", device=device, stream=stream, task=task
        )
    return of_functions(measured)


def _functions(
    before: Any, after: Any, args: tuple[Any, ...], options: Mapping[str, Any], setup: Setup | None
) -> list[Function]:
    """Return the functions with their names and operands; raise TypeError for other objects."""
    by_name: dict[str, Any] = {}
    if isinstance(before, Mapping):
        by_name, args = dict(before), args if after is None else (after, *args)
        roles = [f"before[{name!r}]" for name in by_name]
    else:
        roles = ["before", "after"]
        for function in (before, after):
            name, count = name_of(function), 2
            while name in by_name:
                name, count = f"{name_of(function)} ({count})", count + 1
            by_name[name] = function
    for role, (name, function) in zip(roles, by_name.items(), strict=True):
        require(str, "a str", **{"a name in before": name})
        if not callable(function):
            raise TypeError(
                f"{role} must be a function, or both must be stored sweeps or measurements, got "
                f"{kind_of(function)}: for functions f and g, ado.compare(f, g, x)"
            )
    if len(by_name) < 2:
        raise ValueError(f"before must name at least two functions, got {len(by_name)}")
    return [
        Function(name, function, args, options, setup, compare)
        for name, function in by_name.items()
    ]
