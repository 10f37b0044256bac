"""The limiter of a CUDA variant from the experiments of ``ado.what_if``, without counters.

The first rule in ``_rules`` that applies names the limiter. docs/guide/why_slow.md explains the
rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

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
#: Half of the multiprocessors take at least the first factor of the time if the limiter is a unit
#: of a multiprocessor, and at most the second factor if the limiter is L2 or DRAM.
_INSIDE, _OUTSIDE = 1.5, 1.2
#: The limiters that experiments remove. All other experiments remove accesses to memory.
_REMOVED = {"no bank conflicts": Kind.SHARED, "no barriers": Kind.LATENCY}
#: Why a limiter is unknown.
_BOTH = "accesses and instructions both take most of the time"
_NEITHER = "neither accesses nor barriers limit it, but instructions or their latency"
#: The maximum number of experiments that are shown as evidence.
_SHOWN = 3

_Rule = tuple[bool, Kind, str, list[Evidence]]


def by_trials(m: Measurement, record: WhatIf) -> Limiter:
    """Apply the rules to the experiments on a variant."""
    _, kind, unit, first = next(rule for rule in _rules(m, record) if rule[0])
    sound = (t for t in record if t.gain and t.verdict == "sound")
    accesses = [t for t in sound if t.experiment not in (HALF_OCCUPANCY, HALF_GPU)]
    gains = map(_gain, sorted(accesses, key=lambda t: -t.gain)[:_SHOWN])
    evidence = tuple(dict.fromkeys([*first, *gains, *_costs(record)[2]]))
    unknown = (_BOTH if first else _NEITHER) if evidence and kind is Kind.UNKNOWN else ""
    return Limiter(kind=kind, unit=unit, evidence=evidence, unknown=unknown)


def _rules(m: Measurement, record: WhatIf) -> Iterator[_Rule]:
    """List the rules: whether each applies, the limiter that it names, and its evidence."""
    per_processor, waves, few = _grid(m)
    best = _best(record)
    saved, kind, gains = 0.0, Kind.UNKNOWN, list[Evidence]()
    if best:
        saved, kind = _net(best), _REMOVED.get(best.experiment, Kind.MEMORY)
        gains = [_gain(best)]
    cost, unit, costs = _costs(record)
    fewer, half = (_longer(record, name) for name in (HALF_OCCUPANCY, HALF_GPU))
    own = [_say(f"half of the multiprocessors take {ratio(half)} the time", half, None)]
    warps = [_say(f"half of the resident blocks take {ratio(fewer)} the time", fewer, None)]
    yield per_processor < _FEW_BLOCKS, Kind.PARALLELISM, "", few
    yield saved >= MATTERS and cost >= _COSTLY, Kind.UNKNOWN, "", gains
    yield saved >= MATTERS, kind, "", gains
    inside = not half or half >= _INSIDE
    yield cost >= _COSTLY and inside, Kind.COMPUTE, unit, costs
    yield waves < FULL, Kind.PARALLELISM, "", few
    yield 0 < half <= _OUTSIDE, Kind.MEMORY, "", own
    yield fewer >= LEAST_GAIN, Kind.LATENCY, "", warps
    yield bool(costs) and cost <= _CHEAP and half >= _INSIDE, Kind.L1, "", own
    yield True, Kind.UNKNOWN, "", []


def _say(text: str, value: float, threshold: float | None) -> Evidence:
    return Evidence(text, value, threshold, Provenance.EXPERIMENT)


def _gain(trial: Trial) -> Evidence:
    return _say(f"{trial.experiment}: {ratio(trial.gain)} as fast", trial.gain, LEAST_GAIN)


def _net(trial: Trial) -> float:
    """The gain, without the time that the switch itself costs."""
    return trial.gain / max(trial.intrusion, 1.0)


def _best(record: WhatIf) -> Trial | None:
    """The experiment with the largest gain, if the gain is clear.

    A weak experiment counts if its gain is large without the cost of the switch.
    """
    clear = [t for t in record if t.gain and t.clear == "faster"]
    sound = [t for t in clear if t.verdict == "sound" or _net(t) >= MATTERS]
    return max(sound, key=_net, default=None)


def _longer(record: WhatIf, experiment: str) -> float:
    """The time of an experiment relative to the original time; 0 if it is unknown."""
    return next((1 / t.gain for t in record if t.experiment == experiment and t.gain), 0.0)


def _costs(record: WhatIf) -> tuple[float, str, list[Evidence]]:
    """The cost of added instructions, the unit that limits them, and evidence for each kind.

    The cost is relative to the average cost of the kernel's instructions. The kind with the
    smallest dose is the kernel's own. The other kind is the control.
    """
    sound = [t for t in record if t.dose and t.seconds and t.verdict == "sound"]
    least = {t.count: t for t in sorted(sound, key=lambda t: -t.dose)}
    costs = {k: t.growth / t.added for k, t in sorted(least.items(), key=lambda p: p[1].dose)}
    statements = [
        _say(f"added {kind} cost {percent(cost)} of an average instruction", cost, _COSTLY)
        for kind, cost in costs.items()
    ]
    if not costs:
        return 0.0, "", []
    unit, *control = costs
    of_pipe = bool(control) and costs[control[0]] <= costs[unit] / 2
    return costs[unit], unit if of_pipe else "instruction issue", statements


def _grid(m: Measurement) -> tuple[float, float, list[Evidence]]:
    """Blocks per multiprocessor and waves of the kernel that uses the most registers."""
    processors = number_in(m.context, "cuda", "multiprocessors")
    kernels = {math.prod(k.grid) * math.prod(k.block) * k.registers: k for k in m.kernels}
    if not (processors and kernels):
        return math.inf, math.inf, []
    kernel = kernels[max(kernels)]
    blocks, warps = math.prod(kernel.grid), math.ceil(math.prod(kernel.block) / 32)
    waves = blocks / (processors * max(kernel.resident_warps // warps, 1))
    text = f"{blocks} blocks on {number(processors)} multiprocessors, {number(waves)} waves"
    return blocks / processors, waves, [Evidence(text, waves, FULL, Provenance.COMPILED)]
