"""The call of a routine with the NumPy or CuPy arrays of one block."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask.array.utils import meta_from_array

from adokernels import _core

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dask.array as da

    from adokernels.model.routine import Routine


@dataclass(frozen=True)
class BlockCall:
    """A function that computes the result of one block. It can be pickled for other processes."""

    routine: Routine
    variant: str | None
    block: tuple[int, ...] | None
    device: str | None
    options: Mapping[str, Any]

    def __call__(self, *operands: Any) -> Any:
        """Compute the result of one block, as an array of the library of the operands."""
        result = self.routine(
            *operands, variant=self.variant, block=self.block, device=self.device, **self.options
        )
        if isinstance(result, _core.DeviceArray):
            # The operands are CuPy arrays, so CuPy is loaded.
            return sys.modules["cupy"].from_dlpack(result)
        return result


def meta_of(operand: da.Array, ndim: int) -> Any:
    """An empty array with the library and dtype of `operand`, for a result with that dtype."""
    return meta_from_array(operand, ndim=ndim, dtype=operand.dtype)
