"""Launches that were captured on a GPU: their kernel, arguments and memory; stored and repeated."""

from __future__ import annotations

import io
import json
import linecache
import os
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adokernels import _core, later
from adokernels.kernels.emulated import emulated, is_emulated
from adokernels.kernels.launch import emulated_kernel, on_emulator
from adokernels.storage import replace_file
from adokernels.text import require

if TYPE_CHECKING:  # the module imports all records, which calls do not need
    from adokernels.records.loading import Record

_KIND, _VERSION = "captured launch", 1
_WORD = 8  # the bytes of an address
_WHEN = ("before", "after")


class Allocation(NamedTuple):
    """Memory to which arguments point; without contents if they were not captured."""

    address: int
    before: bytes | None
    after: bytes | None


class Pointer(NamedTuple):
    """A word of an argument that is an address."""

    argument: int
    at: int  # the position in the argument
    allocation: int
    offset: int


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CapturedLaunch:
    """A launch of a kernel that ``ado.capture`` observed. A call launches the kernel again.

    A call without arguments uses copies of the captured memory. The arguments of a call are one
    array of bytes per allocation, as in :attr:`operands`; the kernel reads and writes these arrays.
    A GPU runs the machine code, and ``ado.emulated()`` runs the PTX. Addresses in the arguments of
    the kernel are replaced, also within structures. Addresses in memory are not replaced: see
    :attr:`limits`.

    Attributes
    ----------
    symbol, grid, block, shared_bytes, arguments
        The launch: the mangled name of the kernel, its shape, and the bytes of each parameter.
    allocations
        The memory to which arguments point, with the contents before and after the launch.
    cubin, ptx, arch
        The machine code, for the architecture `arch`, and the PTX; each is empty if unknown.
    seconds
        The time between the events before and after the launch.
    lacks
        Why the launch cannot be repeated; empty if it can.
    sources
        The text of each source file that the PTX names, if it could be read.
    device
        The name of the GPU.
    """

    symbol: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int = 0
    arguments: tuple[bytes, ...] = ()
    allocations: tuple[Allocation, ...] = field(default=())
    cubin: bytes = b""
    ptx: str = ""
    arch: str = ""
    seconds: float = 0.0
    lacks: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    device: str = ""

    def __repr__(self) -> str:
        return f"<launch of {self.name}, grid {self.grid}, block {self.block}>"

    @property
    def name(self) -> str:
        """The kernel's name with its template arguments."""
        return _core.kernel_name(self.symbol)

    @property
    def operands(self) -> list[NDArray[np.uint8]]:
        """Copies of the memory before the launch, as arrays of bytes."""
        self._require(self.lacks)
        return [np.frombuffer(a.before or b"", np.uint8).copy() for a in self.allocations]

    @property
    def expected(self) -> list[NDArray[np.uint8]]:
        """The memory after the launch on the GPU, as arrays of bytes."""
        self._require(self.lacks)
        return [np.frombuffer(a.after or b"", np.uint8) for a in self.allocations]

    @cached_property
    def changed(self) -> tuple[int, ...]:
        """The numbers of the allocations whose contents the launch changed."""
        return tuple(i for i, a in enumerate(self.allocations) if a.before != a.after)

    @cached_property
    def pointers(self) -> tuple[Pointer, ...]:
        """The addresses in the arguments."""
        ends = [(a.address, a.address + len(a.before or b"")) for a in self.allocations]
        return tuple(
            Pointer(number, _WORD * at, i, int(word) - low)
            for number, argument in enumerate(self.arguments)
            for at, word in enumerate(_words_of(argument))
            for i, (low, high) in enumerate(ends)
            if low <= word < high
        )

    @cached_property
    def limits(self) -> tuple[str, ...]:
        """Possible differences of a repeated launch, or why it is impossible."""
        found = [self.lacks] * bool(self.lacks)
        high = np.array([a.address >> 32 for a in self.allocations], np.uint64)
        for i, allocation in enumerate(self.allocations):
            words = _words_of(allocation.before or b"")
            if np.isin(words >> np.uint64(32), high).any():
                found.append(f"allocation {i} may contain addresses, which are not replaced")
        if not self.lacks and not self.changed:
            found.append("it did not change its memory, so its result cannot be checked")
        if not self.cubin:
            found.append("there is no machine code, so it runs only on the emulator")
        if not self.ptx:
            found.append("there is no PTX, so it runs only on GPUs")
        return tuple(found)

    def _require(self, reason: str) -> None:
        if reason:
            raise _core.Unavailable(f"{self.name} cannot be launched again: {reason}")

    def __call__(self, *arrays: NDArray[np.uint8]) -> None:
        """Launch the kernel on one array of bytes per allocation; default: copies of the memory."""
        self._require(self.lacks)
        sizes = [len(a.before or b"") for a in self.allocations]
        if arrays and [array.nbytes for array in arrays] != sizes:
            raise ValueError(f"{self.name} must have arrays of {sizes} bytes")
        if is_emulated():
            self._emulate(arrays or self.operands)
        elif not arrays:
            self._on_gpu[0].run(0)
        else:
            launch, copies = self.prepare(arrays)
            launch.run(0)
            for array, copy in zip(arrays, copies, strict=True):
                array[...] = copy.numpy()

    @cached_property
    def _on_gpu(self) -> tuple[_core.KernelLaunch, list[_core.DeviceArray]]:
        return self.prepare()

    def prepare(
        self, arrays: Sequence[NDArray[np.uint8]] = ()
    ) -> tuple[_core.KernelLaunch, list[_core.DeviceArray]]:
        """Load the kernel and copy the arrays to the GPU, as :meth:`Launch.prepare`."""
        if reason := _core.why_no_cuda():
            raise _core.Unavailable(f"{self.name}: {reason}; remedy: device='emulator'")
        if not self.cubin:
            self._require("its machine code was loaded before ado.capture")
        compute, captured = int(_core.cuda_properties()["compute"]), int(self.arch[3:])
        if compute // 10 != captured // 10 or compute < captured:
            self._require(f"its machine code is for {self.arch}, and this GPU is sm_{compute}")
        copies = [_core.to_device(array) for array in arrays or self.operands]
        addresses = [copy.__cuda_array_interface__["data"][0] for copy in copies]
        kernel = _core.CudaModule(self.cubin).kernel(self.symbol)
        return self._launch(kernel, addresses), copies

    def _emulate(self, arrays: Sequence[NDArray[np.uint8]]) -> None:
        if not self.ptx:
            self._require("its PTX is unknown, and the emulator executes PTX")
        for path, text in self.sources.items():  # source lines from another machine
            if not linecache.getlines(path):
                lines = text.splitlines(keepends=True)
                linecache.cache[path] = (len(text), None, lines, path)
        kernel = emulated_kernel(self.ptx.encode(), self.symbol)
        names = [f"allocation {i}" for i in range(len(arrays))]
        with on_emulator(arrays, names) as addresses:
            self._launch(kernel, addresses).run(0)

    def _launch(self, kernel: _core.CudaKernel, addresses: Sequence[int]) -> _core.KernelLaunch:
        values = list(map(bytearray, self.arguments))
        for number, at, i, offset in self.pointers:
            values[number][at : at + _WORD] = (addresses[i] + offset).to_bytes(_WORD, "little")
        return kernel.launch(self.grid, self.block, self.shared_bytes, list(map(bytes, values)))

    def result(self, *arrays: NDArray[Any]) -> Any:
        """Launch the kernel on copies of other contents; return the memory that it changes.

        The method can be the reference and the first variant of a ladder. The operands of the
        ladder are :attr:`operands`, or views of them with other types.

        Parameters
        ----------
        *arrays
            The contents of the allocations.

        Returns
        -------
        ndarray or tuple of ndarray
            The allocations in :attr:`changed`. Without a GPU, the emulator computes them.
        """
        copies = [np.array(array) for array in arrays]
        with nullcontext() if is_emulated() or not _core.why_no_cuda() else emulated():
            self(*(copy.reshape(-1).view(np.uint8) for copy in copies))
        found = tuple(copies[i] for i in self.changed)
        return found[0] if len(found) == 1 else found

    def difference(self) -> str:
        """Launch the kernel again, and compare its memory with the captured result.

        Returns
        -------
        str
            The first wrong byte and the number of wrong bytes; empty if no byte is wrong.

        Raises
        ------
        ValueError
            If the captured launch did not change its memory, so that a kernel that does nothing
            would pass.
        """
        if not self.changed:
            raise ValueError(f"{self.name} did not change its memory, so it cannot be compared")
        arrays = self.operands
        self(*arrays)
        for i, (array, expected) in enumerate(zip(arrays, self.expected, strict=True)):
            if (wrong := np.flatnonzero(array != expected)).size:
                return f"{wrong.size} bytes of allocation {i} differ, the first at {wrong[0]}"
        return ""

    def save(self, path: str | Path) -> None:
        """Write the launch with its code, memory and source files to a file for ``ado.load``."""
        stored = io.BytesIO()
        facts = {
            **{"kind": _KIND, "version": _VERSION, "grid": self.grid, "block": self.block},
            **{name: getattr(self, name) for name in _PLAIN},
            "arguments": [argument.hex() for argument in self.arguments],
            "allocations": [a.address for a in self.allocations],
        }
        with zipfile.ZipFile(stored, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            file.writestr("launch.json", json.dumps(facts))
            file.writestr("kernel.cubin", self.cubin)
            file.writestr("kernel.ptx", self.ptx)
            for i, allocation in enumerate(self.allocations):
                for when in _WHEN:
                    if (content := getattr(allocation, when)) is not None:
                        file.writestr(f"{i}.{when}", content)
        replace_file(path, stored.getvalue())


class Launches(Sequence[CapturedLaunch]):
    """The launches of a function in order, as ``ado.capture`` returns them.

    Attributes
    ----------
    graphs
        The number of launched CUDA graphs, whose kernels were not captured.
    """

    def __init__(self, launches: Sequence[CapturedLaunch], graphs: int = 0) -> None:
        self._launches, self.graphs = tuple(launches), graphs

    def __len__(self) -> int:
        return len(self._launches)

    def __getitem__(self, index: Any) -> Any:
        """The launch with this number, or the launches of a slice."""
        return self._launches[index]

    @property
    def hottest(self) -> CapturedLaunch:
        """The launch that took the longest time."""
        return max(self._launches, key=lambda launch: launch.seconds)

    def __repr__(self) -> str:
        rows = [f"{1e6 * each.seconds:9.1f} us  {each!r}" for each in self._launches]
        graphs = f"{self.graphs} launches of CUDA graphs, whose kernels were not captured"
        return "\n".join([*rows, *[graphs] * bool(self.graphs)])


_PLAIN = ("symbol", "shared_bytes", "arch", "seconds", "lacks", "sources", "device")


def _words_of(content: bytes) -> NDArray[np.uint64]:
    """The aligned words of an argument or of memory."""
    return np.frombuffer(content[: len(content) // _WORD * _WORD], np.uint64)


def load(path: str | Path) -> Record | CapturedLaunch:
    """Read a file that ``save`` of a record or of a captured launch wrote.

    A file whose name ends in ``.xz`` is decompressed.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is neither a record nor a captured launch of adokernels, has another schema, or
        if a field has a wrong value. The message contains the path of the file and of the field:
        ``"x.json: measurements[3].samples[0] must be a positive finite number, got 'a'"``. Also if
        a record has more than 128 MiB.
    """
    require((str, os.PathLike), "a path", path=path)
    return load_launch(path) if zipfile.is_zipfile(path) else later.load(path)


def load_launch(path: str | Path) -> CapturedLaunch:
    """Read a launch that :meth:`CapturedLaunch.save` wrote: data and kernels, but no Python."""
    try:
        with zipfile.ZipFile(path) as file:
            facts = json.loads(file.read("launch.json"))
            if (facts.get("kind"), facts.get("version")) != (_KIND, _VERSION):
                raise ValueError(f"its kind is {facts.get('kind')!r} {facts.get('version')}")
            names = set(file.namelist())
            found = [
                [file.read(n) if (n := f"{i}.{when}") in names else None for when in _WHEN]
                for i in range(len(facts["allocations"]))
            ]
            return CapturedLaunch(
                grid=tuple(facts["grid"]),
                block=tuple(facts["block"]),
                arguments=tuple(map(bytes.fromhex, facts["arguments"])),
                allocations=tuple(
                    Allocation(at, *pair)
                    for at, pair in zip(facts["allocations"], found, strict=True)
                ),
                cubin=file.read("kernel.cubin"),
                ptx=file.read("kernel.ptx").decode(),
                **{name: facts[name] for name in _PLAIN},
            )
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a captured launch: {error}") from error
