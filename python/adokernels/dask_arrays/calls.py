"""The call of a routine with Dask arrays: checks, then one task per block."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.dask_arrays import filters, matrices
from adokernels.dask_arrays.blocks import BlockCall
from adokernels.dask_arrays.operands import checked_operands
from adokernels.model.call_checks import has_dask_array
from adokernels.model.operands import check_types

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import dask.array as da

    from adokernels.model.routine import Routine

_MATRICES: dict[str, Callable[..., da.Array]] = {
    "transpose": matrices.transpose,
    "max_plus": matrices.max_plus,
    "average_matvec": matrices.average_matvec,
}


def lazy_call(
    routine: Routine,
    args: Sequence[Any],
    options: Mapping[str, Any],
    *,
    variant: str | None,
    block: tuple[int, ...] | None,
    device: str | None,
    out: Any,
    stream: Any,
) -> da.Array:
    """Return the result of a routine as a lazy Dask array.

    Parameters
    ----------
    routine, args, options
        The routine, its positional operands, and its keyword operands and options.
    variant, block, device
        As in a call with NumPy arrays. They apply to the call of each block.
    out, stream
        Must be None.

    Raises
    ------
    TypeError
        If the routine does not support Dask arrays, if `out` or `stream` is given, or if a call
        with NumPy arrays of these types would raise it.
    ValueError
        If the chunk sizes are unknown, or if a call with NumPy arrays of these shapes would raise
        it.
    KeyError
        If the routine has no variant of that name.

    The blocks may still raise errors, for example if the device is missing or `block` is not one of
    the variant's.
    """
    if routine.name == "gpp":
        raise TypeError(
            "gpp does not support Dask arrays; ado.distributed.gpp divides it among processes"
        )
    compute_matrix = _MATRICES.get(routine.name)
    if routine.halo is None and compute_matrix is None:
        raise TypeError(
            f"{routine.name} does not support Dask arrays: pass NumPy arrays, for example the "
            "results of compute()"
        )
    for name, value in (("out", out), ("stream", stream)):
        if value is not None:
            raise TypeError(
                f"{routine.name}: {name} must be None for Dask arrays, because the result is lazy"
            )
    _check_device(routine, variant, device)
    operands = checked_operands(routine, args, options)
    # Copies, because the caller may change a list before the blocks are computed.
    options = {name: copy.deepcopy(options[name]) for name in routine.options if name in options}
    for name, value in options.items():
        if has_dask_array((value,)):
            raise TypeError(f"{routine.name}: {name} must not be a Dask array")
    check_types(routine, operands, options)
    call = BlockCall(routine, variant, block, device, options)
    if compute_matrix is not None:
        return compute_matrix(call, *operands)
    return filters.image_filter(call, *operands)


def _check_device(routine: Routine, variant: str | None, device: str | None) -> None:
    """Check names. A device may be missing here, because other processes may compute the blocks."""
    if device is not None:
        if not isinstance(device, str):
            raise TypeError(f"{routine.name}: device must be a string, got {type(device).__name__}")
        with contextlib.suppress(_core.Unavailable):
            _core.resolve_device(device)
    if variant is None:
        return
    own = routine[variant].device
    if device is not None and device.partition(":")[0] != own:
        raise ValueError(f"{routine.name}[{variant}] runs on {own}, got device={device!r}")
