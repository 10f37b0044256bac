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

import math
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.model.libraries import on_host
from adokernels.model.registry import gpp_tiles, routines
from adokernels.model.routine import check_types
from adokernels.model.tasks.gpp import GppOperands
from adokernels.text import failure

__all__ = ["Communicator", "gpp", "rows_of_rank", "split"]

#: Rows per tile: ``GppTiles::kTileRows`` in `src/routines/gpp_tiles.hpp`. A rank computes whole
#: tiles, so that their sums have the same bits for any number of ranks.
TILE_ROWS = 8

#: Size in bytes of the message with the text of an error.
_TEXT_BYTES = 512

_Result = TypeVar("_Result")

#: The axis of the rows in operands. The other operands are needed on all ranks.
_ROWS = {"wtilde": 0, "i_eps": 0, "aqsm": 1, "vcoul": 0}


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


def split(operands: Sequence[Any], comm: Any, *, device: str | None = None) -> GppOperands:
    """Return the share of the operands of ``ado.gpp`` that this rank computes.

    All ranks must call it. The parts of `wtilde`, `i_eps`, `aqsm` and `vcoul` are packed copies, so
    a rank needs memory only for its share. From memory-mapped arrays, only these parts are read.
    All ranks need `aqsn`, `wx` and `occ`, which are not copied unless they are memory-mapped.

    Parameters
    ----------
    operands
        The operands of ``ado.gpp`` in order, in host memory or on a GPU, on each rank.
    comm
        A communicator, as in :func:`gpp`.
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
    lengths = on_all_ranks(communicator, lambda: _lengths_of(operands))
    every = communicator.all_gather(np.array(lengths, np.int64)).tolist()
    for rank, other in enumerate(every):
        if other != every[0]:
            raise ValueError(
                "operands must have the same shapes on all ranks, got (bands, rows, columns, "
                f"frequencies) = {tuple(every[0])} on rank 0 and {tuple(other)} on rank {rank}"
            )
    rows = rows_of_rank(lengths[1], communicator)

    def share() -> GppOperands:
        parts = [_part(*pair, rows) for pair in zip(GppOperands._fields, operands, strict=True)]
        if device is not None:
            parts = [_core.to_device(part, device) for part in parts]
        return GppOperands(*parts)

    return on_all_ranks(communicator, share)


def _lengths_of(operands: Sequence[Any]) -> tuple[int, int, int, int]:
    """Check the operands before they are sliced; return bands, rows, columns and frequencies."""
    names = GppOperands._fields
    if operands is None or len(operands) != len(names):
        got = "None" if operands is None else f"{len(operands)} operands"
        raise ValueError(f"operands must be {', '.join(names)}, got {got}")
    arrays = []
    for name, operand in zip(names, operands, strict=True):
        if not hasattr(operand, "shape"):
            raise TypeError(f"{name} must be an array, got {type(operand).__name__}")
        zero = np.float64(0) if name in ("wx", "vcoul", "occ") else np.complex128(0)
        is_numpy = isinstance(operand, np.ndarray)
        arrays.append(operand if is_numpy else np.broadcast_to(zero, tuple(operand.shape)))
    check_types(routines["gpp"], arrays, {})
    (rows, columns), (bands, frequencies) = arrays[0].shape, arrays[4].shape
    return bands, rows, columns, frequencies


def _part(name: str, operand: Any, rows: slice) -> Any:
    """A packed copy of the rows of an operand; the operand itself if it has no rows."""
    if name in _ROWS:
        operand = operand[rows] if _ROWS[name] == 0 else operand[:, rows]
    elif not isinstance(operand, np.memmap):
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
    headers = communicator.all_gather(np.array(header, np.float64))
    _require_matching(headers)
    tiles = np.ceil(headers[:, 0] / TILE_ROWS).astype(int).tolist()
    parts = communicator.all_gather(on_all_ranks(communicator, lambda: _parts(results, max(tiles))))
    sums = np.concatenate([part[:n] for part, n in zip(parts, tiles, strict=True)])
    asx, ach = np.array([*map(_sum, sums.T)]).view(np.complex128).reshape(2, header.nfreqs)
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


def _parts(results: Sequence[Any], tiles: int) -> NDArray[np.float64]:
    """The sums of each tile of this rank: real and imaginary parts of asx, then of ach.

    Zeros follow, so that all ranks have the same number of rows.
    """
    own = np.concatenate([on_host(result) for result in results], axis=1).view(np.float64)
    return np.concatenate([own, np.zeros((tiles - len(own), own.shape[1]))])


def _sum(numbers: NDArray[np.float64]) -> float:
    """The correctly rounded sum, for any order of the numbers."""
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):  # an intermediate sum overflows, or both infinities occur
        with np.errstate(invalid="ignore"):
            return float(np.sum(numbers, dtype=np.longdouble))


# --- Communication between processes --------------------------------------------------------------


@runtime_checkable
class Communicator(Protocol):
    """The methods of a communicator that this package requires. All arrays are NumPy arrays.

    Arrays are packed, and have the same shape and type on all ranks.
    """

    @property
    def rank(self) -> int:
        """Index of this process, starting at 0."""

    @property
    def size(self) -> int:
        """Number of processes."""

    def all_gather(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the arrays of all ranks, stacked along a new first axis."""


