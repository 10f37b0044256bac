"""Tuning: all block shapes and parameter values of a variant, timed in the same rounds."""

from __future__ import annotations

import itertools
from typing import Any

from adokernels.measuring.pipeline import Selected, measure_ladder
from adokernels.measuring.progress import ProgressDisplay, displayed
from adokernels.measuring.sampling import Timing
from adokernels.model.checker import Checker
from adokernels.model.ladder import Variant, check_options
from adokernels.records.measurement import Cache
from adokernels.records.tuning import Setting, Tuning
from adokernels.text import kind_of


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
