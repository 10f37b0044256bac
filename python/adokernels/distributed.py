"""``ado.gpp`` over several processes, through the communicator of the caller.

>>> from mpi4py import MPI  # doctest: +SKIP
>>> import adokernels as ado
>>> share = ado.distributed.split(operands, MPI.COMM_WORLD)  # doctest: +SKIP
>>> asx, ach = ado.distributed.gpp(share, comm=MPI.COMM_WORLD)  # doctest: +SKIP

The result has the same bits for any number of processes. It links and imports neither MPI
nor NCCL: it calls the methods of a communicator of mpi4py or ``torch.distributed``, or of any
object with the methods of :class:`Communicator`.
"""

from adokernels.large.communicators import Communicator
from adokernels.large.gpp_shares import rows_of_rank, split
from adokernels.large.gpp_sums import gpp

__all__ = ["Communicator", "gpp", "rows_of_rank", "split"]
