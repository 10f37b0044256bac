"""The record of a scan: sweeps of one routine, or of functions, over a range of sizes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from adokernels.records import contention
from adokernels.records.forms import Amount, Length
from adokernels.records.measurement import Measurement
from adokernels.records.record import Entries, Fields, Rows, StoredRecord
from adokernels.records.shown import Plotted, ShownAsTables
from adokernels.records.statistics import Comparison, Verdict
from adokernels.records.sweep import Sweep
from adokernels.text import binary_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adokernels.records.machine import Machine

#: What a GPU is compared with.
_CPU = "the CPU"
_REVERSE = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


@dataclass(frozen=True, kw_only=True)
class Offload(Fields):
    """Default calls with NumPy arrays, timed interleaved on the CPU and on a GPU.

    Attributes
    ----------
    cpu
        ``routine(a, device="cpu")``: the default variant, and the allocation of its result.
    gpu
        ``routine(a, device="cuda")``: upload, kernel, download, and the allocation of its result.
    uploaded, downloaded
        Bytes of the operands and of the result, which the second call copies over the host link.
    """

    cpu: Measurement
    gpu: Measurement
    uploaded: Amount
    downloaded: Amount


def link_seconds(machine: Machine | None, uploaded: float, downloaded: float) -> float | None:
    """The time of copies of these bytes at the measured bandwidth of the host link.

    The memory is pageable, as the memory of NumPy arrays is. None: the bandwidth is unknown.
    """
    found = {c.name: c.measured for c in machine.ceilings} if machine else {}
    up, down = (found.get(f"host link pageable to {end}") for end in ("device", "host"))
    return uploaded / up + downloaded / down if up and down else None


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """The size from which a GPU, or a function, stays faster than another one.

    Sizes are compulsory bytes; for functions, they are numbers of elements n.

    Attributes
    ----------
    smallest, largest
        The range of the measured sizes.
    above
        The largest size at which it is slower, if it is faster at larger ones; None if it is slower
        at no size.
    upto
        The smallest size from which it is faster at every measured size; None if it is not faster
        at the largest size.
    crossing
        Where the two times are equal, interpolated between `above` and `upto`, or None.
    ever
        Whether it is faster at any measured size.
    than
        What it is compared with: the CPU, or the name of a function.
    what
        The name of the function that is faster from `upto`; empty for the GPU.
    """

    smallest: float
    largest: float
    above: float | None
    upto: float | None
    crossing: float | None
    ever: bool
    than: str = _CPU
    what: str = ""

    @classmethod
    def of(
        cls,
        sizes: Sequence[float],
        found: Sequence[tuple[Verdict, float]],
        than: str = _CPU,
        what: str = "",
    ) -> BreakEven:
        """Find the size from the verdict and the ratio of times at each size, in order.

        Ratios are interpolated linearly in the logarithms of ratio and size.
        """
        ever = any(verdict is Verdict.FASTER for verdict, _ in found)
        result = partial(cls, smallest=sizes[0], largest=sizes[-1], ever=ever, than=than, what=what)
        first = len(sizes)
        while first and found[first - 1][0] is Verdict.FASTER:
            first -= 1
        if first == len(sizes):
            return result(above=None, upto=None, crossing=None)
        slower = [i for i in range(first) if found[i][0] is Verdict.SLOWER]
        if not slower:
            return result(above=None, upto=sizes[first], crossing=None)
        crossing = None
        for i, j in itertools.pairwise(range(slower[-1], first + 1)):
            low, high = math.log(found[i][1]), math.log(found[j][1])
            if low < 0 <= high:
                crossing = sizes[i] * (sizes[j] / sizes[i]) ** (low / (low - high))
        return result(above=sizes[slower[-1]], upto=sizes[first], crossing=crossing)

    @classmethod
    def of_either(
        cls, sizes: Sequence[float], found: Sequence[tuple[Verdict, float]], first: str, peer: str
    ) -> BreakEven:
        """Find the size from which a peer stays faster than the first function, or the reverse."""
        reverse = cls.of(sizes, [(_REVERSE.get(v, v), 1 / r) for v, r in found], peer, first)
        return reverse if reverse.crossing else cls.of(sizes, found, first, peer)

    def __repr__(self) -> str:
        """For example ``"faster than the CPU from about 3.2 MiB (between 1 MiB and 4 MiB)"``."""
        size = elements if self.what else binary_size
        subject = f"{self.what} is " if self.what else ""
        words = f"{subject}faster than {self.than}"
        if self.upto is None and self.ever:
            return f"{words} at some sizes, but not at the largest, {size(self.largest)}"
        if self.upto is None:
            return f"{subject}not faster than {self.than} up to {size(self.largest)}"
        if self.above is not None and self.crossing:
            between = f"between {size(self.above)} and {size(self.upto)}"
            return f"{words} from about {size(self.crossing)} ({between})"
        if self.upto > self.smallest:
            return f"{words} from {size(self.upto)} or less"
        ends = f"from {size(self.smallest)} to {size(self.largest)}"
        return f"{words} at all sizes with a verdict, {ends}"


def elements(n: float) -> str:
    """A number of elements: ``"n = 16384"``."""
    return f"n = {round(n)}"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Scan(StoredRecord, Rows, ShownAsTables, Plotted, Entries[Sweep]):
    """Measurements of a routine or of functions over a range of sizes; a sequence of sweeps.

    Attributes
    ----------
    routine
        The name of the routine or of the first function.
    sweeps
        One sweep per problem, from the smallest to the largest `sizes`.
    interrupted
        Whether Ctrl-C ended the scan. Problems may then be missing.
    offloads
        With ``copies=True``, one entry per sweep: what calls with NumPy arrays cost.
    lengths
        For functions, the lengths from which the operands of each problem were made; else empty.
    """

    KIND = "scan"
    _ENTRIES = ("sweeps",)
    _INDEX = ("problem", "variant")

    routine: str
    sweeps: Annotated[tuple[Sweep, ...], Length(1)]
    interrupted: bool = False
    offloads: tuple[Offload, ...] = ()
    lengths: tuple[tuple[int, ...], ...] = ()

    def _contradiction(self) -> str:
        if self.lengths:
            return self._contradiction_of_functions()
        if not self.offloads:
            return ""
        if len(self.offloads) != len(self.sweeps):
            return f"offloads must have one entry per sweep, got {len(self.offloads)}"
        if any(not s.variants for s in self.sweeps):
            return "sweeps must contain a variant each if there are offloads"
        return ""

    def _contradiction_of_functions(self) -> str:
        if len(self.lengths) != len(self.sweeps):
            return f"lengths must have one entry per sweep, got {len(self.lengths)}"
        peers = {tuple(m.variant for m in s.peers) for s in self.sweeps}
        if len(peers) > 1 or any(len(s) != 1 for s in self.sweeps):
            return "sweeps must contain one function and the same peers each if there are lengths"
        try:
            self.comparisons  # noqa: B018
        except ValueError as error:
            return f"peers must be comparable: {error}"
        return ""

    @property
    def kernels(self) -> tuple[Measurement, ...]:
        """The kernel alone of each problem, with operands on the GPU; only with offloads."""
        return tuple(s.variants[0] for s in self.sweeps) if self.offloads else ()

    @property
    def break_even(self) -> BreakEven | None:
        """From which size a GPU pays off for NumPy arrays, copies included.

        Only with ``copies=True``. It uses the sizes with a verdict, and is None without any.
        """
        return self._break_even([o.gpu.compare(o.cpu) for o in self.offloads])

    @property
    def kernel_break_even(self) -> BreakEven | None:
        """From which size a GPU pays off for arrays that are in its memory.

        Only with ``copies=True``. It uses the sizes with a verdict, and is None without any.
        """
        pairs = [
            (k._series, o.cpu._series) for k, o in zip(self.kernels, self.offloads, strict=True)
        ]
        return self._break_even([contention.judge(*pair, paired=False) for pair in pairs])

    def _break_even(self, found: Sequence[Comparison]) -> BreakEven | None:
        sizes = [k.bytes for k, each in zip(self.kernels, found, strict=True) if not each.reason]
        return (
            BreakEven.of(sizes, [each[:2] for each in found if not each.reason]) if sizes else None
        )

    @property
    def sizes(self) -> tuple[float, ...]:
        """The size of each problem: the compulsory bytes; for functions, the product of lengths."""
        if self.lengths:
            return tuple(math.prod(map(float, each)) for each in self.lengths)
        return tuple(max((m.bytes for m in s), default=0.0) for s in self)

    @property
    def comparisons(self) -> dict[str, tuple[Comparison, ...]]:
        """For functions: each peer, compared with the first function at each size."""
        found: dict[str, list[Comparison]] = {}
        for sweep in self if self.lengths else ():
            for peer in sweep.peers:
                found.setdefault(peer.variant, []).append(peer.compare(sweep[0]))
        return {name: tuple(each) for name, each in found.items()}

    @property
    def crossovers(self) -> dict[str, BreakEven]:
        """For functions: the size from which each peer is faster than the first, or the reverse.

        If the first function is faster at the largest sizes, it is `what`, and the peer is `than`.
        Sizes without a verdict are ignored; a peer without any verdict is omitted.
        """
        found = {}
        for name, each in self.comparisons.items():
            known = [(n, c[:2]) for n, c in zip(self.sizes, each, strict=True) if not c.reason]
            if known:
                sizes, verdicts = zip(*known, strict=True)
                found[name] = BreakEven.of_either(sizes, verdicts, self.routine, name)
        return found

    @property
    def finding(self) -> str:
        """The break-even sizes, in a sentence, or empty."""
        if self.lengths:
            return "; ".join(
                f"{even}{self._without_verdict(name)}" for name, even in self.crossovers.items()
            )
        if not self.offloads:
            return ""
        unknown = "of unknown speed, because no size has a verdict"
        with_copies, alone = self.break_even or unknown, self.kernel_break_even or unknown
        return f"With copies, the GPU is {with_copies}; the kernel alone is {alone}."

    def _without_verdict(self, peer: str) -> str:
        judged = zip(self.sizes, self.comparisons[peer], strict=True)
        missing = [elements(n) for n, found in judged if found.reason]
        return f" (no verdict at {', '.join(missing)})" if missing else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all variants in the order of measurement, then the names of all peers."""
        measured = [m for s in self for m in s.measurements] + [m for s in self for m in s.peers]
        return tuple(dict.fromkeys(m.variant for m in measured))

    def of(self, name: str) -> tuple[Measurement, ...]:
        """The measurements of one variant or peer; empty if there are none."""
        return tuple(m for s in self for m in (*s.measurements, *s.peers) if m.variant == name)

    def records(self) -> list[dict[str, Any]]:
        """The records of all sweeps, each with its problem and its compulsory bytes.

        See :meth:`Sweep.records`. Records of functions also have the size ``n``. The calls with
        NumPy arrays, if any, are records like peers, with the names ``"call on cpu"`` and ``"call
        on cuda"``.
        """
        calls = [
            Sweep(routine=self.routine, measurements=(), peers=(o.cpu, o.gpu))
            for o in self.offloads
        ]
        sizes = [{"n": n} for n in self.sizes] if self.lengths else [{} for _ in self.sizes]
        return [
            {"problem": str(m.problem), "bytes": m.bytes, **size, **record}
            for s, size in zip((*self, *calls), [*sizes, *({} for _ in calls)], strict=True)
            for m, record in zip((*s.measurements, *s.peers), s.records(), strict=True)
        ]

    @property
    def caches(self) -> dict[str, float]:
        """The sizes of the caches of the device in bytes, nearest first; empty if unknown."""
        first = next((m for s in self for m in s), None)
        stored = first.context.get("cache_bytes") if first else None
        return {str(k): float(v) for k, v in stored.items()} if isinstance(stored, dict) else {}

    @property
    def title(self) -> str:
        """What was measured: routine, machine, cold or warm, interrupted."""
        first = self.sweeps[0]
        machine = first.machine.title if first.machine else ""
        caches = dict.fromkeys(m.cache for m in first)
        ending = "interrupted" if self.interrupted else ""
        return ", ".join(filter(None, [self.routine, machine, *caches, ending]))
