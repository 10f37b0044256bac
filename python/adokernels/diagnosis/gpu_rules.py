"""The limiter of a CUDA variant from the experiments of ``ado.what_if``, without counters.

The first rule that applies names the limiter:

1. The grid has less than one block for two multiprocessors: too little work.
2. An experiment that changes accesses is at least 1.25 times as fast: memory; shared memory if
   it removes bank conflicts; latency if it removes barriers.
3. Added arithmetic instructions cost at least 60 % of what the kernel's own instructions cost on
   average: compute. The limit is the pipe of these instructions if added integer instructions cost
   at most half as much, and otherwise the issue of instructions.
4. The grid has fewer than 0.9 waves of blocks: too little work.
5. Half of the resident blocks take at least 5 % longer: latency.
6. An experiment that changes accesses gains at least 5 %: as in rule 2.
7. Added instructions cost at most 25 %, and half of the multiprocessors take at least 1.5 times as
   long: L1, which is a unit of each multiprocessor.

If rules 2 and 3 both apply, or none does, the limiter is unknown.
"""

from __future__ import annotations

import math
from functools import cached_property

from adokernels.records.definitions import FULL
from adokernels.records.forms import number_in
from adokernels.records.limiter import Evidence, Kind, Limiter, Provenance
from adokernels.records.measurement import Measurement
from adokernels.records.what_if import HALF_GPU, HALF_OCCUPANCY, Trial, WhatIf
from adokernels.text import number, percent, ratio

#: An experiment shows a limiter if its gain is at least the first factor; with the second factor,
#: the limiter takes most of the time that can be saved.
LEAST_GAIN, MATTERS = 1.05, 1.25
#: The cost of added instructions, relative to the average cost of the kernel's instructions: from
#: the first value, instructions limit the kernel; up to the second value, they do not.
_COSTLY, _CHEAP = 0.6, 0.25
#: Blocks per multiprocessor below which no other limiter is considered.
_FEW_BLOCKS = 0.5
#: Half of the multiprocessors take this factor longer if a unit of theirs is the limiter.
_OF_MULTIPROCESSORS = 1.5
#: The limiters that experiments remove. All other experiments remove accesses to memory.
_REMOVED = {"no bank conflicts": Kind.SHARED, "no barriers": Kind.LATENCY}
#: Why a limiter is unknown.
_BOTH = "accesses and instructions both take most of the time"
_NEITHER = "neither accesses nor barriers limit it, but instructions or their latency"
#: The maximum number of experiments that are shown as evidence.
_SHOWN = 3


def by_trials(m: Measurement, record: WhatIf) -> Limiter:
    """Apply the rules to the experiments on a variant."""
    tried = _Tried(m, record)
    gains = [_gain(trial) for trial in tried.accesses[:_SHOWN]]
    kind, unit, first = tried.found
    evidence = tuple(dict.fromkeys([*first, *gains, *tried.costs]))
    unknown = ""
    if evidence and kind is Kind.UNKNOWN:
        unknown = _BOTH if first else _NEITHER
    return Limiter(kind=kind, unit=unit, evidence=evidence, unknown=unknown)


def _say(text: str, value: float, threshold: float | None) -> Evidence:
    return Evidence(text, value, threshold, Provenance.EXPERIMENT)


def _gain(trial: Trial) -> Evidence:
    return _say(f"{trial.experiment}: {ratio(trial.gain)} as fast", trial.gain, LEAST_GAIN)


