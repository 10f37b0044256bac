"""The trusted runner of kernels: memory, launches and samples in a process of its own.

`candidate.py` imports it in the process of a kernel in CUDA C++ source. No code of the kernel's
author runs on the host.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


#: Alignment of device memory, which is also the alignment of the arrays in the parent.
_ALIGNMENT = 256
_THREADS, _MOST_BLOCKS = 256, 1 << 16


class _Block:
    """The memory of an array with red zones: on the host, and twice on the device.

    The second copy on the device has the values from which samples are made.
    """

    def __init__(self, layout: Mapping[str, Any]) -> None:
        shift = layout["address"] % _ALIGNMENT
        self._host = np.zeros(layout["bytes"] + _ALIGNMENT, np.uint8)
        self.host = self._host[shift : shift + layout["bytes"]]
        self.device, self._base = (_core.to_device(self._host) for _ in range(2))
        self.dtype = np.dtype(layout["dtype"])
        self.count = int(np.prod(layout["shape"], dtype=np.int64))
        self._at = shift + layout["offset"]

    @property
    def address(self) -> int:
        """The address of the first element on the device."""
        return self._address(self.device)

    def _address(self, memory: _core.DeviceArray) -> int:
        first: int = memory.__cuda_array_interface__["data"][0]
        return first + self._at

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


class DeviceProblem:
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
        return {"claims": [0.0], "results": None}

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
            "hertz": float(np.mean(hertz)),
            "blocked": all(blocked),
            "waited": max(waited),
        }
