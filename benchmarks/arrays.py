"""Measures the overhead of calls with arrays of other libraries, and copies of NumPy operands.

python benchmarks/arrays.py

Targets: a call with torch tensors takes at most 5 us longer than a call with DeviceArrays, and the
copies of NumPy operands have at least 80 % of the bandwidth between pinned memory and the GPU.
"""

from __future__ import annotations

import importlib
import time
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import adokernels as ado

SIDE, BYTES, ROUNDS = 64, 1 << 30, 10
CALLS, ROUNDS_OF_CALLS = 100, 300


def microseconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the minimum time per call of each function, in interleaved rounds."""
    timers = {name: timeit.Timer(call) for name, call in calls.items()}
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS_OF_CALLS):
        for name, timer in timers.items():
            best[name] = min(best[name], timer.timeit(CALLS) / CALLS)
    return {name: 1e6 * seconds for name, seconds in best.items()}


def libraries(host: np.ndarray) -> dict[str, Any]:
    arrays: dict[str, Any] = {"DeviceArray": ado.to_device(host)}
    makers: dict[str, Callable[[Any], Any]] = {
        "torch": lambda m: m.from_numpy(host).cuda(),
        "cupy": lambda m: m.asarray(host),
        "jax": lambda m: m.device_put(host),
        "numba.cuda": lambda m: m.to_device(host),
    }
    for name, make in makers.items():
        try:
            arrays[name] = make(importlib.import_module(name))
        except ImportError:
            continue
    return arrays


def overheads() -> None:
    arrays = libraries(np.ones((SIDE, SIDE), np.float32))
    outs = libraries(np.ones((SIDE, SIDE), np.float32))
    calls: dict[str, Callable[[], Any]] = {}
    for name, array in arrays.items():
        calls[name] = lambda a=array: ado.transpose(a)
        if name != "jax":
            calls[f"{name}, out="] = lambda a=array, o=outs[name]: ado.transpose(a, out=o)
    for name, us in microseconds(calls).items():
        print(f"{name:<22}{us:9.2f} us per call")


def seconds(work: Callable[[], object]) -> float:
    def once() -> float:
        start = time.perf_counter()
        work()
        ado.synchronize()
        return time.perf_counter() - start

    return min(once() for _ in range(ROUNDS))


def bandwidths() -> None:
    torch = importlib.import_module("torch")
    pinned = torch.empty(BYTES, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(BYTES, dtype=torch.uint8, device="cuda")
    host = np.ones(BYTES, np.uint8)
    own = ado.to_device(host)
    for name, work in {
        "pinned to device": lambda: device.copy_(pinned, non_blocking=True),
        "NumPy to device": lambda: own.copy_from(host),
        "device to pinned": lambda: pinned.copy_(device, non_blocking=True),
        "device to NumPy (new array)": own.numpy,
    }.items():
        print(f"{name:<30}{BYTES / seconds(work) / 1e9:8.1f} GB/s")
    square = host.view(np.float32).reshape(1 << 14, 1 << 14)
    out = np.empty_like(square)
    both = seconds(lambda: ado.transpose(square, device="cuda", out=out))
    print(f"{'transpose, to GPU and back':<30}{2 * BYTES / both / 1e9:8.1f} GB/s")


if __name__ == "__main__":
    overheads()
    bandwidths()
