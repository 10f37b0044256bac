"""Which samples other work has disturbed, and whether the others support a verdict.

All functions are pure: they read neither the machine nor a clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adokernels.records import statistics
from adokernels.records.forms import number_in
from adokernels.records.statistics import FEWEST_SAMPLES, Comparison, Verdict

_Samples = NDArray[np.float64]

#: A sample is disturbed if a thread waited longer for a processor than this share of its time. The
#: shares are bimodal: on an idle processor, a thread waits for 0 to 20 us; on a busy one, for the
#: time slices of other threads, which are milliseconds.
WAITED = 0.05
#: A sample is also disturbed if it ran below this fraction of the clock that the run reached.
THROTTLED = 0.8
#: A verdict requires that at least this share of the samples is undisturbed. A smaller share is a
#: biased selection: for example, only samples during which other work paused.
FEWEST_UNDISTURBED = 0.2
#: Bits of the reasons for low clocks. The other reasons (idle, settings, power limit) are normal.
_SLOWDOWNS = {0x08: "hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "power brake"}
#: Share of all processors that the hypervisor used.
_STOLEN = 0.1
#: Utilisation of the GPU, in percent, while this process does not use it.
BUSY_GPU = 5
#: Minimum number of involuntary context switches per sample that a note states.
_OFTEN = 0.1
_OPPOSITE = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


class Series(NamedTuple):
    """The samples of one measurement, in the order taken.

    Attributes
    ----------
    seconds
        Seconds per call.
    waits
        The longest time per call that a thread waited for a processor; empty if unknown.
    clocks
        SM clocks; empty if unknown.
    facts
        The context of the measurement; see :func:`objection`.
    switches
        How often the system took a processor from a thread during each sample; empty if unknown.
    all_count
        Whether the median uses all samples, because of a series shown beside this one; see
        :func:`have_enough`.
    """

    seconds: _Samples
    waits: _Samples = np.empty(0)
    clocks: _Samples = np.empty(0)
    facts: Mapping[str, Any] = {}
    switches: _Samples = np.empty(0)
    all_count: bool = False

    @property
    def reached(self) -> float:
        """The clock that the run has reached; 0 if unknown."""
        return float(np.quantile(self.clocks, 0.9)) if len(self.clocks) else 0.0

    def undisturbed(self, reached: float = 0.0) -> NDArray[np.bool_]:
        """Whether each sample is undisturbed; `reached` is the clock of the run, if known."""
        good = ~self._waited
        if len(self.clocks) == len(good):
            good &= self.clocks >= THROTTLED * max(reached, self.reached)
        return good

    @property
    def usable(self) -> _Samples:
        """The undisturbed samples; all samples if too few are undisturbed or `all_count` is set."""
        return (
            self.seconds if self.all_count or not self.enough else self.seconds[self.undisturbed()]
        )

    @property
    def enough(self) -> bool:
        """Whether enough samples are undisturbed."""
        return _are_enough(self.undisturbed())

    @property
    def median(self) -> float:
        """The time of a call."""
        return float(np.median(self.usable))

    @property
    def waited(self) -> float:
        """The share of the samples during which a thread waited for a processor."""
        return float(np.mean(self._waited))

    @property
    def _waited(self) -> NDArray[np.bool_]:
        known = len(self.waits) == len(self.seconds)
        return self.waits > WAITED * self.seconds if known else np.zeros(len(self.seconds), bool)


def have_enough(series: Iterable[Series]) -> bool:
    """Whether the times in one table use only undisturbed samples.

    If one of the series has too few of them, the times of all are medians of all samples, because
    a disturbed time must not stand beside undisturbed ones.
    """
    return all(each.enough for each in series)


def ratio_of_medians(ours: Series, theirs: Series) -> float:
    """The ratio of the times of a table, which therefore never contradicts them."""
    if not have_enough((ours, theirs)):
        ours, theirs = (side._replace(all_count=True) for side in (ours, theirs))
    return theirs.median / ours.median


def judge(
    ours: Series, theirs: Series, *, paired: bool, names: tuple[str, str] = ("", "")
) -> Comparison:
    """Compare two series by their undisturbed samples.

    The verdict is withheld if too few samples are undisturbed, if all samples together or the ratio
    of the medians show the opposite, if the halves of the run contradict each other, or if the
    whole run was disturbed.
    """
    masks = _undisturbed(ours, theirs, paired=paired)
    enough = _are_enough(*masks)
    mine, other = (
        side.seconds[: len(good)][good if enough else ...]
        for side, good in zip((ours, theirs), masks, strict=True)
    )
    verdict, ratio, interval = statistics.compare(mine, other, paired=paired)
    n = min(len(mine), len(other))
    reason = objection(ours.facts) or objection(theirs.facts)
    if not reason and not enough:
        reason = _why_disturbed(ours, theirs, min(masks, key=np.mean), paired=paired)
    if not reason and n < FEWEST_SAMPLES and verdict is Verdict.UNCLEAR:
        reason = f"it requires {FEWEST_SAMPLES} samples, got {n}"
    beyond = statistics.beyond_margin(interval, paired=paired)
    if not reason and beyond and verdict is Verdict.UNCLEAR:
        reason = "the two halves of the run contradict each other"
    if not reason and verdict in _OPPOSITE:
        of_all = statistics.compare(ours.seconds, theirs.seconds, paired=paired)[0]
        if of_all is _OPPOSITE[verdict]:
            reason = f"with the disturbed samples, the result is {of_all.value!r}"
        elif (ratio > 1) is not (ratio_of_medians(ours, theirs) > 1):
            reason = "the ratios of the rounds and the ratio of the medians contradict each other"
    found = statistics.resolution(ratio, interval, paired=paired)
    return Comparison(
        Verdict.UNCLEAR if reason else verdict,
        ratio,
        interval,
        ours=names[0],
        theirs=names[1],
        samples=n,
        reason=reason,
        resolution=found if n >= FEWEST_SAMPLES else math.inf,
    )


def _undisturbed(
    ours: Series, theirs: Series, *, paired: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each sample is undisturbed; if paired, whether both samples of each round are."""
    reached = max(ours.reached, theirs.reached)
    mine, other = ours.undisturbed(reached), theirs.undisturbed(reached)
    if paired:
        n = min(len(mine), len(other))
        mine = other = mine[:n] & other[:n]
    return mine, other


