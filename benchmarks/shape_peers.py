"""The functions that are compared on one problem: the default call, its peers, and a copy."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import reductions
import shape_references as references
import transpose
from beside_peers import Peers, correct, made
from gpp_variants import Variants
from image_peers import Library, correct_filters
from random_shapes import Case, is_colour
from shape_references import FILTERS, Array

import adokernels as ado
from adokernels.model.routine import batch_option

OURS, COPY = "adokernels", "copy"
SMALLEST_FOR_OPENCV = 64
LARGEST_FOR_NUMPY = 1 << 18  # pixels; maximum for the filters in NumPy
SMALLEST_FOR_NPP = 16  # also for CV-CUDA
LARGEST_FOR_PEERS = 1 << 28  # pixels; peers on the GPU need many times the memory of the image
MOST_IMAGES = 32  # maximum images per batch; peers launch kernels per image


class WrongResult(Exception):
    """The result of adokernels is wrong; nothing is timed."""


@dataclass
class Compared:
    """The functions to time on one problem.

    Attributes
    ----------
    variant
        The variant that the default call runs.
    bytes
        Compulsory bytes of the problem.
    functions
        The default call (``OURS``), the peers, and a copy of the same number of bytes (``COPY``).
    left_out
        Why peers are not timed.
    wrong
        Peers whose results are wrong, and how.
    phases
        Durations in seconds: making operands, checking our result, making and checking peers.
    """

    variant: str
    bytes: float
    functions: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)


class Clock:
    """The durations of consecutive phases, by name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._start = time.perf_counter()

    def lap(self, phase: str) -> None:
        """End the current phase and store its duration."""
        now = time.perf_counter()
        self.laps[phase] = now - self._start
        self._start = now


