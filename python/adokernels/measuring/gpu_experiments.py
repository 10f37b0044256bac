"""Experiments on CUDA variants: the same kernels under changed conditions, timed interleaved.

The rules in :mod:`adokernels.diagnosis.gpu_rules` derive the limiter from the times.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from adokernels import _core
from adokernels.measuring.machine import measured_machine
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sampler
from adokernels.measuring.trials import Sizes, Trial, footprint_of, runs_of
from adokernels.model.ladder import Ladder, Variant
from adokernels.model.problem import Block, Call, Problem
from adokernels.model.routine import BuiltInVariant
from adokernels.records.experiments import GIVEN, HALF, Experiments

#: Parts of the resident blocks, and of the multiprocessors. With all blocks and as much shared
#: memory, L1 is as small as with fewer blocks.
_OCCUPANCIES, _PROCESSORS = (0.5, 1.0, 0.25), (0.5,)
#: A problem in L2 has this part of its size: on some GPUs, each of two partitions keeps copies.
_PART_OF_L2 = 0.25
#: Larger operands have enough work, so no problem of half the size is tried.
_HALVED_BYTES = 256 << 20
#: Other block shapes that are tried.
_MOST_BLOCKS = 3


class GpuExperiments:
    """The experiments on the variants of one problem on one GPU."""

    def __init__(
        self, ladder: Ladder, problem: Problem, cache: str, display: ProgressDisplay | None
    ) -> None:
        """Prepare problems of other sizes; `display` is None for no measurement of ceilings."""
        problem.load(problem.values)
        self._cache, self._display, self._sizes = cache, display, Sizes(ladder, problem)
        self._gpu = _core.cuda_properties(problem.device_id)
        small = self._sizes.bytes <= _HALVED_BYTES
        self._half = self._sizes.scaled(self._sizes.bytes / 2) if small else None
        in_l2 = _PART_OF_L2 * self._gpu["l2_bytes"]
        self._in_l2 = self._sizes.scaled(in_l2) if 2 * in_l2 <= self._sizes.bytes else None
        self._contexts: dict[int, int] = {}  # stream of a green context by multiprocessors

    def on(self, name: str, call: Call, sampler: Sampler, budget: float) -> Experiments:
        """Run the experiments on one variant; `budget` is their time in seconds."""
        runs = runs_of(self._plan(name, call), sampler, budget)
        ceilings = {}
        if self._display:
            found = measured_machine(self._sizes.problem.device_id, self._display).ceilings
            ceilings = {c.name: c.measured for c in found if c.kind in ("bandwidth", "compute")}
        return Experiments(runs=runs, ceilings=ceilings)

    def _plan(self, name: str, call: Call) -> Iterator[Callable[[], Trial | None]]:
        """Yield functions that make the trials, the most important first."""
        sizes, processors = self._sizes, int(self._gpu["multiprocessors"])
        variant = sizes.ladder[name]
        given: dict[str, Any] = {"size": GIVEN, "cache": self._cache}
        given["occupancy"] = _occupancy(call)
        given |= {"multiprocessors": processors, "block": tuple(call.block or ())}

        def trial(
            problem: Problem | None, made: Call | None = None, **changed: Any
        ) -> Trial | None:
            if problem is None or problem.why_not(name):
                return None
            prepared = made or (problem.prepare(name) if changed else call)
            return Trial({**given, **changed}, prepared, footprint_of(problem))

        def crowded(part: float) -> Trial | None:
            extra = self._extra_shared(variant, part)
            if not extra or not isinstance(variant, BuiltInVariant):
                return None
            made = variant.prepare(sizes.problem, extra_shared_bytes=extra)
            changed = {"occupancy": _occupancy(made), "extra_shared_bytes": extra}
            return trial(sizes.problem, made, **changed)

        def fewer(part: float) -> Trial | None:
            owned, made = self._with_processors(variant, int(processors * part))
            return trial(sizes.problem, made, multiprocessors=owned) if made else None

        def other(block: Block) -> Trial | None:
            made = sizes.problem.prepare(name, block)
            return trial(sizes.problem, made, block=block, occupancy=_occupancy(made))

        yield partial(trial, sizes.problem)
        yield from (partial(crowded, part) for part in _OCCUPANCIES)
        yield from (partial(fewer, part) for part in _PROCESSORS)
        yield partial(trial, self._in_l2, size="L2", cache="warm")
        yield partial(trial, self._half, size=HALF)
        if self._cache == "cold":
            yield partial(trial, sizes.problem, cache="warm")
        others = [block for block in variant.blocks if block != given["block"]]
        yield from (partial(other, block) for block in others[:_MOST_BLOCKS])

    def _extra_shared(self, variant: Variant, part: float) -> int:
        """Shared memory per block with which a part of the blocks is resident; 0 without any."""
        kernels = [k for k in variant.prepare(self._sizes.problem).kernels() if k.resident_warps]
        if not kernels:
            return 0
        warps = [math.ceil(math.prod(k.block) / 32) for k in kernels]
        resident = max(k.resident_warps // w for k, w in zip(kernels, warps, strict=True))
        wanted = math.ceil(resident * part)
        if wanted == resident and part < 1:
            return 0
        used = max(k.static_shared_bytes + k.dynamic_shared_bytes for k in kernels)
        each = int(self._gpu["shared_bytes_per_multiprocessor"]) // wanted
        extra = min(each - _RESERVED_SHARED, int(self._gpu["shared_bytes"])) - used
        return max(extra, 0) // 256 * 256

    def _with_processors(self, variant: Variant, count: int) -> tuple[int, Call | None]:
        """The number of multiprocessors of a green context, and the call on them."""
        if count not in self._contexts:
            self._contexts[count] = _green_stream(self._sizes.problem.device_id, count)
        stream = self._contexts[count]
        if not stream or not isinstance(variant, BuiltInVariant):
            return 0, None
        owned = int(_core.hardware(stream)["multiprocessors"])
        return owned, variant.prepare(self._sizes.problem, stream=stream)


#: Shared memory that CUDA reserves per block, in bytes (CUDA C++ Programming Guide).
_RESERVED_SHARED = 1 << 10


def _occupancy(call: Call) -> float:
    """The theoretical occupancy of the kernel with most warps; 0 if it is unknown."""
    kernels = [k for k in call.kernels() if k.max_warps]
    work = [math.prod(k.grid) * math.prod(k.block) for k in kernels]
    largest = max(zip(work, kernels, strict=True), key=lambda pair: pair[0], default=None)
    return largest[1].resident_warps / largest[1].max_warps if largest else 0.0


# --- Green contexts ------------------------------------------------------------------------------

_SM_RESOURCE = 1
#: At least the bytes of a CUdevResource, which are 144 in CUDA 12 and 13.
_RESOURCE_BYTES = 256


def _green_stream(device: str, count: int) -> int:
    """The stream of a new green context with at least `count` multiprocessors; 0 without one.

    The context lives until the process ends. It needs a driver for CUDA 12.5.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        get, split = driver.cuDeviceGetDevResource, driver.cuDevSmResourceSplitByCount
        describe, create = driver.cuDevResourceGenerateDesc, driver.cuGreenCtxCreate
        make_stream = driver.cuGreenCtxStreamCreate
    except (OSError, AttributeError):
        return 0
    everything, part, rest = (ctypes.create_string_buffer(_RESOURCE_BYTES) for _ in range(3))
    groups, gpu = ctypes.c_uint(1), ctypes.c_int(int(device.partition(":")[2] or 0))
    described, context, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    one = ctypes.c_uint(1)  # of resources, and the required flags of the context and the stream
    failed = (
        get(gpu, everything, ctypes.c_int(_SM_RESOURCE))
        or split(
            *(part, ctypes.byref(groups), everything, rest, ctypes.c_uint(0), ctypes.c_uint(count))
        )
        or describe(ctypes.byref(described), part, one)
        or create(ctypes.byref(context), described, gpu, one)
        or make_stream(ctypes.byref(stream), context, one, ctypes.c_int(0))
    )
    return 0 if failed else stream.value or 0
