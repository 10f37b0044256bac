"""The functions that are compared on one problem: the default call, its peers, and a copy."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import array_peers
import numpy as np
import shape_references as references
from beside_peers import Peers, correct
from image_peers import FILTERS, Library, correct_filters, is_colour
from random_shapes import Case
from shape_references import Array

import adokernels as ado
from adokernels.model.checker import Checker
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
    """The functions to time on one problem: OURS, the peers, and a copy of equal size (COPY)."""

    variant: str  # the variant of the default call
    bytes: float  # compulsory bytes of the problem
    functions: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  # why peers are not timed
    wrong: dict[str, str] = field(default_factory=dict)  # errors of peers with wrong results
    phases: dict[str, float] = field(default_factory=dict)  # durations in seconds


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
    With `own`, the peers are the other variants of the routine.
    """

    def __init__(
        self,
        device: str,
        seed: int,
        libraries: Mapping[str, Library],
        new_results: bool,
        *,
        own: bool = False,
    ) -> None:
        self.device, self.libraries, self.new_results = device, libraries, new_results
        self.own = own
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
        if case.routine == "gpp" or self.own:
            return self._own_variants(case, seed)
        clock = Clock()
        args = self._operands(case)
        clock.lap("operands")
        arrays = tuple(map(self.xp.asarray, args))
        with references.plain_reductions(self.xp):
            error_of, ours, theirs = self._reference(case, arrays)
        found = self._default_call(case, args, error_of, ours)
        clock.lap("check")
        if case.routine in FILTERS:
            peers, left_out, wrong = self._filters(case, arrays[0])
        else:
            makers = array_peers.PEERS[case.routine, self.device]
            if self.new_results:
                makers = {name: partial(make, new_results=True) for name, make in makers.items()}
            peers, left_out, wrong = correct(makers, args, error_of, theirs)
        found.functions |= {**peers, COPY: self._copy(found.bytes)}
        clock.lap("peers")
        return replace(found, left_out=left_out, wrong=wrong, phases=clock.laps)

    def alone(self, case: Case) -> Compared:
        """Return only the default call; its result is not checked."""
        return self._default_call(case, self._operands(case), lambda _: 0.0, 0.0)

    def _default_call(
        self,
        case: Case,
        args: tuple[Any, ...],
        error_of: Callable[[Any], float],
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
        if (error := error_of(result)) > tolerance:
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
    ) -> tuple[Callable[[Any], float], float, float]:
        """Return a function for the error of a result, our tolerance, and the peers' tolerance."""
        unit = None
        if case.routine == "average_matvec":
            expected, unit = references.averages(self.xp, *arrays)
        elif case.routine in FILTERS:
            expected = references.filtered(self.xp, case.routine, *arrays)
        else:
            expected = getattr(references, case.routine)(self.xp, *arrays)

        def error_of(result: Any) -> float:
            with references.plain_reductions(self.xp):
                return references.error(self.xp, self.xp.asarray(result), expected, unit)

        if unit is None:
            return error_of, 0.0, 0.0
        return error_of, 1.0, array_peers.tolerance(case.routine, case.shape)

    def _filters(self, case: Case, image: Array) -> tuple[Peers, dict[str, str], dict[str, str]]:
        """Call `correct` for filters, without libraries that do not support the shape."""
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
        return peers | kept, left_out, wrong

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
        routine = ado.routines[case.routine]
        if case.routine == "gpp":
            operands = ado.gpp_operands(case.shape, seed=seed)
            args = tuple(map(ado.to_device, operands)) if self.device == "cuda" else operands
        else:
            args = self._operands(case)
        options = batch_option(routine, args[0])
        problem = routine.problem(*args, device=self.device, **options)
        clock.lap("operands")
        checker, best = Checker(routine, problem), problem.best()
        clock.lap("check")
        found = Compared(best, problem.prepare(best).cost.bytes)
        for variant in routine:
            name = variant.name
            if variant.device != self.device or variant.ceiling:
                continue
            if reason := variant.why_unavailable or problem.why_not(name):
                found.left_out[name] = reason
                continue
            call = problem.prepare(name)
            try:
                checker.before(call)
            except ValueError as error:
                if name == best:
                    raise WrongResult(f"[{best}] {error}") from error
                found.wrong[name] = str(error)
                continue
            work = call if self.device == "cuda" else call.run
            found.functions[OURS if name == best else name] = work
        problem.load(problem.values)  # checks have stored other values
        found.functions[COPY] = self._copy(found.bytes)
        clock.lap("peers")
        return replace(found, phases=clock.laps)

    @property
    def free_memory(self) -> int:
        """Free GPU memory in bytes."""
        free, _ = self.xp.cuda.runtime.memGetInfo()
        return int(free)

    def release(self) -> None:
        """Free the unused GPU memory that CuPy and torch cache separately."""
        gc.collect()
        if self.device == "cpu":
            return
        _, total = self.xp.cuda.runtime.memGetInfo()
        if self.free_memory < total / 2:
            self.xp.get_default_memory_pool().free_all_blocks()
            if torch := sys.modules.get("torch"):
                torch.cuda.empty_cache()
