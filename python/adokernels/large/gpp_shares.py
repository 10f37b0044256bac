"""The rows of G' that each rank computes, and its share of the operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adokernels import _core
from adokernels.large.communicators import communicator_of, on_all_ranks
from adokernels.model.tasks.gpp import GppOperands

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adokernels.large.communicators import Communicator

#: Rows per tile: ``GppTiles::kTileRows`` in `src/routines/gpp_tiles.hpp`. A rank computes whole
#: tiles, so that their sums have the same bits for any number of ranks.
TILE_ROWS = 8

#: The axes of each operand. An operand without rows is needed on all ranks.
_AXES: Mapping[str, tuple[str, ...]] = {
    "wtilde": ("rows", "columns"),
    "i_eps": ("rows", "columns"),
    "aqsn": ("bands", "columns"),
    "aqsm": ("bands", "rows"),
    "wx": ("bands", "frequencies"),
    "vcoul": ("rows",),
    "occ": ("bands",),
}
_REAL = ("wx", "vcoul", "occ")


class _Lengths(NamedTuple):
    """The lengths of the axes."""

    bands: int
    rows: int
    columns: int
    frequencies: int

    def shape_of(self, name: str) -> tuple[int, ...]:
        return tuple(getattr(self, axis) for axis in _AXES[name])


def rows_of_rank(ngpown: int, comm: Any, rank: int | None = None) -> slice:
    """Find the rows of G' that a rank computes.

    The rows are divided into tiles of 8. Each rank has consecutive tiles, and the numbers of tiles
    differ by at most one. If there are more ranks than tiles, some ranks have no rows.

    Parameters
    ----------
    ngpown
        Total number of rows over all ranks.
    comm
        A communicator, as in :func:`gpp`.
    rank
        The rank. Default: the calling rank.

    Returns
    -------
    slice
        The rows. A rank can use them to read its share from a file: ``wtilde[rows]``,
        ``i_eps[rows]``, ``aqsm[:, rows]`` and ``vcoul[rows]``.

    Raises
    ------
    ValueError
        If `ngpown` is negative, or `rank` does not exist.
    TypeError
        If `comm` is not a communicator.
    """
    communicator = communicator_of(comm)
    if ngpown < 0:
        raise ValueError(f"ngpown must not be negative, got {ngpown}")
    index = communicator.rank if rank is None else rank
    if not 0 <= index < communicator.size:
        raise ValueError(f"rank must be from 0 to {communicator.size - 1}, got {index}")
    tiles = -(-ngpown // TILE_ROWS)  # the last one can be incomplete
    first, last = (
        min(tiles * i // communicator.size * TILE_ROWS, ngpown) for i in (index, index + 1)
    )
    return slice(first, last)


def split(
    operands: Sequence[Any] | None, comm: Any, *, root: int | None = None, device: str | None = None
) -> GppOperands:
    """Return the share of the operands of ``ado.gpp`` that this rank computes.

    All ranks must call it. The parts of `wtilde`, `i_eps`, `aqsm` and `vcoul` are packed copies, so
    a rank needs memory only for its share. From memory-mapped arrays, only these parts are read.
    All ranks need `aqsn`, `wx` and `occ`, which are not copied unless they are memory-mapped.

    Parameters
    ----------
    operands
        The operands of ``ado.gpp`` in order, in host memory or on a GPU.
    comm
        A communicator, as in :func:`gpp`.
    root
        If given, only this rank needs the operands, as NumPy arrays. It sends the shares to the
        other ranks, which can pass None. Default: each rank has or maps all operands.
    device
        If given, the share is copied to this GPU, for example ``"cuda:1"``.

    Returns
    -------
    GppOperands
        The operands of :func:`gpp` on this rank.

    Raises
    ------
    ValueError, TypeError
        If the operands of this rank are wrong; on all ranks if their shapes differ.
    RuntimeError
        If the operands of another rank are wrong.
    """
    communicator = communicator_of(comm)
    if root is not None and not 0 <= root < communicator.size:
        raise ValueError(f"root must be from 0 to {communicator.size - 1}, got {root}")
    sends = root is not None
    has_operands = root in (None, communicator.rank)

    def check() -> tuple[Mapping[str, Any], _Lengths]:
        return _checked(operands, sends) if has_operands else ({}, _Lengths(0, 0, 0, 0))

    whole, own = on_all_ranks(communicator, check)
    lengths = _common_lengths(communicator, own, root)
    rows = rows_of_rank(lengths.rows, communicator)
    local = lengths._replace(rows=rows.stop - rows.start)

    def parts() -> dict[str, Any]:
        if has_operands:
            return {name: _part(name, whole[name], rows, copied=sends) for name in _AXES}
        return {name: np.empty(local.shape_of(name), _type_of(name)) for name in _AXES}

    share = on_all_ranks(communicator, parts)
    if root is not None:
        for name, array in share.items():
            if "rows" not in _AXES[name]:
                communicator.broadcast(array, root)
            elif not has_operands:
                communicator.receive(array, root)
            else:
                for rank in (r for r in range(communicator.size) if r != root):
                    others = rows_of_rank(lengths.rows, communicator, rank)
                    communicator.send(_part(name, whole[name], others), rank)
    if device is not None:
        share = on_all_ranks(
            communicator, lambda: {n: _core.to_device(share[n], device) for n in share}
        )
    return GppOperands(**share)


def _type_of(name: str) -> np.dtype[Any]:
    return np.dtype(np.float64 if name in _REAL else np.complex128)


def _checked(operands: Sequence[Any] | None, sends: bool) -> tuple[Mapping[str, Any], _Lengths]:
    """Check the operands before they are sliced or sent, and return them by name."""
    if operands is None or len(operands) != len(_AXES):
        got = "None" if operands is None else f"{len(operands)} operands"
        raise ValueError(f"operands must be {', '.join(_AXES)}, got {got}")
    whole = dict(zip(_AXES, operands, strict=True))
    for name, operand in whole.items():
        if not hasattr(operand, "shape"):
            raise TypeError(f"{name} must be an array, got {type(operand).__name__}")
        if isinstance(operand, np.ndarray):
            if operand.dtype != _type_of(name):
                raise TypeError(
                    f"{name} must have elements of type {_type_of(name)}, got {operand.dtype}"
                )
        elif sends:
            kind = type(operand).__name__
            raise TypeError(f"{name} must be a NumPy array to be sent, got {kind}")
    shapes = {name: tuple(operand.shape) for name, operand in whole.items()}
    for name in ("wtilde", "wx"):
        if len(shapes[name]) != 2:
            raise ValueError(f"{name} must have 2 dimensions, got shape {shapes[name]}")
    (rows, columns), (bands, frequencies) = shapes["wtilde"], shapes["wx"]
    lengths = _Lengths(bands, rows, columns, frequencies)
    for name, shape in shapes.items():
        if shape != lengths.shape_of(name):
            raise ValueError(f"{name} must have shape {lengths.shape_of(name)}, got {shape}")
    return whole, lengths


def _common_lengths(communicator: Communicator, own: _Lengths, root: int | None) -> _Lengths:
    """The lengths of rank `root`, or those that all ranks must have."""
    every = communicator.all_gather(np.array(own, np.int64)).tolist()
    common = every[root or 0]
    for rank, other in enumerate(every):
        if root is None and other != common:
            raise ValueError(
                "operands must have the same shapes on all ranks, got (bands, rows, columns, "
                f"frequencies) = {tuple(common)} on rank 0 and {tuple(other)} on rank {rank}"
            )
    return _Lengths(*common)


def _part(name: str, operand: Any, rows: slice, *, copied: bool = False) -> Any:
    """A packed copy of the rows of an operand.

    An operand without rows is copied only if `copied`, or if it is memory-mapped.
    """
    if "rows" in _AXES[name]:
        operand = operand[rows] if _AXES[name][0] == "rows" else operand[:, rows]
    elif not (copied or isinstance(operand, np.memmap)):
        return operand
    if isinstance(operand, np.ndarray):
        return np.array(operand, order="C", subok=False)
    return operand.contiguous() if hasattr(operand, "contiguous") else operand.copy()