def communicator_of(comm: Any) -> Communicator:
    """Return a communicator with the methods of :class:`Communicator`.

    TypeError is raised if `comm` is not a communicator. ValueError is raised if it does not connect
    the processes of one group, or if this process is not one of them.
    """
    mpi, torch = (sys.modules.get(name) for name in ("mpi4py.MPI", "torch.distributed"))
    if mpi is not None and isinstance(comm, mpi.Comm):
        return _MpiCommunicator(comm, mpi)
    if torch is not None and torch.is_available():
        if comm is torch.GroupMember.NON_GROUP_MEMBER:
            raise ValueError(
                "comm must be a process group that contains this process, got NON_GROUP_MEMBER"
            )
        if isinstance(comm, torch.ProcessGroup):
            return _TorchCommunicator(comm, torch)
    if isinstance(comm, type) or not isinstance(comm, Communicator):
        raise TypeError(
            "comm must be a communicator of mpi4py, a process group of torch.distributed or an "
            f"adokernels.distributed.Communicator, got {comm!r}"
        )
    return comm


def on_all_ranks(communicator: Communicator, function: Callable[[], _Result]) -> _Result:
    """Call a function that does not communicate; raise on all ranks if it raises on any rank.

    Without the common error, the other ranks would wait forever for a failed one. Ranks without an
    error of their own raise RuntimeError with the text of the first failed rank.
    """
    error: Exception | None = None
    try:
        result = function()
    except Exception as raised:
        error = raised
    if not communicator.all_gather(np.array([error is not None])).any():
        return result
    text = "" if error is None else failure(error).removeprefix("it fails with ")
    own = np.array([text.encode()], f"S{_TEXT_BYTES}")
    texts = communicator.all_gather(own.view(np.uint8)).view(own.dtype)[:, 0]
    if error is not None:
        raise error
    rank = int(np.flatnonzero(texts)[0])
    raise RuntimeError(f"rank {rank} failed with {texts[rank].decode(errors='replace')}")


class _MpiCommunicator:
    def __init__(self, comm: Any, mpi: Any) -> None:
        if comm == mpi.COMM_NULL:
            raise ValueError(
                "comm must be a communicator that contains this process, got COMM_NULL"
            )
        if comm.Is_inter():
            raise ValueError("comm must be an intracommunicator, got an intercommunicator")
        self._comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()

    def all_gather(self, array: NDArray[Any]) -> NDArray[Any]:
        gathered = np.empty((self.size, *array.shape), array.dtype)
        self._comm.Allgather(array.view(np.uint8), gathered.view(np.uint8))
        return gathered


class _TorchCommunicator:
    """A process group of ``torch.distributed``. NCCL needs tensors of the current GPU."""

    def __init__(self, group: Any, torch: Any) -> None:
        self._group, self._distributed = group, torch
        self.rank: int = torch.get_rank(group)
        self.size: int = torch.get_world_size(group)

    def all_gather(self, array: NDArray[Any]) -> NDArray[Any]:
        torch, group = sys.modules["torch"], self._group
        device = "cuda" if self._distributed.get_backend(group) == "nccl" else "cpu"
        own = torch.from_numpy(array.reshape(-1).view(np.uint8)).to(device)
        tensors = [torch.empty_like(own) for _ in range(self.size)]
        self._distributed.all_gather(tensors, own, group=group)
        gathered: NDArray[Any] = torch.stack(tensors).cpu().numpy()
        return gathered.view(array.dtype).reshape(self.size, *array.shape)
