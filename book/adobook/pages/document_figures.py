"""The figures of docs/documents.md.

Our figures come from stored records and from models of access patterns.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import adokernels as ado
from adobook import published
from adobook.figures import ranks
from adobook.pages.stored import DATA, Record
from adobook.published import UNITS, Published, written
from adokernels.records.heatmap import WARP
from adokernels.records.loops import Loop
from adokernels.records.metrics import BY_KEY
from adokernels.text import number, percent, quantity, ratio

#: The ratio of the times of two variants: ``"naive > tiled"``.
GAIN = re.compile(r"(.+) > (.+)")
#: A variant of one problem of a scan: ``"naive(stride=3)"``.
_CHOSEN = re.compile(r"(.+)\((\w+)=(.+)\)")
#: The number of lines in a list of the hottest lines.
_LINES = 2
#: The records of the image of the talk, and the filter that it optimises.
_IMAGE, _RANKED = "2560x1600", "gaussian_blur"


class Figure(NamedTuple):
    """A figure of the page, published or measured here."""

    variant: str  # the measured variant; empty if there is none
    text: str  # the figure with its name
    #: The device of a published figure, or the stored record of our figure; empty for the default
    #: device, and for a figure from a model.
    place: str = ""


def named(title: str, text: str) -> str:
    """A figure after its title; a colon separates words, as in ``"dominant stall: wait"``."""
    if text.startswith(title):
        return text
    return f"{title}: {text}" if text[0].isalpha() else f"{title} {text}"


def title_of(key: str) -> str:
    """The title of a counted quantity, unambiguous without its section."""
    q = BY_KEY[key]
    if q.section == "speed of light":
        return f"{q.title} throughput"
    return f"stall {q.title}" if key.startswith("stall_") else q.title


def _profile(m: ado.records.Measurement) -> ado.records.Profile:
    if m.profile is None:
        raise KeyError(f"{m.variant} has no counters")
    return m.profile


def _main_loop(kernel: ado.records.KernelSass) -> Loop:
    assert kernel.main_loop is not None
    return kernel.main_loop


def _dominant_stall(profile: ado.records.Profile) -> str:
    cycles = {k: v for k, v in profile.longest.quantities.items() if k.startswith("stall_")}
    cycles.pop("stall_selected", None)
    return BY_KEY[max(cycles, key=cycles.__getitem__)].title


def _size(lengths: Iterable[int], unit: str) -> str:
    return f"{' x '.join(map(str, lengths))} {unit}"


def _rate(level: str, profile: ado.records.Profile) -> str:
    return quantity(profile[f"{level}_bytes"] / profile["seconds"], "B/s")


def _intensity(level: str, m: ado.records.Measurement) -> str:
    return written(m.executed_flops / _profile(m)[f"{level}_bytes"], "FLOP/B")


def _excess(p: ado.records.Profile) -> str:
    return written(p["store_sectors"] - p["ideal_store_sectors"], "")


#: Quantities that are computed from counters: title, and text for a profile.
_FROM_PROFILE: Mapping[str, tuple[str, Callable[[ado.records.Profile], str]]] = {
    "max_warps": (
        "warps that fit on a multiprocessor",
        lambda p: str(p.longest.kernel.max_warps),
    ),
    "grid": ("grid", lambda p: _size(p.longest.kernel.grid, "blocks")),
    "block": ("block", lambda p: _size(p.longest.kernel.block, "threads")),
    "theoretical_occupancy": (
        "theoretical occupancy",
        lambda p: percent(p.longest.kernel.occupancy),
    ),
    "cycles_per_issue": (
        "cycles between two instructions of a scheduler",
        lambda p: written(1 / p["issue_active"], "cycles"),
    ),
    "dominant_stall": ("dominant stall", _dominant_stall),
    "excess_store_sectors": ("excessive store sectors", _excess),
    **{f"rate_{level}": (level, partial(_rate, level.lower())) for level in ("L2", "DRAM")},
}
#: Quantities that need more than counters: title, and text for a measurement.
_FROM_MEASUREMENT: Mapping[str, tuple[str, Callable[[ado.records.Measurement], str]]] = {
    "seconds": ("time", lambda m: quantity(m.seconds, "s")),
    "device": (
        "device",
        lambda m: f"{m.context['device_name']}, {m.context['threads']} threads",
    ),
    "registers": ("registers", lambda m: str(max(k.registers for k in m.kernels))),
    "flops_per_second": ("rate", lambda m: quantity(m.flops_per_second, "FLOP/s")),
    "executed_flops": ("FLOPs by formula", lambda m: written(m.executed_flops, "")),
    **{
        f"intensity_{level}": (f"intensity at {level}", partial(_intensity, level.lower()))
        for level in ("L1", "L2", "DRAM")
    },
}
#: All quantities without a counter.
COMPUTED = {**_FROM_PROFILE, **_FROM_MEASUREMENT}


def _quotient(machine: ado.records.Machine, above: str, below: str) -> float:
    return machine[above].measured / machine[below].measured


def _precisions(machine: ado.records.Machine) -> float:
    fp32, fp64 = (machine[name].theoretical for name in ("FP32 fma", "FP64 fma"))
    return fp32 / fp64 if fp32 and fp64 else math.nan


#: Figures of the machine.
_MACHINE: Mapping[str, Callable[[ado.records.Machine], str]] = {
    "machine": lambda m: m.name,
    "machine multiprocessors": lambda m: f"{m.context['cuda']['multiprocessors']} multiprocessors",
    "machine balance": lambda m: (
        f"FLOPs per byte of the machine {written(_quotient(m, 'FP64 fma', 'DRAM copy'), 'FLOP/B')}"
    ),
    "machine FP32 / FP64": lambda m: f"theoretical FP32 to FP64 {ratio(_precisions(m))}",
    "machine L1": lambda m: f"L1 {quantity(m['L1 read'].measured, 'B/s')}",
    "machine L2": lambda m: f"L2 {quantity(m['L2 read'].measured, 'B/s')}",
}


def _widths(accesses: Mapping[int, int]) -> str:
    return ", ".join(f"{count} x {bits} bits" for bits, count in sorted(accesses.items()))


#: Figures of the machine code of a kernel.
_MACHINE_CODE: Mapping[str, Callable[[ado.records.KernelSass], str]] = {
    "registers_unused": lambda kernel: f"registers left unused {kernel.registers_unused}",
    "accesses": lambda kernel: f"loads {_widths(kernel.loads)}, stores {_widths(kernel.stores)}",
    "loop": lambda kernel: (
        f"inner loop of {len(_main_loop(kernel))} instructions,"
        f" loads {_widths(_main_loop(kernel).loads)}"
    ),
    "waits": lambda kernel: f"waits for loads per iteration {_main_loop(kernel).load_waits}",
}


def ours(stored: Mapping[str, Record], default: str, text: str) -> Figure:
    """Return our figure from a stored record or a model. ValueError: it does not exist."""
    place, _, name = text.rpartition(": ")
    place = place or default
    try:
        if match := re.fullmatch(r"ranks of (\w+)", name):
            return _ranks(stored, match[1])
        record = stored[place]
        if isinstance(record, ado.records.Hotspots):
            return Figure("", _of_samples(record, name), place)
        if isinstance(record, ado.records.Heatmap):
            return Figure("", _of_lines(record, name), place)
        if isinstance(record, ado.records.Profile):
            return Figure("", _counted(record, name), place)
        if isinstance(record, ado.records.Measurement):
            title, text_of = _FROM_MEASUREMENT[name]
            return Figure(record.variant, named(title, text_of(record)), place)
        return _without_record(record, name) or _of_ladder(record, name)._replace(place=place)
    except KeyError as error:
        raise ValueError(f"no figure {name!r} in {place}: {error}") from None


def counterparts(theirs: Iterable[Published], sweep: ado.records.Sweep) -> Iterator[str]:
    """Names of our figures that correspond to published ones."""
    known = {m.variant: m for m in sweep}
    for p in theirs:
        if m := known.get(p.variant):
            counted = p.quantity in BY_KEY and m.profile and m.profile.longest.get(p.quantity)
            if p.quantity in COMPUTED or counted not in (None, False):
                yield f"{p.variant}.{p.quantity}"


def _ranks(stored: Mapping[str, Record], variant: str) -> Figure:
    """The ranks of the filters with a variant of the Gaussian, as notebook 02 shows them."""
    pipeline, blur = stored[f"edge_detect-{_IMAGE}"], stored[f"{_RANKED}-{_IMAGE}"]
    assert isinstance(pipeline, ado.records.Sweep)
    assert isinstance(blur, ado.records.Sweep)
    assert pipeline.roof is not None
    others = [m for m in pipeline.stages_of(pipeline["pipeline_naive"]) if m.routine != _RANKED]
    found = ranks([blur[variant], *others], pipeline.roof)
    return Figure(variant, "; ".join(f"rank of {name} {rank:.0f}" for name, rank in found.items()))


def _without_record(sweep: ado.records.Sweep, name: str) -> Figure | None:
    """A figure of the machine, of machine code or of a model."""
    if name in _MACHINE and sweep.machine:
        return Figure("", _MACHINE[name](sweep.machine))
    if match := re.fullmatch(r"pattern ([\w ]+?)(?: of (\d+) bytes?)?", name):
        return _of_pattern(match[1], int(match[2] or 4))
    if match := re.fullmatch(r"sass ([\w-]+)\.(\w+)", name):
        return _of_machine_code(*match.groups())
    if name == "divergence":
        model = ado.divergence(np.arange(32) % 2)
        lanes = percent(model.lane_efficiency)
        return Figure("", f"branch by parity: {model.passes} passes, {lanes} of the lanes")
    return None


def _of_pattern(name: str, itemsize: int) -> Figure:
    """The sectors that a warp accesses, from the model."""
    model = ado.sectors(name, itemsize)
    shown = f"sectors {model.sectors}, lines {model.lines}"
    shown += f", utilisation {written(model.utilisation, '%')}"
    return Figure(name if itemsize == 4 else f"{name}, {itemsize} bytes", shown)


def _of_machine_code(name: str, key: str) -> Figure:
    """A figure of the stored machine code of a variant, NAME-sass.json."""
    path = DATA / "course" / f"{name}-sass.json"
    if not path.is_file() or key not in _MACHINE_CODE:
        raise KeyError(f"{key!r} of {path.name}")
    record = ado.load(path)
    assert isinstance(record, ado.records.Sass)
    return Figure(record.variant, _MACHINE_CODE[key](record.kernels[0]))


def _of_ladder(sweep: ado.records.Sweep, name: str) -> Figure:
    if match := GAIN.fullmatch(name):
        before, after = (sweep[variant] for variant in match.groups())
        gain = ratio(before.seconds / after.seconds)
        return Figure("", f"`{before.variant}` to `{after.variant}` {gain}")
    variant, _, key = name.partition(".")
    if match := _CHOSEN.fullmatch(variant):
        m = _chosen(sweep, *match.groups())
        return Figure(f"{m.variant}, {match[2]} {match[3]}", _of_variant(sweep, m, key))
    return Figure(variant, _of_variant(sweep, sweep[variant], key))


def _chosen(
    sweep: ado.records.Sweep, variant: str, option: str, value: str
) -> ado.records.Measurement:
    """The first measurement with an option of the problem or an entry of the context."""
    for m in sweep:
        settings = {**m.context, **m.problem.options}
        if m.variant == variant and str(settings.get(option)) == value:
            return m
    raise KeyError(f"{variant} with {option} {value}")


def _of_samples(hot: ado.records.Hotspots, name: str) -> str:
    if name == "hottest":
        return "; ".join(
            f"{percent(line.share)} of samples at {line.place} ({line.reason})"
            for line in hot.lines[:_LINES]
        )
    return f"in {name.replace('_', ' ')} {percent(hot.reasons[name] / hot.samples)} of samples"


def _of_lines(heat: ado.records.Heatmap, kind: str) -> str:
    """The accesses of a kind, for example ``loads``, of each line that has some; or idle lanes."""
    if kind == "idle lanes":
        line = max(heat.lines, key=lambda x: WARP * x.instructions - x.lanes)
        share = percent(line.instructions / heat.instructions)
        return (
            f"{share} of the instructions at {Path(line.path).name}:{line.line}, with "
            f"{number(line.mean_lanes)} of {WARP} lanes active"
        )
    found = [(line, of) for line in heat.lines if (of := line.accesses().get(kind))]
    if not found:
        raise KeyError(kind)
    return "; ".join(
        f"{kind.replace('_', ' ')} at {Path(line.path).name}:{line.line}: {of.transfers:,}"
        f" (ideal {of.ideal:,}; {number(of.per_request)} per request)"
        for line, of in found
    )


def _of_variant(sweep: ado.records.Sweep, m: ado.records.Measurement, key: str) -> str:
    if key in ("limiter", "next_step"):
        finding = ado.diagnose(sweep)[m.variant]
        step = str(finding.advice.step) if finding.advice else "none"
        return f"limiter: {finding.limiter.name}" if key == "limiter" else f"next step: {step}"
    if key in _FROM_MEASUREMENT:
        title, text = _FROM_MEASUREMENT[key]
        return named(title, text(m))
    return _counted(_profile(m), key)


def _counted(profile: ado.records.Profile, key: str) -> str:
    if key in _FROM_PROFILE:
        title, text = _FROM_PROFILE[key]
        return named(title, text(profile))
    q, value = BY_KEY[key], profile.longest[key]
    return named(title_of(key), written(value, q.unit or UNITS.get(q.section, "")))


# --- Published figures ----------------------------------------------------------------------------

#: Titles of the figures of published codes, whose own titles are "CODE: QUANTITY".
_PER_ITERATION = {
    "flops": "FLOPs per iteration",
    "fma_share": "FMAs of FP instructions",
    **{f"bytes_{level}": f"{level} per iteration" for level in ("DRAM", "L2", "L1")},
}


def published_of(letter: str) -> tuple[Published, ...]:
    """All published figures with an item of a document."""
    return tuple(p for p in _all_published() if p.item.startswith(letter))


@cache
def _all_published() -> tuple[Published, ...]:
    files = sorted(Path(published.__path__[0]).glob("*.toml"))
    return tuple(p for file in files for p in published.read(file.stem).FIGURES)


def device_of(theirs: Iterable[Published]) -> str:
    """The device that occurs in the figures of most items; empty without figures."""
    devices = Counter(device for _, device in {(p.item, p.device) for p in theirs})
    return next((device for device, _ in devices.most_common(1)), "")


def of_document(p: Published, device: str) -> Figure:
    """A published figure. Its device is named unless it is `device` or "any GPU"."""
    other = p.device if p.device not in (device, published.access_patterns.DEVICE) else ""
    code, _, counted = p.title.rpartition(": ")
    if code and counted == p.quantity:
        return Figure(p.variant, named(_PER_ITERATION[counted], p.text), f"{code}; {other}")
    return Figure(p.variant, named(_title(p), p.text), other)


def _title(p: Published) -> str:
    """The title of our figure of this quantity, or else the published name."""
    if p.title:
        return p.title
    if p.quantity in BY_KEY:
        return title_of(p.quantity)
    return COMPUTED[p.quantity][0] if p.quantity in COMPUTED else p.shown_as


def published_gains(here: Iterable[str], known: Iterable[Published]) -> Iterator[Figure]:
    """The published ratios of times of the steps ``"a > b"``, if both times are published."""
    seconds = {p.variant: p.value for p in known if p.quantity == "seconds" and p.variant}
    for match in filter(None, map(GAIN.fullmatch, here)):
        before, after = (seconds.get(name) for name in match.groups())
        if isinstance(before, float) and isinstance(after, float):
            yield Figure("", f"`{match[1]}` to `{match[2]}` {ratio(before / after)}")
