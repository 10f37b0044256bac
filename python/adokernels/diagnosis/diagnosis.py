"""The diagnosis of a ladder: limiter, next step and outcome for each variant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adokernels import _core
from adokernels.diagnosis.advice import Advice, advise, advise_from_counts
from adokernels.diagnosis.cards import cards
from adokernels.diagnosis.evidence import KernelFacts
from adokernels.diagnosis.gpu_rules import LEAST_GAIN, MATTERS, by_trials
from adokernels.diagnosis.limiter import limiter
from adokernels.diagnosis.targets import MetricChange, change
from adokernels.measuring.functions import device_of, name_of
from adokernels.measuring.profiling import profile
from adokernels.measuring.protocol import measure
from adokernels.model.ladder import Ladder, Variant
from adokernels.model.registry import routines
from adokernels.records.counted import CountedSweep
from adokernels.records.limiter import Kind, Limiter, Step
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import EMULATED_BULK
from adokernels.records.profile import Profile
from adokernels.records.record import Entries, plain_json
from adokernels.records.shown import ShownAsTables
from adokernels.records.sweep import Sweep, as_sweep
from adokernels.records.what_if import Trial, WhatIf
from adokernels.storage import replace_file
from adokernels.text import kind_of, percent, ratio, require

#: A proposal "done" is confirmed if the gain of the next variant is at most this value.
CONFIRMED = 1.05
#: Sectors of loads, stores, atomics and bulk copies in global memory.
_SECTORS = (
    "atomic_sectors",
    "load_sectors",
    "store_sectors",
    *(EMULATED_BULK.format("sectors", op) for op in ("ld", "st")),
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The effect of the next variant of the ladder.

    Attributes
    ----------
    variant
        The next variant.
    changes
        The categories of its changes, or None if it does not state them.
    ratio, interval
        Ratio of the times before and after, and its 99.9 % confidence interval.
    metric
        The metric that the advice should change, before and after, or None without counters.
    reason
        Why the verdict on the two times is withheld; the outcome then tests nothing. Empty if the
        verdict is not withheld.
    """

    variant: str
    changes: frozenset[Step] | None
    ratio: float
    interval: tuple[float, float]
    metric: MetricChange | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The diagnosis of one variant.

    Attributes
    ----------
    variant
        Its name.
    counted
        Whether it has hardware counters.
    limiter
        The limiter.
    advices
        Proposed steps, the best first; empty if no rule applies.
    cards
        Keys of the quick-reference cards (``adokernels.cards``) whose indicators hold; empty
        without counters, and if the advice is "done".
    outcome
        The effect of the next variant; None for the last variant.
    experiment
        The sound experiment of ``ado.what_if`` with the largest clear gain, if possible one that a
        correct kernel can realise. None without experiments, or if none has a clear gain.
    contradiction
        A sentence if the counters and the experiments contradict each other; otherwise empty.
    """

    variant: str
    counted: bool
    limiter: Limiter
    advices: tuple[Advice, ...]
    cards: tuple[str, ...]
    outcome: Outcome | None
    experiment: Trial | None = None
    contradiction: str = ""

    @property
    def advice(self) -> Advice | None:
        """The first proposed step."""
        return self.advices[0] if self.advices else None

    @property
    def named(self) -> bool | None:
        """Whether the advice names a change of the next variant, or None if they are unknown.

        The advice "done" is correct if the gain of the next variant is at most 5 %, and None if
        the verdict on this gain is withheld.
        """
        if self.outcome is None or self.outcome.changes is None:
            return None
        if self.advice is None:
            return False if self.counted else None
        if self.advice.step is Step.DONE:
            return None if self.outcome.reason else self.outcome.ratio <= CONFIRMED
        return self.advice.step in self.outcome.changes

    @property
    def tested(self) -> bool:
        """Whether the next variant tests the bound: proposed change made, or "done"."""
        if self._test is None:
            return False
        outcome, step, _ = self._test
        return step in (Step.DONE, *(outcome.changes or ()))

    @property
    def exceeded(self) -> bool:
        """Whether the gain of the next variant exceeds the bound, regardless of its changes."""
        if self._test is None:
            return False
        outcome, _, bound = self._test
        return outcome.interval[0] > bound

    @property
    def _test(self) -> tuple[Outcome, Step, float] | None:
        """The outcome, the proposed step and its bound; None if one is unknown or withheld."""
        outcome, advice = self.outcome, self.advice
        if outcome is None or outcome.reason or advice is None or advice.bound is None:
            return None
        return outcome, advice.step, advice.bound

    @property
    def held(self) -> bool | None:
        """Whether the bound was not exceeded, or None if it was not tested."""
        return not self.exceeded if self.tested else None


@dataclass(frozen=True, kw_only=True, repr=False)
class Diagnosis(ShownAsTables, Entries[Finding]):
    """The findings of a sweep in ladder order, without the ceiling kernels.

    ``remark`` states why the ceilings of the machine may be too low; it is empty if there is no
    reason to doubt them.
    """

    _ENTRIES = ("findings",)

    routine: str
    title: str
    findings: tuple[Finding, ...]
    remark: str = ""

    def to_json(self) -> str:
        """The findings as a JSON document, for other programs."""
        return plain_json("diagnosis", self)

    def save(self, path: str | Path) -> None:
        """Write the findings to a JSON file, for other programs.

        Raises
        ------
        OSError
            If the file cannot be written; an existing file is unchanged.
        """
        replace_file(path, self.to_json().encode())


def diagnose(
    sweep: Sweep | CountedSweep | Measurement | Callable[..., Any],
    *args: Any,
    device: str | None = None,
    kernel: str | None = None,
    what_if: Iterable[WhatIf] = (),
    **options: Any,
) -> Diagnosis:
    """Find the limiter and the next step of each variant, and compare them with the next variant.

    Parameters
    ----------
    sweep
        A sweep or one measurement, preferably with ``counters=True``: most limiters need counters.
        A sweep on the emulator shows steps that follow from counts, but no limiter. `sweep` can
        also be a function that launches kernels. It is measured and profiled.
    *args, **options
        The arguments of the function.
    device
        For a function, as in :func:`adokernels.profile`: ``"cuda"`` (default) or ``"emulator"``.
    kernel
        For a function, the name of the kernel to diagnose. Default: the kernel that takes the
        longest time; on the emulator, the kernel with the most transfers.
    what_if
        Results of ``ado.what_if`` for variants of the ladder, on the same GPU and problem. Without
        counters, they show the limiter. With counters, contradictions are reported.

    Returns
    -------
    Diagnosis
        The findings; displayed as tables in a terminal and in Jupyter.

    Raises
    ------
    TypeError
        If `sweep` is neither a sweep nor a function.
    ValueError
        If an experiment belongs to another ladder or problem, or has no times of a GPU.
    Unavailable
        For a function, if hardware counters cannot be read.
    """
    if callable(sweep) and not isinstance(sweep, Ladder | Variant):
        try:
            counts = profile(sweep, *args, device=device, kernel=kernel, **options)
        except _core.Unavailable as error:
            if device_of(args, options) != "cpu":
                raise
            raise _core.Unavailable(
                f"{error}; a function that runs on the CPU has no hardware counters: "
                "ado.sweep(..., limiter=True) finds the limiters of CPU variants by experiment"
            ) from error
        name = name_of(sweep)
        if device == "emulator":
            finding = _from_counts(name, counts, 0.0)
        else:
            m = replace(measure(sweep, *args, device=device, **options), profile=counts)
            finding = _finding(m, None)
        return Diagnosis(routine="", title=counts.label, findings=(finding,))
    if args or options or device or kernel:
        raise TypeError(f"{kind_of(sweep)} must be the only argument")
    sweep = as_sweep(sweep)
    if isinstance(sweep, CountedSweep):
        findings = tuple(
            _from_counts(v.variant, v.profile, v.bytes) for v in sweep if not v.ceiling
        )
        return Diagnosis(routine=sweep.routine, title=sweep.title, findings=findings)
    if not isinstance(sweep, Sweep):
        raise TypeError(
            f"sweep must be a Sweep, got {kind_of(sweep)}: measure one with ado.sweep, or read one "
            "with ado.load"
        )
    after = {before: m for m, before in sweep.step_pairs().items()}
    machine, tried = sweep.machine, _experiments(sweep, what_if)
    findings = tuple(
        _finding(m, machine, after.get(m), tried.get(m.variant)) for m in sweep.variants
    )
    remark = machine.remark if machine else ""
    return Diagnosis(routine=sweep.routine, title=sweep.title, findings=findings, remark=remark)


def _finding(
    m: Measurement,
    machine: Machine | None,
    after: Measurement | None = None,
    tried: WhatIf | None = None,
) -> Finding:
    """The finding about a variant, with the effect of the next variant if there is one."""
    advices = advise(m, machine)
    found = by_trials(m, tried) if tried is not None and m.profile is None else limiter(m, machine)
    done = bool(advices) and advices[0].step is Step.DONE
    return Finding(
        variant=m.variant,
        counted=m.profile is not None,
        limiter=found,
        advices=advices,
        cards=() if done else tuple(card.key for card in cards.applying(m)),
        outcome=_outcome(m, after, advices) if after else None,
        experiment=(tried.promise or tried.largest) if tried else None,
        contradiction=_contradiction(found, tried),
    )


def _experiments(sweep: Sweep, records: Iterable[WhatIf]) -> dict[str, WhatIf]:
    """The experiments on the variants of a sweep, by variant."""
    found = {}
    for record in records:
        require(WhatIf, "records of ado.what_if", what_if=record)
        if not record.is_of(sweep):
            given = f"{record.routine}[{record.variant}], {record.problem}, {record.source}"
            raise ValueError(f"what_if must have times of variants of {sweep.title}, got {given}")
        found[record.variant] = record
    return found


def _contradiction(found: Limiter, record: WhatIf | None) -> str:
    """The contradiction of counters and experiments about memory; empty if there is none."""
    if record is None or not found.counted:
        return ""
    gains = {t.experiment: t.gain for t in record if t.gain and t.verdict == "sound"}
    memory = {name: gain for name, gain in gains.items() if name != "no barriers"}
    if not memory:
        return ""
    name, gain = max(memory.items(), key=lambda pair: pair[1])
    if found.kind is Kind.COMPUTE and gain >= MATTERS:
        return f"counters name {found.name}, but {name} is {ratio(gain)} as fast"
    if found.kind in (Kind.L2, Kind.DRAM) and gain < LEAST_GAIN and "loads hit L1" in gains:
        return f"counters name {found.name}, but no access costs more than {percent(gain - 1)}"
    return ""


def _from_counts(name: str, counts: Profile, useful_bytes: float) -> Finding:
    kernels = [KernelFacts(k, None) for k in counts]
    busiest = max(kernels, key=lambda k: sum(map(float, (k.get(s) or 0 for s in _SECTORS))))
    unknown = "the emulator measures no time, so the limiter, latency and stalls are unknown"
    return Finding(
        variant=name,
        counted=True,
        limiter=Limiter(kind=Kind.UNKNOWN, counted=True, unknown=unknown),
        advices=advise_from_counts(busiest, useful_bytes),
        cards=(),
        outcome=None,
    )


def _outcome(m: Measurement, after: Measurement, advices: tuple[Advice, ...]) -> Outcome:
    found = after.compare(m)
    steps = _stated_steps(after)
    changes = None if steps is None else frozenset(map(Step, steps))
    return Outcome(
        variant=after.variant,
        changes=changes,
        ratio=found.ratio,
        interval=found.interval,
        metric=change(advices[0].step, m.profile, after.profile) if advices else None,
        reason=found.reason,
    )


def _stated_steps(m: Measurement) -> tuple[str, ...] | None:
    """The categories of its changes; records of earlier versions do not have them."""
    ladder = routines.get(m.routine)
    if m.steps is not None or ladder is None:
        return m.steps
    return next((v.steps for v in ladder if v.name == m.variant), None)
