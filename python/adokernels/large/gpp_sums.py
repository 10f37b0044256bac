"""``ado.gpp`` over several processes: sums per tile on each rank, added exactly on all ranks."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adokernels.large.communicators import communicator_of, on_all_ranks
from adokernels.large.exact_sums import from_limbs, to_limbs
from adokernels.large.gpp_shares import TILE_ROWS
from adokernels.model.libraries import on_host
from adokernels.model.registry import gpp_tiles
from adokernels.model.tasks.gpp import GppOperands


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

    Examples
    --------
    >>> from mpi4py import MPI  # doctest: +SKIP
    >>> share = ado.distributed.split(operands, MPI.COMM_WORLD)  # doctest: +SKIP
    >>> asx, ach = ado.distributed.gpp(share, comm=MPI.COMM_WORLD)  # doctest: +SKIP
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
                "wx and occ must be the same on all ranks, but those of rank 0 and rank "
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
