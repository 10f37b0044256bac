"""Ranks of a communicator as threads of this process, for tests without MPI."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

#: Seconds after which a rank that waits for another one fails.
PATIENCE = 60


class _Group:
    def __init__(self, size):
        self.size = size
        self.barrier = threading.Barrier(size, timeout=PATIENCE)
        self.slots = [None] * size


class ThreadCommunicator:
    def __init__(self, group, rank):
        self._group, self.rank, self.size = group, rank, group.size

    def _exchange(self, value):
        self._group.slots[self.rank] = value
        self._group.barrier.wait()
        values = list(self._group.slots)
        self._group.barrier.wait()
        return values

    def all_gather(self, array):
        arrays = self._exchange(array.copy())
        assert len({(a.shape, a.dtype) for a in arrays}) == 1
        return np.stack(arrays)


def run_ranks(size, function):
    """Call function(communicator) on all ranks; return results, or exceptions in their place."""
    group = _Group(size)

    def run(rank):
        try:
            return function(ThreadCommunicator(group, rank))
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))


def results_of_ranks(size, function):
    """Like run_ranks; raises the first exception."""
    results = run_ranks(size, function)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
