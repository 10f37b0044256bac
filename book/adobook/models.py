"""Models and counters: predict the counters of a kernel from the accesses of a warp."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from adobook.published import written
from adobook.text import Text, table
from adokernels import _core
from adokernels.measuring.profiling import profile
from adokernels.model.registry import routines
from adokernels.patterns.banks import BankConflicts
from adokernels.patterns.sectors import Sectors, sectors
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import BY_KEY
from adokernels.records.profile import Profile
from adokernels.text import number, quantity

#: Changes below this number of percent are written as a bound instead of digits.
_SMALL = 0.005
#: Largest relative difference that counts as equal: rounding errors of a model.
_ROUNDING = 1e-12
#: Warps that repeat a pattern on the emulator. The distance of their first elements is a multiple
#: of 64 elements, which are 256 bytes, so that all have the same alignment.
_WARPS, _APART = 64, 64


def modelled(
    *,
    warps: float,
    loads: Sequence[Sectors] = (),
    stores: Sequence[Sectors] = (),
    shared_loads: Sequence[BankConflicts] = (),
    shared_stores: Sequence[BankConflicts] = (),
) -> dict[str, float]:
    """Predict the counters of a kernel, for example ``load_sectors``, from accesses of its warps.

    Parameters
    ----------
    warps
        Number of warps of the kernel that make these accesses.
    loads, stores
        The accesses of a warp to global memory, one per instruction. Several requests in an access
        are a sample of all warps; the mean per request is used.
    shared_loads, shared_stores
        The accesses of a warp to shared memory, in the same form.
    """
    counts: dict[str, float] = {}
    for name, accesses in (("load", loads), ("store", stores)):
        if accesses:
            counts[f"{name}_requests"] = len(accesses)
            counts[f"{name}_sectors"] = sum(a.sectors_per_request for a in accesses)
    for name, shared in (("shared_load", shared_loads), ("shared_store", shared_stores)):
        if shared:
            counts[f"{name}_wavefronts"] = sum(s.wavefronts_per_request for s in shared)
            counts[f"{name}_conflicts"] = sum(s.conflicts / s.requests for s in shared)
    return {name: warps * count for name, count in counts.items()}


def model_beside_counters(
    rows: Iterable[tuple[str, Measurement, Mapping[str, float]]],
) -> Text:
    """Show a table of models and counters, with the times and useful rates.

    `rows` contains, for each measurement, its name in the table, the measurement, and the values
    that a model predicts for quantities of profiles, in SI units.

    Raises
    ------
    ValueError
        If a measurement has no counters.
    KeyError
        If a quantity is unknown or was not counted.
    """
    header = ["", "quantity", "model", "counter", "difference", "time", "useful rate"]
    lines: list[list[object]] = []
    for name, m, predicted in rows:
        counters = _profile(m, name)
        unit, amount = ("FLOP/s", m.flops) if m.flops else ("B/s", m.bytes)
        first: list[object] = [name]
        last: list[object] = [quantity(m.seconds, "s"), quantity(amount / m.seconds, unit)]
        for key, expected in predicted.items():
            found, q = counters[key], BY_KEY[key]
            cells = [q.title, written(expected, q.unit), written(found, q.unit)]
            lines.append([*first, *cells, difference(expected, found), *last])
            first, last = [None], [None, None]
    return table(header, lines)


def _profile(m: Measurement, name: str) -> Profile:
    if m.profile is None:
        raise ValueError(f"measurement must have counters, got none for {name!r}")
    return m.profile


def gathered(patterns: Mapping[str, Any], stored: Mapping[str, Measurement]) -> Text:
    """Show the sectors that a warp of ``gather`` loads: of the index, and of 4-byte elements.

    They are modelled and counted on the emulator, for patterns that all warps repeat, and counted
    by the hardware for the patterns that were measured.
    """
    rows, why = [], ""
    for name, pattern in patterns.items():
        model = sectors("aligned", 4).sectors_per_request + sectors(pattern).sectors_per_request
        counted = None
        try:
            counted = _emulated(pattern)
        except _core.Unavailable as error:
            why = f"The emulator is not available: {error}"
        measured = None
        if m := stored.get(name):
            counters = _profile(m, name)
            measured = 2 * counters["load_sectors"] / counters["load_requests"]  # two per warp
        rows.append((name, *(None if v is None else number(v) for v in (model, counted, measured))))
    device = next((m.machine_title for m in stored.values()), "hardware")
    shown = table(["", "model", "emulator, on this machine", f"counter, {device}"], rows)
    return Text(f"{shown}\n\n{why}".rstrip())


def _emulated(pattern: Any) -> float:
    """The sectors per warp that the emulator counts for a pattern."""
    offsets = np.ravel(sectors(pattern).accesses.offsets)
    apart = -(-int(offsets.max() + 1) // _APART) * _APART
    index = np.ravel(offsets + apart * np.arange(_WARPS)[:, None]).astype(np.int32)
    x = np.zeros(int(index.max()) + 1, np.float32)
    counted = profile(routines["gather"]["naive"], x, index, device="emulator")
    return counted["load_sectors"] / _WARPS


def difference(expected: float, found: float) -> str:
    """Format the difference between a counter and its model: ``"equal"`` or ``"+1.07 %"``.

    Values are equal if they differ only by rounding errors. Small changes have a bound
    instead of digits: ``"< +0.005 %"`` or ``"> -0.005 %"``.
    """
    if math.isclose(found, expected, rel_tol=_ROUNDING):
        return "equal"
    if not expected:
        return "not predicted"
    change = 100 * (found / expected - 1)
    if abs(change) < _SMALL:
        return f"< +{_SMALL} %" if change > 0 else f"> -{_SMALL} %"
    return f"{'+' if change > 0 else '-'}{number(abs(change))} %"
