"""Records of sweeps on the emulator: the counts of the variants of one ladder on one problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from adokernels.records.forms import Amount, Context
from adokernels.records.inputs import Inputs
from adokernels.records.metrics import EMULATED_BULK, SECTOR
from adokernels.records.profile import Profile
from adokernels.records.record import Entries, Fields, StoredRecord
from adokernels.records.shown import Plotted, ShownAsTables

Access = Literal["load", "store"]
#: The name of each direction in metrics.
_OPERATIONS: Mapping[Access, str] = {"load": "ld", "store": "st"}


@dataclass(frozen=True, kw_only=True)
class CountedVariant(Fields):
    """The counts of one variant.

    Attributes
    ----------
    variant
        Its name.
    ceiling
        Whether it does not compute the result.
    flops, bytes
        Useful FLOPs and compulsory bytes of the problem.
    profile
        The counts of its kernels.
    """

    variant: str
    ceiling: bool
    flops: Amount
    bytes: Amount
    profile: Profile

    @property
    def sectors(self) -> float:
        """Sectors of 32 bytes that loads, stores, bulk copies and atomics access in global memory.

        Atomics repeat a sector for lanes that update the same address.
        """
        moved = sum(self.sectors_of(each) or 0 for each in _OPERATIONS)
        return moved + (self.profile.get("atomic_sectors") or 0)

    def sectors_of(self, access: Access) -> float | None:
        """Sectors of loads or stores and of bulk copies in this direction; None: not counted."""
        return self._with_bulk(f"{access}_sectors", "sectors", access)

    def ideal_sectors_of(self, access: Access) -> float | None:
        """The sectors that the same bytes need if all bytes of each sector are used."""
        return self._with_bulk(f"ideal_{access}_sectors", "ideal", access)

    @property
    def has_bulk_copies(self) -> bool:
        """Whether `sectors` includes bulk copies, for example of the tensor memory accelerator."""
        bulk = (EMULATED_BULK.format("sectors", op) for op in _OPERATIONS.values())
        return any(map(self.profile.get, bulk))

    def _with_bulk(self, quantity: str, of: str, access: Access) -> float | None:
        value = self.profile.get(quantity)
        bulk = self.profile.get(EMULATED_BULK.format(of, _OPERATIONS[access])) or 0
        return None if value is None else value + bulk

    @property
    def intensity(self) -> float:
        """Executed FLOPs per byte of these sectors; 0 without FLOPs or sectors."""
        executed = self.profile.get("flops") or 0
        return executed / (SECTOR * self.sectors) if self.sectors else 0.0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CountedSweep(StoredRecord, ShownAsTables, Plotted, Entries[CountedVariant]):
    """The variants of one ladder, executed and counted on the emulator, in ladder order.

    Attributes
    ----------
    routine
        The name of the ladder.
    problem
        Operands and options.
    variants
        One per variant that ran, including ceilings.
    skipped
        The other variants, with the reason: refused, unavailable, or an error of a kernel.
    context
        Machine, software and settings.
    """

    KIND = "counts"
    _ENTRIES = ("variants",)

    routine: str
    problem: Inputs
    variants: tuple[CountedVariant, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    context: Context = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Ladder, problem and device."""
        return f"{self.routine}, {self.problem}, {self.context.get('device_name', 'emulator')}"
