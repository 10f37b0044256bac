"""Which samples other work has disturbed, and whether the others support a verdict.

All functions are pure: they read neither the machine nor a clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
#: Disturbed samples do not count if this number of undisturbed ones remains.
FEWEST_UNDISTURBED = 10
#: Bits of the reasons for low clocks. The other reasons (idle, settings, power limit) are normal.
_SLOWDOWNS = {0x08: "hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "power brake"}
#: Share of all processors that the hypervisor used.
_STOLEN = 0.1
#: Utilisation of the GPU, in percent, while this process does not use it.
BUSY_GPU = 5
#: Minimum number of involuntary context switches per sample that a note states.
_OFTEN = 0.1
#: The least time of a sample after a subtraction, in seconds.
_SHORTEST = 1e-12
_OPPOSITE = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


class TimedSeries(NamedTuple):
    """The samples of one measurement, in the order taken; arrays are empty if unknown."""

    seconds: _Samples  # per call
    waits: _Samples = np.empty(0)  # the longest time per call that a thread waited for a processor
    clocks: _Samples = np.empty(0)  # of the multiprocessors
    facts: Mapping[str, Any] = {}  # the context of the measurement; see stolen()
    switches: _Samples = np.empty(0)  # how often the system took a processor from a thread

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
        """The undisturbed samples; all samples if too few are undisturbed."""
        good = self.undisturbed()
        return self.seconds[good] if _are_enough(good) else self.seconds

    @property
    def median(self) -> float:
        """The time of a call."""
        return float(np.median(self.usable))

    @property
    def waited(self) -> float:
        """The share of the samples during which a thread waited for a processor."""
        return float(np.mean(self._waited))

    def shifted(self, direction: int, share: float, reached: float) -> _Samples:
        """The longest (1) or shortest (-1) times that samples without other work can have taken.

        In each sample, other work can have taken its waits, the share of its time by which its
        clock is lower than `reached`, and `share` of its time.
        """
        lost = share * self.seconds
        if len(self.waits) == len(self.seconds):
            lost = lost + self.waits
        if len(self.clocks) == len(self.seconds):
            lost = lost + self.seconds * np.maximum(1 - self.clocks / max(reached, 1.0), 0)
        return np.maximum(self.seconds + direction * lost, _SHORTEST)

    @property
    def _waited(self) -> NDArray[np.bool_]:
        known = len(self.waits) == len(self.seconds)
        return self.waits > WAITED * self.seconds if known else np.zeros(len(self.seconds), bool)


def judge(
    ours: TimedSeries,
    theirs: TimedSeries,
    *,
    paired: bool,
    names: tuple[str, str] = ("", ""),
    z: float = statistics.Z999,
) -> Comparison:
    """Compare two series by their undisturbed samples; the ratio is the ratio of the medians.

    If too few samples are undisturbed, or if others used the processors or the GPU during the run,
    the verdict must survive the worst case: the time that they can have taken is subtracted from
    the slower series and added to the faster one. The verdict is also withheld if all samples
    together, without the waits, show the opposite, or if the halves of the run contradict each
    other. `z` is half the width of the interval in standard errors.
    """
    masks = _undisturbed(ours, theirs, paired=paired)
    enough = _are_enough(*masks)
    used = [good if enough else np.ones(len(good), bool) for good in masks]
    mine, other = (
        side.seconds[: len(rows)][rows] for side, rows in zip((ours, theirs), used, strict=True)
    )
    ratio = theirs.median / ours.median
    verdict, interval = statistics.compare(mine, other, ratio, paired=paired, z=z)
    n = min(len(mine), len(other))
    share, reason = max(stolen(ours.facts), stolen(theirs.facts))
    if not enough:
        worse = min(masks, key=np.mean)
        reason = reason or _why_disturbed(ours, theirs, worse, paired=paired)
    if reason and verdict in _OPPOSITE:
        sign = 1 if verdict is Verdict.FASTER else -1
        reached = max(ours.reached, theirs.reached)
        mine, other = (
            side.shifted(sign * direction, share, reached)[: len(rows)][rows]
            for side, rows, direction in zip((ours, theirs), used, (1, -1), strict=True)
        )
        bound = statistics.ratio_of_medians(mine, other)
        if statistics.compare(mine, other, bound, paired=paired)[0] is verdict:
            reason = ""
    if not reason and n < FEWEST_SAMPLES and verdict is Verdict.UNCLEAR:
        reason = f"it requires {FEWEST_SAMPLES} samples, got {n}"
    beyond = statistics.beyond_margin(interval, paired=paired)
    if not reason and beyond and verdict is Verdict.UNCLEAR:
        reason = "the two halves of the run contradict each other"
    if not reason and verdict in _OPPOSITE:
        mine, other = (side.shifted(-1, 0.0, 0.0) for side in (ours, theirs))
        bound = statistics.ratio_of_medians(mine, other)
        if statistics.compare(mine, other, bound, paired=paired)[0] is _OPPOSITE[verdict]:
            reason = f"with the disturbed samples, the result is {_OPPOSITE[verdict].value!r}"
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
    ours: TimedSeries, theirs: TimedSeries, *, paired: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each sample is undisturbed; if paired, whether both samples of each round are."""
    reached = max(ours.reached, theirs.reached)
    mine, other = ours.undisturbed(reached), theirs.undisturbed(reached)
    if paired:
        n = min(len(mine), len(other))
        mine = other = mine[:n] & other[:n]
    return mine, other


def _are_enough(*masks: NDArray[np.bool_]) -> bool:
    """Whether the undisturbed samples of each series are enough without the others."""
    return all(good.all() or good.sum() >= FEWEST_UNDISTURBED for good in masks)


def _why_disturbed(
    ours: TimedSeries, theirs: TimedSeries, worse: NDArray[np.bool_], *, paired: bool
) -> str:
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


def stolen(facts: Mapping[str, Any]) -> tuple[float, str]:
    """The largest share of the time of a whole run that others can have taken, and the reason.

    The share is 0 and the reason is empty if nothing is known, or if the waits of the samples
    contain the time that others took. `facts` is the context of the run, with the facts of
    :class:`adokernels.measuring.context.Contention` as ``facts["contention"]``.
    """
    found = facts.get("contention")
    if not isinstance(found, Mapping):
        return 0.0, ""
    others, steal, processors, threads, utilization = (
        number_in(dict(found if name in found else facts), name) or 0.0
        for name in ("other_processes", "steal", "processors", "threads", "gpu_utilization")
    )
    for when in ("before", "after"):
        if slowdown := _slowdown(found.get(f"nvidia_smi_{when}")):
            return 1.0, f"the GPU reduced its clock ({slowdown})"
    if threads and steal > _STOLEN * processors:
        words = f"the hypervisor used {steal:.1f} of {processors:.0f} processors"
        return min(steal / threads, 1.0), words
    known = threads and processors and not found.get("waits")
    if known and others + threads > processors + 0.5:
        free = max(processors - others, 0)
        words = f"other processes left {free:.1f} processors to {threads:.0f} threads"
        return 1 - min(free / threads, 1.0), words
    if utilization > BUSY_GPU:
        return min(utilization / 100, 1.0), "another process used the GPU"
    return 0.0, ""


def _slowdown(state: Any) -> str:
    """Why the GPU protects itself in a state that nvidia-smi reported; empty if it does not."""
    reasons = state.get("clocks_event_reasons.active") if isinstance(state, Mapping) else None
    try:
        active = int(str(reasons), 16)
    except ValueError:
        return ""
    return next((name for bit, name in _SLOWDOWNS.items() if active & bit), "")
