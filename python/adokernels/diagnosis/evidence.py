"""Facts about one measurement, from which its limiter and the next step are derived.

A share is a fraction of a limit: of the hardware's maximum as reported by a counter, or of a
measured ceiling of the machine. Each fact contains its provenance.
"""

from __future__ import annotations

import math
import warnings
from functools import cached_property

import numpy as np

from adokernels.records.definitions import BALANCED, FULL, LIMITING, STALL, STALLS
from adokernels.records.forms import number_in
from adokernels.records.inputs import Inputs
from adokernels.records.limiter import Evidence, Provenance
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import (
    LARGEST_REQUEST,
    MEMORY_BREAKDOWN,
    SECTOR,
    WARP,
    Unit,
    mix_limit,
    of_peak,
)
from adokernels.records.profile import KernelProfile
from adokernels.text import NO_LIMIT, number, percent

# Thresholds of this package.
#: DRAM traffic is excessive from this multiple of the compulsory bytes.
EXCESS = 1.25
#: A variant reaches a measured ceiling from this share, because ceilings are best samples.
REACHED = 0.9
#: Variants may exceed a measured ceiling by this factor, because ceilings are samples.
MARGIN = 1.03
#: A mean load latency in seconds from which requests wait in queues. The latency of DRAM without
#: queues is below 1 microsecond on GPUs with HBM or GDDR memory.
QUEUED = 1e-6
#: Bytes per lane with which a full warp accesses one whole cache line.
FULL_LINE = 4.0
#: Accesses are narrow below this mean of bytes per lane. Inactive lanes reduce the mean.
NARROW = 3.0
#: Sectors of a cache line.
LINE = 4
#: Bytes per lane of the widest vector access.
WIDEST = 16.0


def bandwidth_of_dram(machine: Machine | None, written: float) -> float | None:
    """Measured DRAM bandwidth in bytes per second for a fraction `written` of written bytes.

    Interpolated between read, copy and write: switching between reads and writes reduces it.
    """
    if machine is None:
        return None
    known = {c.operation: c.measured for c in machine.ceilings if c.level == "DRAM"}
    if "copy" not in known:
        return max(known.values(), default=None)
    pure = known.get("read" if written <= 0.5 else "write", known["copy"])
    mixed = min(written, 1 - written) / 0.5
    return pure + (known["copy"] - pure) * mixed


def highest_of_dram(machine: Machine | None, *written: float) -> float:
    """The highest measured DRAM bandwidth for these fractions of written bytes, or for any."""
    return max(bandwidth_of_dram(machine, w) or 0.0 for w in written or (0.0, 0.5, 1.0))


def ceiling_named(machine: Machine | None, name: str) -> float | None:
    """The measured value of a ceiling per second, or None if the machine has no such ceiling."""
    ceilings = machine.ceilings if machine else ()
    return next((c.measured for c in ceilings if c.name == name), None)


