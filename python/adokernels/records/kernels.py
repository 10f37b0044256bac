"""Resource usage of compiled kernels, as plain values that can be stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from adokernels.records.forms import Block, Count, Grid, Length, Size
from adokernels.records.record import Entries, Fields
from adokernels.records.shown import ShownAsTables

if TYPE_CHECKING:
    from typing_extensions import Self

    from adokernels import _core

_WARP = 32
#: Registers of a multiprocessor, its schedulers, and the registers that are allocated together: the
#: same on all GPUs since compute capability 7.5. A thread has at most 255 registers.
_REGISTERS, _SCHEDULERS, _REGISTER_UNIT, _MOST_REGISTERS = 65536, 4, 256, 255


@dataclass(frozen=True, kw_only=True)
class Kernel(Fields):
    """Resource usage of one compiled kernel, launched with one block shape.

    Attributes
    ----------
    name
        The kernel's name with its template arguments.
    grid, block
        The launch configuration.
    registers
        Registers per thread.
    local_bytes
        Local memory per thread: spilled registers, and arrays indexed at run time.
    static_shared_bytes, dynamic_shared_bytes
        Shared memory per block: fixed at compile time, and requested at launch.
    resident_warps, max_warps
        Warps per multiprocessor: of this kernel, and of any kernel.
    limits
        Blocks per multiprocessor if only one resource were limited: ``"warps"``, ``"registers"``,
        ``"shared memory"``, or the number of ``"blocks"`` itself.
    multiprocessors
        Multiprocessors of the device; 0 if unknown.
    """

    name: str
    grid: Grid
    block: Block
    registers: Count
    local_bytes: Count
    static_shared_bytes: Count
    dynamic_shared_bytes: Count
    resident_warps: Count
    max_warps: Size
    limits: Annotated[Mapping[str, Count], Length(1)]
    multiprocessors: Count = 0

    @property
    def shared_bytes(self) -> int:
        """Shared memory per block, static and dynamic."""
        return self.static_shared_bytes + self.dynamic_shared_bytes

    @property
    def occupancy(self) -> float:
        """Theoretical occupancy: resident warps relative to the maximum."""
        return self.resident_warps / self.max_warps

    @property
    def limiter(self) -> str:
        """The resource that limits resident blocks; if several do, the first in ``limits``."""
        return min(self.limits, key=lambda name: self.limits[name])

    @property
    def most_registers(self) -> int:
        """The largest number of registers per thread that does not reduce the resident blocks.

        A grid with fewer blocks than the device can hold limits the resident blocks. The device
        distributes its blocks evenly. If the number of multiprocessors is unknown, all blocks are
        assumed to be on one of them.
        """
        warps = math.ceil(math.prod(self.block) / _WARP)
        largest = math.ceil(math.prod(self.grid) / max(self.multiprocessors, 1))
        blocks = min(self.resident_warps // warps, largest)
        needed = max(blocks, 1) * warps
        # Each of the four schedulers has a quarter of the registers, and of the warps.
        per_warp = _REGISTERS // _SCHEDULERS // math.ceil(needed / _SCHEDULERS)
        per_thread = per_warp // _REGISTER_UNIT * _REGISTER_UNIT // _WARP
        return max(min(per_thread, _MOST_REGISTERS), self.registers)

    @property
    def registers_unused(self) -> int:
        """Registers per thread that the kernel could use without reducing the resident blocks."""
        return self.most_registers - self.registers

    @classmethod
    def from_core(cls, info: _core.KernelInfo, multiprocessors: int) -> Self:
        """Copy the values that the core reports, for a device with these multiprocessors."""
        return cls(
            name=info.name,
            grid=tuple(info.grid),
            block=tuple(info.block),
            registers=info.registers,
            local_bytes=info.local_bytes,
            static_shared_bytes=info.static_shared_bytes,
            dynamic_shared_bytes=info.dynamic_shared_bytes,
            resident_warps=info.resident_warps,
            max_warps=info.max_warps,
            limits={
                "warps": info.blocks_by_warps,
                "registers": info.blocks_by_registers,
                "shared memory": info.blocks_by_shared,
                "blocks": info.blocks_by_slots,
            },
            multiprocessors=multiprocessors,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Resources(ShownAsTables, Entries[Kernel]):
    """Resource usage of all kernels that a variant launches; a sequence of :class:`Kernel`.

    Each property is from the worst kernel: the highest usage, or the lowest occupancy.
    """

    _ENTRIES = ("kernels",)

    routine: str
    variant: str
    kernels: tuple[Kernel, ...]

    @property
    def registers(self) -> int:
        """Registers per thread."""
        return max((k.registers for k in self.kernels), default=0)

    @property
    def local_bytes(self) -> int:
        """Local memory per thread: spilled registers, and arrays indexed at run time."""
        return max((k.local_bytes for k in self.kernels), default=0)

    @property
    def shared_bytes(self) -> int:
        """Shared memory per block."""
        return max((k.shared_bytes for k in self.kernels), default=0)

    @property
    def occupancy(self) -> float:
        """Theoretical occupancy."""
        return min((k.occupancy for k in self.kernels), default=0.0)

    @property
    def limiter(self) -> str:
        """The resource that limits the occupancy; empty if there are no kernels."""
        return min(self.kernels, key=lambda k: k.occupancy).limiter if self.kernels else ""
