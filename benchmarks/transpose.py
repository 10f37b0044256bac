"""``ado.transpose`` beside its peers, in one run, as ratios.

    python benchmarks/transpose.py                 # NumPy and OpenCV, on the CPU
    python benchmarks/transpose.py --device cuda   # torch, CuPy and cuBLAS geam, on the GPU

Each line is one shape and type: the default variant's time, its share of the copy measured in the
same rounds, and how many times faster it is than each peer. Peers that are not installed, or do not
take a type, are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import adokernels as ado
from adokernels._cli import _lengths, random_array

Peers = dict[str, Callable[[], object]]

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


def finite(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Random data; of floating types finite, because geam computes with them."""
    if dtype.kind in "fc":
        rng = np.random.default_rng()
        real = rng.random(shape).astype(dtype)
        return real + 1j * real if dtype.kind == "c" else real
    return random_array(shape, dtype)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--shapes", type=_lengths, nargs="+", default=[(8192, 8192)])
    parser.add_argument(
        "--dtypes", type=np.dtype, nargs="+", default=[np.dtype(t) for t in CPU_TYPES]
    )
    parser.add_argument("--variant", help="default: the default variant")
    parser.add_argument("--seconds", type=float, default=2.0, help="at most, for each function")
    parser.add_argument("--cache", choices=("cold", "warm"), default="cold")
    parser.add_argument("--json", type=Path, help="folder for the raw measurements")
    options = parser.parse_args()

    last = [v.name for v in ado.transpose if v.device == options.device and not v.ceiling][-1]
    ceiling = next(v.name for v in ado.transpose if v.device == options.device and v.ceiling)
    ours = options.variant or last
    roof = ado.machine(options.device, refresh=True)
    console = Console(width=140)
    table = Table(title=f"transpose[{ours}] on {roof.name}, {options.cache}; times faster than ...")
    headings = ["shape", "dtype", "ms", "GB/s", f"of {ceiling}", "of DRAM copy"]
    names = ["numpy", "cv2"] if options.device == "cpu" else ["torch", "cupy", "geam", "torch copy"]
    for heading in headings + names:
        table.add_column(heading, justify="right")
    for shape in options.shapes:
        for dtype in options.dtypes:
            a = finite(shape, dtype)
            sweep = ado.sweep(
                ado.transpose,
                a,
                device=options.device,
                variants=[ceiling, ours],
                peers=cpu_peers(a) if options.device == "cpu" else cuda_peers(a),
                cache=options.cache,
                seconds=options.seconds,
                progress=False,
            )
            if options.json:
                options.json.mkdir(parents=True, exist_ok=True)
                sweep.save(options.json / f"{options.device}-{shape[0]}x{shape[1]}-{dtype}.json")
            m = sweep[ours]
            others = {p.variant: f"{p.seconds / m.seconds:.2f}" for p in sweep.peers}
            table.add_row(
                "x".join(map(str, shape)),
                str(dtype),
                f"{1e3 * m.seconds:.4g}",
                f"{m.bytes_per_second / 1e9:.4g}",
                f"{sweep[ceiling].seconds / m.seconds:.1%}"
                if ceiling not in sweep.skipped
                else "-",
                f"{m.bytes_per_second / roof.roof:.1%}",
                *(others.get(name, "-") for name in names),
            )
    console.print(table)


if __name__ == "__main__":
    main()
