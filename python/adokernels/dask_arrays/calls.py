"""The call of a routine with Dask arrays: checks, then one task per block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adokernels.dask_arrays import filters, matrices
from adokernels.dask_arrays.blocks import BlockCall
from adokernels.dask_arrays.operands import check, checked_operands

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import dask.array as da

    from adokernels.ladders.routine import Routine

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
    if variant is not None:
        _ = routine[variant]  # raises KeyError
    operands = checked_operands(routine, args, options)
    options = {name: options[name] for name in routine.options if name in options}
    check(routine, operands, options)
    call = BlockCall(routine, variant, block, device, options)
    if compute_matrix is not None:
        return compute_matrix(call, *operands)
    return filters.image_filter(call, *operands)