class _Tried:
    """The experiments on a variant, and what follows from them."""

    def __init__(self, m: Measurement, record: WhatIf) -> None:
        self.m, self.record = m, record

    def factor(self, experiment: str) -> float | None:
        """The time of an experiment relative to the original time; None if it is unknown."""
        gains = (t.gain for t in self.record if t.experiment == experiment and t.gain)
        return next((1 / gain for gain in gains), None)

    @cached_property
    def accesses(self) -> list[Trial]:
        """The sound experiments that change accesses or barriers, the largest gain first."""
        own = [t for t in self.record if t.gain and t.experiment not in (HALF_OCCUPANCY, HALF_GPU)]
        return sorted((t for t in own if t.verdict == "sound"), key=lambda t: -t.gain)

    @cached_property
    def best(self) -> Trial | None:
        """The experiment on accesses or barriers with the largest gain, if the gain is clear.

        A weak experiment counts if the kernel becomes faster although the switch costs time.
        """
        clear = [t for t in self.record if t.gain and t.clear == "faster"]
        weak = [t for t in clear if t.verdict == "weak" and _net(t) >= MATTERS]
        return max([*(t for t in clear if t.verdict == "sound"), *weak], key=_net, default=None)

    @cached_property
    def doses(self) -> dict[str, tuple[float, float]]:
        """By kind of added instructions: their cost, and the growth of the time for each of them.

        The cost is relative to the average cost of the kernel's instructions.
        """
        sound = [t for t in self.record if t.dose and t.seconds and t.verdict == "sound"]
        largest = {t.count: t for t in sorted(sound, key=lambda t: t.dose)}
        return {k: (t.growth / t.added, t.growth / t.dose) for k, t in largest.items()}

    @property
    def costs(self) -> list[Evidence]:
        """Statements on the costs of added instructions."""
        return [
            _say(f"added {kind} cost {percent(cost)} of an average instruction", cost, _COSTLY)
            for kind, (cost, _) in self.doses.items()
        ]

    @property
    def found(self) -> tuple[Kind, str, list[Evidence]]:
        """The limiter: kind, unit and decisive evidence."""
        per_processor, waves, few = self._grid
        if per_processor < _FEW_BLOCKS:
            return Kind.PARALLELISM, "", few
        best = self.best
        memory = _REMOVED.get(best.experiment, Kind.MEMORY) if best else Kind.UNKNOWN
        cost, unit = self._compute
        if best and _net(best) >= MATTERS:
            if cost >= _COSTLY:
                return Kind.UNKNOWN, "", [_gain(best)]
            return memory, "", [_gain(best)]
        if cost >= _COSTLY:
            return Kind.COMPUTE, unit, self.costs
        if waves < FULL:
            return Kind.PARALLELISM, "", few
        fewer = self.factor(HALF_OCCUPANCY)
        if fewer and fewer >= LEAST_GAIN:
            text = f"half of the resident blocks take {ratio(fewer)} the time"
            return Kind.LATENCY, "", [_say(text, fewer, LEAST_GAIN)]
        if best and best.gain >= LEAST_GAIN:
            return memory, "", [_gain(best)]
        half = self.factor(HALF_GPU)
        if self.doses and cost <= _CHEAP and half and half >= _OF_MULTIPROCESSORS:
            text = f"half of the multiprocessors take {ratio(half)} the time"
            return Kind.L1, "", [_say(text, half, _OF_MULTIPROCESSORS)]
        return Kind.UNKNOWN, "", []

    @property
    def _grid(self) -> tuple[float, float, list[Evidence]]:
        """Blocks per multiprocessor and waves of the kernel whose threads have most registers."""
        processors = number_in(self.m.context, "cuda", "multiprocessors")
        kernels = {math.prod(k.grid) * math.prod(k.block) * k.registers: k for k in self.m.kernels}
        if not (processors and kernels):
            return math.inf, math.inf, []
        kernel = kernels[max(kernels)]
        blocks, warps = math.prod(kernel.grid), math.ceil(math.prod(kernel.block) / 32)
        waves = blocks / (processors * max(kernel.resident_warps // warps, 1))
        text = f"{blocks} blocks on {number(processors)} multiprocessors, {number(waves)} waves"
        return blocks / processors, waves, [Evidence(text, waves, FULL, Provenance.COMPILED)]

    @property
    def _compute(self) -> tuple[float, str]:
        """The largest cost of added instructions, and the unit that limits them."""
        if not self.doses:
            return 0.0, ""
        kind, (cost, growth) = max(self.doses.items(), key=lambda item: item[1][0])
        control = self.doses.get("integer instructions", (0.0, growth))[1]
        pipe = not kind.startswith("integer") and control <= growth / 2
        return cost, kind if pipe else "instruction issue"


def _net(trial: Trial) -> float:
    """The gain, without the time that the switch itself costs."""
    return trial.gain / max(trial.intrusion, 1.0)
