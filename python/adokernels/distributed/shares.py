"""The rows of G' that each rank computes, and its share of the operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adokernels import _core
from adokernels.distributed.communicators import communicator_of
from adokernels.distributed.failures import on_all_ranks
from adokernels.model.tasks.gpp import GppOperands

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from adokernels.distributed.communicators import Communicator

#: Rows per tile: ``GppTiles::kTileRows`` in `src/routines/gpp_tiles.hpp`. A rank computes whole
#: tiles, so that their sums have the same bits for any number of ranks.
TILE_ROWS = 8


def tile_count(rows: int) -> int:
    """Number of tiles that contain `rows` rows; the last tile can be incomplete."""
    return -(-rows // TILE_ROWS)


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
    tiles = tile_count(ngpown)
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
    if root is None:
        share = _own_share(operands, communicator)
    else:
        share = _share_from(root, operands, communicator)
    if device is None:
        return share

    def on_device() -> list[Any]:
        return [_core.to_device(operand, device) for operand in share]

    return GppOperands(*on_all_ranks(communicator, on_device))


#: The axis along which each operand is split. Operands without an entry are needed on all ranks.
_ROW_AXES = {"wtilde": 0, "i_eps": 0, "aqsm": 1, "vcoul": 0}


class _Lengths(NamedTuple):
    bands: int
    rows: int
    columns: int
    frequencies: int

    @classmethod
    def of(cls, whole: Mapping[str, Any]) -> _Lengths:
        for name in ("wtilde", "wx"):
            if len(whole[name].shape) != 2:
                raise ValueError(
                    f"{name} must have 2 dimensions, got shape {tuple(whole[name].shape)}"
                )
        (rows, columns), (bands, frequencies) = whole["wtilde"].shape, whole["wx"].shape
        return cls(bands, rows, columns, frequencies)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each operand."""
        bands, rows, columns, frequencies = self
        matrices = (rows, columns), (rows, columns), (bands, columns), (bands, rows)
        vectors = (bands, frequencies), (rows,), (bands,)
        return dict(zip(GppOperands._fields, matrices + vectors, strict=True))


def _type_of(name: str) -> np.dtype[Any]:
    return np.dtype(np.float64 if name in ("wx", "vcoul", "occ") else np.complex128)


def _checked(operands: Sequence[Any] | None) -> tuple[dict[str, Any], _Lengths]:
    """Check the operands before they are sliced or sent."""
    names = GppOperands._fields
    if operands is None or len(operands) != len(names):
        got = "None" if operands is None else f"{len(operands)} operands"
        raise ValueError(f"operands must be {', '.join(names)}, got {got}")
    whole = dict(zip(names, operands, strict=True))
    for name, operand in whole.items():
        if not hasattr(operand, "shape"):
            raise TypeError(f"{name} must be an array, got {type(operand).__name__}")
        if isinstance(operand, np.ndarray) and operand.dtype != _type_of(name):
            raise TypeError(
                f"{name} must have elements of type {_type_of(name)}, got {operand.dtype}"
            )
    lengths = _Lengths.of(whole)
    for name, shape in lengths.shapes().items():
        if tuple(whole[name].shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(whole[name].shape)}")
    return whole, lengths


def _part(operand: Any, axis: int, rows: slice) -> Any:
    """A packed copy of the rows of an operand."""
    part = operand[rows] if axis == 0 else operand[:, rows]
    if isinstance(operand, np.ndarray):
        return np.array(part, order="C", subok=False)
    return part.contiguous() if hasattr(part, "contiguous") else part.copy()


def _own_share(operands: Sequence[Any] | None, communicator: Communicator) -> GppOperands:
    """The share of a rank that has all operands."""
    whole, lengths = on_all_ranks(communicator, lambda: _checked(operands))
    first, *others = communicator.all_gather(np.array(lengths, np.int64)).tolist()
    for rank, other in enumerate(others, start=1):
        if other != first:
            raise ValueError(
                "operands must have the same shapes on all ranks, got (bands, rows, columns, "
                f"frequencies) = {tuple(first)} on rank 0 and {tuple(other)} on rank {rank}"
            )
    rows = rows_of_rank(lengths.rows, communicator)

    def part_of(name: str, operand: Any) -> Any:
        if name in _ROW_AXES:
            return _part(operand, _ROW_AXES[name], rows)
        return np.array(operand, subok=False) if isinstance(operand, np.memmap) else operand

    def parts() -> dict[str, Any]:
        return {name: part_of(name, operand) for name, operand in whole.items()}

    return GppOperands(**on_all_ranks(communicator, parts))


def _share_from(
    root: int, operands: Sequence[Any] | None, communicator: Communicator
) -> GppOperands:
    """The share of this rank, sent by rank `root`, which has all operands."""
    is_root = communicator.rank == root

    def check() -> tuple[dict[str, Any], _Lengths]:
        if not is_root:
            return {}, _Lengths(0, 0, 0, 0)
        whole, lengths = _checked(operands)
        for name, operand in whole.items():
            if not isinstance(operand, np.ndarray):
                kind = type(operand).__name__
                raise TypeError(f"{name} must be a NumPy array to be sent, got {kind}")
        return whole, lengths

    whole, lengths = on_all_ranks(communicator, check)
    counts = np.array(lengths, np.int64)
    communicator.broadcast(counts, root)
    lengths = _Lengths(*counts.tolist())
    rows = rows_of_rank(lengths.rows, communicator)
    shapes = lengths._replace(rows=rows.stop - rows.start).shapes()

    def allocate() -> dict[str, NDArray[Any]]:
        return {name: np.empty(shape, _type_of(name)) for name, shape in shapes.items()}

    share = on_all_ranks(communicator, allocate)
    for name, array in share.items():
        if name not in _ROW_AXES:
            if is_root:
                array[...] = whole[name]
            communicator.broadcast(array, root)
        elif is_root:
            array[...] = _part(whole[name], _ROW_AXES[name], rows)
            for rank in range(communicator.size):
                others = rows_of_rank(lengths.rows, communicator, rank)
                if rank != root:
                    communicator.send(_part(whole[name], _ROW_AXES[name], others), rank)
        else:
            communicator.receive(array, root)
    return GppOperands(**share)
