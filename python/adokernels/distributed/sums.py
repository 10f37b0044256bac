"""``ado.gpp`` over several processes: sums per tile on each rank, added exactly on all ranks."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adokernels.arrays.libraries import on_host
from adokernels.distributed.communicators import communicator_of
from adokernels.distributed.failures import raise_on_all_ranks
from adokernels.distributed.shares import TILE_ROWS, tile_count
from adokernels.ladders.registry import gpp_tiles
from adokernels.tasks.gpp import GppProblem

if TYPE_CHECKING:
    from adokernels.distributed.communicators import Communicator


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

    All ranks must call it. Each rank computes sums for its tiles of 8 rows of G'. The sums are
    gathered on all ranks, and added with ``math.fsum``, so the result is the correctly rounded sum
    of the sums of the tiles. It has the same bits on all ranks and for any number of ranks, if all
    ranks compute on the same kind of device: the CPU with the same instruction set, or a GPU.

    Parameters
    ----------
    local_operands
        The operands of ``ado.gpp`` for the rows of this rank, from :func:`split` or for the rows
        of :func:`rows_of_rank`. `aqsn`, `wx` and `occ` must be the same on all ranks. A rank may
        have no rows.
    comm
        A communicator of mpi4py, a process group of ``torch.distributed``, or an object with the
        methods of :class:`Communicator`. With NCCL, set the current GPU of torch first.
    gamma, sexcut, tol
        As for ``ado.gpp``, the same on all ranks.
    device
        Where to compute, for example ``"cuda:1"``. Default: the device of the operands, or else the
        default device.
    stream
        As for ``ado.gpp``.

    Returns
    -------
    asx, ach : numpy.ndarray
        The sums over the rows of all ranks, on all ranks.

    Raises
    ------
    ValueError, TypeError, Unavailable
        If the operands of this rank are wrong, or it cannot compute; on all ranks if the operands
        of the ranks do not match.
    RuntimeError
        If another rank has raised an error.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> share = ado.distributed.split(operands, MPI.COMM_WORLD)  # doctest: +SKIP
    >>> asx, ach = ado.distributed.gpp(share, comm=MPI.COMM_WORLD)  # doctest: +SKIP
    """
    communicator = communicator_of(comm)
    error: Exception | None = None
    header = np.zeros(1 + len(_Header._fields))
    sums: Sequence[Any] = ()
    try:
        digest = _digest(local_operands)
        sums = gpp_tiles(
            *local_operands, gamma=gamma, sexcut=sexcut, tol=tol, device=device, stream=stream
        )
        header[1:] = _Header.of(local_operands, digest, gamma, sexcut, tol)
    except Exception as failure:
        error, header[0] = failure, 1
    # While a GPU computes, the host compares the shapes.
    headers = communicator.all_gather(header)
    if headers[:, 0].any():
        raise_on_all_ranks(communicator, error)
    ranks = [_Header(*row) for row in headers[:, 1:].tolist()]
    _require_matching(ranks)
    own = np.empty((0,))
    try:
        own = _on_host(sums)
    except Exception as failure:
        error = failure
    return _total(_gathered(communicator, own, error, ranks))


class _Header(NamedTuple):
    """What the ranks must know of each other. All numbers are exact in float64."""

    rows: float
    nbands: float
    ncouls: float
    nfreqs: float
    gamma: float
    sexcut: float
    tol: float
    digest: float

    @classmethod
    def of(
        cls, operands: Sequence[Any], digest: int, gamma: float, sexcut: float, tol: float
    ) -> _Header:
        problem = GppProblem(*operands)
        rows, columns = problem.wtilde.shape
        bands, frequencies = problem.wx.shape
        return cls(rows, bands, columns, frequencies, gamma, sexcut, tol, digest)


def _digest(operands: Sequence[Any]) -> int:
    """A checksum of wx and occ, which must be the same on all ranks."""
    if len(operands) != len(GppProblem._fields):
        raise ValueError(
            f"local_operands must be {', '.join(GppProblem._fields)}, got {len(operands)} operands"
        )
    problem = GppProblem(*operands)
    energies, occupations = (np.ascontiguousarray(on_host(a)) for a in (problem.wx, problem.occ))
    return zlib.crc32(occupations.tobytes(), zlib.crc32(energies.tobytes()))


def _require_matching(ranks: Sequence[_Header]) -> None:
    """Raise ValueError, with the same text on all ranks, if their operands do not match."""
    for name in _Header._fields[1:]:
        values = [getattr(header, name) for header in ranks]
        for rank, value in enumerate(values):
            if value == values[0]:
                continue
            if name == "digest":
                raise ValueError(
                    "wx and occ must be the same on all ranks, but those of rank 0 and rank "
                    f"{rank} differ"
                )
            raise ValueError(
                f"{name} must be the same on all ranks, got {values[0]:g} on rank 0 and {value:g} "
                f"on rank {rank}"
            )
    with_rows = [rank for rank, header in enumerate(ranks) if header.rows]
    for rank in with_rows[:-1]:
        if ranks[rank].rows % TILE_ROWS:
            raise ValueError(
                f"the number of rows of wtilde on rank {rank} must be a multiple of {TILE_ROWS}, "
                f"got {ranks[rank].rows:g}; adokernels.distributed.split divides the rows"
            )


def _on_host(sums: Sequence[Any]) -> NDArray[np.float64]:
    """The sums of the tiles of this rank: real and imaginary parts of asx, then of ach."""
    both = np.concatenate([on_host(array) for array in sums], axis=1)
    return both.view(np.float64)


def _gathered(
    communicator: Communicator,
    own: NDArray[np.float64],
    error: Exception | None,
    ranks: Sequence[_Header],
) -> NDArray[np.float64]:
    """The sums of all tiles, in the order of the rows."""
    counts = [tile_count(int(header.rows)) for header in ranks]
    width = 4 * int(ranks[0].nfreqs)
    message = np.zeros(1 + max(counts) * width)
    message[0] = error is not None
    if error is None:
        message[1 : 1 + own.size] = own.ravel()
    messages = communicator.all_gather(message)
    if messages[:, 0].any():
        raise_on_all_ranks(communicator, error)
    parts = zip(messages[:, 1:], counts, strict=True)
    return np.concatenate([part[: count * width].reshape(count, width) for part, count in parts])


def _total(
    tiles: NDArray[np.float64],
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    totals = np.array([_exact_sum(column) for column in tiles.T.tolist()])
    asx, ach = totals.view(np.complex128).reshape(2, -1)
    return asx, ach


def _exact_sum(numbers: list[float]) -> float:
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):  # the sum overflows, or contains inf - inf
        return sum(numbers)
