"""Compares ``ado.transpose`` with its peers, in one run, as ratios.

    python benchmarks/transpose.py                 # NumPy and OpenCV, on the CPU
    python benchmarks/transpose.py --device cuda   # torch, CuPy and cuBLAS geam, on the GPU

The script prints one row per shape and type: the default variant's time, its share of the copy
measured in the same rounds, and its speed-up over each peer. Peers that are not installed, or do
not accept a type, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from beside_peers import Peers, Problem, compare, correct, made, parser
from image_peers import host
from torch_compile import COMPILER

import adokernels as ado
from adokernels.model.values import random_array

if TYPE_CHECKING:
    import torch

CPU_TYPES = ("uint8", "uint16", "float32", "float64", "complex128")


def numpy_transposes(a: np.ndarray, *, new_results: bool = False) -> Peers:
    out = np.empty(a.shape[::-1], a.dtype)

    def copied() -> np.ndarray:
        np.copyto(out, a.T)
        return out

    def new() -> np.ndarray:
        return a.T.copy()

    return {"numpy": new if new_results else copied}


def cv2_transposes(a: np.ndarray, *, new_results: bool = False) -> Peers:
    import cv2

    if a.dtype.kind == "c":
        raise TypeError("OpenCV has no complex type")
    if new_results:
        return {"cv2": lambda: cv2.transpose(a)}
    out = np.empty(a.shape[::-1], a.dtype)
    return {"cv2": lambda: cv2.transpose(a, out)}


def torch_transposes(a: ado.DeviceArray) -> Peers:
    import torch

    x = torch.as_tensor(Signed(a), device="cuda")
    out = torch.empty(a.shape[::-1], dtype=x.dtype, device="cuda")
    return {"torch": lambda: out.copy_(x.t())}


def compiled_transposes(a: ado.DeviceArray) -> Peers:
    import torch

    if a.dtype.kind == "c":
        raise TypeError("torch.compile generates no code for complex numbers")
    x = torch.as_tensor(Signed(a), device="cuda")
    out = torch.empty(a.shape[::-1], dtype=x.dtype, device="cuda")
    return COMPILER.peers(transpose_formula, x, out)


def transpose_formula(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return out.copy_(x.t())


class Signed:
    """An array with signed instead of unsigned integers, which torch supports less well."""

    def __init__(self, a: ado.DeviceArray) -> None:
        self.owner = a
        interface = a.__cuda_array_interface__
        self.__cuda_array_interface__ = {
            **interface, "typestr": interface["typestr"].replace("u", "i")
        }  # fmt: skip


def cupy_transposes(a: ado.DeviceArray) -> Peers:
    import cupy
    from cupy_backends.cuda.libs import cublas

    x = cupy.asarray(a)
    out = cupy.empty(a.shape[::-1], a.dtype)

    def transpose() -> cupy.ndarray:
        out[...] = x.T
        return out

    peers: Peers = {"cupy": transpose}
    geam = {"f4": "sgeam", "f8": "dgeam", "c8": "cgeam", "c16": "zgeam"}.get(a.dtype.str[1:])
    if geam:
        call, handle = getattr(cublas, geam), cupy.cuda.device.get_cublas_handle()
        one, zero = np.ones(1, a.dtype), np.zeros(1, a.dtype)
        target = cupy.empty(a.shape[::-1], a.dtype)
        (rows, cols), trans, keep = a.shape, 1, 0

        def run() -> cupy.ndarray:  # column-major: the (cols, rows) matrix x, transposed
            scale = one.ctypes.data, zero.ctypes.data
            call(
                handle, trans, keep, rows, cols, scale[0], x.data.ptr, cols,
                scale[1], target.data.ptr, rows, target.data.ptr, rows,
            )  # fmt: skip
            return target

        peers["geam"] = run
    return peers


#: Functions that make a library's peers, by device and library; peers return their result.
PEERS: dict[str, dict[str, Callable[..., Peers]]] = {
    "cpu": {"numpy": numpy_transposes, "cv2": cv2_transposes},
    "cuda": {
        "torch": torch_transposes,
        "torch.compile": compiled_transposes,
        "cupy": cupy_transposes,
    },
}


def problems(
    shapes: list[tuple[int, ...]], dtypes: list[np.dtype], device: str
) -> Iterator[Problem]:
    for shape in shapes:
        for dtype in dtypes:
            on_host = random_array(shape, dtype)
            a = ado.to_device(on_host) if device == "cuda" else on_host
            peers, missing = made(PEERS[device], (a,))
            kept, failed, wrong = correct(
                peers, lambda _, result, a=on_host: differs(host(result), a.T), 0
            )
            for peer, reason in (missing | failed | wrong).items():
                print(f"left out {peer}: {reason}")
            size = "x".join(map(str, shape))
            yield Problem((size, str(dtype)), (a,), kept, f"{size}-{dtype}")


def differs(result: np.ndarray, expected: np.ndarray) -> bool:
    """Compare bytes, because the result of a peer may have another type of the same size."""
    return result.tobytes() != expected.tobytes()


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
