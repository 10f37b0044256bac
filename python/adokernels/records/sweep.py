"""Records of sweeps: the variants of one ladder on one problem."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from adokernels.records.machine import Machine
from adokernels.records.measurement import FUNCTION, Measurement
from adokernels.records.metrics import mix_limit
from adokernels.records.record import Entries, Rows, StoredRecord
from adokernels.records.shown import ShownAsTables
from adokernels.records.statistics import Verdict
from adokernels.text import NO_LIMIT, percent

if TYPE_CHECKING:
    from collections.abc import Iterable


_ROOF, _PEAK = "roof", "FMA peak"


class NearestLimit(NamedTuple):
    """The share of a limit, and its name: ``"roof"``, ``"FMA peak"`` or ``"FP64 tensor peak"``."""

    share: float
    name: str

    def __str__(self) -> str:
        return f"{percent(self.share)} of {self.name}" if self.applies else "no limit"

    @property
    def applies(self) -> bool:
        """Whether the limit applies; if not, caches hold the data, or the count is wrong."""
        return self.share <= NO_LIMIT


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Sweep(StoredRecord, Rows, ShownAsTables, Entries[Measurement]):
    """The variants of one ladder, measured interleaved on one problem, in ladder order.

    Attributes
    ----------
    measurements
        One per variant that ran, including ceilings.
    skipped
        The other variants, with the reason: refused, unavailable, a wrong result, or interrupted.
    machine
        The ceilings of the device.
    peers
        Functions of other libraries, timed in the same rounds.
    stages
        The stages of pipelines, each timed separately in the same rounds.
    interrupted
        Whether Ctrl-C ended the measurement. Samples, counters or ceilings may then be missing.
    """

    KIND = "sweep"
    _ENTRIES = ("measurements", "peers")

    routine: str
    measurements: tuple[Measurement, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    machine: Machine | None = None
    peers: tuple[Measurement, ...] = ()
    stages: tuple[Measurement, ...] = ()
    interrupted: bool = False

    def __post_init__(self) -> None:
        """Attach the machine, to which the limiters of the measurements refer."""
        for name in ("measurements", "stages"):
            ours = tuple(
                m if m.machine is self.machine else dataclasses.replace(m, machine=self.machine)
                for m in getattr(self, name)
            )
            object.__setattr__(self, name, ours)

    def _contradiction(self) -> str:
        """Measurements from different machines cannot be compared or shown in one table."""
        first = ""
        for name in ("measurements", "peers", "stages"):
            for i, m in enumerate(getattr(self, name)):
                first = first or m.machine_title
                if m.machine_title not in ("", first):
                    return (
                        f"{name}[{i}].context must name the same machine in all measurements, "
                        f"got {m.machine_title!r} and {first!r}"
                    )
        return ""

    @property
    def variants(self) -> tuple[Measurement, ...]:
        """The measurements without the ceilings."""
        return tuple(m for m in self.measurements if not m.ceiling)

    @property
    def fastest(self) -> Measurement:
        """The variant with the smallest median; see :attr:`tied` for variants as fast as it."""
        return min(self.variants, key=lambda m: m.seconds)

    @property
    def tied(self) -> tuple[Measurement, ...]:
        """The variants that :attr:`fastest` is not known to beat, in the order of their times.

        Either the verdict is "same" or "unclear", or it is withheld.
        """
        best = self.fastest
        close = (
            m
            for m in self.variants
            if m is not best and m.is_like(best) and best.compare(m).verdict is not Verdict.FASTER
        )
        return tuple(sorted(close, key=lambda m: m.seconds))

    @property
    def lead(self) -> str:
        """Why :attr:`fastest` is not known to be the fastest, or empty if its verdicts say so.

        For example ``"tied with tiled: the times are the same"``, or ``"no verdict on tiled: other
        work disturbed 6 of 6 rounds"``.
        """
        if not self.variants or not self.tied:
            return ""
        nearest, *others = self.tied
        more = f" and {len(others)} more" if others else ""
        found = self.fastest.compare(nearest)
        words = "no verdict on" if found.reason else "tied with"
        return f"{words} {nearest.variant}{more}: {found.doubt}"

    @property
    def roof(self) -> float | None:
        """The bandwidth of the roof in bytes per second; shares of the roof are relative to it.

        It is the fastest of the ladder's own ceilings, which moved the same bytes in the same
        rounds; without a ceiling, the machine's copy bandwidth.
        """
        copies = [m.bytes_per_second for m in self.measurements if m.ceiling]
        if not copies and self.machine is not None:
            copies = [self.machine.roof]
        return max(copies, default=None)

    def stages_of(self, m: Measurement) -> tuple[Measurement, ...]:
        """The stages of this pipeline, in order; empty for a single kernel."""
        named = {(stage.routine, stage.variant): stage for stage in self.stages}
        return tuple(named[stage] for stage in m.stages if stage in named)

    @property
    def title(self) -> str:
        """What was measured: routine, problem, machine or device, cold or warm, interrupted."""
        parts = [self.routine, *dict.fromkeys(str(m.problem) for m in self)]
        parts += (
            [self.machine.title] if self.machine else list(dict.fromkeys(m.device for m in self))
        )
        parts += [*dict.fromkeys(m.cache for m in self), *(["interrupted"] * self.interrupted)]
        return ", ".join(filter(None, parts))

    def step_pairs(self) -> dict[Measurement, Measurement]:
        """Pair each variant with the previous one, without ceilings."""
        return steps(self.measurements)

    def share_of_roof(self, m: Measurement) -> float | None:
        """Compulsory bytes per second relative to `roof`, or None if the roof is unknown."""
        return m.bytes_per_second / self.roof if self.roof and m.bytes else None

    def share_of_peak(self, m: Measurement) -> float | None:
        """Executed FLOPs per second relative to the measured FMA peak of the precision.

        It is None without FLOPs, without the peak, and for peers, whose FLOPs are unknown.
        """
        peak = self.machine.peak(m.problem.precision) if self.machine else None
        known = peak and m.executed_flops and m not in self.peers
        return m.flops_per_second / peak if peak and known else None

    def share_of_mix_limit(self, m: Measurement) -> float | None:
        """`share_of_peak` relative to the limit of the mix of FMAs and other instructions.

        It is None if the instructions are not counted, and on a CPU, where the mix is no limit.
        """
        share, fused = self.share_of_peak(m), m.fma_share
        if share is None or fused is None or m.device == "cpu":
            return None
        return share / mix_limit(fused)

    def nearest_limit(self, m: Measurement) -> NearestLimit | None:
        """The larger of `share_of_roof` and `share_of_peak`, with its name; None without both.

        A variant that exceeds the FMA peak uses tensor cores, and their peak is its limit.
        """
        shares = [(self.share_of_roof(m), _ROOF), (self.share_of_peak(m), _PEAK)]
        rate, precision = m.flops_per_second, m.problem.precision
        fastest = self.machine.fastest(precision, rate) if self.machine else None
        if fastest and fastest.kind == "tensor" and m not in self.peers:
            shares[1] = (rate / fastest.measured, f"{fastest.level} peak")
        known = [NearestLimit(share, name) for share, name in shares if share is not None]
        return max(known, default=None)

    def why_above(self, limit: str) -> str:
        """Why times can be shorter than the ``"roof"`` or a peak allows."""
        why = "caches hold the data" if limit == _ROOF else "FMAs do not compute all FLOPs"
        cold = any(m.cache == "cold" for m in (*self, *self.peers))
        return f"{why}, or the ceiling is too low" if cold else why

    @property
    def limit(self) -> str:
        """The limit of the ladder's column of shares: ``"roof"`` or ``"FMA peak"``.

        It is the nearer one for the fastest variant.
        """
        nearest = self.nearest_limit(self.fastest) if self.variants else None
        return _PEAK if nearest and nearest.name != _ROOF else _ROOF

    def share_of_limit(self, m: Measurement) -> float | None:
        """`share_of_roof` or `share_of_peak`, whichever `limit` names for the whole ladder."""
        return self.share_of_roof(m) if self.limit == _ROOF else self.share_of_peak(m)

    def records(self) -> list[dict[str, Any]]:
        """The step table as one dictionary per measurement, in SI units; peers come last.

        Any library of data frames accepts it, for example ``polars.DataFrame(sweep.records())``.
        ``speedup`` is relative to the first variant, ``step_speedup`` to the previous one. Both are
        ratios of medians. ``verdict`` states whether this step exceeds the noise, ``withheld`` why
        there is no verdict, and ``resolution`` the smallest difference that the run could have
        found. ``confidence`` is the level of the interval from ``ci_low`` to ``ci_high``.
        ``share_of_roof``, ``share_of_peak`` and ``share_of_mix_limit`` are the methods of these
        names. The errors are described in :class:`Measurement`. A value that does not apply is
        None.
        """
        before = self.step_pairs()
        records = [_record(self, m, before.get(m)) for m in self]
        # The FLOPs that a peer executes are unknown.
        unknown = {"peer": True, "flops_per_second": None, "intensity": None}
        return records + [_record(self, m, None) | unknown for m in self.peers]


def as_sweep(record: Any) -> Any:
    """A measurement as a sweep of one variant; another record unchanged."""
    if not isinstance(record, Measurement):
        return record
    name = record.variant if record.routine == FUNCTION else record.routine
    return Sweep(routine=name, measurements=(record,), machine=record.machine)


def steps(measurements: Iterable[Measurement]) -> dict[Measurement, Measurement]:
    """Pair each variant with the previous one of the same ladder and problem."""
    variants = [m for m in measurements if not m.ceiling]
    return {
        m: before
        for before, m in itertools.pairwise(variants)
        if m.routine == before.routine and m.is_like(before)
    }


def _record(sweep: Sweep, m: Measurement, before: Measurement | None) -> dict[str, Any]:
    first = None if m.ceiling else next(iter(sweep.variants), None)
    same = first and first.is_like(m)
    step = m.compare(before) if before else None
    return {
        "variant": m.variant,
        "device": m.device,
        "ceiling": m.ceiling,
        "peer": False,
        "seconds": m.seconds,
        "ci_low": m.interval[0],
        "ci_high": m.interval[1],
        "confidence": m.confidence,
        "noise": m.noise,
        "samples": len(m.samples),
        "speedup": m.speedup_over(first) if first and same else None,
        "step_speedup": m.speedup_over(before) if before else None,
        "verdict": step.verdict.value if step else None,
        "withheld": step.reason or None if step else None,
        "resolution": step.resolution if step and step.confidence else None,
        "bytes_per_second": m.bytes_per_second,
        "flops_per_second": m.flops_per_second,
        "intensity": m.intensity if m.executed_flops else 0.0,
        "share_of_roof": sweep.share_of_roof(m),
        "share_of_peak": sweep.share_of_peak(m),
        "share_of_mix_limit": sweep.share_of_mix_limit(m),
        "clock": m.clock,
        "error": m.error,
        "error_ulp": m.error_ulp,
        "error_relative": m.error_relative,
        "unchecked": "unchecked" in m.flags,
        "changes": m.changes,
    }
