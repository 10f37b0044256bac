"""Measuring a routine over a range of sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from adokernels.measuring.progress import ProgressDisplay, displayed
from adokernels.measuring.protocol import sweep
from adokernels.model.ladder import check_options
from adokernels.model.routine import Routine
from adokernels.records.measurement import Cache
from adokernels.records.scan import Scan
from adokernels.records.sweep import Sweep

#: Compulsory bytes of the smallest and the largest default problem, and the factor from one to the
#: next.
_SMALLEST, _LARGEST = 1 << 12, 1 << 28
#: Lengths that are shorter than the longest one by more than this factor are not scaled.
_LONG = 64


def scan(
    routine: Routine,
    *,
    shapes: Iterable[Sequence[int]] | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    variants: str | Iterable[str] | None = None,
    cache: Cache = "warm",
    peers: Mapping[str, Callable[..., object]] | None = None,
    precision: float | None = None,
    seconds: float = 0.5,
    ceilings: bool = True,
    progress: bool | ProgressDisplay = True,
    **options: Any,
) -> Scan:
    """Measure a routine on random operands of many sizes, within and far beyond the caches.

    Parameters
    ----------
    routine
        For example ``ado.transpose``.
    shapes
        Lengths of each problem, in the order of ``adokernels bench --shape``, for example
        ``[(256, 256), (1024, 1024)]``. Default: the problem of the routine's task, with its long
        lengths divided by powers of two, for compulsory bytes from 4 KiB to at most 256 MiB.
    dtype, device, options
        Element type, device and options of the calls.
    variants
        Names of the variants to measure. Default: per problem, the variant that a call uses.
    cache
        ``"warm"`` (default): calls run back to back, so a small problem stays in a cache.
        ``"cold"``: the last-level cache is overwritten before each sample.
    peers
        Functions of other libraries by name. They receive the operands of each problem.
    precision, seconds, ceilings, progress
        As for :func:`adokernels.sweep`; `seconds` is per variant and problem.

    Returns
    -------
    Scan
        One sweep per problem. The method ``plot`` draws the scan. After Ctrl-C, the scan contains
        the problems measured until then, and its attribute ``interrupted`` is true.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C is pressed before the first sample, or a second time.
    TypeError
        If `routine` is not a routine of this library.
    ValueError
        If `shapes` is empty, or for the reasons of :func:`adokernels.sweep`.
    """
    if not isinstance(routine, Routine):
        raise TypeError(f"routine must be a routine such as ado.transpose, got {routine!r}")
    check_options(routine, (), options, scan)
    asked = _default_shapes(routine, dtype, options) if shapes is None else shapes
    chosen = [tuple(shape) for shape in asked]
    if not chosen:
        raise ValueError("shapes must contain at least one problem, got none")
    names = variants if variants is None or isinstance(variants, str) else tuple(variants)

    common: dict[str, Any] = {"cache": cache, "precision": precision, "seconds": seconds}
    common |= {"device": device, "ceilings": ceilings, **options}

    def measured(lengths: Sequence[int], display: ProgressDisplay) -> Sweep:
        operands = routine.task.random_operands(lengths, dtype)
        best = routine.choose(*operands, device=device, **options) if names is None else None
        bound = {n: partial(work, *operands) for n, work in (peers or {}).items()}
        own: dict[str, Any] = {"variants": best.variant if best else names, "peers": bound}
        return sweep(routine, *operands, progress=display, **own, **common)

    sweeps: list[Sweep] = []
    interrupted = False
    with displayed(progress, measurements=len(chosen)) as display:
        try:
            for lengths in chosen:
                sweeps.append(measured(lengths, display))
                if interrupted := sweeps[-1].interrupted:
                    break
        except KeyboardInterrupt:
            interrupted = True
            if not sweeps:
                raise
    by_size = sorted(sweeps, key=lambda s: next(iter(s)).bytes)
    return Scan(routine=routine.name, sweeps=tuple(by_size), interrupted=interrupted)


def _default_shapes(
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
            max(1, 2 ** (math.floor(math.log2(n)) - power)) if long else n
            for n, long in zip(lengths, scaled, strict=True)
        )
        operands = (np.zeros(*each) for each in routine.task.operand_types(shape, dtype))
        moved = routine.variants[0].cost(*operands, **options).bytes
        if _SMALLEST / 2 < moved <= _LARGEST:
            found.setdefault(shape)
    return list(found)
