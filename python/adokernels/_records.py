"""What was measured: plain values that know how to be stored, loaded and shown.

Seconds, bytes, FLOPs and hertz everywhere; they are converted only for print. Nothing in this
module needs the extension module or a GPU, so a chart can be redrawn from a file anywhere.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from adokernels import _stats
from adokernels._stats import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd
    from numpy.typing import NDArray
    from rich.console import Group
    from rich.table import Table

#: Version of the JSON layout. A reader refuses a file of another major version.
SCHEMA = 1

Cache = Literal["cold", "warm"]
Context = dict[str, Any]


class _Tabular:
    """What is shown as tables: in a terminal, by rich, in Jupyter."""

    def _shown(self) -> list[Table]:
        raise NotImplementedError

    def __repr__(self) -> str:
        from adokernels import _tables

        return "\n".join(map(_tables.to_text, self._shown()))

    def __rich__(self) -> Group:
        from rich.console import Group

        return Group(*self._shown())

    def _repr_html_(self) -> str:
        from adokernels import _tables

        return "\n".join(map(_tables.to_html, self._shown()))


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """What a compiled kernel takes of a multiprocessor, launched with one block shape.

    Attributes
    ----------
    name
        Of the kernel, with its template arguments.
    grid, block
        What it is launched with.
    registers
        Of a thread.
    local_bytes
        Local memory of a thread: spilled registers, and arrays indexed at run time.
    static_shared_bytes, dynamic_shared_bytes
        Shared memory of a block: known to the compiler, and asked for at the launch.
    warps, most_warps
        That a multiprocessor holds of this kernel, and that it could hold of any.
    limits
        How many blocks a multiprocessor would hold if one thing alone were limited: ``"warps"``,
        ``"registers"``, ``"shared memory"``, or the number of ``"blocks"`` itself.
    """

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    registers: int
    local_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    warps: int
    most_warps: int
    limits: Mapping[str, int]

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, of both kinds."""
        return self.static_shared_bytes + self.dynamic_shared_bytes

    @property
    def occupancy(self) -> float:
        """Theoretical occupancy: the share of the warps that a multiprocessor could hold."""
        return self.warps / self.most_warps

    @property
    def limiter(self) -> str:
        """What keeps more blocks away; of equals the first in the order of ``limits``."""
        return min(self.limits, key=lambda name: self.limits[name])

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of :func:`dataclasses.asdict`."""
        tuples = {name: tuple(record[name]) for name in ("grid", "block")}
        return cls(**{**record, **tuples, "limits": dict(record["limits"])})


@dataclass(frozen=True, kw_only=True, repr=False)
class Resources(_Tabular):
    """The kernels that a variant launches, and what they take; a sequence of :class:`Kernel`.

    The properties sum it up by the kernel that is worst off.
    """

    routine: str
    variant: str
    kernels: tuple[Kernel, ...]

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def __getitem__(self, index: int) -> Kernel:
        return self.kernels[index]

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return max((k.registers for k in self.kernels), default=0)

    @property
    def local_bytes(self) -> int:
        """Local memory of a thread: spilled registers, and arrays indexed at run time."""
        return max((k.local_bytes for k in self.kernels), default=0)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return max((k.shared_bytes for k in self.kernels), default=0)

    @property
    def occupancy(self) -> float:
        """Theoretical occupancy."""
        return min((k.occupancy for k in self.kernels), default=0.0)

    @property
    def limiter(self) -> str:
        """What limits the occupancy; empty without kernels."""
        return min(self.kernels, key=lambda k: k.occupancy).limiter if self.kernels else ""

    def _shown(self) -> list[Table]:
        from adokernels import _tables

        return [_tables.resource_table([self])]


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """Times of one variant on one problem.

    Attributes
    ----------
    routine, variant, changes, device, ceiling
        The row that was measured; for a callable, its name.
    stages
        Of a pipeline: the routines that it runs in turn, and by which variants.
    problem
        The operands, for people: ``"a: (8192, 8192) float32"``.
    cache
        ``"cold"``: the caches were emptied of the operands before each sample. ``"warm"``: calls
        ran back to back. Two different numbers.
    samples
        Seconds of one call, one number a sample, in the order taken.
    clocks
        Mean SM clock during each sample, in Hz; empty where unknown.
    session
        Measurements with the same session were taken interleaved: their samples pair up by round.
    calls_per_sample
        How many calls one sample is the mean of.
    flops, bytes
        Useful FLOPs and compulsory bytes of the problem, the same for every variant.
    executed_flops, requested_bytes
        What this variant executes and asks of memory, from the expressions in its row.
    executed_instructions
        The floating-point instructions that do those FLOPs, an FMA being one; 0 if not counted.
    measured_flops, measured_bytes
        From hardware counters: FLOPs, and bytes by memory level. Empty without counters.
    kernels
        What was launched and what it took of a multiprocessor; empty on the CPU.
    error
        Largest difference from the oracle found before timing, in the unit of the oracle; None if
        there was no oracle.
    stopped
        Why sampling ended: ``"converged"``, ``"time"`` or ``"count"``.
    flags
        What to know before trusting it: ``"throttled"``, ``"launch overhead included"``.
    context
        Machine, software and settings.
    """

    routine: str
    variant: str
    device: str
    problem: str
    cache: Cache
    samples: NDArray[np.float64]
    flops: float
    bytes: float
    executed_flops: float
    requested_bytes: float
    executed_instructions: float = 0.0
    changes: str = ""
    ceiling: bool = False
    stages: tuple[tuple[str, str], ...] = ()
    clocks: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    session: str = ""
    calls_per_sample: int = 1
    measured_flops: float | None = None
    measured_bytes: Mapping[str, float] = field(default_factory=dict)
    block: tuple[int, ...] | None = None
    grid: tuple[int, ...] | None = None
    kernels: tuple[Kernel, ...] = ()
    error: float | None = None
    stopped: str = ""
    flags: tuple[str, ...] = ()
    context: Context = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Median time of one call."""
        return float(np.median(self.samples))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the median, in seconds."""
        return _stats.median_interval(self.samples)

    @property
    def noise(self) -> float:
        """Half the width of that interval, relative to the median."""
        low, high = self.interval
        return (high - low) / 2 / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Compulsory bytes over time: comparable between variants."""
        return self.bytes / self.seconds

    @property
    def flops_per_second(self) -> float:
        """Executed FLOPs over time."""
        return self.executed_flops / self.seconds

    @property
    def intensity(self) -> float:
        """Executed FLOPs over requested bytes: where the variant stands on the roofline."""
        return self.executed_flops / self.requested_bytes if self.requested_bytes else np.inf

    @property
    def fma_share(self) -> float | None:
        """The share of FMAs among the floating-point instructions, None where they are not counted.

        With a share `a` no code exceeds (1 + a) / 2 of the FMA peak of a GPU, where one pipe does
        all of them.
        """
        if not self.executed_instructions:
            return None
        return self.executed_flops / self.executed_instructions - 1

    @property
    def clock(self) -> float | None:
        """Median SM clock in Hz, if known."""
        return float(np.median(self.clocks)) if len(self.clocks) else None

    @property
    def resources(self) -> Resources:
        """What its kernels took of a multiprocessor."""
        return Resources(routine=self.routine, variant=self.variant, kernels=self.kernels)

    def compare(self, other: Measurement) -> tuple[Verdict, float, tuple[float, float]]:
        """Whether this is faster than `other`: verdict, ratio of times, its 99.9 % interval.

        Raises
        ------
        ValueError
            If one is cold and the other warm, or their problems differ: then these are different
            quantities.
        """
        if self.cache != other.cache:
            raise ValueError(f"cannot compare a {self.cache} with a {other.cache} measurement")
        if self.problem != other.problem:
            raise ValueError(f"cannot compare {self.problem} with {other.problem}")
        paired = bool(self.session) and self.session == other.session
        return _stats.compare(self.samples, other.samples, paired=paired)

    def to_dict(self) -> dict[str, Any]:
        """The measurement as JSON types."""
        record = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        record["samples"] = [float(x) for x in self.samples]
        record["clocks"] = [float(x) for x in self.clocks]
        record["measured_bytes"] = dict(self.measured_bytes)
        record["kernels"] = [dataclasses.asdict(kernel) for kernel in self.kernels]
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`."""
        values = dict(record)
        samples = values["samples"] = np.asarray(values["samples"], dtype=float)
        if (
            samples.ndim != 1
            or not len(samples)
            or not (np.isfinite(samples) & (samples > 0)).all()
        ):
            raise ValueError("samples must be positive seconds, one or more")
        values["clocks"] = np.asarray(values["clocks"], dtype=float)
        for name in ("block", "grid"):
            values[name] = tuple(values[name]) if values[name] is not None else None
        for name in ("flops", "bytes", "executed_flops", "requested_bytes"):
            values[name] = float(values[name])
        for name in ("routine", "variant", "device", "problem", "cache"):
            if not isinstance(values[name], str):
                raise TypeError(f"{name} must be a string, not {values[name]!r}")
        values["flags"] = tuple(values["flags"])
        values["stages"] = tuple((str(r), str(v)) for r, v in values.get("stages", ()))
        values["kernels"] = tuple(map(Kernel.from_dict, values.get("kernels", ())))
        return cls(**values)

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file that :func:`adokernels.load` reads."""
        write(path, "measurement", self.to_dict())

    def __repr__(self) -> str:
        from adokernels import _tables

        return _tables.describe(self)


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """One limit of a machine.

    Attributes
    ----------
    kind
        ``"bandwidth"`` in bytes per second, or ``"compute"`` in FLOPs per second.
    level
        Where: ``"DRAM"``, ``"L3"``, ``"L2"``, ``"L1"``, or the precision, ``"FP64"``, ``"FP32"``.
    operation
        What was done: ``"copy"`` (read + write), ``"read"``, ``"write"``, ``"fma"``, ``"add"``.
    measured
        The best sample, per second: what nothing on this machine should beat.
    theoretical
        From queried properties at the stated clock; None where nothing can be queried.
    basis
        How the theoretical figure comes about.
    """

    kind: Literal["bandwidth", "compute"]
    level: str
    operation: str
    measured: float
    theoretical: float | None = None
    basis: str = ""

    @property
    def name(self) -> str:
        """For example ``"DRAM copy"``."""
        return f"{self.level} {self.operation}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Machine(_Tabular):
    """The measured and theoretical ceilings of one device, at the thread count used."""

    device: str
    name: str
    threads: int
    ceilings: tuple[Ceiling, ...]
    context: Context = field(default_factory=dict)

    def __getitem__(self, name: str) -> Ceiling:
        """The ceiling called, for example, ``"DRAM copy"`` or ``"FP64 fma"``."""
        for ceiling in self.ceilings:
            if ceiling.name == name:
                return ceiling
        raise KeyError(f"no ceiling {name!r}; there is {', '.join(c.name for c in self.ceilings)}")

    def of_kind(self, kind: Literal["bandwidth", "compute"]) -> tuple[Ceiling, ...]:
        """The ceilings of one kind, in the order measured (DRAM first, nearest cache last)."""
        return tuple(c for c in self.ceilings if c.kind == kind)

    @property
    def roof(self) -> float:
        """Measured DRAM copy bandwidth, the limit of anything that streams through memory."""
        return self["DRAM copy"].measured

    def to_dict(self) -> dict[str, Any]:
        """The machine as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`."""
        ceilings = tuple(Ceiling(**c) for c in record["ceilings"])
        return cls(**{**record, "ceilings": ceilings})

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file that :func:`adokernels.load` reads."""
        write(path, "machine", self.to_dict())

    def _shown(self) -> list[Table]:
        from adokernels import _tables

        return [_tables.machine_table(self)]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Sweep(_Tabular):
    """The rungs of one ladder, measured interleaved on one problem, in ladder order.

    Attributes
    ----------
    measurements
        One for each rung that ran, ceilings included.
    skipped
        The other rungs, with the reason: refused, unavailable, or a wrong result.
    machine
        The ceilings of the device.
    peers
        Other people's functions, timed in the same rounds.
    stages
        Of a ladder of pipelines: each kernel that a rung runs, timed by itself in the same rounds.
    """

    routine: str
    measurements: tuple[Measurement, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    machine: Machine | None = None
    peers: tuple[Measurement, ...] = ()
    stages: tuple[Measurement, ...] = ()

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self.measurements)

    def __len__(self) -> int:
        return len(self.measurements)

    def __getitem__(self, variant: str) -> Measurement:
        """Measurement of a variant or a peer, by its name."""
        everything = (*self.measurements, *self.peers)
        for measurement in everything:
            if measurement.variant == variant:
                return measurement
        names = ", ".join(m.variant for m in everything)
        raise KeyError(f"{variant!r} was not measured; there is {names}")

    @property
    def rungs(self) -> tuple[Measurement, ...]:
        """The measurements that are answers, without the ceilings."""
        return tuple(m for m in self.measurements if not m.ceiling)

    @property
    def fastest(self) -> Measurement:
        """The rung with the smallest median."""
        return min(self.rungs, key=lambda m: m.seconds)

    @property
    def roof(self) -> float | None:
        """Bytes per second that a rung's share is taken of.

        The fastest of the ladder's own ceiling rows, which moved the same bytes in the same
        rounds; without such a row, the machine's copy.
        """
        copies = [m.bytes_per_second for m in self.measurements if m.ceiling]
        if not copies and self.machine is not None:
            copies = [self.machine.roof]
        return max(copies, default=None)

    def stages_of(self, m: Measurement) -> tuple[Measurement, ...]:
        """The kernels that this rung runs, in turn; empty for one that runs only its own."""
        named = {(stage.routine, stage.variant): stage for stage in self.stages}
        return tuple(named[stage] for stage in m.stages if stage in named)

    def to_frame(self) -> pd.DataFrame:
        """The step table as a pandas frame, in SI units.

        Raises
        ------
        ImportError
            Without pandas, which is optional.
        """
        import pandas as pd

        from adokernels import _tables

        return pd.DataFrame(_tables.sweep_records(self)).set_index("variant")

    def to_dict(self) -> dict[str, Any]:
        """The sweep as JSON types."""
        return {
            "routine": self.routine,
            "measurements": [m.to_dict() for m in self.measurements],
            "skipped": dict(self.skipped),
            "machine": self.machine.to_dict() if self.machine else None,
            "peers": [m.to_dict() for m in self.peers],
            "stages": [m.to_dict() for m in self.stages],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`."""
        machine = record["machine"]
        return cls(
            routine=record["routine"],
            measurements=tuple(Measurement.from_dict(m) for m in record["measurements"]),
            skipped=dict(record["skipped"]),
            machine=Machine.from_dict(machine) if machine else None,
            peers=tuple(Measurement.from_dict(m) for m in record["peers"]),
            stages=tuple(Measurement.from_dict(m) for m in record.get("stages", ())),
        )

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file that :func:`adokernels.load` reads."""
        write(path, "sweep", self.to_dict())

    def _shown(self) -> list[Table]:
        from adokernels import _tables

        return _tables.sweep_tables(self)


_KINDS: dict[str, type[Measurement | Machine | Sweep]] = {
    "measurement": Measurement,
    "machine": Machine,
    "sweep": Sweep,
}


def write(path: str | Path, kind: str, record: Mapping[str, Any]) -> None:
    """Write one record with its kind and schema version."""
    document = {"schema": SCHEMA, "kind": kind, **record}
    Path(path).write_text(json.dumps(document) + "\n", encoding="utf-8")


def load(path: str | Path) -> Measurement | Machine | Sweep:
    """Read what :meth:`Sweep.save` and its kin wrote.

    Raises
    ------
    ValueError
        If the file is not one of ours or has another schema version.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no UTF-8, or no JSON
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or str(document.get("kind")) not in _KINDS:
        raise ValueError(f"{path} holds no adokernels record (kind: {', '.join(_KINDS)})")
    version = document.pop("schema", None)
    if version != SCHEMA:
        raise ValueError(f"{path} has schema {version}; this version reads schema {SCHEMA}")
    try:
        return _KINDS[document.pop("kind")].from_dict(document)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is damaged: {error!r}") from error
