"""Records of hardware counters: a profile per function, with one set of values per kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from adokernels.records.forms import Amount, Context, Size
from adokernels.records.kernels import Kernel
from adokernels.records.limiter import Provenance
from adokernels.records.metrics import BY_KEY, QUANTITIES, Unit, combined, units_of
from adokernels.records.record import Fields, StoredRecord
from adokernels.records.shown import ShownAsTables

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The start of the collector's name if the counts come from the emulator.
EMULATOR = "the emulator"


class _Counted:
    """Values of metrics by name, and the quantities that are computed from them."""

    values: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        """A quantity (``"dram_bytes"``), or a metric by its name in Nsight Compute.

        Raises
        ------
        KeyError
            If it was not collected. :meth:`get` returns None instead.
        """
        value = self.get(name)
        if value is None:
            raise KeyError(f"{name!r} was not collected")
        return value

    def get(self, name: str) -> float | None:
        """The value of a quantity or metric; None: it was not collected, or nothing was counted."""
        if quantity := BY_KEY.get(name):
            return quantity.of(self.values)
        return self.values.get(name)

    def ideal_sectors_per_request(self, access: str) -> float | None:
        """The sectors per request with full utilisation, or None if they were not counted.

        Parameters
        ----------
        access
            ``"load"`` or ``"store"``, of global memory.
        """
        ideal, requests = self.get(f"ideal_{access}_sectors"), self.get(f"{access}_requests")
        return ideal / requests if requests and ideal is not None else None

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The collected units of compute and of the memory levels, the busiest first."""
        return units_of(self.values)

    def busiest(self, level: str) -> Unit | None:
        """The busiest unit of ``"compute"`` or of a memory level, or None if none was collected."""
        return next((unit for unit in self.units if unit.level == level), None)

    @property
    def quantities(self) -> dict[str, float]:
        """All quantities that were collected, in SI units; shares are fractions."""
        known = ((q.key, q.of(self.values)) for q in QUANTITIES)
        return {key: value for key, value in known if value is not None}


@dataclass(frozen=True, kw_only=True)
class KernelProfile(_Counted, Fields):
    """The counters of one launched kernel.

    Attributes
    ----------
    kernel
        Its name, launch configuration and resource usage.
    values
        Metrics with the names and units of Nsight Compute: percentages and nanoseconds.
    multiprocessors
        Multiprocessors of the device.
    places
        The source line with the most excess, by kind; only from the emulator.
    """

    kernel: Kernel
    values: Mapping[str, Amount]
    multiprocessors: Size
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def waves(self) -> float:
        """Blocks of the grid divided by the blocks that can be resident on the device."""
        warps = math.ceil(math.prod(self.kernel.block) / 32)
        resident = self.kernel.resident_warps // warps * self.multiprocessors
        return math.prod(self.kernel.grid) / resident if resident else math.inf


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Profile(_Counted, StoredRecord, ShownAsTables):
    """The counters of all kernels that a variant or a function launches.

    Index it by a quantity or a metric for the value over all kernels: counts are added; percentages
    and ratios are averaged with time as weight.

    Attributes
    ----------
    label
        What was profiled, for example ``"transpose[naive]"``.
    kernels
        One entry per launched kernel, in order.
    cache
        ``"cold"``: L2 was overwritten before each run. ``"warm"``: the previous run filled L2.
    collector
        The tool that read the counters, with its version and method.
    context
        Machine, software and settings.
    """

    KIND = "profile"

    label: str
    kernels: tuple[KernelProfile, ...]
    cache: Literal["cold", "warm"]
    collector: str
    context: Context = field(default_factory=dict)

    def __iter__(self) -> Iterator[KernelProfile]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    @property
    def provenance(self) -> Provenance:
        """The source of its numbers: ``"counted"`` by the hardware, or ``"emulated"``."""
        emulated = self.collector.startswith(EMULATOR)
        return Provenance.EMULATED if emulated else Provenance.COUNTED

    @cached_property
    def values(self) -> Mapping[str, float]:  # type: ignore[override]
        """Metrics of all kernels together."""
        return combined([k.values for k in self.kernels]) if self.kernels else {}

    @property
    def longest(self) -> KernelProfile:
        """The kernel with the longest time."""
        return max(self.kernels, key=lambda k: k.get("seconds") or 0.0)

    def compare(self, before: Profile) -> ProfileComparison:
        """Compare each quantity with its value in an earlier profile, the baseline."""
        return ProfileComparison(before=before, after=self)


@dataclass(frozen=True, kw_only=True, repr=False)
class ProfileComparison(ShownAsTables):
    """Comparison of two profiles. Iteration yields the quantities that both have."""

    before: Profile
    after: Profile

    def __iter__(self) -> Iterator[tuple[str, float, float]]:
        """Quantity, value before, value after."""
        before, after = self.before.quantities, self.after.quantities
        return ((key, before[key], after[key]) for key in before if key in after)
