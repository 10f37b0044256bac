"""Collection of hardware counters for variants and for any function that launches kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from adokernels import _core
from adokernels.measuring.context import context
from adokernels.measuring.emulating import emulated_profile, profile_of_function
from adokernels.measuring.functions import Function, name_of, require_function
from adokernels.model.ladder import Ladder, Variant, check_options
from adokernels.records.kernels import Kernel
from adokernels.records.measurement import Cache
from adokernels.records.metrics import METRIC_SETS
from adokernels.records.profile import KernelProfile, Profile

Metrics = str | Iterable[str]


def profile(
    what: Variant | Ladder | Callable[..., Any],
    *args: Any,
    metrics: Metrics = "default",
    cache: Cache = "cold",
    block: tuple[int, ...] | None = None,
    device: str | None = None,
    kernel: str | None = None,
    **options: Any,
) -> Profile:
    """Read the hardware counters of every kernel that a call launches.

    Parameters
    ----------
    what
        A CUDA variant (``ado.transpose["tiled"]``), a routine (its default CUDA variant), or any
        callable that launches kernels: CuPy, torch, Triton, Numba.
    *args, **options
        The arguments of the call.
    metrics
        ``"default"``, ``"light"``, or names of metrics as in Nsight Compute. ``"light"`` leaves out
        the metrics that instrument the code to count per thread: FLOPs, bytes of accesses and
        branch divergence. One run of such a metric may take 100 times longer than the kernel.
    cache : {"cold", "warm"}
        Whether L2 is overwritten before each run, as in :func:`adokernels.measure`.
    block
        Block shape of a CUDA variant.
    device
        ``"cuda:1"``, or ``"emulator"`` to execute and count kernels without a GPU. The emulator
        accepts variants, and functions that launch kernels of Triton or Numba
        (:func:`adokernels.emulated`). `cache` then has no effect, and `metrics` must be the
        default. Quantities that depend on the machine code or on time are not counted;
        docs/guide/emulator.md states the errors of the counts.
    kernel
        The name of the kernel whose launches are returned. Default: all kernels.

    Returns
    -------
    Profile
        One entry per kernel, and totals. Metrics that the GPU does not have are left out.

    Raises
    ------
    Unavailable
        If the counters cannot be read: no GPU, no CUPTI, no permission. The message contains the
        remedy.
    ValueError
        For a variant on the CPU or an unknown metric, if the launched kernels differ between runs,
        or if the call launches no kernel with the name `kernel`.

    Notes
    -----
    The GPU has few counters, so the call is repeated: twice without counters, then once per group
    (18 for the default metrics on an H200). It must launch the same kernels each time. Each kernel
    is one range of CUPTI's Range Profiler. A range around several kernels would contain the time
    between them and lower every percentage.
    """
    if cache not in ("cold", "warm"):
        raise ValueError(f"cache must be 'cold' or 'warm', got {cache!r}")
    if isinstance(what, Ladder | Variant):
        ladder, named = (what, None) if isinstance(what, Ladder) else (what.ladder, what)
        if named and named.device != "cuda":
            raise ValueError(
                f"{named.label} must be a CUDA variant, because only the GPU has these counters: "
                "ado.sweep finds the limiters of CPU variants by experiment"
            )
        check_options(ladder, args, options, profile)
        where = device or ("emulator" if _core.device() == "emulator" else "cuda")
    else:
        require_function(what, block)
        if device not in (None, "cuda", "emulator"):
            raise TypeError(f"device must be 'cuda' or 'emulator' for callables, got {device!r}")
        where = device or "cuda"
    if where != "emulator":
        require_counters(metrics)
    elif metrics != "default":
        raise ValueError(f"metrics must be 'default' on the emulator, got {metrics!r}")
    if isinstance(what, Ladder | Variant):
        problem = ladder.problem(*args, device=where, **options)
        call = problem.prepare(named.name if named else problem.best(), block)
        work, label, where = call.timed, call.label, problem.device_id
        count = partial(emulated_profile, call)
    else:
        function = Function(name_of(what), what, args, options, caller=profile)
        work, label = function.run, function.name
        count = partial(profile_of_function, function)
    if where == "emulator":
        found = count()
    else:
        found = collect(work, label, metrics, cache, where, context(where))
    chosen = of_kernel(kernel, [each.kernel.name for each in found.kernels], label)
    return replace(found, kernels=tuple(found.kernels[i] for i in chosen))


def of_kernel(kernel: str | None, launched: Sequence[str], label: str) -> list[int]:
    """The numbers of the launches of a kernel, or all; ValueError if it is not launched."""
    chosen = [i for i, name in enumerate(launched) if kernel in (None, name)]
    if not chosen and kernel is not None:
        hint = _core.suggest(kernel, list(dict.fromkeys(launched)))
        raise ValueError(f"kernel must be the name of a kernel of {label}, got {kernel!r}{hint}")
    return chosen


def collect(
    work: _core.Call | Callable[[], object],
    label: str,
    metrics: Metrics,
    cache: Cache,
    device: str = "cuda",
    facts: dict[str, Any] | None = None,
) -> Profile:
    """Collect the counters of a function without arguments, or of a call of the core."""
    names = list(dict.fromkeys(metrics))
    if isinstance(metrics, str):  # the metrics of a set that the chip supports
        names = _core.existing_metrics(list(METRIC_SETS[metrics]), _core.chip(device))
    processors = int(_core.cuda_properties(device)["multiprocessors"])
    kernels = []
    for kernel, values in _core.count(work, names, cache == "cold"):
        # A ratio of counters is 0 / 0 if both are zero.
        finite = {n: v for n, v in zip(names, values, strict=True) if math.isfinite(v)}
        counted = Kernel.from_core(kernel, processors)
        kernels.append(KernelProfile(kernel=counted, values=finite, multiprocessors=processors))
    return Profile(
        label=label,
        kernels=tuple(kernels),
        cache=cache,
        collector=f"{_core.profiler_version()}, range profiler, user replay",
        context=facts or {},
    )


def require_counters(metrics: Metrics = "default") -> None:
    """Raise Unavailable if the counters cannot be read here, ValueError for an unknown set."""
    if isinstance(metrics, str) and metrics not in METRIC_SETS:
        hint = _core.suggest(metrics, list(METRIC_SETS))
        raise ValueError(f"metrics must be names or a set of metrics, got {metrics!r}{hint}")
    if reason := _core.why_no_counters():
        raise _core.Unavailable(f"hardware counters cannot be read: {reason}{emulator_hint()}")


def emulator_hint() -> str:
    """The remedy if the emulator can count instead; empty with a GPU, or without an emulator."""
    possible = _core.why_no_cuda() and not _core.why_no_emulator()
    return "; remedy: device='emulator' counts kernels without a GPU" if possible else ""
