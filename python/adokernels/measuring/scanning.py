"""Measuring a routine over a range of sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from adokernels import _core
from adokernels.measuring.ladder_sweep import measure_ladder
from adokernels.measuring.paying_off import store
from adokernels.measuring.progress import ProgressDisplay, displayed
from adokernels.measuring.protocol import require_clock, sweep
from adokernels.measuring.sampling import Settings
from adokernels.model.ladder import check_options
from adokernels.model.routine import Routine
from adokernels.model.values import is_array
from adokernels.records.measurement import Cache
from adokernels.records.scan import Offload, Scan
from adokernels.records.sweep import Sweep
from adokernels.text import require

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
    copies: bool = False,
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
    copies
        Whether to find the size from which a GPU pays off for NumPy arrays. For each problem, three
        default calls are then timed: on the CPU, on the GPU with upload and download, and the
        kernel alone, with operands on the GPU. The first two are calls as a user writes them, timed
        interleaved by the host's clock. With default `options`, :meth:`Routine.choose` uses the
        result later.
    precision, seconds, ceilings, progress
        As for :func:`adokernels.sweep`; `seconds` is per variant and problem.

    Returns
    -------
    Scan
        One sweep per problem. The method ``plot`` draws the scan. After Ctrl-C, the scan contains
        the problems measured until then, and its attribute ``interrupted`` is true. With `copies`,
        ``break_even`` and ``kernel_break_even`` contain the sizes.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C is pressed before the first sample, or a second time.
    TypeError
        If `routine` is not a routine of this library.
    ValueError
        If `shapes` is empty, if `copies` is combined with `variants`, `peers` or a CPU as `device`,
        if a call with NumPy arrays returns a wrong result, or for the reasons of
        :func:`adokernels.sweep`.
    Unavailable
        If `copies` is true and there is no GPU.

    Notes
    -----
    With `copies` and cold caches, the caches of the CPU are flushed before both calls with NumPy
    arrays. The upload overwrites the L2 cache of the GPU.
    """
    if not isinstance(routine, Routine):
        found = type(routine).__name__
        raise TypeError(f"routine must be a routine such as ado.transpose, got a {found}")
    check_options(routine, (), options, scan)
    require((Iterable, type(None)), "a sequence of lengths per problem", shapes=shapes)
    require((Iterable, type(None)), "names of variants", variants=variants)
    require((Mapping, type(None)), "a mapping from names to functions", peers=peers)
    require_clock(device)
    if copies:
        device = _gpu_of(device)
        if variants is not None or peers:
            raise ValueError("copies=True times default calls; omit variants and peers")
    asked = default_shapes(routine, dtype, options) if shapes is None else shapes
    for shape in (asked := list(asked)):
        require(Iterable, "lengths of each problem", shapes=shape)
    chosen = [tuple(shape) for shape in asked]
    if not chosen:
        raise ValueError("shapes must contain at least one problem, got none")
    names = variants if variants is None or isinstance(variants, str) else tuple(variants)

    common: dict[str, Any] = {"cache": cache, "precision": precision, "seconds": seconds}
    common |= {"device": device, "ceilings": ceilings, "limiter": False, **options}

    def measured(operands: Sequence[Any], display: ProgressDisplay) -> Sweep:
        best = routine.choose(*operands, device=device, **options) if names is None else None
        bound = {n: partial(work, *operands) for n, work in (peers or {}).items()}
        own: dict[str, Any] = {"variants": best.variant if best else names, "peers": bound}
        timed: Sweep = sweep(routine, *operands, progress=display, **own, **common)
        return timed

    sweeps: list[Sweep] = []
    offloads: list[Offload] = []
    interrupted = False
    with displayed(progress, measurements=len(chosen) * (2 if copies else 1)) as display:
        try:
            for lengths in chosen:
                operands = routine.task.random_operands(lengths, dtype)
                found = measured(operands, display)
                if copies and not found.interrupted:
                    _require_none_skipped(found)
                    settings = Settings(cache, precision, seconds)
                    offloads.append(_offload(routine, operands, options, device, settings, display))
                if not copies or not found.interrupted:
                    sweeps.append(found)
                if interrupted := found.interrupted:
                    break
        except KeyboardInterrupt:
            interrupted = True
        if interrupted and not sweeps:
            raise KeyboardInterrupt
    # A sweep has no measurement if all of its variants were skipped.
    order = sorted(range(len(sweeps)), key=lambda i: max((m.bytes for m in sweeps[i]), default=0))
    result = Scan(
        routine=routine.name,
        sweeps=tuple(sweeps[i] for i in order),
        interrupted=interrupted,
        offloads=tuple(offloads[i] for i in order) if copies else (),
    )
    if copies and not options:
        store(result, str(device))
    return result


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
    settings: Settings,
    display: ProgressDisplay,
) -> Offload:
    """Time the calls with NumPy arrays on the CPU and on the GPU, interleaved."""
    problem = routine.problem(*operands, device="cpu", **options)
    calls = {
        "call on cpu": partial(routine, *operands, device="cpu", **options),
        "call on cuda": partial(routine, *operands, device=device, **options),
    }
    with display.measurement(f"{routine.name} with copies, {settings.cache}"):
        found = measure_ladder(routine, problem, {}, settings, display, calls)
    _require_none_skipped(found)
    cpu, gpu = (replace(m, routine=routine.name) for m in found.peers)
    uploaded = sum(a.nbytes for a in problem.host_arguments if is_array(a))
    downloaded = sum(math.prod(r.shape) * r.dtype.itemsize for r in problem.result_types)
    return Offload(cpu=cpu, gpu=gpu, uploaded=uploaded, downloaded=downloaded)


def _require_none_skipped(found: Sweep) -> None:
    for name, reason in found.skipped.items():
        raise ValueError(f"{found.routine}, {name}: {reason}")


def default_shapes(
    routine: Routine, dtype: DTypeLike | None, options: Mapping[str, Any], doublings: int = 0
) -> list[tuple[int, ...]]:
    """The default problems: the task's long lengths, rounded to and divided by powers of two.

    With `doublings`, up to that number of larger problems come first, each with doubled lengths.
    Much shorter lengths do not change: they are properties of the problem, for example the number
    of components.
    """
    lengths = tuple(routine.task.lengths.values())
    scaled = [length * _LONG >= max(lengths) for length in lengths]
    found: dict[tuple[int, ...], None] = {}
    for power in range(-doublings, math.ceil(math.log2(max(lengths))) + 1):
        shape = tuple(
            max(1, int(2.0 ** (math.floor(math.log2(n)) - power))) if long else n
            for n, long in zip(lengths, scaled, strict=True)
        )
        types = routine.task.operand_types(shape, dtype)
        size = sum(math.prod(lengths) * np.dtype(kind).itemsize for lengths, kind in types)
        if power < 0 and size > _LARGEST:
            continue
        operands = (np.zeros(*each) for each in types)
        moved = routine.variants[0].cost(*operands, **options).bytes
        if _SMALLEST / 2 < moved <= _LARGEST:
            found.setdefault(shape)
    return list(found)