class KernelFacts:
    """Facts from the counters of one kernel. A fact is None, not 0, if a metric is missing."""

    def __init__(self, profile: KernelProfile, machine: Machine | None) -> None:
        self.profile = profile
        self.machine = machine

    def get(self, name: str) -> float | None:
        """A quantity or a metric, or None if it was not collected or is not a finite number."""
        value = self.profile.get(name)
        return value if value is not None and math.isfinite(value) else None

    def ratio(self, above: str, below: str) -> float | None:
        """The quotient of two quantities, or None if one is missing or the second is 0."""
        first, second = self.get(above), self.get(below)
        return None if first is None or not second else first / second

    @cached_property
    def written(self) -> float:
        """The fraction of the DRAM bytes that were written."""
        return self.ratio("dram_write_bytes", "dram_bytes") or 0.0

    @cached_property
    def of_dram(self) -> float | None:
        """Counted DRAM bytes per second, relative to the bandwidth measured on the device.

        None if they exceed it by so much that one of the two is wrong.
        """
        rate, ceiling = (
            self.ratio("dram_bytes", "seconds"),
            bandwidth_of_dram(self.machine, self.written),
        )
        share = rate / ceiling if rate is not None and ceiling else None
        return share if share is not None and share <= NO_LIMIT else None

    @cached_property
    def reaches_dram(self) -> bool:
        """Whether the kernel reaches the DRAM bandwidth measured on the device.

        If its blocks fill the device, multiprocessors are idle only at the start and the end. The
        bandwidth is then relative to the cycles in which they are active.
        """
        active = self.get("sm_active") if self.profile.waves >= FULL else None
        return self.of_dram is not None and self.of_dram >= REACHED * min(active or 1.0, 1.0)

    @cached_property
    def dram_first(self) -> bool:
        """Whether DRAM is the busiest unit, and no unit of the multiprocessors is balanced with it.

        More bytes must then be in flight, even if DRAM is below the threshold of a limiter.
        """
        first, *others = self.profile.units or (Unit("", "", 0.0),)
        close = max(first.share - BALANCED, LIMITING)
        inside = (unit.share for unit in others if unit.level in ("compute", "L1"))
        return first.level == "DRAM" and max(inside, default=0.0) < close

    @cached_property
    def busy_while_active(self) -> tuple[Unit, float] | None:
        """A unit of the multiprocessors that is busy in their active cycles, and its share of them.

        At the start and the end of a short kernel, multiprocessors are idle. This lowers the shares
        over the kernel's time, from which the limiter is derived, but not these shares.
        """
        active = self.get("sm_active")
        inside = (u for u in self.profile.units if u.level in ("compute", "L1"))
        busiest = next(inside, None)
        if not active or busiest is None or busiest.share / active < LIMITING:
            return None
        return busiest, busiest.share / active

    @cached_property
    def stalls(self) -> tuple[tuple[str, float], ...]:
        """Stall reasons and their shares of the cycles between two instructions of a warp."""
        stalled = [name for name in STALLS if name != "selected"]
        shares = [(n, s) for n in stalled if (s := self.ratio(f"stall_{n}", "warp_latency"))]
        return tuple(sorted(shares, key=lambda item: -item[1]))

    def stall(self, *names: str) -> float:
        """The total share of these stall reasons; 0 if they were not collected."""
        return sum(share for name, share in self.stalls if name in names)

    @cached_property
    def shared_of_l1(self) -> float | None:
        """The fraction of the L1 wavefronts (at most one per cycle) that access shared memory."""
        share = self.get(of_peak(MEMORY_BREAKDOWN["L1"]["L1 wavefronts"]))
        seconds, clock = self.get("seconds"), self.get("clock")
        loads, stores = self.get("shared_load_wavefronts"), self.get("shared_store_wavefronts")
        if not share or not seconds or not clock or loads is None or stores is None:
            return None
        everything = share / 100 * seconds * clock * self.profile.multiprocessors
        # Counters of damaged records can be so small that their product is 0.
        return min((loads + stores) / everything, 1.0) if everything else None

    def bytes_per_lane(self, access: str) -> float | None:
        """Bytes per lane if all lanes are active; an underestimate if lanes share words."""
        sectors = self.ratio(f"ideal_{access}_sectors", f"{access}_requests")
        return None if sectors is None else SECTOR * sectors / WARP

    def over_ideal(self, access: str) -> float | None:
        """Sectors per ideal sector; an underestimate if the bytes were not counted."""
        moved, ideal = self.get(f"{access}_sectors"), self._ideal(access)
        return moved / ideal if moved and ideal else None

    def _ideal(self, access: str) -> float | None:
        """The ideal number of sectors, with the largest requests if bytes were not counted."""
        moved, requests = self.get(f"{access}_sectors"), self.get(f"{access}_requests")
        if not self._exact(access) and moved is not None and requests is not None:
            return min(moved, LARGEST_REQUEST * requests)
        return self.get(f"ideal_{access}_sectors")

    def times_ideal(self, access: str) -> str:
        """Format :meth:`over_ideal`: ``"8.00"``; ``"at least 2.00"`` if it is an underestimate."""
        bound = "" if self._exact(access) else "at least "
        return f"{bound}{number(self.over_ideal(access) or 1.0)}"

    def _exact(self, access: str) -> bool:
        """Whether the bytes that loads or stores request were counted."""
        return self.get(f"ideal_{access}_sectors") is not None

    def excess(self, access: str) -> float:
        """Sectors of loads or of stores beyond the ideal number, as a fraction of all sectors."""
        times, moved = self.over_ideal(access), self.get(f"{access}_sectors")
        everything = (self.get("load_sectors") or 0.0) + (self.get("store_sectors") or 0.0)
        return moved * max(1 - 1 / times, 0.0) / everything if moved and times else 0.0

    @cached_property
    def lines(self) -> tuple[float, float]:
        """The utilisation of L2 by requests, and the share of it that whole lines would save.

        A request to L2 accesses up to four sectors of one cache line. Narrow accesses of a warp
        need fewer sectors. If all requests access whole lines, tags and sectors are equally busy
        on H100 and H200.
        """
        share = {unit.name: unit.share for unit in self.profile.units if unit.level == "L2"}
        requests, sectors = share.get("L2 tag requests", 0.0), share.get("L2 sectors", 0.0)
        ideal = self._ideal("load"), self._ideal("store")
        accesses = sum(self.get(f"{access}_requests") or 0.0 for access in ("load", "store"))
        if not requests or not accesses or None in ideal:
            return requests, 0.0
        wanted = min(sum(i or 0.0 for i in ideal) / accesses, LINE)
        return requests, max(1 - LINE * sectors / requests / wanted, 0.0)

    @cached_property
    def stored_bytes(self) -> float:
        """Bytes that threads store to global memory; 0 if they were not counted."""
        return self.get("sm__sass_data_bytes_mem_global_op_st.sum") or 0.0

    @cached_property
    def atomics_of_l2(self) -> float:
        """The share of the sectors that L2 accesses for atomic operations, not loads or stores."""
        moved, missed = self.get("l2_bytes"), 1 - (self.get("l1_hit_rate") or 0.0)
        if not moved or not any(u.name == "L2 atomics" and u.share for u in self.profile.units):
            return 0.0
        loaded, stored = (self.get(f"{access}_sectors") or 0.0 for access in ("load", "store"))
        return 1 - SECTOR * (loaded * missed + stored) / moved

    @cached_property
    def loads_per_byte(self) -> float | None:
        """Bytes of the ideal sectors of loads per byte read from DRAM; too high if not counted."""
        ideal, read = self._ideal("load"), self.get("dram_read_bytes")
        return None if ideal is None or not read else SECTOR * ideal / read

    @cached_property
    def times_loaded(self) -> str:
        """Format `loads_per_byte`: ``"3.00 times"``; ``"up to 3.00 times"`` if not exact."""
        bound = "" if self._exact("load") else "up to "
        return f"{bound}{number(self.loads_per_byte or 0.0)} times"

    @cached_property
    def load_latency(self) -> float | None:
        """The mean time in seconds in which a global load is in flight, from Little's law.

        The value is an underestimate if a waiting warp has several loads in flight.
        """
        rate, occupancy = self.ratio("load_requests", "seconds"), self.get("occupancy")
        if not rate or occupancy is None:
            return None
        # The occupancy is a mean over the cycles in which a multiprocessor has work.
        working = self.profile.multiprocessors * min(self.get("sm_active") or 1.0, 1.0)
        warps = occupancy * self.profile.kernel.max_warps * working
        return warps * self.stall("long_scoreboard", "lg_throttle") / rate

    @cached_property
    def queued(self) -> bool:
        """Whether loads wait in queues of the memory, so that further loads in flight gain nothing.

        The memory then transfers as much as this access pattern allows.
        """
        return self.load_latency is not None and self.load_latency >= QUEUED

    @cached_property
    def memory_stalls(self) -> float:
        """The share of a warp's time in which it waits for global or local memory."""
        return self.stall("long_scoreboard", "lg_throttle", "tex_throttle", "drain")

    @cached_property
    def waits_for_memory(self) -> bool:
        """Whether warps wait notably longer for memory than for arithmetic."""
        arithmetic = self.stall("math_pipe_throttle", "wait", "dispatch_stall")
        return self.memory_stalls >= max(STALL, arithmetic + BALANCED)

    @cached_property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.profile.kernel.grid)


