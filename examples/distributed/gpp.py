"""The self-energy sums of a GPP problem, computed by several processes.

    mpirun -n 2 python -m mpi4py examples/distributed/gpp.py
    torchrun --nproc-per-node 2 examples/distributed/gpp.py

Each rank uses one GPU, or the CPU if there is none. On the CPU, set OMP_NUM_THREADS to the number
of threads per rank.
"""

import os

import adokernels as ado

if "TORCHELASTIC_RUN_ID" in os.environ:  # started by torchrun
    import torch.distributed

    torch.distributed.init_process_group("gloo")
    comm, rank = torch.distributed.group.WORLD, torch.distributed.get_rank()
else:
    from mpi4py import MPI

    comm, rank = MPI.COMM_WORLD, MPI.COMM_WORLD.rank

try:
    ado.settings.device = "cuda"
    local_rank = int(os.environ.get("LOCAL_RANK", os.environ.get("MPI_LOCALRANKID", "0")))
    device = f"cuda:{local_rank}"
except ado.Unavailable:
    ado.settings.device = "cpu"
    device = None

operands = ado.gpp_operands((200, 256, 1024, 2), seed=1)  # the same on all ranks
share = ado.distributed.split(operands, comm, device=device)
asx, ach = ado.distributed.gpp(share, comm=comm)

if rank == 0:
    for f, (screened, hole) in enumerate(zip(asx, ach, strict=True)):
        print(f"frequency {f}: screened exchange {screened:.12g}, Coulomb hole {hole:.12g}")
if "TORCHELASTIC_RUN_ID" in os.environ:
    torch.distributed.destroy_process_group()
