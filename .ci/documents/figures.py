"""Figures of docs/documents.md: those of the documents, and ours from stored ladders."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

import numpy as np

import adokernels as ado
from adokernels.counters.metrics import BY_KEY
from adokernels.course import published
from adokernels.course.published import access_patterns
from adokernels.course.published.figure import Published, written
from adokernels.tables.numbers import percent, quantity, ratio
from documents.row import Document

#: The variant that a figure belongs to, or an empty text; and the figure with its name.
Figure = tuple[str, str]
_GAIN = re.compile(r"(\w+) > (\w+)")


# --- published ------------------------------------------------------------------------------------


def published_of(document: Document) -> tuple[Published, ...]:
    """All published figures with an item of a document, from all modules that type figures."""
    return tuple(p for p in _all_published() if p.item.startswith(document.letter))


@cache
def _all_published() -> tuple[Published, ...]:
    found: dict[int, Published] = {}
    for module in pkgutil.iter_modules(published.__path__, f"{published.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            found |= {id(p): p for p in _figures_in(value)}
    return tuple(found.values())


def _figures_in(value: object) -> Iterator[Published]:
    if isinstance(value, Published):
        yield value
    elif isinstance(value, Mapping):
        yield from (p for part in value.values() for p in _figures_in(part))
    elif isinstance(value, tuple | list):
        yield from (p for part in value for p in _figures_in(part))


def device_of(theirs: Iterable[Published]) -> str:
    """The device of the figures of most items; empty without figures."""
    devices = Counter(device for _, device in {(p.item, p.device) for p in theirs})
    return next((device for device, _ in devices.most_common(1)), "")


def of_document(p: Published, device: str) -> Figure:
    """A published figure; its device is named if it is not `device` or any."""
    title = _title(p.quantity) if p.quantity in BY_KEY and not p.title else p.shown_as
    text = p.text if p.text.startswith(title) else f"{title} {p.text}"
    other = p.device not in (device, access_patterns.DEVICE)
    return p.variant, f"{text} ({p.device})" if other else text


def published_gains(here: Iterable[str], known: Iterable[Published]) -> Iterator[Figure]:
    """The published ratios of times of the steps ``"a > b"``, if both times are published."""
    seconds = {p.variant: p.value for p in known if p.quantity == "seconds" and p.variant}
    for match in filter(None, map(_GAIN.fullmatch, here)):
        before, after = (seconds.get(name) for name in match.groups())
        if isinstance(before, float) and isinstance(after, float):
            yield "", f"`{match[1]}` to `{match[2]}` {ratio(before / after)}"


# --- ours -----------------------------------------------------------------------------------------


def _dominant_stall(m: ado.Measurement) -> str:
    cycles = {k: v for k, v in m.profile.longest.quantities.items() if k.startswith("stall_")}
    cycles.pop("stall_selected", None)
    return BY_KEY[max(cycles, key=cycles.__getitem__)].title


def _unused_registers(m: ado.Measurement) -> str:
    free = ado.cards["instruction_parallelism"].indicators[-1]
    return free.shown(free.of(m))


def _intensity(level: str) -> Callable[[ado.Measurement], str]:
    moved = f"{level.lower()}_bytes"
    return lambda m: written(m.executed_flops / m.profile[moved], "FLOP/B")


def _rate(level: str) -> Callable[[ado.Measurement], str]:
    moved = f"{level.lower()}_bytes"
    return lambda m: quantity(m.profile[moved] / m.profile["seconds"], "B/s")


def _kernel(m: ado.Measurement) -> ado.Kernel:
    return m.profile.longest.kernel


def _excess(m: ado.Measurement) -> float:
    return m.profile["store_sectors"] - m.profile["ideal_store_sectors"]


#: Quantities that are not in a profile: title, and text for a measurement.
QUANTITIES: Mapping[str, tuple[str, Callable[[ado.Measurement], str]]] = {
    "seconds": ("time", lambda m: quantity(m.seconds, "s")),
    "registers": ("registers", lambda m: str(max(k.registers for k in m.kernels))),
    "unused_registers": ("registers left unused", _unused_registers),
    "max_warps": ("warps that fit on a multiprocessor", lambda m: str(_kernel(m).max_warps)),
    "grid": ("grid", lambda m: f"{' x '.join(map(str, _kernel(m).grid))} blocks"),
    "block": ("block", lambda m: f"{' x '.join(map(str, _kernel(m).block))} threads"),
    "theoretical_occupancy": ("theoretical occupancy", lambda m: percent(_kernel(m).occupancy)),
    "cycles_per_issue": (
        "cycles between two instructions of a scheduler",
        lambda m: written(1 / m.profile["issue_active"], "cycles"),
    ),
    "dominant_stall": ("dominant stall", _dominant_stall),
    "excess_store_sectors": ("excessive store sectors", lambda m: written(_excess(m), "")),
    "flops_per_second": ("rate", lambda m: quantity(m.flops_per_second, "FLOP/s")),
    "executed_flops": ("FLOPs by formula", lambda m: written(m.executed_flops, "")),
    "rate_L2": ("L2", _rate("L2")),
    "rate_DRAM": ("DRAM", _rate("DRAM")),
    "intensity_L1": ("intensity at L1", _intensity("L1")),
    "intensity_L2": ("intensity at L2", _intensity("L2")),
    "intensity_DRAM": ("intensity at DRAM", _intensity("DRAM")),
}


def _measured(machine: ado.Machine, name: str) -> float:
    return machine[name].measured


#: Figures of the machine: text for a machine.
MACHINE: Mapping[str, Callable[[ado.Machine], str]] = {
    "machine": lambda machine: machine.name,
    "machine multiprocessors": lambda machine: (
        f"{machine.context['cuda']['multiprocessors']} multiprocessors"
    ),
    "machine balance": lambda machine: (
        "FLOPs per byte of the machine "
        + written(_measured(machine, "FP64 fma") / _measured(machine, "DRAM copy"), "FLOP/B")
    ),
    "machine FP32 / FP64": lambda machine: (
        "FP32 to FP64 " + ratio(_measured(machine, "FP32 fma") / _measured(machine, "FP64 fma"))
    ),
    "machine L1": lambda machine: f"L1 {quantity(_measured(machine, 'L1 read'), 'B/s')}",
    "machine L2": lambda machine: f"L2 {quantity(_measured(machine, 'L2 read'), 'B/s')}",
}
#: Units of quantities of profiles without one, by section.
_UNITS = {"warp states": "cycles"}


def _title(key: str) -> str:
    q = BY_KEY[key]
    if q.section == "speed of light":
        return f"{q.title} throughput"
    return f"stall {q.title}" if key.startswith("stall_") else q.title


def ours(sweep: ado.Sweep, text: str) -> Figure:
    """One of our figures, from a stored ladder or from the model of an access pattern.

    Raises
    ------
    ValueError
        If the ladder does not contain it.
    """
    try:
        if text in MACHINE:
            return "", MACHINE[text](sweep.machine)
        if match := _GAIN.fullmatch(text):
            before, after = (sweep[name] for name in match.groups())
            gain = ratio(before.seconds / after.seconds)
            return "", f"`{before.variant}` to `{after.variant}` {gain}"
        if match := re.fullmatch(r"pattern ([\w ]+?)(?: of (\d+) bytes)?", text):
            return _of_pattern(match[1], int(match[2] or 4))
        if text == "divergence":
            return "", _divergence()
        variant, _, key = text.partition(".")
        return variant, _of_variant(sweep, sweep[variant], key)
    except KeyError as error:
        raise ValueError(f"no figure {text!r} in {sweep.title}: {error}") from None


def _of_pattern(name: str, itemsize: int) -> Figure:
    """The sectors that a warp accesses, from the model."""
    model = ado.sectors(name, itemsize)
    shown = f"sectors {model.sectors}, lines {model.lines}"
    shown += f", utilisation {written(model.utilisation, '%')}"
    return name if itemsize == 4 else f"{name}, {itemsize} bytes", shown


def _divergence() -> str:
    """The cost of a branch that neighbouring lanes take differently, from the model."""
    model = ado.divergence(np.arange(32) % 2)
    return f"branch by parity: {model.passes} passes, {percent(model.lane_efficiency)} of the lanes"


def _of_variant(sweep: ado.Sweep, m: ado.Measurement, key: str) -> str:
    if key in ("limiter", "next_step"):
        finding = ado.diagnose(sweep)[m.variant]
        step = str(finding.advice.step) if finding.advice else "none"
        return f"limiter {finding.limiter.name}" if key == "limiter" else f"next step: {step}"
    if key in QUANTITIES:
        title, text = QUANTITIES[key]
        return f"{title} {text(m)}"
    q, value = BY_KEY[key], m.profile.longest[key]
    return f"{_title(key)} {written(value, q.unit or _UNITS.get(q.section, ''))}"


def counterparts(theirs: Iterable[Published], sweep: ado.Sweep) -> Iterator[str]:
    """Names of our figures that correspond to published ones."""
    known = {m.variant: m for m in sweep}
    for p in theirs:
        if m := known.get(p.variant):
            counted = p.quantity in BY_KEY and m.profile and m.profile.longest.get(p.quantity)
            if p.quantity in QUANTITIES or counted not in (None, False):
                yield f"{p.variant}.{p.quantity}"
