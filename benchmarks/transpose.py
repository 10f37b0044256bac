"""Compares ``ado.transpose`` with its peers, in one run, as ratios.

    python benchmarks/transpose.py                 # NumPy and OpenCV, on the CPU
    python benchmarks/transpose.py --device cuda   # torch, CuPy and cuBLAS geam, on the GPU

The script prints one row per shape and type: the default variant's time, its share of the copy
measured in the same rounds, and its speed-up over each peer. Peers that are not installed, or do
not accept a type, are left out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import numpy as np
from beside_peers import Peers, Problem, compare, parser

import adokernels as ado
from adokernels.arrays.operands import random_array

CPU_TYPES = ("uint8", "uint16", "float32", "float64", "complex128")


def cpu_peers(a: np.ndarray) -> Peers:
    out = np.empty(a.shape[::-1], a.dtype)
    peers: Peers = {"numpy": lambda: np.copyto(out, a.T)}
    if importlib.util.find_spec("cv2") and a.dtype.kind != "c":
        import cv2

        target = np.empty(a.shape[::-1], a.dtype)
        peers["cv2"] = lambda: cv2.transpose(a, target)
        cv2.transpose(a, target)
        assert np.array_equal(target, a.T)
    return peers


def cuda_peers(a: np.ndarray) -> Peers:
    peers: Peers = {}
    if importlib.util.find_spec("torch"):
        peers |= torch_peers(a)
    if importlib.util.find_spec("cupy"):
        peers |= cupy_peers(a)
    return peers


def torch_peers(a: np.ndarray) -> Peers:
    import torch

    x = torch.from_numpy(a.view(f"i{a.itemsize}") if a.dtype.kind == "u" else a).cuda()
    out = torch.empty(a.shape[::-1], dtype=x.dtype, device="cuda")
    copy = torch.empty_like(x)
    out.copy_(x.t())
    assert np.array_equal(out.cpu().numpy().view(np.uint8), a.T.copy().view(np.uint8))
    return {"torch": lambda: out.copy_(x.t()), "torch copy": lambda: copy.copy_(x)}


def cupy_peers(a: np.ndarray) -> Peers:
    import cupy
    from cupy_backends.cuda.libs import cublas

    x = cupy.asarray(a)
    out = cupy.empty(a.shape[::-1], a.dtype)

    def transpose() -> None:
        out[...] = x.T

    peers: Peers = {"cupy": transpose}
    geam = {"f4": "sgeam", "f8": "dgeam", "c8": "cgeam", "c16": "zgeam"}.get(a.dtype.str[1:])
    if geam:
        call, handle = getattr(cublas, geam), cupy.cuda.device.get_cublas_handle()
        one, zero = np.ones(1, a.dtype), np.zeros(1, a.dtype)
        target = cupy.empty(a.shape[::-1], a.dtype)
        (rows, cols), trans, keep = a.shape, 1, 0

        def run() -> None:  # column-major: the (cols, rows) matrix x, transposed
            scale = one.ctypes.data, zero.ctypes.data
            call(
                handle, trans, keep, rows, cols, scale[0], x.data.ptr, cols,
                scale[1], target.data.ptr, rows, target.data.ptr, rows,
            )  # fmt: skip

        run()
        assert cupy.array_equal(target, x.T, equal_nan=True)
        peers["geam"] = run
    return peers


def problems(
    shapes: list[tuple[int, ...]], dtypes: list[np.dtype], device: str
) -> Iterator[Problem]:
    for shape in shapes:
        for dtype in dtypes:
            a = random_array(shape, dtype)
            peers = cpu_peers(a) if device == "cpu" else cuda_peers(a)
            size = "x".join(map(str, shape))
            yield Problem((size, str(dtype)), (a,), peers, f"{size}-{dtype}")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--dtypes", type=np.dtype, nargs="+", default=[np.dtype(t) for t in CPU_TYPES]
    )
    arguments.set_defaults(shapes=[(8192, 8192)])
    options = arguments.parse_args()
    compare(
        ado.transpose,
        ("shape", "dtype"),
        problems(options.shapes, options.dtypes, options.device),
        ado.machine(options.device, refresh=True),
        options,
    )


if __name__ == "__main__":
    main()
