"""Measuring a routine, an own ladder or a function over a range of sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from adokernels import _core
from adokernels.measuring.functions import (
    Function,
    name_of,
    require_clock,
    require_clock_of,
    require_function,
)
from adokernels.measuring.machine import measured_machine
from adokernels.measuring.pipeline import measure_functions, measure_ladder
from adokernels.measuring.progress import ProgressDisplay, displayed
from adokernels.measuring.protocol import sweep
from adokernels.measuring.sampling import Timing, require_finite
from adokernels.model.checker import Checker
from adokernels.model.ladder import Ladder, check_options
from adokernels.model.routine import Routine
from adokernels.model.task import Task
from adokernels.model.values import is_array
from adokernels.records.measurement import Cache
from adokernels.records.scan import Offload, Scan
from adokernels.records.sweep import Sweep
from adokernels.text import failure, require

#: Compulsory bytes of the smallest and the largest default problem, and the factor from one to the
#: next.
_SMALLEST, _LARGEST = 1 << 12, 1 << 28
#: Lengths that are shorter than the longest one by more than this factor are not scaled.
_LONG = 64


def scan(
    routine: Ladder | Callable[..., Any],
    *,
    shapes: Iterable[Sequence[int] | int] | None = None,
    operands: Callable[..., Any] | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    variants: str | Iterable[str] | None = None,
    cache: Cache = "warm",
    peers: Mapping[str, Callable[..., object]] | None = None,
    tolerance: float | None = None,
    copies: bool = False,
    precision: float | None = None,
    seconds: float = 15.0,
    ceilings: bool = True,
    progress: bool | ProgressDisplay = True,
    **options: Any,
) -> Scan:
    """Measure a routine, or any function, at many sizes, with warm caches by default.

    >>> import numpy as np
    >>> import adokernels as ado
    >>> found = ado.scan(
    ...     np.sort,
    ...     peers={"stable": lambda x: np.sort(x, kind="stable")},
    ...     shapes=[100, 1000],
    ...     operands=np.random.default_rng(0).random,
    ...     seconds=0.1,
    ... )
    >>> list(found.comparisons)  # per peer, the verdict and the ratio of times at each size
    ['stable']

    Parameters
    ----------
    routine
        For example ``ado.transpose``, an own ladder, or any function.
    shapes
        Lengths of each problem, in the order of ``adokernels bench --shape``, for example
        ``[(256, 256), (1024, 1024)]``; for one length, ``[256, 1024]``. Default for a routine: the
        problem of its task, with its long lengths divided by powers of two, for compulsory bytes
        from 4 KiB to at most 256 MiB.
    operands
        A function of the lengths that makes the operands of a problem, several as a tuple, for
        example ``lambda n: np.random.default_rng(0).random(n)``. Default for a routine: random
        operands. Own ladders and functions need it.
    dtype
        Element type of a routine's random operands.
    device, options
        Device and options of the calls.
    variants
        Names of the variants to measure. Default: per problem, the variant that a call uses.
    cache
        ``"warm"`` (default): calls run back to back, so a small problem stays in a cache.
        ``"cold"``: the last-level cache is overwritten before each sample.
    peers
        Functions of other libraries by name. They receive the operands of each problem. If
        `routine` is a function, their results must agree with its results, and each peer is
        compared with it at each size.
    tolerance
        For functions, the largest difference of results, as for :func:`adokernels.compare`.
    copies
        Whether to find the size from which a GPU pays off for NumPy arrays. For each problem, three
        default calls are then timed: on the CPU, on the GPU with upload and download, and the
        kernel alone, with operands on the GPU. The first two are calls as a user writes them, timed
        alternately by the host's clock.
    seconds
        The time for the whole call, which the problems share equally.
    precision, ceilings, progress
        As for :func:`adokernels.sweep`.

    Returns
    -------
    Scan
        One sweep per problem. The method ``plot`` draws the scan. After Ctrl-C, the scan contains
        the problems measured until then, and its attribute ``interrupted`` is true. With `copies`,
        ``break_even`` and ``kernel_break_even`` contain the sizes; for functions, ``crossovers``
        contains, per peer, the size from which the peer or the first function is faster.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C is pressed before the first sample, or a second time.
    TypeError
        If `routine` is neither a ladder nor a function, or `copies`, `dtype`, `tolerance` or
        `variants` is given for one that does not support it.
    ValueError
        If `shapes` is empty, or missing for an own ladder or a function, if `copies` is combined
        with `variants`, `peers` or a CPU as `device`, if a call with NumPy arrays returns a wrong
        result, or for the reasons of :func:`adokernels.sweep` and :func:`adokernels.compare`.
    Unavailable
        If `copies` is true and there is no GPU, or if a variant would run on the emulator.

    Notes
    -----
    With `copies` and cold caches, the caches of the CPU are flushed before both calls with NumPy
    arrays. The upload overwrites the L2 cache of the GPU.
    """
    require_finite(seconds=seconds, tolerance=tolerance)
    require((Iterable, type(None)), "a sequence of lengths per problem", shapes=shapes)
    require((Iterable, type(None)), "names of variants", variants=variants)
    require((Mapping, type(None)), "a mapping from names to functions", peers=peers)
    require_clock(device)
    if isinstance(routine, Ladder):
        check_options(routine, (), options, scan)
        if tolerance is not None:
            raise TypeError("tolerance is for functions; a ladder has its own")
    else:
        require_function(routine, None, "routine")
    if copies:
        device = _gpu_of(device)
        if variants is not None or peers:
            raise ValueError("copies=True times default calls; omit variants and peers")
    problems = _lengths(routine, shapes, operands, dtype, options)
    if isinstance(routine, Routine):
        if operands is not None and dtype is not None:
            raise TypeError("dtype sets the type of random operands; omit dtype or operands")
    elif copies or dtype is not None or (variants is not None and not isinstance(routine, Ladder)):
        raise TypeError("copies and dtype are for routines; variants is for ladders")
    names = variants if variants is None or isinstance(variants, str) else tuple(variants)
    share = seconds / len(problems) / (2 if copies else 1)

    def made(lengths: tuple[int, ...]) -> tuple[Any, ...]:
        if operands is None:
            assert isinstance(routine, Routine)
            return routine.task.random_operands(lengths, dtype)
        try:
            given = operands(*lengths)
        except TypeError as error:
            call = f"operands({', '.join(map(str, lengths))})"
            raise TypeError(
                f"operands is called with the lengths of a problem, as {call}: {failure(error)}; "
                "for example operands=lambda *lengths: np.ones(lengths)"
            ) from error
        return given if isinstance(given, tuple) else (given,)

    def measured(given: tuple[Any, ...], display: ProgressDisplay) -> Sweep:
        if not isinstance(routine, Ladder):
            named = {name_of(routine): routine, **(peers or {})}
            functions = [
                Function(name, work, given, options, caller=scan) for name, work in named.items()
            ]
            task = Task(name_of, tolerance=tolerance) if peers else None
            ours, *theirs = measure_functions(
                functions,
                Timing(cache, precision, share),
                display,
                device=device,
                task=task,
            )
            place = str(ours.context.get("device", "cpu"))
            machine = measured_machine(place, display) if ceilings else None
            return Sweep(
                routine=ours.variant, measurements=(ours,), peers=tuple(theirs), machine=machine
            )
        if names is None:
            chosen = [routine.choose(*given, device=device, **options).variant]
        else:
            chosen = [names] if isinstance(names, str) else list(names)
        for name in chosen:
            require_clock_of(routine[name], device)
        timed: Sweep = sweep(
            routine,
            *given,
            progress=display,
            variants=chosen,
            peers={n: partial(work, *given) for n, work in (peers or {}).items()},
            cache=cache,
            precision=precision,
            seconds=share,
            device=device,
            ceilings=ceilings,
            limiter=False,
            **options,
        )
        return timed

    sweeps: list[Sweep] = []
    offloads: list[Offload] = []
    interrupted = False
    with displayed(progress, measurements=len(problems) * (2 if copies else 1)) as display:
        try:
            for lengths in problems:
                given = made(lengths)
                found = measured(given, display)
                if isinstance(routine, Routine) and copies and not found.interrupted:
                    _require_none_skipped(found)
                    timing = Timing(cache, precision, share)
                    offloads.append(_offload(routine, given, options, device, timing, display))
                if not copies or not found.interrupted:
                    sweeps.append(found)
                if interrupted := found.interrupted:
                    break
        except KeyboardInterrupt:
            interrupted = True
        if interrupted and not sweeps:
            raise KeyboardInterrupt
    scanned = [] if isinstance(routine, Ladder) else problems[: len(sweeps)]
    # A sweep has no measurement if all of its variants were skipped.
    moved = [max((m.bytes for m in s), default=0.0) for s in sweeps]
    sizes = [math.prod(map(float, each)) for each in scanned] or moved
    order = sorted(range(len(sweeps)), key=sizes.__getitem__)
    return Scan(
        routine=sweeps[0].routine,
        sweeps=tuple(sweeps[i] for i in order),
        interrupted=interrupted,
        offloads=tuple(offloads[i] for i in order) if copies else (),
        lengths=tuple(scanned[i] for i in order) if scanned else (),
    )


def _lengths(
    routine: Any,
    shapes: Iterable[Sequence[int] | int] | None,
    operands: Callable[..., Any] | None,
    dtype: DTypeLike | None,
    options: Mapping[str, Any],
) -> list[tuple[int, ...]]:
    """The lengths of each problem; raise TypeError if there can be no operands."""
    if not isinstance(routine, Routine):
        for name, value in (("shapes", shapes), ("operands", operands)):
            if value is None:
                raise TypeError(
                    f"{name} must be given for own ladders and functions, for example "
                    "shapes=[1000, 100_000], operands=lambda n: np.ones(n)"
                )
    if operands is not None and not callable(operands):
        found = type(operands).__name__
        raise TypeError(f"operands must be a function of the lengths, got {found}")
    chosen = list(default_shapes(routine, dtype, options) if shapes is None else shapes)
    if not chosen:
        raise ValueError("shapes must contain at least one problem, got none")

    found = []
    for shape in chosen:
        lengths = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
        for length in lengths:
            require(SupportsIndex, "integers, the lengths of each problem", shapes=length)
        found.append(tuple(map(operator.index, lengths)))
    return found


def _gpu_of(device: str | None) -> str:
    where = _core.resolve_device(device or "cuda")
    if where == "cpu":
        raise ValueError("copies=True compares a GPU with the CPU; device must be a GPU, got 'cpu'")
    return where


def _offload(
    routine: Routine,
    operands: Sequence[Any],
    options: Mapping[str, Any],
    device: str | None,
    timing: Timing,
    display: ProgressDisplay,
) -> Offload:
    """Time the calls with NumPy arrays on the CPU and on the GPU, interleaved."""
    problem = routine.problem(*operands, device="cpu", **options)
    calls = {
        "call on cpu": partial(routine, *operands, device="cpu", **options),
        "call on cuda": partial(routine, *operands, device=device, **options),
    }
    with display.measurement(f"{routine.name} with copies, {timing.cache}"):
        found = measure_ladder(Checker(problem), {}, timing, display, peers=calls)
    _require_none_skipped(found)
    cpu, gpu = (replace(m, routine=routine.name) for m in found.peers)
    uploaded = sum(a.nbytes for a in problem.host_arguments if is_array(a))
    downloaded = sum(math.prod(r.shape) * r.dtype.itemsize for r in problem.result_types)
    return Offload(cpu=cpu, gpu=gpu, uploaded=uploaded, downloaded=downloaded)


def _require_none_skipped(found: Sweep) -> None:
    for name, reason in found.skipped.items():
        raise ValueError(f"{found.routine}, {name}: {reason}")


def default_shapes(
    routine: Routine, dtype: DTypeLike | None, options: Mapping[str, Any]
) -> list[tuple[int, ...]]:
    """The default problems: the task's long lengths, rounded to and divided by powers of two.

    Much shorter lengths do not change: they are properties of the problem, for example the number
    of components.
    """
    lengths = tuple(routine.task.lengths.values())
    scaled = [length * _LONG >= max(lengths) for length in lengths]
    found: dict[tuple[int, ...], None] = {}
    for power in range(math.ceil(math.log2(max(lengths))) + 1):
        shape = tuple(
            max(1, int(2.0 ** (math.floor(math.log2(n)) - power))) if long else n
            for n, long in zip(lengths, scaled, strict=True)
        )
        types = routine.task.operand_types(shape, dtype)
        operands = (np.zeros(*each) for each in types)
        moved = routine.variants[0].cost(*operands, **options).bytes
        if _SMALLEST / 2 < moved <= _LARGEST:
            found.setdefault(shape)
    return list(found)