class Facts:
    """Facts about a measurement."""

    def __init__(self, m: Measurement, machine: Machine | None) -> None:
        self.m = m
        self.machine = machine
        self.kernels = [KernelFacts(k, machine) for k in (m.profile or ())]

    @cached_property
    def longest(self) -> KernelFacts | None:
        """The kernel with the longest time, or None without counters."""
        return max(self.kernels, key=lambda k: k.get("seconds") or 0.0, default=None)

    @cached_property
    def share_of_longest(self) -> float:
        """The time of the longest kernel as a share of the time of all kernels."""
        total = sum(k.get("seconds") or 0.0 for k in self.kernels)
        longest = self.longest.get("seconds") if self.longest else None
        return longest / total if longest and total else 1.0

    @cached_property
    def share_of_kernels(self) -> float | None:
        """The time of all kernels as a share of the measured time, without launches and gaps."""
        times = [k.get("seconds") for k in self.kernels]
        return sum(t or 0.0 for t in times) / self.m.seconds if any(times) else None

    @cached_property
    def traffic(self) -> float | None:
        """Counted DRAM bytes per compulsory byte, without lines that earlier work left in L2.

        Cold measurements overwrite the caches. DRAM writes beyond the bytes that the kernels write
        to L2 are lines of this work, which the kernels' reads displace.
        """
        profile = self.m.profile
        counted = profile.get("dram_bytes") if profile else None
        if profile is None or not counted or not self.m.bytes:
            return None
        names = ("l2_bytes", "load_sectors", "store_sectors", "dram_write_bytes")
        moved, loads, stores, written = map(profile.get, names)
        if None not in (moved, loads, stores, written) and self.m.flush == "overwritten":
            # Copies of the tensor memory accelerator are neither loads nor stores.
            stored = SECTOR * max(stores or 0.0, (moved or 0.0) / SECTOR - (loads or 0.0))
            counted -= max((written or 0.0) - stored, 0.0)
        return counted / self.m.bytes

    @cached_property
    def requests_once(self) -> bool:
        """Whether a single kernel requests about the compulsory bytes.

        Then unused parts of sectors and DRAM accesses cause additional traffic, not repetition.
        """
        if len(self.kernels) != 1 or not self.m.bytes:
            return False
        loaded, stored = map(self.kernels[0].get, ("ideal_load_sectors", "ideal_store_sectors"))
        known = loaded is not None and stored is not None
        return known and SECTOR * ((loaded or 0.0) + (stored or 0.0)) <= EXCESS * self.m.bytes

    @cached_property
    def unneeded_operands(self) -> bool:
        """Whether DRAM reads exceed the needed bytes only because of the layout of the operands.

        Parts of the operands are not needed if the compulsory bytes, which include the output, do
        not exceed their size. If DRAM reads do not exceed this size, each sector is read about
        once, so no cache can reduce the traffic.
        """
        operands = operand_bytes(self.m.problem)
        if len(self.kernels) != 1 or not 0 < self.m.bytes <= operands:
            return False
        read = self.kernels[0].get("dram_read_bytes")
        return read is not None and read <= EXCESS * operands

    @cached_property
    def dram_with_layout(self) -> float | None:
        """The share of the measured DRAM bandwidth, if only another data layout reduces the bytes.

        It is None if the kernel requests unneeded bytes, which it can avoid with any layout.
        """
        exact = self.unneeded_operands and self.requests_once
        return self.kernels[0].of_dram if exact else None

    @cached_property
    def fits_in_cache(self) -> bool:
        """Whether the compulsory bytes fit in the last-level cache; true if the size is unknown."""
        size = number_in(self.m.context, "last_level_cache_bytes")
        return size is None or self.m.bytes <= size

    @cached_property
    def compulsory(self) -> tuple[float, str] | None:
        """The minimum share of the time for the compulsory bytes, and the ceiling used.

        Data that fit into the last-level cache may cause no DRAM transfers during a call. On a GPU,
        they still pass through L2, which reads and writes at the same time. On a CPU, the fastest
        cache is then the ceiling.
        """
        if self.machine is None or not self.m.bytes:
            return None
        if self.fits_in_cache and (l2 := ceiling_named(self.machine, "L2 read")):
            rate, name = 2 * l2, "L2"
            if self.m.device == "cpu":
                fastest = max(self.machine.of_kind("bandwidth"), key=lambda c: c.measured)
                rate, name = fastest.measured, fastest.level
        else:
            written = [k.written for k in self.kernels] if len(self.kernels) == 1 else []
            rate, name = highest_of_dram(self.machine, *written), "DRAM"
        return (self.m.bytes / rate / self.m.seconds, name) if rate else None

    @cached_property
    def useful_arithmetic(self) -> float | None:
        """The minimum share of the time for the useful FLOPs, at the measured peak."""
        return self.m.flops / self._peak / self.m.seconds if self._peak else None

    @cached_property
    def excess_arithmetic(self) -> float:
        """The share of the time for FLOPs beyond the useful ones, at the peak of the variant's mix.

        Own kernels declare only their useful FLOPs; counters give the executed FLOPs. The share is
        0 if the mix of FMAs and other instructions is unknown.
        """
        m, mix = self.m, self.m.fma_share
        if mix is None and m.profile:
            mix = m.profile.get("fma_share")
        if not self._peak or not m.flops or mix is None:
            return 0.0
        excess = max(m.executed_flops, m.counted_flops or 0.0) - m.flops
        return max(excess, 0.0) / self._peak / m.seconds / mix_limit(mix)

    @cached_property
    def _peak(self) -> float | None:
        """The measured peak in FLOP per second, for the precision of the problem."""
        precision = self.m.problem.precision
        return self.machine.peak(precision) if self.machine and precision else None


def operand_bytes(problem: Inputs) -> int:
    """Bytes of all operands; 0 if an element type is unknown."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for former names of types
            sizes = [np.dtype(operand.dtype).itemsize for operand in problem.operands]
    except (TypeError, ValueError, SyntaxError):  # a type that NumPy does not have
        return 0
    shapes = [operand.shape for operand in problem.operands]
    return sum(math.prod(shape) * size for shape, size in zip(shapes, sizes, strict=True))


def at(name: str, share: float, threshold: float | None, provenance: Provenance) -> Evidence:
    """Make the evidence of a unit's share of its maximum."""
    return Evidence(f"{name} at {percent(share)} of peak", share, threshold, provenance)
