"""Measurement of variants, ladders and callables.

docs/methods.md describes the protocol and its sources.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, Literal, overload

from adokernels import _core
from adokernels.isolation.calls import TIMEOUT, Isolation
from adokernels.measuring.functions import (
    Function,
    Setup,
    name_of,
    require_clock,
    require_clock_of,
    require_function,
)
from adokernels.measuring.pipeline import (
    Selected,
    count_ladder,
    measure_functions,
    measure_ladder,
)
from adokernels.measuring.profiling import emulator_hint, require_counters
from adokernels.measuring.progress import ProgressDisplay, displayed
from adokernels.measuring.sampling import Timing, require_finite
from adokernels.model.checker import Checker
from adokernels.model.ladder import Ladder, Variant, check_options
from adokernels.model.own_variant import FunctionVariant
from adokernels.model.problem import Block
from adokernels.records.counted import CountedSweep
from adokernels.records.measurement import Cache, Measurement
from adokernels.records.sweep import Sweep
from adokernels.records.tuning import Setting, Tuning
from adokernels.text import kind_of, require


def measure(
    what: Variant | Ladder | Callable[..., Any],
    *args: Any,
    cache: Cache = "cold",
    block: Block | None = None,
    device: str | None = None,
    label: str | None = None,
    flops: float | None = None,
    bytes: float | None = None,
    stream: Any = None,
    setup: Setup | None = None,
    precision: float | None = None,
    seconds: float = 3.0,
    **options: Any,
) -> Measurement:
    """Time one variant, or any function, with cold caches by default.

    Parameters
    ----------
    what
        A variant (``ado.transpose["tiled"]``), a routine (its default variant), or any callable:
        CuPy, torch, Triton, Numba, NumPy. The result of a variant is checked first.
    *args, **options
        The arguments of the call.
    cache : {"cold", "warm"}
        Whether the last-level cache is overwritten before each sample. A warm sample is the mean
        of back-to-back calls.
    block
        Block shape of a CUDA variant.
    device
        For a routine, the device to run on. For a callable, the device to time: on ``"cuda"`` or
        ``"cuda:1"``, the result is the time between two events around the work that the function
        launches on `stream`. Default for a callable: the GPU on which an operand or its result is,
        else ``"cpu"``.
    label
        The name of a callable in tables and charts. Default: the name of the function.
    flops, bytes
        For a callable: FLOPs and compulsory bytes per call, for rates and the roofline.
    stream
        For a callable on CUDA: a handle, or a stream object of CuPy, torch or cuda.core. Default:
        the current stream of torch or CuPy if one is in use, else the legacy default stream.
    setup
        For a callable that changes its operands: called with the operands before each call, outside
        of the timed interval. It returns the operands of this call, several as a tuple, for example
        ``setup=np.copy``. None: the operands may stay as the previous call left them.
    precision
        Stop when half the 95 % interval of the median is below this fraction of the median. It must
        be at least 0 and less than 1. Default: 0.005 (0.5 %) on CUDA and 0.01 (1 %) on the CPU.
    seconds
        The time for the call. It is exceeded up to fourfold to take the 11 samples that a 95 %
        interval requires, and without limit to take 5 samples.

    Raises
    ------
    ValueError
        If the variant's result is wrong, it raises an exception, or it cannot solve the problem.
        Exceptions of a callable are raised unchanged.
    Unavailable
        If the variant cannot run here.
    """
    timing = Timing(cache, precision, seconds)
    require_finite(flops=flops, bytes=bytes)
    require((str, type(None)), "a str", device=device)
    require_clock(device)
    if isinstance(what, Ladder | Variant):
        if any(given is not None for given in (flops, bytes, stream, label, setup)):
            raise TypeError(
                "flops=, bytes=, label=, stream= and setup= are for callables, not for variants"
            )
        ladder, named = (what, None) if isinstance(what, Ladder) else (what.ladder, what)
        check_options(ladder, args, options, measure)
        require_clock_of(named, device)
        if named and named.why_unavailable:
            raise _core.Unavailable(f"{named.label}: {named.why_unavailable}{emulator_hint()}")
        variant = named.name if named else None
        problem = ladder.problem(*args, device=device, variant=variant, **options)
        name = variant or problem.best()
        with displayed(False) as silent:
            result = measure_ladder(Checker(problem), {name: Selected(name, block)}, timing, silent)
        if result.interrupted:
            raise KeyboardInterrupt
        for skipped, reason in result.skipped.items():
            raise ValueError(f"{ladder.name}[{skipped}]: {reason}")
        return result.measurements[0]
    require_function(what, block)
    if label is not None and not isinstance(label, str):
        raise TypeError(f"label must be a str, got {type(label).__name__}")
    with displayed(False) as silent:
        measured = measure_functions(
            [Function(label or name_of(what), what, args, options, setup, measure)],
            timing,
            silent,
            device=device,
            stream=stream,
            flops=float(flops or 0),
            bytes=float(bytes or 0),
        )
    return measured[0]


@overload
def sweep(
    routine: Ladder, *args: Any, device: Literal["emulator"], **options: Any
) -> CountedSweep: ...
@overload
def sweep(routine: Ladder, *args: Any, device: str | None = None, **options: Any) -> Sweep: ...
def sweep(
    routine: Ladder,
    *args: Any,
    device: str | None = None,
    variants: str | Iterable[str] | None = None,
    blocks: dict[str, Block] | None = None,
    cache: Cache = "cold",
    precision: float | None = None,
    seconds: float = 10.0,
    peers: Mapping[str, Callable[[], object]] | None = None,
    extra: Iterable[Any] = (),
    ceilings: bool = True,
    counters: bool | str = False,
    isolated: bool | Isolation = False,
    limiter: bool | None = None,
    progress: bool | ProgressDisplay = True,
    **options: Any,
) -> Sweep | CountedSweep:
    """Check every variant of a ladder, then time them interleaved, with cold caches by default.

    In each round, every variant is sampled once, in random order. Slow drift of the machine then
    affects all variants equally, and ratios are computed per round.

    All variants run on the same copies of the operands, which have the layout of the caller's
    arrays. Operands and results have red zones of 4 KiB on both sides. A variant is checked before
    and after timing, the second time with other values in the same memory. It must write its
    results within the task's bound, and change nothing else. Own variants are also checked on edge
    cases.

    Parameters
    ----------
    routine
        For example ``ado.transpose``, or an own ladder (:func:`adokernels.ladder`).
    *args, **options
        The operands and options of a call.
    device : str, optional
        ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"emulator"``. Default: the device of the operands,
        else the device of the own variants if they agree, else the default device. On the emulator,
        variants are checked and counted, not timed.
    variants
        Names of the variants to measure. Default: all variants of the device.
    blocks
        Block shapes by variant. Default: the first of each variant's ``blocks``.
    cache, precision
        As for :func:`measure`.
    seconds
        The time for the whole call: the checks, then the timing of all variants, peers and stages,
        which have equal shares, then the experiments, for which half of the time is reserved. A
        variant exceeds its share up to fourfold to take the 11 samples that an interval requires,
        and without limit to take 5. A quarter of the time is left for timing, however long the
        checks take. Counters, and ceilings that are not stored yet, take further time.
    peers
        Functions without arguments that compute the same result, by name. They are timed in the
        same rounds, on the legacy default stream on CUDA. An array that they return is checked.
        Other peers have the flag ``"unchecked"``.
    extra
        Own variants, which are checked and timed with the ladder; see
        :meth:`Routine.with_variants`.
    ceilings
        Whether to include the machine's ceilings, which are measured or looked up.
    counters
        Whether to read the hardware counters of every variant and peer after timing, or the set of
        metrics to read: ``"default"`` or ``"light"``, see :func:`profile`. CUDA only.
    isolated
        Whether own variants run in processes of their own, which cannot crash this process or see
        expected results. Each of their calls has new operands, and timed calls are verified
        (docs/grading.md). The limits of :func:`adokernels.check` apply. Counters are not read.
    limiter
        Whether to run experiments, which show the limiter of CPU variants: each variant is timed
        with one thread, operands that fit in each cache, and other instruction sets. The ceilings
        of one thread are also measured, unless they are stored. During the experiments,
        ``ado.settings.isa`` and ``ado.settings.threads`` change. Default: on a CPU.
    progress
        Whether to show a progress bar on a terminal or in Jupyter.

    Returns
    -------
    Sweep or CountedSweep
        A CountedSweep on the emulator. Variants that refuse the problem, are unavailable or
        compute a wrong result are not timed; ``skipped`` gives the reasons, also of variants and
        peers that raise an exception. The stages of pipelines are also timed, each separately, and
        ranked as hotspots. After Ctrl-C, the sweep contains the measurements until then, and its
        attribute ``interrupted`` is true.

    Raises
    ------
    CudaError
        If the GPU fails while a variant runs.
    KeyboardInterrupt
        If Ctrl-C is pressed before the first sample of a variant, or a second time.
    MemoryError
        If there is too little memory. The message contains the bytes wanted and free.
    Unavailable
        If `counters` is set and the counters cannot be read here.

    Notes
    -----
    The checks of a variant run it twice, compare both results, and copy the operands twice. The
    expected results are computed twice per sweep, once more per own variant, and once per edge
    case. Besides the caller's arrays, the device holds the operands and the results once. The host
    holds the operands once more with the other values, two expected results and one result to
    compare. If the operands are on a GPU, the host also holds a copy of them. During its check, an
    own variant needs a third set of operands and expected results. A kernel in source also needs
    packed copies of operands that are not packed.
    """
    timing = Timing(cache, precision, seconds)
    if not isinstance(routine, Ladder):
        raise TypeError(
            f"routine must be a routine or a ladder, got {kind_of(routine)}: for example "
            "ado.transpose; ado.measure and ado.compare time variants and functions"
        )
    check_options(routine, args, options, sweep)
    require(Iterable, "an iterable of variants", extra=extra)
    require((Iterable, type(None)), "names of variants", variants=variants)
    require((Mapping, type(None)), "a mapping from names of variants to blocks", blocks=blocks)
    require((Mapping, type(None)), "a mapping from names to functions", peers=peers)
    require((bool, type(None)), "a bool", limiter=limiter)
    if extra := tuple(extra):
        routine = routine.with_variants(*extra)
    isolation = (Isolation(TIMEOUT) if isolated is True else isolated) or None
    if isolation:
        routine, limiter = isolation.ladder(routine), False
    chosen = [variants] if isinstance(variants, str) else variants
    names = None if chosen is None else [routine[name].name for name in chosen]
    if names is not None and not names:
        raise ValueError("variants must name at least one variant, got none")
    problem = routine.problem(*args, device=device, variant=names[0] if names else None, **options)
    if names is None:
        names = [v.name for v in routine if v.device == problem.device]
        if names and problem.device_id == "emulator":  # functions without kernels are only checked
            functions = (v for v in routine if isinstance(v, FunctionVariant))
            names += [v.name for v in functions if v.device == "cpu"]
        if not names:
            devices = ", ".join(dict.fromkeys(v.device for v in routine))
            hint = f"pass device={devices!r}" if devices else "add one with .variant() or .add()"
            raise ValueError(
                f"{routine.name} has no variants for device {problem.device!r}: {hint}"
            )
    for name in blocks or ():
        if name not in names:
            raise KeyError(
                f"blocks must name variants to measure, got {name!r}{_core.suggest(name, names)}"
            )
    for name, work in (peers or {}).items():
        if not isinstance(name, str) or not callable(work):
            raise TypeError(f"peers must map names to functions, got {name!r}: {work!r}")
    if clash := set(names) & set(peers or ()):
        raise ValueError(f"peers must not have names of variants, got {', '.join(sorted(clash))}")
    if counters and problem.device != "cuda":
        raise ValueError(
            f"counters need device 'cuda', got {problem.device!r}: pass device='cuda', or "
            "device='emulator', which counts without a GPU"
        )
    if limiter and problem.device != "cpu":
        raise ValueError(
            f"limiter needs device 'cpu', got {problem.device!r}: ado.what_if shows what limits "
            "kernels"
        )
    runs = {name: Selected(name, (blocks or {}).get(name)) for name in names}
    if problem.device_id == "emulator":
        if peers:
            raise ValueError("peers must be None on the emulator, which runs only variants")
        if counters:
            raise ValueError("counters must be False on the emulator, which always counts")
        if isolated:
            raise ValueError("isolated must be False on the emulator; ado.check isolates kernels")
        with displayed(progress) as display, display.measurement(f"{routine.name} on emulator"):
            return count_ladder(Checker(problem), runs, display)
    metrics = ("default" if counters is True else counters) or None
    if metrics:
        require_counters(metrics)
    title = f"{routine.name} on {problem.device_id}, {cache}"
    own = isolation if isolated is True and isolation else nullcontext()
    with own, displayed(progress) as display, display.measurement(title):
        display.phase("computing the reference result")
        return measure_ladder(
            Checker(problem),
            runs,
            timing,
            display,
            peers=peers,
            with_stages=True,
            metrics=metrics,
            experiments=problem.device == "cpu" if limiter is None else limiter,
            ceilings=ceilings,
        )


def tune(
    variant: Variant,
    *args: Any,
    cache: Cache = "cold",
    precision: float | None = None,
    seconds: float = 10.0,
    progress: bool | ProgressDisplay = True,
    **options: Any,
) -> Tuning:
    """Time all block shapes and parameter values of a variant, in alternation.

    Parameters
    ----------
    variant
        A CUDA variant. Built-in variants are timed with all block shapes, kernels in CUDA C++
        source with all block shapes and parameter values.
    *args, **options
        The operands and options of a call.
    cache, precision, progress
        See :func:`adokernels.sweep`.
    seconds
        The time for the whole call; see :func:`adokernels.sweep`.

    Returns
    -------
    Tuning
        A table that compares each setting with the default. Its attribute ``best`` is the best
        setting. ``use()`` makes this setting the default for this session. After Ctrl-C, the table
        contains the measurements until then.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C is pressed before the first sample, or a second time.
    TypeError
        If `variant` is not a variant.
    ValueError
        If it has only one setting.
    Unavailable
        If it cannot run here.
    """
    timing = Timing(cache, precision, seconds)
    if not isinstance(variant, Variant):
        raise TypeError(
            f"variant must be a variant of a ladder, got {kind_of(variant)}: for example "
            "ado.transpose['tiled']"
        )
    check_options(variant.ladder, args, options, tune)
    tested = variant.settings()
    settings: dict[str, Setting] = {}
    runs: dict[str, Selected] = {}
    for (parameters, one), block in itertools.product(tested, variant.blocks):
        setting = Setting(block, parameters)
        settings[str(setting)], runs[str(setting)] = setting, Selected(one.name, block)
    if len(settings) < 2:
        raise ValueError(
            f"variant must have several block shapes or parameter values, got {variant.label}"
        )
    ladder = variant.ladder
    if further := [one for _, one in tested if one is not variant]:
        ladder = ladder.with_variants(*further)
    problem = ladder.problem(*args, variant=tested[0][1].name, **options)
    title = f"{variant.label} on {problem.device_id}, {cache}"
    with displayed(progress) as display, display.measurement(title):
        sweep = measure_ladder(Checker(problem), runs, timing, display)
    names = {"routine": variant.ladder.name, "variant": variant.name}
    return Tuning(**names, settings=settings, sweep=sweep, ladder=variant.ladder)
