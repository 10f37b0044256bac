"""The launch of a kernel that was compiled at run time, in a file that another process reads."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from typing_extensions import Self

_FILE = "launch.pickle"


@dataclass(frozen=True)
class Result:
    """An array that the kernel writes; it has no values before the launch."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceLaunch:
    """A kernel, its launch configuration and its arguments, in host memory.

    There is one argument per parameter of the kernel. For an array or a :class:`Result`, the kernel
    receives an address in device memory. Bytes are the value of the parameter.
    """

    code: bytes  # a cubin
    symbol: str  # the kernel's mangled name
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int = 0
    arguments: tuple[NDArray[Any] | Result | bytes, ...] = ()

    def save(self, folder: Path) -> None:
        """Write the launch to a file in a folder."""
        with (folder / _FILE).open("wb") as file:
            pickle.dump(self, file)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a launch that :meth:`save` of a trusted process wrote."""
        with (folder / _FILE).open("rb") as file:
            launch: Self = pickle.load(file)
        return launch

    def prepare(self) -> tuple[_core.KernelLaunch, list[_core.DeviceArray]]:
        """Load the kernel and copy the arrays to the GPU.

        Keep the returned arrays alive as long as the launch is used.
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
