"""Problems on a GPU in the process of a candidate: kernels under a trusted runner, and functions.

`child.py` imports it. A kernel in CUDA C++ source runs no code of its author on the host, so the
times of the runner are trusted. A function runs in this process, so its times are claims.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.isolation.child import FunctionOnHost, HostBlock
from adokernels.kernels.launch import LaunchPlan
from adokernels.model.checker import computes_early
from adokernels.model.compiler import CompilationError, UnknownKernel, compiled
from adokernels.model.libraries import DeviceView, as_library, result_on_host, share_memory
from adokernels.model.own_variant import call_emulated
from adokernels.process import ALL_CHECKS, settings

_THREADS, _MOST_BLOCKS = 256, 1 << 16
#: Launches with which the overhead of a single launch is measured.
_EMPTY_LAUNCHES = 64


def _layouts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [each for each in (*message["operands"], *message["results"]) if isinstance(each, dict)]


class _Block(HostBlock):
    """The memory of an array with red zones: on the host, and twice on the device.

    The second copy on the device has the values from which samples are made.
    """

    def __init__(self, layout: dict[str, Any]) -> None:
        super().__init__(layout)
        self.device, self.base = (_core.to_device(self.pages) for _ in range(2))
        self.nbytes = self.array.nbytes
        #: The array that functions use.
        self.memory = DeviceView(self.device, self.at, self.shape, self.dtype)

    def address(self, memory: _core.DeviceArray | None = None) -> int:
        """The address of the first element, by default of the array that functions use."""
        memory = memory or self.device
        return int(memory.__cuda_array_interface__["data"][0] + self.at)

    def upload(self, *, as_base: bool = False) -> None:
        """Copy the block to the device; with `as_base`, also to the base values."""
        for memory in (self.device, self.base)[: 1 + as_base]:
            memory.copy_from(self.pages)

    def download(self) -> None:
        """Copy the block to the host."""
        self.pages[...] = self.device.numpy()

    def renewal(
        self,
        kernel: _core.CudaKernel,
        unit: np.dtype[Any],
        source: _core.DeviceArray,
        distance: int,
        number: float,
    ) -> _core.KernelLaunch:
        """A launch that writes renewed values of the source; see :class:`Renewal`."""
        per_element = self.dtype.itemsize // unit.itemsize
        n = self.array.size * per_element
        numbers = (self.address(source), self.address(), n, distance * per_element)
        arguments = [*(np.int64(each).tobytes() for each in numbers), unit.type(number).tobytes()]
        blocks = min(max(-(-n // _THREADS), 1), _MOST_BLOCKS)
        return kernel.launch((blocks, 1, 1), (_THREADS, 1, 1), 0, arguments)


class Compilation:
    """Compiles a kernel. The fields of the result, or the error, are stored as JSON."""

    def __init__(self, _: object, message: Mapping[str, Any]) -> None:
        facts: dict[str, Any]
        try:
            found = compiled(*message["request"])
            facts = asdict(found) | {"code": base64.b64encode(found.code).decode()}
        except CompilationError as error:
            unknown = isinstance(error, UnknownKernel)
            facts = {"error": str(error), "log": error.log, "unknown": unknown}
        #: The memory that the parent reads.
        self.blocks = [np.frombuffer(json.dumps(facts).encode(), np.uint8)]


class _Kernel:
    """The memory of one problem, and the plan of the parent for the launches of kernels."""

    def __init__(self, message: Mapping[str, Any], blocks: Sequence[HostBlock]) -> None:
        #: The host memory that the parent reads and writes.
        self.blocks = [block.host for block in blocks]
        self._sizes = [block.array.nbytes for block in blocks]
        self._plans: list[LaunchPlan] = message["plans"]
        self._modules: dict[bytes, _core.CudaModule] = {}

    def _launches(
        self, addresses: Sequence[int], device: str | None = None
    ) -> list[_core.KernelLaunch]:
        """The launches; kernels with the same code are in one module and share its variables."""
        for plan in self._plans:
            if plan.code not in self._modules:
                self._modules[plan.code] = _core.CudaModule(plan.code, device)
        kernels = (self._modules[plan.code].kernel(plan.symbol) for plan in self._plans)
        pairs = zip(self._plans, kernels, strict=True)
        return [plan.launch(kernel, addresses, self._sizes) for plan, kernel in pairs]

    def ready(self, *, warm: bool) -> None:
        """Do nothing: each launch has a trusted preparation."""


class KernelOnDevice(_Kernel):
    """A kernel on a GPU."""

    def __init__(self, _: object, message: Mapping[str, Any]) -> None:
        _core.set_device(message["device"])
        self._blocks = [_Block(layout) for layout in _layouts(message)]
        super().__init__(message, self._blocks)
        renew = [_core.CudaModule(code).kernel(symbol) for code, symbol in message["renew"]]
        #: Each block with the kernel that renews it, and the type of its elements for this kernel.
        self._renewed = list(zip(self._blocks, renew, message["units"], strict=True))
        self._prepared = self._launches([block.address() for block in self._blocks])
        self._overhead = self._measured_overhead(renew[0], message["units"][0])

    def _measured_overhead(self, kernel: _core.CudaKernel, unit: np.dtype[Any]) -> float:
        """The extra seconds of a single launch, compared with one of many, for an empty kernel.

        It is a mean of many samples, because events have a resolution of half a microsecond.
        """
        arguments = [bytes(8)] * 4 + [unit.type(0).tobytes()]
        empty = kernel.launch((1, 1, 1), (1, 1, 1), 0, arguments)

        def mean(samples: int, launches: int) -> float:
            how = ("cuda", False, launches, 0)
            return float(
                np.mean([_core.sample(lambda: empty.run(0), *how)[0] for _ in range(samples)])
            )

        mean(1, 1)
        single, many = mean(_EMPTY_LAUNCHES, 1), mean(4, _EMPTY_LAUNCHES)
        return max(single - many, 0.0) * _EMPTY_LAUNCHES / (_EMPTY_LAUNCHES - 1)

    def _run(self) -> None:
        for launch in self._prepared:
            launch.run(0)

    def call(self) -> dict[str, Any]:
        """Launch the kernels once on the blocks of the host."""
        for block in self._blocks:
            block.upload()
        self._run()
        self._fetched = False
        self.fetch()
        return {"claim": 0, "arrays": None}

    def fetch(self) -> None:
        """Copy the memory of the last launch to the host, unless an earlier launch was copied."""
        _core.synchronize()
        for block in [] if self._fetched else self._blocks:
            block.download()
        self._fetched = True

    def sample(
        self, changes: Sequence[Sequence[tuple[int, float]]], cold: bool, keep: int, base: bool
    ) -> dict[str, Any]:
        """Time a launch per element of `changes`; `keep` is the launch that can be fetched.

        `base` states whether the memory on the host has new base values. A warm launch finds its
        operands and results in L2, if they fit.
        """
        if base:
            for block in self._blocks:
                block.upload(as_base=True)
        samples, self._fetched = [], False
        for place, change in enumerate(changes):
            for (block, kernel, unit), numbers in zip(self._renewed, change, strict=True):
                block.renewal(kernel, unit, block.base, *numbers).run(0)
            for block, kernel, unit in [] if cold else self._renewed:  # brings them into L2
                block.renewal(kernel, unit, block.device, 0, unit.kind == "f").run(0)
            samples.append(_core.sample(self._run, "cuda", cold, 1, 0))
            if place == keep < len(changes) - 1:
                self.fetch()
        seconds, hertz, blocked, waited = zip(*samples, strict=True)
        return {
            "seconds": sum(seconds) / len(seconds),
            "overhead": self._overhead,
            "hertz": float(np.mean(hertz)) if all(hertz) else 0.0,
            "blocked": all(blocked),
            "waited": max(waited),
        }


class KernelOnEmulator(_Kernel):
    """A kernel with all checks of the emulator."""

    def __init__(self, _: object, message: Mapping[str, Any]) -> None:
        self._blocks = [HostBlock(layout) for layout in _layouts(message)]
        super().__init__(message, self._blocks)
        settings.emulated_gpu, checks = message["emulator"]
        settings.emulator_checks = {*ALL_CHECKS, *checks}
        #: Why the emulator refuses a kernel; empty if it does not.
        self.refusal = ""
        try:
            for launch in self._launches([0] * len(self._blocks), "emulator"):
                launch.info()
        except _core.Unavailable as error:
            self.refusal = str(error)

    def call(self) -> dict[str, Any]:
        """Execute the kernels once on the blocks of the host."""
        copies = [_core.to_device(b.array, "emulator") for b in self._blocks]
        addresses = list(map(_core.emulated_address, copies, self._plans[0].names))
        for launch in self._launches(addresses):
            launch.run(0)
        for block, copied in zip(self._blocks, copies, strict=True):
            block.array[...] = copied.numpy()
        return {"claim": 0, "arrays": None}


class FunctionOnEmulator(FunctionOnHost):
    """The memory of one problem, and the call of a function whose kernels run on the emulator."""

    def __init__(self, function: Callable[..., Any] | None, message: dict[str, Any]) -> None:
        settings.emulated_gpu, checks = message["emulator"]
        settings.emulator_checks = {*ALL_CHECKS, *checks}
        super().__init__(function, message | {"library": "numpy"})
        self._arrays = message["library"]

    def _run(self) -> None:
        if self._function:
            self._returned = call_emulated(self._function, self._arrays, self._args, self._options)

    def _on_host(self, array: Any) -> Any:
        return np.asarray(result_on_host(array), order="C")

    def call(self, **how: Any) -> dict[str, Any]:
        """Call the function once; the answer says why the emulator refuses a kernel."""
        try:
            return super().call(**how)
        except _core.Unavailable as error:
            return {"claim": 0, "arrays": None, "refusal": str(error)}


class FunctionOnDevice(FunctionOnHost):
    """The memory of one problem, and the call of a function for arrays of a library."""

    def __init__(self, function: Callable[..., Any] | None, message: dict[str, Any]) -> None:
        _core.set_device(message["device"])
        self._blocks: list[_Block] = []
        #: Whether the function has waited for the timed stream, which is blocked for up to 0.25 s.
        self._waits = False
        super().__init__(function, message)
        self._operands = self._blocks[: len(self._blocks) - len(message["results"])]

    def _array(self, layout: dict[str, Any]) -> Any:
        block = _Block(layout)
        self._blocks.append(block)
        self.blocks.append(block.host)
        return as_library(block.memory, self._library)

    def _pack(self) -> None:
        if self._function:
            super()._pack()

    def _on_host(self, array: Any) -> Any:
        return np.asarray(result_on_host(array), order="C")

    def _is_view(self, array: Any) -> bool:
        return any(share_memory(array, block.memory) for block in self._operands)

    def _touch(self) -> None:
        """Do nothing: each call copies the operands to the device."""

    def _upload(self) -> None:
        for block in self._blocks:
            block.upload()
        _core.synchronize()

    def _timed(self, repeats: int, *, cold: bool = False, **_: Any) -> float:
        """Call the function on the blocks of the host; its time is between two events.

        If the function waits for the stream, the clock of the host times further calls.
        """
        self._returned = self._kept = None
        self._upload()
        if self._waits:
            _core.sample(lambda: None, "cuda", cold, 1, 0)  # overwrites the caches
            seconds = _core.sample(self._run_and_wait, "cpu", False, repeats, 0)[0]
        else:
            seconds, _clock, blocked, _waited = _core.sample(self._run, "cuda", cold, repeats, 0)
            self._waits = not blocked
        for block in self._blocks:
            block.download()
        self._pack()
        return seconds

    def _run_and_wait(self) -> None:
        self._run()
        _core.synchronize()

    def elsewhere(self) -> dict[str, Any]:
        """Whether the function computes its results while the timed stream is blocked."""
        self._upload()

        def run() -> Any:
            self._run()
            return None if "out" in self._options else self._returned

        return {"elsewhere": computes_early(run, self._blocks[len(self._operands) :])}