class Bench:
    """Makes operands on a device, and the functions to compare on them.

    With `new_results`, functions on the CPU allocate their results, except for OpenCV's filters.
    """

    def __init__(
        self, device: str, seed: int, libraries: Mapping[str, Library], new_results: bool
    ) -> None:
        self.device, self.libraries, self.new_results = device, libraries, new_results
        if device == "cuda":
            import cupy

            self.xp: Any = cupy
        else:
            self.xp = np
        self.rng = np.random.default_rng(seed)

    def compared(self, case: Case, seed: int) -> Compared:
        """Return the functions for one problem. Each has been called once, and its result checked.

        Raises
        ------
        WrongResult
            If the result of adokernels is wrong.
        """
        if case.routine == "gpp":
            return self._own_variants(case, seed)
        clock = Clock()
        args = self._operands(case)
        clock.lap("operands")
        arrays = tuple(map(self.xp.asarray, args))
        with references.plain_reductions(self.xp):
            error_of, tolerance = self._reference(case, arrays)
        found = self._default_call(case, args, error_of, tolerance[OURS])
        clock.lap("check")
        self._add_peers(found, case, args, arrays, error_of, tolerance["peers"])
        found.functions[COPY] = self._copy(found.bytes)
        clock.lap("peers")
        found.phases = clock.laps
        return found

    def alone(self, case: Case) -> Compared:
        """Return only the default call; its result is not checked."""
        return self._default_call(case, self._operands(case), lambda *_: 0.0, 0.0)

    def _default_call(
        self,
        case: Case,
        args: tuple[Any, ...],
        error_of: Callable[[str, Any], float],
        tolerance: float,
    ) -> Compared:
        routine = ado.routines[case.routine]
        options = batch_option(routine, args[0])
        problem = routine.problem(*args, device=self.device, **options)
        call = problem.prepare(problem.best())
        ours: Any = call
        if self.device == "cpu":
            ours = partial(routine, *args, **options)
            if not self.new_results:
                ours = partial(ours, out=np.empty_like(ours()))
            result = ours()
        else:
            result = routine(*args, **options)
        if (error := error_of(OURS, result)) > tolerance:
            raise WrongResult(f"error {error:.3g} exceeds the tolerance of {tolerance:.3g}")
        return Compared(call.variant, call.cost.bytes, {OURS: ours})

    def _operands(self, case: Case) -> tuple[Any, ...]:
        args = []
        for shape in references.operand_shapes(case):
            empty = np.empty(shape, case.dtype)
            args.append(ado.to_device(empty) if self.device == "cuda" else empty)
            references.fill_randomly(self.xp.asarray(args[-1]), self.xp, self.rng)
        return tuple(args)

    def _reference(
        self, case: Case, arrays: tuple[Array, ...]
    ) -> tuple[Callable[[str, Any], float], dict[str, float]]:
        """Return a function that computes the error of a result, and the tolerances."""
        unit = None
        tolerance = {OURS: 0.0, "peers": 0.0}
        if case.routine == "average_matvec":
            expected, unit = references.averages(self.xp, *arrays)
            tolerance = {OURS: 1.0, "peers": reductions.tolerance(case.routine, case.shape)}
        elif case.routine == "transpose":
            expected = references.transpose(self.xp, *arrays)
        elif case.routine == "max_plus":
            expected = references.max_plus(self.xp, *arrays)
        else:
            expected = references.filtered(self.xp, case.routine, *arrays)

        def error_of(name: str, result: Any) -> float:
            got = self.xp.asarray(result)
            if got.dtype.kind == "i":  # torch peers use signed instead of unsigned integers
                got = got.view(expected.dtype)
            with references.plain_reductions(self.xp):
                return references.error(self.xp, got, expected, unit)

        return error_of, tolerance

    def _add_peers(
        self,
        found: Compared,
        case: Case,
        args: tuple[Any, ...],
        arrays: tuple[Array, ...],
        error_of: Callable[[str, Any], float],
        tolerance: float,
    ) -> None:
        if case.routine in FILTERS:
            peers = self._filters(found, case, arrays[0])
        else:
            makers = (
                transpose.PEERS[self.device]
                if case.routine == "transpose"
                else reductions.PEERS[case.routine, self.device]
            )
            if self.new_results:
                makers = {name: partial(make, new_results=True) for name, make in makers.items()}
            candidates, missing = made(makers, args)
            peers, failed, wrong = correct(candidates, error_of, tolerance)
            found.left_out |= missing | failed
            found.wrong |= wrong
        found.functions |= peers

    def _filters(self, found: Compared, case: Case, image: Array) -> Peers:
        shape = case.shape[:-1] if is_colour(case.routine) else case.shape
        pixels, peers = int(np.prod(shape)), {}
        libraries = dict(self.libraries)
        if self.device == "cpu":
            if min(shape[-2:]) < SMALLEST_FOR_OPENCV:
                libraries.pop("cv2", None)
            if pixels <= LARGEST_FOR_NUMPY:
                peers["numpy"] = partial(references.filtered, np, case.routine, image)
        elif pixels > LARGEST_FOR_PEERS or (
            len(shape) == 3 and shape[0] > MOST_IMAGES and case.routine != "grayscale"
        ):
            libraries = {}
        elif min(shape[-2:]) < SMALLEST_FOR_NPP:
            for name in ("npp", "cvcuda"):
                libraries.pop(name, None)
        kept, left_out, wrong = correct_filters(case.routine, image, libraries)
        found.left_out |= left_out
        found.wrong |= wrong
        return peers | kept

    def _copy(self, nbytes: float) -> Callable[[], None]:
        """Return a copy function whose reads and writes total `nbytes`."""
        half = max(1, int(nbytes) // 2)
        source, target = self.xp.ones(half, "u1"), self.xp.empty(half, "u1")
        if self.device == "cpu":
            return partial(np.copyto, target, source)
        to, origin, kind = target.data.ptr, source.data.ptr, 3  # device to device
        runtime = self.xp.cuda.runtime

        def run(keep: tuple[Array, Array] = (source, target)) -> None:
            runtime.memcpyAsync(to, origin, half, kind, 0)

        return run

    def _own_variants(self, case: Case, seed: int) -> Compared:
        """Return the default variant, and all other variants as its peers."""
        clock = Clock()
        problem = ado.gpp_operands(case.shape, seed=seed)
        clock.lap("operands")
        variants = Variants(problem, self.device, self.rng)
        clock.lap("check")
        calls, left_out, wrong = variants.calls()
        best = variants.best
        if best not in calls:
            raise WrongResult(f"[{best}] {wrong[best]}")
        found = Compared(best, calls[best].cost.bytes, left_out=left_out, wrong=wrong)
        for name, call in calls.items():
            work = call if self.device == "cuda" else call.run
            found.functions[OURS if name == best else name] = work
        found.functions[COPY] = self._copy(found.bytes)
        clock.lap("peers")
        found.phases = clock.laps
        return found

    @property
    def free_memory(self) -> int:
        """Free GPU memory in bytes."""
        free, _ = self.xp.cuda.runtime.memGetInfo()
        return int(free)

    def release(self) -> None:
        """Free the unused GPU memory that CuPy and torch cache, each for itself."""
        gc.collect()
        if self.device == "cpu":
            return
        _, total = self.xp.cuda.runtime.memGetInfo()
        if self.free_memory < total / 2:
            self.xp.get_default_memory_pool().free_all_blocks()
            if torch := sys.modules.get("torch"):
                torch.cuda.empty_cache()
