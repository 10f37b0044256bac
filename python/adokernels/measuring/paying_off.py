"""Whether a GPU pays off for arrays in host memory: from a stored scan, or from a model.

Nothing is measured here.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np

from adokernels import _core, cache
from adokernels.measuring.context import cpu_name, device_name
from adokernels.measuring.machine import stored_machine
from adokernels.model.problem import Choice
from adokernels.model.registry import routines
from adokernels.records.machine import Machine
from adokernels.records.record import SCHEMA
from adokernels.records.scan import BreakEven, Scan, link_seconds
from adokernels.text import binary_size, quantity

#: Modelled times within this factor of each other are called about equal.
_MODEL_ERROR = 1.5


def store(found: Scan, device: str) -> None:
    """Store a scan with copies, for :func:`pays_off`, if the cache can be used."""
    cache.store(_name(found.routine, device), found)


def pays_off(choice: Choice) -> str:
    """State in a sentence whether a GPU pays off for NumPy operands, copies included.

    The answer comes from the last scan of the routine with ``copies=True`` on this GPU and CPU,
    else from a model with the stored ceilings of both. It is empty without a GPU, and for operands
    that are not all NumPy arrays.
    """
    problem, routine, gpu = choice.problem, routines.get(choice.routine), _default_gpu()
    if problem is None or routine is None or gpu is None:
        return ""
    try:
        # The pages of these arrays are never touched, so they occupy no memory.
        arrays = {o.name: np.empty(o.shape, o.dtype) for o in problem.operands}
        cost = routine.variants[0].cost(**arrays, **problem.options)
    except MemoryError:
        return ""
    found = cache.load(_name(choice.routine, gpu))
    if isinstance(found, Scan) and found.routine == choice.routine and found.break_even:
        return _measured(cost.bytes, found.break_even)
    uploaded = sum(array.nbytes for array in arrays.values())
    modelled = _modelled(cost, problem.precision, uploaded, gpu)
    advice = f"`ado.scan(ado.{choice.routine}, copies=True)` measures from which size it pays off."
    return f"{modelled or 'Whether a GPU pays off for these arrays is unknown.'} {advice}"


def _default_gpu() -> str | None:
    return None if _core.why_no_cuda() else _core.resolve_device("cuda")


def _name(routine: str, device: str) -> str:
    identity = [SCHEMA, device_name(device), cpu_name(), _core.max_threads(), _core.isa()]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    return f"scan-{routine}-{digest}.json"


def _measured(size: float, even: BreakEven) -> str:
    if not even.smallest <= size <= even.largest or (even.upto is None and even.ever):
        verdict = "is not known to pay off"
    elif even.upto is None or (even.above is not None and size <= even.above):
        verdict = "does not pay off"
    else:
        verdict = "pays off" if size >= even.upto else "takes about as long as the CPU"
    return f"With copies, a GPU {verdict} for {binary_size(size)} (measured: {even})."


def _modelled(cost: _core.Cost, precision: str | None, uploaded: float, device: str) -> str:
    """The sentence from bytes, FLOPs and stored ceilings; empty if a ceiling is not stored."""
    cpu, gpu = stored_machine("cpu"), stored_machine(device)
    # Compulsory bytes are the bytes of operands and results, except for routines that skip some.
    copies = link_seconds(gpu, uploaded, max(cost.bytes - uploaded, 0.0))
    if cpu is None or gpu is None or copies is None:
        return ""

    def seconds(machine: Machine) -> float:
        peak = machine.peak(precision)
        return max(cost.bytes / machine.roof, cost.flops / peak if peak else 0.0)

    ours, theirs = copies + seconds(gpu), seconds(cpu)
    if theirs > _MODEL_ERROR * ours:
        verdict = "pays off"
    else:
        verdict = "does not pay off" if ours > _MODEL_ERROR * theirs else "takes about as long"
    times = f"{quantity(ours, 's')} instead of {quantity(theirs, 's')} on the CPU"
    return (
        f"With copies, a GPU {verdict} for {binary_size(cost.bytes)} "
        f"({times}; modelled from bytes, FLOPs and measured ceilings)."
    )