def _are_enough(*masks: NDArray[np.bool_]) -> bool:
    """Whether the undisturbed samples of each series represent all of its samples."""
    return all(
        good.all() or good.sum() >= max(FEWEST_SAMPLES, FEWEST_UNDISTURBED * len(good))
        for good in masks
    )


def _why_disturbed(ours: Series, theirs: Series, worse: NDArray[np.bool_], *, paired: bool) -> str:
    what = "rounds" if paired else "samples"
    words = f"other work disturbed {(~worse).sum()} of {len(worse)} {what}"
    busier = max((ours, theirs), key=lambda side: side.waited)
    if not busier.waited:
        return f"{words} (lower clock of the GPU)"
    others = number_in(dict(busier.facts), "contention", "other_processes")
    used = f"; other processes used {others:.1f} processors" if others else ""
    often = float(np.mean(busier.switches)) if len(busier.switches) else 0.0
    lost = f"; {often:.1f} involuntary context switches per sample" if often >= _OFTEN else ""
    return f"{words} (threads waited for a processor{used}{lost})"


def objection(facts: Mapping[str, Any]) -> str:
    """Why a whole run supports no verdict; empty if it supports verdicts.

    Parameters
    ----------
    facts
        The context of the run. ``facts["contention"]`` has the processors that other processes and
        the hypervisor used (``other_processes``, ``steal``), the number of ``processors``, and, on
        a GPU, the utilisation by other processes in percent (``gpu_utilization``) and the states
        before the first and after the last sample (``nvidia_smi_before``, ``nvidia_smi_after``).
        Without ``waits``, the waits of threads are unknown.
    """
    found = facts.get("contention")
    if not isinstance(found, Mapping):
        return ""
    others, steal, processors, threads, utilization = (
        number_in(dict(found if name in found else facts), name) or 0.0
        for name in ("other_processes", "steal", "processors", "threads", "gpu_utilization")
    )
    if threads and steal > _STOLEN * processors:
        return f"the hypervisor used {steal:.1f} of {processors:.0f} processors"
    if processors and not found.get("waits") and others + threads > processors + 0.5:
        free = max(processors - others, 0)
        return f"other processes left {free:.1f} processors to {threads:.0f} threads"
    if utilization > BUSY_GPU:
        return "another process used the GPU"
    states = (found.get("nvidia_smi_before"), found.get("nvidia_smi_after"))
    for state in (*states, facts.get("nvidia_smi")):
        if slowdown := _slowdown(state):
            return f"the GPU reduced its clock ({slowdown})"
    return ""


def _slowdown(state: Any) -> str:
    """Why the GPU protects itself in a state that nvidia-smi reported; empty if it does not."""
    reasons = state.get("clocks_event_reasons.active") if isinstance(state, Mapping) else None
    try:
        active = int(str(reasons), 16)
    except ValueError:
        return ""
    return next((name for bit, name in _SLOWDOWNS.items() if active & bit), "")
