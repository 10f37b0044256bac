"""Records the data of notebooks/08_matrix_product.ipynb on a GPU with readable counters.

* what_if-NAME: the experiments on a CUDA C++ variant, with matrices of half the size. The launches
  of a function are recorded on the emulator, which would take hours for the kernel in Triton.
* fp32, fp16: the ladders of notebooks/kernels/matrix_product with counters, and the product of
  torch, which calls cuBLAS, in the same rounds. TF32 is off.

It needs the extra ``kernels``, torch, Triton, and four minutes on an H200.

    python benchmarks/course/matrix_product.py FOLDER [--only NAME ...]
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from recording import Records, complete, run

import adokernels as ado

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "notebooks/kernels/matrix_product"))
import ladders

SIZE = 4096
TRIED = ("naive", "coalesced", "tiled", "square", "vectorised", "tensor_cores")


def sweep(ladder: Any, operands: Any, seconds: float, *more: Any) -> ado.records.Sweep:
    """Measure the variants of a ladder and the product of torch."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    peers = {"torch.matmul": partial(torch.matmul, *(torch.from_numpy(o).cuda() for o in operands))}
    found = ado.sweep(
        ladder.with_variants(*more), *operands, device="cuda", peers=peers, seconds=seconds,
        counters="light", progress=False,
    )  # fmt: skip
    return complete(found, [*(v.name for v in ladder), *peers])


def with_triton(operands: Any) -> ado.records.Sweep:
    """Measure the ladder in FP16 and the kernel in Triton."""
    from triton_dot import triton_dot

    return complete(sweep(ladders.fp16, operands, 12, triton_dot), ["triton_dot"])


def records() -> Records:
    lads = (ladders.fp32, "float32"), (ladders.fp16, "float16")
    found = {v.name: (v, dtype) for ladder, dtype in lads for v in ladder}
    for name in TRIED:
        variant, dtype = found[name]
        operands = ladders.matrices(*[SIZE // 2] * 3, dtype)
        options = {"seconds": 2, "progress": False}
        yield f"what_if-{name}", partial(ado.what_if, variant, *operands, **options)
    single, half = (ladders.matrices(*[SIZE] * 3, dtype) for _, dtype in lads)
    yield "fp32", partial(sweep, ladders.fp32, single, 30)
    yield "fp16", partial(with_triton, half)


if __name__ == "__main__":
    run(__doc__, records)
