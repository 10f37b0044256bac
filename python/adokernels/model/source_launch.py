"""The launch of a kernel that was compiled at run time, in files that another process can read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from typing_extensions import Self

_CODE, _LAUNCH, _ARRAYS = "kernel.cubin", "launch.json", "arrays.npz"


@dataclass(frozen=True)
class Result:
    """An array that the kernel writes, and that has no values before the launch."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceLaunch:
    """A kernel, its launch configuration and its arguments, in host memory.

    Attributes
    ----------
    code
        The cubin.
    symbol
        The kernel's mangled name in `code`.
    grid, block
        The launch configuration.
    shared_bytes
        Dynamic shared memory per block.
    arguments
        One per parameter of the kernel, in order. For an array or a :class:`Result`, the kernel
        receives an address in device memory. Bytes are the value of the parameter.
    """

    code: bytes
    symbol: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int = 0
    arguments: tuple[NDArray[Any] | Result | bytes, ...] = ()

    def save(self, folder: Path) -> None:
        """Write the launch to files in a folder."""
        (folder / _CODE).write_bytes(self.code)
        arguments: list[dict[str, Any]] = []
        arrays: list[NDArray[Any]] = []
        for argument in self.arguments:
            if isinstance(argument, Result):
                arguments.append({"shape": list(argument.shape), "dtype": argument.dtype})
            elif isinstance(argument, bytes):
                arguments.append({"bytes": argument.hex()})
            else:
                arguments.append({"array": len(arrays)})
                arrays.append(argument)
        launch = {
            "symbol": self.symbol,
            "grid": list(self.grid),
            "block": list(self.block),
            "shared_bytes": self.shared_bytes,
            "arguments": arguments,
        }
        (folder / _LAUNCH).write_text(json.dumps(launch), encoding="utf-8")
        np.savez(folder / _ARRAYS, *arrays)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what :meth:`save` wrote."""
        launch = json.loads((folder / _LAUNCH).read_text(encoding="utf-8"))
        with np.load(folder / _ARRAYS) as stored:
            arrays = [stored[f"arr_{i}"] for i in range(len(stored.files))]
        arguments: list[NDArray[Any] | Result | bytes] = []
        for argument in launch["arguments"]:
            if "array" in argument:
                arguments.append(arrays[argument["array"]])
            elif "bytes" in argument:
                arguments.append(bytes.fromhex(argument["bytes"]))
            else:
                arguments.append(Result(tuple(argument["shape"]), argument["dtype"]))
        return cls(
            code=(folder / _CODE).read_bytes(),
            symbol=launch["symbol"],
            grid=tuple(launch["grid"]),
            block=tuple(launch["block"]),
            shared_bytes=launch["shared_bytes"],
            arguments=tuple(arguments),
        )

    def prepare(self) -> tuple[_core.KernelLaunch, list[_core.DeviceArray]]:
        """Load the kernel and copy the arrays to the GPU.

        Returns
        -------
        tuple
            The launch, and the arrays. Keep the arrays alive as long as the launch is used.
        """
        arrays, values = [], []
        for argument in self.arguments:
            if isinstance(argument, bytes):
                values.append(argument)
                continue
            is_result = isinstance(argument, Result)
            array = np.zeros(argument.shape, argument.dtype) if is_result else argument
            arrays.append(_core.to_device(array))
            pointer = arrays[-1].__cuda_array_interface__["data"][0]
            values.append(np.uintp(pointer).tobytes())
        kernel = _core.CudaModule(self.code).kernel(self.symbol)
        return kernel.launch(self.grid, self.block, self.shared_bytes, values), arrays
