"""Problems on a GPU in the process of a candidate: kernels under a trusted runner, and functions.

`candidate.py` imports it. No code of the author of a kernel in CUDA C++ source runs on the host, so
the times of the runner are trusted. A function runs here, so its times are claims.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core
from adokernels.model.checker import computes_early, result_on_host
from adokernels.model.libraries import DeviceView, as_library, share_memory
from adokernels.process import ALL_CHECKS, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


#: Alignment of device memory, which is also the alignment of the arrays in the parent.
_ALIGNMENT = 256
_THREADS, _MOST_BLOCKS = 256, 1 << 16


class _HostBlock:
    """The memory of an array with red zones on the host."""

    def __init__(self, layout: Mapping[str, Any]) -> None:
        shift = layout["address"] % _ALIGNMENT
        self._host = np.zeros(layout["bytes"] + _ALIGNMENT, np.uint8)
        self.host = self._host[shift : shift + layout["bytes"]]
        kind = layout["shape"], layout["dtype"]
        self.array: NDArray[Any] = np.ndarray(*kind, self.host, layout["offset"], layout["strides"])


class _Block(_HostBlock):
    """The memory of an array with red zones: on the host, and twice on the device.

    The second copy on the device has the values from which samples are made.
    """

    def __init__(self, layout: Mapping[str, Any]) -> None:
        super().__init__(layout)
        shift = layout["address"] % _ALIGNMENT
        self.device, self._base = (_core.to_device(self._host) for _ in range(2))
        self.dtype = np.dtype(layout["dtype"])
        self.count = int(np.prod(layout["shape"], dtype=np.int64))
        self._at = shift + layout["offset"]
        self.shape = tuple(layout["shape"])
        self.nbytes = self.count * self.dtype.itemsize
        #: The array that functions use.
        self.memory = DeviceView(self.device, self._at, self.shape, self.dtype)

    @property
    def address(self) -> int:
        """The address of the first element on the device."""
        return self._address(self.device)

    def _address(self, memory: _core.DeviceArray) -> int:
        return int(memory.__cuda_array_interface__["data"][0] + self._at)

    def upload(self, *, as_base: bool) -> None:
        """Copy the block to the device, and to the base values of samples."""
        self.device.copy_from(self._host)
        if as_base:
            self._base.copy_from(self._host)

    def download(self) -> None:
        """Copy the block to the host."""
        self._host[...] = self.device.numpy()

    def renewed(
        self, kernel: _core.CudaKernel, unit: np.dtype[Any], distance: int, number: float
    ) -> _core.KernelLaunch:
        """A launch that writes renewed base values to the block; see :class:`Renewal`."""
        per_element = self.dtype.itemsize // unit.itemsize
        n = self.count * per_element
        numbers = np.array([self._address(self._base), self.address, n, distance * per_element])
        arguments = [
            *(each.tobytes() for each in numbers.astype("<i8")),
            unit.type(number).tobytes(),
        ]
        blocks = min(max(-(-n // _THREADS), 1), _MOST_BLOCKS)
        return kernel.launch((blocks, 1, 1), (_THREADS, 1, 1), 0, arguments)


class KernelOnDevice:
    """The memory of one problem, and the launch of the kernel on it."""

    def __init__(self, _: object, message: Mapping[str, Any]) -> None:
        _core.set_device(message["device"])
        layouts = [*message["operands"], *message["results"]]
        self._blocks = [_Block(layout) for layout in layouts if isinstance(layout, dict)]
        #: The host memory that the parent reads and writes.
        self.blocks = [block.host for block in self._blocks]
        with Path(message["plan"]).open("rb") as file:
            plan = pickle.load(file)  # of the parent
        self._modules = [_core.CudaModule(code) for code, _ in (plan["kernel"], *plan["renew"])]
        kernel, *self._renew = (
            module.kernel(symbol)
            for module, (_, symbol) in zip(
                self._modules, (plan["kernel"], *plan["renew"]), strict=True
            )
        )
        self._units: Sequence[np.dtype[Any]] = plan["units"]
        arguments = [
            a if isinstance(a, bytes) else np.uint64(self._blocks[a].address).tobytes()
            for a in plan["arguments"]
        ]
        self._launch = kernel.launch(plan["grid"], plan["block"], plan["shared_bytes"], arguments)

    def _run(self) -> None:
        self._launch.run(0)

    def call(self) -> dict[str, Any]:
        """Launch the kernel once on the blocks of the host."""
        for block in self._blocks:
            block.upload(as_base=False)
        self._run()
        self._download()
        return {"claim": 0, "results": None}

    def _download(self) -> None:
        _core.synchronize()
        for block in self._blocks:
            block.download()

    def sample(
        self, changes: Sequence[Sequence[tuple[int, float]]], cold: bool, keep: int, base: bool
    ) -> dict[str, Any]:
        """Time a launch per element of `changes`; `keep` is the one whose memory is copied.

        `base` states whether the memory on the host has new base values.
        """
        if base:
            for block in self._blocks:
                block.upload(as_base=True)
        samples = []
        for place, change in enumerate(changes):
            renewals = zip(self._blocks, self._renew, self._units, change, strict=True)
            for block, kernel, unit, (distance, number) in renewals:
                block.renewed(kernel, unit, distance, number).run(0)
            samples.append(_core.sample(self._run, "cuda", cold, 1, 0))
            if place == keep:
                self._download()
        seconds, hertz, blocked, waited = zip(*samples, strict=True)
        return {
            "seconds": sum(seconds) / len(seconds),
            "hertz": float(np.mean(hertz)) if all(hertz) else 0.0,
            "blocked": all(blocked),
            "waited": max(waited),
        }


class KernelOnEmulator:
    """The memory of one problem, and the kernel with all checks of the emulator."""

    def __init__(self, _: object, message: Mapping[str, Any]) -> None:
        settings.emulator_checks = ALL_CHECKS
        layouts = [*message["operands"], *message["results"]]
        self._blocks = [_HostBlock(layout) for layout in layouts if isinstance(layout, dict)]
        self.blocks = [block.host for block in self._blocks]
        with Path(message["plan"]).open("rb") as file:
            self._plan = pickle.load(file)  # of the parent
        settings.emulated_gpu = self._plan["emulated_gpu"]
        code, symbol = self._plan["kernel"]
        self._kernel = _core.CudaModule(code, "emulator").kernel(symbol)

    def call(self) -> dict[str, Any]:
        """Execute the kernel once on the blocks of the host."""
        plan, copies = self._plan, [_core.to_device(b.array, "emulator") for b in self._blocks]

        def argument(value: int | bytes) -> bytes:
            if isinstance(value, bytes):
                return value
            address = _core.emulated_address(copies[value], f"array {value + 1}")
            return np.uintp(address).tobytes()

        arguments = list(map(argument, plan["arguments"]))
        self._kernel.launch(plan["grid"], plan["block"], plan["shared_bytes"], arguments).run(0)
        for block, copied in zip(self._blocks, copies, strict=True):
            block.array[...] = copied.numpy()
        return {"claim": 0, "results": None}


class FunctionOnDevice:
    """The memory of one problem, and the call of a function for arrays of a library."""

    def __init__(self, function: Callable[..., Any], message: Mapping[str, Any]) -> None:
        _core.set_device(message["device"])
        self._function, self._library = function, message["library"]
        self._blocks: list[_Block] = []
        self._args = list(map(self._operand, message["operands"]))
        self._operands = list(self._blocks)
        out = tuple(map(self._operand, message["results"]))
        self._outputs = self._blocks[len(self._operands) :]
        self._options = dict(message["options"])
        if message["out"]:
            self._options["out"] = out if len(out) > 1 else out[0]
        self.blocks = [block.host for block in self._blocks]
        self._returned: Any = None
        self._kept: Any = None

    def _operand(self, layout: Any) -> Any:
        if not isinstance(layout, dict):
            return layout
        self._blocks.append(_Block(layout))
        return as_library(self._blocks[-1].memory, self._library)

    def _run(self) -> None:
        self._returned = self._function(*self._args, **self._options)
        if hasattr(self._returned, "block_until_ready"):
            self._returned.block_until_ready()

    @property
    def _result(self) -> Any:
        """What the function has returned; None if it writes to `out`, or if nothing was loaded."""
        nothing = getattr(sys.modules["__main__"], "nothing", None)
        writes = "out" in self._options or self._function is nothing
        return None if writes else self._returned

    def call(self, *, cold: bool = False) -> dict[str, Any]:
        """Call the function on the blocks of the host; its time is between two events."""
        self._upload()
        seconds = _core.sample(self._run, "cuda", cold, 1, 0)[0]
        for block in self._blocks:
            block.download()
        if self._result is None:
            return {"claim": 1e9 * seconds, "results": None}
        returned = result_on_host(self._result)
        several = isinstance(returned, tuple)
        self._kept = [np.asarray(a, order="C") for a in (returned if several else (returned,))]
        arrays = self._result if several else (self._result,)
        described = {
            "several": several,
            "arrays": [(a.ctypes.data, a.shape, a.dtype.str) for a in self._kept],
            "views": any(share_memory(a, b.memory) for a in arrays for b in self._operands),
        }
        return {"claim": 1e9 * seconds, "results": described}

    def _upload(self) -> None:
        for block in self._blocks:
            block.upload(as_base=False)
        _core.synchronize()

    def ring(self) -> list[int]:
        """The addresses of the blocks: all calls copy the operands to the device."""
        return [block.ctypes.data for block in self.blocks]

    def release(self) -> dict[str, Any]:
        """Free the returned arrays."""
        self._returned = self._kept = None
        return {}

    def elsewhere(self) -> dict[str, Any]:
        """Whether the function computes its results while the timed stream is blocked."""
        self._upload()

        def run() -> Any:
            self._run()
            return self._result

        return {"elsewhere": computes_early(run, self._outputs)}
