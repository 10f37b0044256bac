"""Loads in flight of max_plus: registers, waits in the machine code, and Little's law."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from adokernels.course.text import Text, table
from adokernels.records.loading import load
from adokernels.records.sass import KernelSass, Sass
from adokernels.text import number, quantity, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from adokernels.course.published.figure import Published
    from adokernels.records.loops import Loop
    from adokernels.records.measurement import Measurement
    from adokernels.records.sweep import Sweep

#: Terms per iteration of the unrolled inner loops, as in cuda/max_plus/one_block.cuh.
UNROLLED_TERMS = 8


@dataclass(frozen=True)
class InnerLoop:
    """The inner loop of a variant of max_plus: a measurement and the machine code.

    A wait is the first use of loads that overlap each other. At a wait, the thread has the bytes of
    these loads in flight: the bytes per wait.

    Attributes
    ----------
    measurement
        The measured variant.
    kernel
        Its machine code.
    """

    measurement: Measurement
    kernel: KernelSass

    @property
    def loop(self) -> Loop:
        """The inner loop."""
        loop = self.kernel.main_loop
        if loop is None:
            raise ValueError(f"{self.kernel.name} must have a loop that loads from global memory")
        return loop

    @property
    def points(self) -> int:
        """Points per thread: all loaded bytes are of `big`, except one element per term."""
        itemsize = np.dtype(self.measurement.problem.operands[0].dtype).itemsize
        return self.loop.loaded_bytes // (UNROLLED_TERMS * itemsize) - 1

    @property
    def waits_per_point(self) -> float:
        """Waits for loads per point and iteration."""
        return self.loop.load_waits / self.points

    @property
    def bytes_per_wait(self) -> float:
        """Bytes of `big` that a thread has in flight when it waits."""
        of_big = self.loop.loaded_bytes * self.points / (self.points + 1)
        return of_big / self.loop.load_waits

    @property
    def bytes_in_flight(self) -> float:
        """Bytes of `big` that all resident threads of the device have in flight."""
        return resident_threads(self.measurement) * self.bytes_per_wait


def inner_loops(sweep: Sweep, stored: Path, names: Iterable[str]) -> dict[str, InnerLoop]:
    """The inner loops of variants, by name.

    Parameters
    ----------
    sweep
        The measured ladder.
    stored
        The start of the paths of the stored machine code, for example ``max_plus-float64``.
    names
        The variants.
    """
    return {name: InnerLoop(sweep[name], _stored_kernel(stored, name)) for name in names}


def _stored_kernel(stored: Path, name: str) -> KernelSass:
    sass = load(stored.with_name(f"{stored.name}-{name}-sass.json"))
    if not isinstance(sass, Sass):
        raise TypeError(f"{stored.name}-{name}-sass.json must contain machine code")
    return sass[0]


def resident_threads(m: Measurement) -> int:
    """The number of threads that are resident at the same time on the whole device."""
    kernel = m.kernels[0]
    multiprocessors = int(m.context["cuda"]["multiprocessors"])
    blocks = min(math.prod(kernel.grid), multiprocessors * min(kernel.limits.values()))
    return blocks * math.prod(kernel.block)


def inner_loop_table(
    loops: Mapping[str, InnerLoop], *, published: Iterable[Published] = ()
) -> Text:
    """Show registers, loads, waits and the speed-up of inner loops, beside published figures.

    Parameters
    ----------
    loops
        The inner loops by variant. Speed-ups are relative to the first one.
    published
        Figures of documents: ``registers``, ``unused_registers``, ``exposed_latencies`` and
        ``speedup`` of the variants.
    """
    given = [p for p in published if p.variant in loops]
    first = next(iter(loops.values())).measurement
    columns: dict[str, list[str]] = {"variant": list(loops)}

    def add(title: str, ours: Callable[[InnerLoop], str], key: str = "") -> None:
        theirs = {p.variant: p.text for p in given if p.quantity == key}
        source = next((p.device for p in given if p.quantity == key), "")
        if source:
            columns[f"{title}, {source}"] = [theirs.get(name, "") for name in loops]
        columns[f"{title}, here" if source else title] = list(map(ours, loops.values()))

    add("registers", lambda found: str(found.kernel.registers), "registers")
    add("left unused", lambda found: str(found.kernel.registers_unused), "unused_registers")
    add("loads per iteration", _loads)
    add("points per thread", lambda found: str(found.points))
    add("waits per iteration", lambda found: str(found.loop.load_waits), "exposed_latencies")
    add("waits per point", lambda found: number(found.waits_per_point))
    add("in flight per thread", lambda found: quantity(found.bytes_per_wait, "B"))
    add("speed-up", lambda found: ratio(found.measurement.compare(first)[1]), "speedup")
    return table(list(columns), zip(*columns.values(), strict=True))


def _loads(found: InnerLoop) -> str:
    return ", ".join(f"{count} x {bits} bit" for bits, count in found.loop.loads.items())
