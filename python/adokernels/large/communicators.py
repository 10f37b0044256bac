"""Communication between processes, through mpi4py or ``torch.distributed``, and its errors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from adokernels.text import failure

#: Size in bytes of the message with the text of an error.
_TEXT_BYTES = 512

_Result = TypeVar("_Result")


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
