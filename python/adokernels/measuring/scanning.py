"""Measuring a routine over a range of sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels.arrays.operands import operand_types, random_operands
from adokernels.ladders.routine import Routine
from adokernels.measuring.protocol import sweep
from adokernels.measuring.scans import Scan
from adokernels.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import DTypeLike

    from adokernels.measuring.records import Cache

#: Compulsory bytes of the smallest and the largest default problem, and the factor from one to the
#: next.
_SMALLEST, _LARGEST, _STEP = 1 << 12, 1 << 28, 4


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
    progress: bool = True,
    **options: Any,
) -> Scan:
    """Measure a routine on random operands of many sizes, within and far beyond the caches.

    Parameters
    ----------
    routine
        For example ``ado.transpose``.
    shapes
        Lengths of each problem, in the order of ``adokernels bench --shape``, for example
        ``[(256, 256), (1024, 1024)]``. Default: the problem of the routine's task, scaled down
        to compulsory bytes from 4 KiB to at most 256 MiB in factors of four.
    dtype, device, options
        Element type, device and options of the calls.
    variants
        Names of the variants to measure. Default: per problem, the variant that a call uses.
    cache
        ``"warm"`` (default): calls run back to back, so a small problem stays in a cache.
        ``"cold"``: the last-level cache is overwritten before each sample.
    peers
        Functions of other libraries by name. They receive the operands of each problem.
    precision, seconds, progress
        As for :func:`adokernels.sweep`; `seconds` is per variant and problem.

    Returns
    -------
    Scan
        One sweep per problem. Its method ``plot`` draws it.

    Raises
    ------
    TypeError
        If `routine` is not a routine of this library.
    ValueError
        If `shapes` is empty, or as for :func:`adokernels.sweep`.
    """
    if not isinstance(routine, Routine):
        raise TypeError(f"routine must be a routine such as ado.transpose, got {routine!r}")
    chosen = list(_default_shapes(routine, dtype) if shapes is None else map(tuple, shapes))
    if not chosen:
        raise ValueError("shapes must contain at least one problem, got none")
    sweeps = []
    for lengths in chosen:
        operands = random_operands(routine, lengths, dtype)
        names = variants
        if names is None:
            names = routine.choose(*operands, device=device, **options).variant
        sweeps.append(
            sweep(
                routine,
                *operands,
                device=device,
                variants=names,
                cache=cache,
                peers={n: _bound(work, operands) for n, work in (peers or {}).items()},
                precision=precision,
                seconds=seconds,
                progress=progress,
                **options,
            )
        )
    by_size = sorted(sweeps, key=lambda s: next(iter(s)).bytes)
    return Scan(routine=routine.name, sweeps=tuple(by_size))


def _bound(work: Callable[..., object], operands: Sequence[Any]) -> Callable[[], object]:
    return lambda: work(*operands)


def _default_shapes(routine: Routine, dtype: DTypeLike | None) -> list[tuple[int, ...]]:
    """The lengths of the task, scaled by the same factor each, for sizes in powers of `_STEP`."""
    lengths = TASKS[routine.name].lengths.values()
    found: dict[tuple[int, ...], None] = {}
    size = _SMALLEST
    while size <= _LARGEST:
        low, high = 0.0, 1.0
        for _ in range(40):
            scale = (low + high) / 2
            trial = tuple(max(1, round(length * scale)) for length in lengths)
            empty = (np.empty(*each) for each in operand_types(routine, trial, dtype))
            cost = routine.variants[0].cost(*empty)
            low, high = (scale, high) if cost.bytes < size else (low, scale)
        found.setdefault(tuple(max(1, round(length * high)) for length in lengths))
        size *= _STEP
    return list(found)
