"""``ado.gpp`` over several processes, through the communicator of the caller.

>>> from mpi4py import MPI  # doctest: +SKIP
>>> import adokernels as ado
>>> share = ado.distributed.split(operands, MPI.COMM_WORLD)  # doctest: +SKIP
>>> asx, ach = ado.distributed.gpp(share, comm=MPI.COMM_WORLD)  # doctest: +SKIP

The result has the same bits for any number of processes. This module does not link or import MPI
or NCCL: it calls the methods of a communicator of mpi4py or ``torch.distributed``, or of any object
with the methods of :class:`Communicator`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.large.communicators import Communicator, communicator_of, on_all_ranks
from adokernels.large.exact_sums import from_limbs, to_limbs
from adokernels.model.libraries import on_host
from adokernels.model.registry import gpp_tiles, routines
from adokernels.model.routine import check_types
from adokernels.model.tasks.gpp import GppOperands

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Communicator", "gpp", "rows_of_rank", "split"]

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


class _Lengths(NamedTuple):
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
    return np.dtype(np.float64 if name in ("wx", "vcoul", "occ") else np.complex128)


def _checked(operands: Sequence[Any] | None, sends: bool) -> tuple[Mapping[str, Any], _Lengths]:
    """Check the operands before they are sliced or sent, and return them by name."""
    if operands is None or len(operands) != len(_AXES):
        got = "None" if operands is None else f"{len(operands)} operands"
        raise ValueError(f"operands must be {', '.join(_AXES)}, got {got}")
    whole = dict(zip(_AXES, operands, strict=True))
    for name, operand in whole.items():
        if not hasattr(operand, "shape"):
            raise TypeError(f"{name} must be an array, got {type(operand).__name__}")
        if sends and not isinstance(operand, np.ndarray):
            kind = type(operand).__name__
            raise TypeError(f"{name} must be a NumPy array to be sent, got {kind}")
    arrays = [
        o if isinstance(o, np.ndarray) else np.broadcast_to(_type_of(n).type(), tuple(o.shape))
        for n, o in whole.items()
    ]
    check_types(routines["gpp"], arrays, {})
    (rows, columns), (bands, frequencies) = arrays[0].shape, arrays[4].shape
    return whole, _Lengths(bands, rows, columns, frequencies)


def _common_lengths(communicator: Communicator, own: _Lengths, root: int | None) -> _Lengths:
    """The lengths on rank `root`, or the lengths that all ranks must have."""
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


def gpp(
    local_operands: Sequence[Any],
    *,
    comm: Any,
    gamma: float = 0.5,
    sexcut: float = 4.0,
    tol: float = 1e-6,
    device: str | None = None,
    stream: Any = None,
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Compute ``ado.gpp`` over the processes of a communicator.

    All ranks must call this function. Each rank computes the sums of its tiles of 8 rows of G'.
    These sums are added exactly over all tiles of all ranks, and the result is rounded once, as by
    ``math.fsum``. The result has the same bits on all ranks and for any number of ranks, if all
    ranks compute on the same kind of device: the CPU with the same instruction set, or GPUs of one
    architecture.

    Parameters
    ----------
    local_operands
        The operands of ``ado.gpp`` for the rows of this rank, from :func:`split` or for the rows
        of :func:`rows_of_rank`. `aqsn`, `wx` and `occ` must be the same on all ranks. A rank can
        have no rows.
    comm
        A communicator of mpi4py, a process group of ``torch.distributed``, or an object with the
        methods of :class:`Communicator`. With NCCL, set the current GPU of torch first.
    gamma, sexcut, tol
        As for ``ado.gpp``, the same on all ranks.
    device
        The device that computes, for example ``"cuda:1"``. Default: the device of the operands, or
        else the default device.
    stream
        As for ``ado.gpp``.

    Returns
    -------
    asx, ach : numpy.ndarray
        The sums over the rows of all ranks, on all ranks.

    Raises
    ------
    ValueError, TypeError, Unavailable
        If the operands of this rank are invalid, or this rank cannot compute; on all ranks if the
        operands of the ranks do not match.
    RuntimeError
        If another rank has raised an error.
    """
    communicator = communicator_of(comm)

    def start() -> tuple[Sequence[Any], _Header]:
        digest = _digest(local_operands)
        results = gpp_tiles(
            *local_operands, gamma=gamma, sexcut=sexcut, tol=tol, device=device, stream=stream
        )
        (rows, columns), (bands, frequencies) = (local_operands[i].shape for i in (0, 4))
        return results, _Header(rows, bands, columns, frequencies, gamma, sexcut, tol, digest)

    results, header = on_all_ranks(communicator, start)
    # While a GPU computes, the host compares the shapes.
    _require_matching(communicator.all_gather(np.array(header, np.float64)))
    limbs = on_all_ranks(communicator, lambda: to_limbs(_parts(results)))
    communicator.all_sum(limbs)
    asx, ach = from_limbs(limbs).view(np.complex128).reshape(2, header.nfreqs)
    return asx, ach


class _Header(NamedTuple):
    """The values that the ranks compare. All of them are exact in float64."""

    rows: int
    nbands: int
    ncouls: int
    nfreqs: int
    gamma: float
    sexcut: float
    tol: float
    digest: int


def _digest(operands: Sequence[Any]) -> int:
    """A checksum of wx and occ, which must be the same on all ranks."""
    if len(operands) != len(GppOperands._fields):
        raise ValueError(
            f"local_operands must be {', '.join(GppOperands._fields)}, got {len(operands)} operands"
        )
    problem = GppOperands(*operands)
    energies, occupations = (np.ascontiguousarray(on_host(a)) for a in (problem.wx, problem.occ))
    return zlib.crc32(occupations.tobytes(), zlib.crc32(energies.tobytes()))


def _require_matching(headers: NDArray[np.float64]) -> None:
    """Raise ValueError, with the same text on all ranks, if their operands do not match."""
    for name, values in zip(_Header._fields[1:], headers[:, 1:].T, strict=True):
        others = np.flatnonzero(values != values[0])
        if not others.size:
            continue
        if name == "digest":
            raise ValueError(
                "wx and occ must be the same on all ranks, but the operands of rank 0 and rank "
                f"{others[0]} differ"
            )
        raise ValueError(
            f"{name} must be the same on all ranks, got {values[0]:g} on rank 0 and "
            f"{values[others[0]]:g} on rank {others[0]}"
        )
    rows = headers[:, 0]
    last = np.flatnonzero(rows)[-1:]
    for rank in np.setdiff1d(np.flatnonzero(rows % TILE_ROWS), last)[:1]:
        raise ValueError(
            f"the number of rows of wtilde on rank {rank} must be a multiple of {TILE_ROWS}, got "
            f"{rows[rank]:g}; use adokernels.distributed.split to divide the rows"
        )


def _parts(results: Sequence[Any]) -> NDArray[np.float64]:
    """The sums of the tiles of this rank: real and imaginary parts of asx, then of ach."""
    return np.concatenate([on_host(result) for result in results], axis=1).view(np.float64)
