"""ado.distributed in processes started by mpirun and torchrun, where they are installed."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

MPIRUN = shutil.which("mpirun", path=Path(sys.executable).parent) or shutil.which("mpirun")
needs_mpi = pytest.mark.skipif(
    not (MPIRUN and find_spec("mpi4py")), reason="needs mpirun and mpi4py"
)
needs_torch = pytest.mark.skipif(not find_spec("torch"), reason="needs torch")

#: Prints the bits of the result on rank 0, after all ranks have compared their results.
RESULT = """
import sys
import numpy as np
import adokernels as ado
from adokernels.distributed import communicator_of

if sys.argv[1] == "mpi":
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
else:
    import torch.distributed
    torch.distributed.init_process_group("gloo")
    comm = torch.distributed.group.WORLD
problem = ado.gpp_operands((24, 131, 67, 2), seed=1)
communicator = communicator_of(comm)
rank, size = communicator.rank, communicator.size
share = ado.distributed.split(problem, comm)
result = np.stack(ado.distributed.gpp(share, comm=comm))
seen = {row.tobytes() for row in communicator.all_gather(result)}
assert len(seen) == 1
try:
    ado.distributed.gpp(share, comm=comm, gamma=-1 if rank == size - 1 else 1)
except (ValueError, RuntimeError) as error:
    assert "gamma must be positive" in str(error), error
else:
    raise AssertionError("the last rank must fail")
if rank == 0:
    print("bits", seen.pop().hex())
if sys.argv[1] == "torch":
    torch.distributed.destroy_process_group()
"""

FAILURE = """
import sys
from mpi4py import MPI
import adokernels as ado

comm = MPI.COMM_WORLD
share = ado.distributed.split(ado.gpp_operands((24, 131, 67, 2), seed=1), comm)
if comm.rank == 1:
    raise KeyError("this rank fails")
ado.distributed.gpp(share, comm=comm)
"""


def start(command, **options):
    changes = {"ADOKERNELS_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    # Containers run the tests as root. Without these variables, Open MPI refuses that.
    changes |= dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")
    return subprocess.run(
        command, env=os.environ | changes, capture_output=True, text=True, check=False, **options
    )


def bits_of(done):
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("bits ")]


@pytest.fixture
def program(tmp_path):
    def write(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        return str(path)

    return write


@needs_mpi
def test_mpi(program):
    path = program(RESULT)
    seen = [
        bits_of(start([MPIRUN, "-n", n, sys.executable, path, "mpi"], timeout=300))
        for n in ("1", "2", "3")
    ]
    assert len(seen[0]) == 1
    assert seen[0] == seen[1] == seen[2]


@needs_mpi
def test_a_rank_that_fails_ends_the_job(program):
    command = [MPIRUN, "-n", "2", sys.executable, "-m", "mpi4py", program(FAILURE)]
    done = start(command, timeout=300)  # the other rank would wait forever
    assert done.returncode != 0
    assert "this rank fails" in done.stderr


@needs_torch
def test_torch(program):
    path = program(RESULT)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    seen = [
        bits_of(start([*launcher, "--nproc-per-node", n, path, "torch"], timeout=300))
        for n in ("1", "2")
    ]
    assert len(seen[0]) == 1
    assert seen[0] == seen[1]
