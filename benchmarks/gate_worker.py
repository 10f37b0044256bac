"""Times one installation of adokernels at the requests of gate.py, which starts this script.

    python gate_worker.py FOLDER DEVICE

A request is a line of JSON: the name of a method of `Worker`, then the arguments. A reply is a line
of JSON. `Worker` contains every use of the package and uses only public names.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from timeit import Timer
from typing import Any

import numpy as np

CALLS = 100  # calls per sample of the overhead
MOST_SAMPLES = 20  # per request
#: The caches of a GPU are flushed before each sample. This takes longer than the host needs to
#: launch the sample, so the sample contains no launch overhead.
FLUSHED_BYTES = 256 << 20
#: Sizes of problems. On an H200, calls take 20 us to 100 ms.
SCALES = {"cpu": 32, "cuda": 1024}
#: NumPy expressions that compute the same as a routine. The target is at most 1.5 us more per call.
EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "transpose": lambda a: a.T.copy(),
    "average_matvec": lambda vectors, matrix: matrix @ vectors.mean(axis=2).T,
    "max_plus": lambda big, small: np.maximum(0, (big + small[:, None]).max(axis=0)),
}


def floats(*shape: int, dtype: str = "f4") -> Any:
    """Random numbers; a sequence of a million numbers repeats."""
    return np.resize(np.random.default_rng(1).random(1 << 20, "f4") - 0.5, shape).astype(dtype)


def pixels(*shape: int) -> Any:
    return np.resize(np.random.default_rng(1).integers(0, 256, 1 << 20, np.uint8), shape)


def problems(n: int, gpp_operands: Callable[..., Any]) -> dict[str, list[Callable[[], Any]]]:
    """The operands of each routine. A variant is timed on the first ones that it accepts."""
    side, many, thin = n << 3, n << 14, n << 12
    gray = [lambda: [pixels(side, 2 * side)], lambda: [pixels(thin, 7)]]
    rgba = [lambda: [pixels(side, side, 4)], lambda: [pixels(thin, 7, 3)]]
    return {
        "transpose": [
            lambda: [floats(side, side)],
            lambda: [floats(thin, 16)],
            lambda: [floats(16, thin)],
            lambda: [floats(many, 1)],
        ],
        "grayscale": rgba,
        "gaussian_blur": gray,
        "sobel": gray,
        "edge_detect": rgba,
        "average_matvec": [
            lambda: [floats(n, 256, 256), floats(256, 256)],
            lambda: [floats(n << 5, 16, 64), floats(16, 16)],
        ],
        "max_plus": [lambda: [floats(64, n << 9, dtype="f8"), floats(64, dtype="f8")]],
        "gpp": [lambda: gpp_operands((200, n >> 3, n << 1, 2), 1)],
        "strided_copy": [lambda: [floats(4 * many)]],
        "gather": [lambda: [floats(many), np.random.default_rng(1).integers(0, many, many)]],
        "component": [lambda: [floats(many, 3)], lambda: [floats(3, many).T]],
        "branch": [lambda: [floats(many)]],
        "instruction_parallelism": [lambda: [floats(many)]],
    }


def wall_times(work: Callable[[], object], count: int) -> list[float]:
    return Timer(work).repeat(count, 1)


class EventTimes:
    """Times between CUDA events before and after the work, on the legacy default stream."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._pairs = [(ctypes.c_void_p(), ctypes.c_void_p()) for _ in range(MOST_SAMPLES)]
        for event in (event for pair in self._pairs for event in pair):
            self._do("cuEventCreate", ctypes.byref(event), 0)
        self._flushed = ctypes.c_uint64()
        self._do("cuMemAlloc_v2", ctypes.byref(self._flushed), ctypes.c_size_t(FLUSHED_BYTES))

    def __call__(self, work: Callable[[], object], count: int) -> list[float]:
        """Enqueue all samples, then wait for them."""
        pairs, words = self._pairs[:count], ctypes.c_size_t(FLUSHED_BYTES // 4)
        for start, stop in pairs:
            self._do("cuMemsetD32Async", self._flushed, 0, words, None)
            self._do("cuEventRecord", start, None)
            work()
            self._do("cuEventRecord", stop, None)
        self._do("cuEventSynchronize", pairs[-1][1])
        milliseconds = ctypes.c_float()
        seconds = []
        for start, stop in pairs:
            self._do("cuEventElapsedTime", ctypes.byref(milliseconds), start, stop)
            seconds.append(1e-3 * milliseconds.value)
        return seconds

    def _do(self, function: str, *arguments: Any) -> None:
        if status := getattr(self._cuda, function)(*arguments):
            raise RuntimeError(f"{function} failed with status {status}")


class Worker:
    """The requests. Timed items are named ``routine/variant`` or ``kind of call/routine``."""

    def __init__(self, folder: str, device: str) -> None:
        self._folder, self._device, self._gpu = Path(folder).resolve(), device, device == "cuda"
        self._operands: dict[tuple[str, int], tuple[list[Any], str]] = {}
        self._takes: dict[str, Callable[[int], list[float]]] = {}

    def start(self) -> dict[str, Any]:
        """Import the package and call it; return both times, and the items that can be timed."""
        sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
        sys.path[0] = str(self._folder)
        start = time.perf_counter()
        import adokernels as ado

        imported = time.perf_counter()
        ado.settings.device = "cpu"
        ado.transpose(np.ones((1, 1)))
        called = time.perf_counter()
        modules = [m for name, m in sys.modules.items() if f"{name}.".startswith("adokernels.")]
        if outside := [m for m in modules if not Path(m.__file__).is_relative_to(self._folder)]:
            raise ImportError(f"{self._folder} must contain all modules, got {outside}")
        self._ado, self._take = ado, wall_times
        if self._gpu:
            ado.to_device(np.ones(1))  # creates the context
            self._take = EventTimes()
        self._problems = problems(SCALES[self._device], ado.gpp_operands)
        seconds = {"import": imported - start, "first call": called - imported}
        return {"seconds": seconds, "names": list(self._names())}

    def prepare(self, name: str) -> dict[str, Any]:
        """Prepare samples; return the duration of one and the timed item, or an error."""
        first, last = name.split("/")
        try:
            if first in self._ado.routines:
                work, found = self._call_of_variant(first, last)
                take = partial(self._take, work)
            else:
                take, found = partial(self._overheads, self._call(first, last)), {}
            take(1)  # loads code
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        self._takes[name] = take
        return {"seconds": Timer(partial(take, 1)).timeit(1), **found}

    def sample(self, name: str, count: int) -> list[float]:
        """Take samples, in seconds per call."""
        return self._takes[name](count)

    def _names(self) -> Iterator[str]:
        for name, routine in self._ado.routines.items():
            yield from (f"{name}/{v.name}" for v in routine if v.device == self._device)
            yield from (f"call/{name}", f"named call/{name}")
            yield from [f"device call/{name}"] * self._gpu
            yield from [f"NumPy/{name}"] * (name in EXPRESSIONS)

    def _call(self, kind: str, name: str) -> Callable[[], object]:
        """A call with the smallest operands."""
        routine = self._ado.routines[name]
        lengths, types_of = [(name, 1) for name in routine.dimensions], routine._core.operand_types
        try:
            types = types_of(lengths, (), "<f4")
        except TypeError:  # the types are fixed
            types = types_of(lengths, (), None)
        operands = [np.zeros(shape, dtype) for _, shape, dtype in types]
        if kind == "NumPy":
            return partial(EXPRESSIONS[name], *operands)
        if kind == "named call":
            return partial(routine, *operands, variant=routine.choose(*operands).variant)
        if kind == "device call":
            moved = [self._ado.to_device(a) for a in operands]
            return partial(routine, *moved, out=routine(*moved))
        return partial(routine, *operands)

    def _overheads(self, work: Callable[[], object], count: int) -> list[float]:
        """Seconds per call; the host waits for the GPU only between samples."""
        seconds = []
        for _ in range(count):
            seconds.append(Timer(work).timeit(CALLS) / CALLS)
            if self._gpu:
                self._ado.synchronize()
        return seconds

    def _call_of_variant(self, name: str, last: str) -> tuple[Callable[[], object], dict[str, Any]]:
        """A call, the identity of its operands, and the names and launches of its kernels."""
        variant, declined = self._ado.routines[name][last], []
        for number in [*range(len(self._problems[name])), "in place"]:
            operands, digest = self._operands_of(name, 0 if number == "in place" else number)
            options = {"out": operands[0]} if number == "in place" else {}
            try:
                out = variant(*operands, **options)
            except (ValueError, TypeError) as error:
                declined.append(error)
                continue
            kernels = variant.resources(*operands, **options) if self._gpu else ()
            launches = [[k.name, [k.grid, k.block, k.dynamic_shared_bytes]] for k in kernels]
            found = {"operands": f"{number}, {digest}", "kernels": launches}
            return partial(variant, *operands, out=out), found
        raise declined[0]

    def _operands_of(self, name: str, number: int) -> tuple[list[Any], str]:
        """The operands of a problem on the device, and a digest of them."""
        if (name, number) not in self._operands:
            arrays = list(self._problems[name][number]())
            some = b"".join(array.flat[:1000].tobytes() for array in arrays)
            moved = [self._ado.to_device(a) for a in arrays] if self._gpu else arrays
            self._operands[name, number] = moved, f"{zlib.crc32(some):08x}"
        return self._operands[name, number]


def main() -> None:
    worker = Worker(*sys.argv[1:])
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output must not be read as a reply
    for line in sys.stdin:
        request, *arguments = json.loads(line)
        print(json.dumps(getattr(worker, request)(*arguments)), file=replies, flush=True)


if __name__ == "__main__":
    main()
