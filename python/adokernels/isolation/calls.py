"""Calls in a sandbox: the parent has the operands, the clock and the expected results.

docs/grading.md describes the protocol.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.isolation.process import (
    TICK,
    Candidate,
    CompilerProcess,
    Remote,
    Reply,
    well_formed,
)
from adokernels.model.checker import ELSEWHERE
from adokernels.model.compiler import CompiledKernel, compile_cuda
from adokernels.model.cuda_variant import KernelCall
from adokernels.model.guarded import GuardedArray
from adokernels.model.ladder import Ladder
from adokernels.model.own_ladder import OwnLadder, extended
from adokernels.model.own_variant import FunctionVariant, OwnCall, OwnVariant
from adokernels.model.problem import Problem, Values, changed_values
from adokernels.model.values import Renewal, is_array
from adokernels.process import settings
from adokernels.text import quantity

#: Both bounds of the time of a call are reduced by this time, and by this share of the difference.
_SLACK, _SLACK_SHARE = 40e-6, 0.01
#: The quantile of the claims, and of the intervals for the least time. Other work can make
#: intervals longer, but not shorter.
_SHORTEST = 0.1
#: Claims below this share of the bound for a refusal, minus a constant, are refused after further
#: calls: other work may have made all intervals longer. Other claims are raised to the least time.
_LIE, _LIE_SECONDS, _CALLS = 0.5, 300e-6, 48
#: Before a warm call, the process touches memory of less than this number of bytes, which brings it
#: into the caches of its core. The writes of the parent leave other memory in a shared cache.
_TOUCHED = 16 << 20
#: Every sample is verified if that takes less time than this. Otherwise, the first ten are verified
#: with the larger probability, which then falls to the smaller one.
_CHEAP_SECONDS, _VERIFIED, _EXPECTED = 0.05, (0.5, 0.1), 5
#: A kernel that does the work of Renewal.of() on the device.
_RENEW = """
{include}
using T = {type};
extern "C" __global__ void renew(const T* from, T* to, long long n, long long distance, T number) {{
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n;
       i += step) {{
    const long long source = i + distance < n ? i + distance : i + distance - n;
    const T value = from[source];
    to[i] = value == value ? value {operator} number : value;  // NaN does not change
  }}
}}
"""
_FLOATS = {2: "__half", 4: "float", 8: "double"}
_INTEGERS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
#: Seconds that a call may take, by default.
TIMEOUT = 60.0


class IsolatedCall(OwnCall):
    """A call in a sandbox. Its operands and results have copies in the memory of the parent."""

    def __init__(
        self,
        variant: OwnVariant,
        problem: Problem,
        process: Candidate,
        twin: Callable[[], Candidate] | None = None,
    ) -> None:
        super().__init__(variant, problem)
        self._process, self._twin_process = process, twin
        given = problem.arguments, problem.host_arguments, problem.options
        #: The memory of the parent, which is copied to and from the process.
        self.memory = Problem(problem.ladder, *given, "cpu", problem.result_types)
        keeps_strides = process.is_emulated and isinstance(variant, FunctionVariant)
        if not keeps_strides and (problem.device != "cpu" or process.library != "numpy"):
            # Kernels, and libraries other than NumPy, receive packed arrays.
            self.memory.guarded_operands = [
                GuardedArray(each.shape, each.dtype, "cpu") if is_array(each) else each
                for each in problem.host_arguments
            ]
        self._rng = np.random.default_rng()
        self._cold, self._warm = True, False
        self._reply: Reply | None = None  # of the last call
        self._prepared: Values | None = None  # for the next sample
        self._taken: Values | None = None  # of the last sample, if it is to be verified
        self._verify_seconds, self._samples = 0.0, 0
        self._claims: list[float] = []
        self._intervals: list[tuple[float, float]] = []  # around verified and idle calls
        self._remote = Remote(process, self._blocks, **self._message)

    # --- Memory -----------------------------------------------------------------------------------

    @cached_property
    def _blocks(self) -> list[GuardedArray]:
        memory = self.memory
        memory.load(memory.values)
        found = (*memory.guarded_operands, *memory.guarded_results)
        return [block for block in found if isinstance(block, GuardedArray)]

    @cached_property
    def _message(self) -> dict[str, Any]:
        """The memory and the options of the problem, for the process."""
        operands, results = (
            [each.layout if isinstance(each, GuardedArray) else each for each in given]
            for given in (self.memory.guarded_operands, self.memory.guarded_results)
        )
        return {
            "operands": operands,
            "results": results,
            "options": self.memory.options,
            "library": self._process.library,
            "device": self.problem.device_id,
            "out": self._process.writes_out,
            "emulator": (settings.emulated_gpu, settings.emulator_checks),
        }

    @cached_property
    def _twin(self) -> Remote:
        """The same problem in a process that never has a candidate: its calls do nothing."""
        assert self._twin_process
        return Remote(self._twin_process(), self._blocks, **self._message)

    def _write(self, values: Values, *, warm: bool = False) -> None:
        """Write operands, and results with sentinel values, to the stopped process."""
        self._verify()
        self.memory.load(values)
        self.memory.poison()
        self._reply = None
        self._remote.ask("ready", warm=warm)
        self._remote.write()

    def _read(self, values: Values, views: bool) -> Any:
        """The result of the last call; ValueError if other memory has changed."""
        answer = self._reply.answer if self._reply else {}
        self.memory.forget()
        self._remote.read()
        with well_formed():
            addresses = [*map(int, answer.get("arrays") or ())]
            kinds = self.memory.result_types if addresses else ()
            found = [np.empty(kind.shape, kind.dtype) for kind in kinds]
            places = list(zip(addresses, found, strict=True))
        ranges = [(address, address + array.nbytes) for address, array in places]
        if not views and (answer.get("view") or not self._remote.is_copied(ranges)):
            what = "a view of an operand" if answer.get("view") else "shared memory"
            raise ValueError(f"wrong result: it returns {what}, not data")
        self._process.read((at, array.reshape(-1).view(np.uint8)) for at, array in places)
        self.memory.require_intact(values, results=bool(found))
        if not found:
            return self.memory.results()
        return tuple(found) if len(found) > 1 else found[0]

    # --- Calls ------------------------------------------------------------------------------------

    def computed(self, values: Values, *, views: bool = False) -> Any:
        """The result for these values; ValueError if it changes other memory.

        `views` states whether a result may share memory with an operand.
        """
        self._write(values)
        self._reply = self._remote.call()
        return self._read(values, views)

    def run(self) -> Any:
        """The result for the operands of the problem."""
        return self.computed(self.memory.values)

    def _renewal(self, array: NDArray[Any]) -> Renewal:
        task = self.memory.task
        return Renewal.drawn(array, self._rng, task.core is None or task.adjusted is not None)

    def _prepare(self) -> None:
        """Verify the last sample, and write operands that no earlier call had."""
        values = changed_values(self.memory, lambda array: self._renewal(array).of(array))
        self._write(values, warm=self._warm)
        self._prepared = values

    def between_samples(self) -> None:
        """Prepare the next sample."""
        self._prepare()

    def sample(self, cold: bool, repeats: int) -> tuple[float, float, bool, float]:
        """Take a sample: one call, or several warm calls, on new operands.

        Without isolation, a single call in a sample runs with the caches that other variants left.
        Therefore, another call and touches of the memory precede several calls, but not one call.
        """
        self._cold, warm = cold, repeats > 1
        if warm != self._warm:
            self._warm = warm
            self._intervals.clear()
        if self._prepared is None:
            self._prepare()
        values, reply = self._prepared, self._called(repeats)
        self._taken = values if not self._intervals or self._is_chosen() else None
        if not self._intervals:
            self._verify()
        self._claims.append(reply.claim)
        return max(reply.claim, self._least()), 0.0, True, reply.waited

    def _called(self, repeats: int = 1) -> Reply:
        """Let the process call the function on the prepared operands."""
        self._prepared = None
        self._reply = reply = self._timed(self._remote, repeats)
        return reply

    def _timed(self, remote: Remote, repeats: int = 1) -> Reply:
        """Let a process make timed calls."""
        if self.device == "cuda":
            return remote.call(repeats=repeats, cold=self._cold)
        if self._cold:
            _core.sample(lambda: None, "cpu", True, 1, 0)  # overwrites the caches
        size = sum(block.block.size for block in self._blocks)
        return remote.call(repeats=repeats, touch=self._warm and size < _TOUCHED)

    def _is_chosen(self) -> bool:
        """Whether to verify a sample."""
        self._samples += 1
        most, least = _VERIFIED
        share = min(max(_EXPECTED / self._samples, least), most)
        return self._verify_seconds < _CHEAP_SECONDS or self._rng.random() < share

    def _verify(self) -> None:
        """Verify the last sample if it has been chosen."""
        values, self._taken = self._taken, None
        if values is None:
            return
        start = time.perf_counter()
        self._check(values, single=not self._warm)
        if self._warm:
            self._call_once()
        self._verify_seconds = time.perf_counter() - start

    def _check(self, values: Values, *, single: bool = True) -> None:
        """Verify the last sample; if it is a single call, its interval bounds the claims."""
        interval = self._reply.interval if self._reply else 0.0
        results = [self._read(values, False)]
        results += [self.computed(other) for other in values.runs[1:]]
        values.check(*results)
        if single:
            self._compare(interval)

    def _call_once(self) -> None:
        """Verify a call on new operands, which bounds the claims."""
        self._prepare()
        values = self._prepared
        assert values
        self._called()
        self._check(values)

    def _compare(self, interval: float) -> None:
        """Store the intervals around a verified call and around a call that does nothing."""
        self._twin.ask("ready", warm=self._warm)
        self._twin.write()
        idle = self._timed(self._twin)
        self._intervals.append((interval, idle.interval - idle.claim))

    def _least(self) -> float:
        """The shortest time of a call that the parent's clock permits."""
        interval, idle = np.quantile(self._intervals, _SHORTEST, axis=0)
        return self._without_slack(interval - idle)

    def _bound_for_refusal(self) -> float:
        """A lower bound of the time of every verified call, even if other work disturbed most."""
        intervals, idle = np.transpose(self._intervals)
        return self._without_slack(np.min(intervals) - np.median(idle))

    @staticmethod
    def _without_slack(seconds: float) -> float:
        return float((1 - _SLACK_SHARE) * seconds - _SLACK)

    def _is_lie(self) -> bool:
        if not self._claims:
            return False
        low = np.quantile(self._claims, _SHORTEST)
        return bool(low < _LIE * self._bound_for_refusal() - _LIE_SECONDS)

    def conclude(self) -> None:
        """Verify the last sample, and refuse claims that are far too low."""
        self._verify()
        for _ in range(_CALLS):
            if not self._is_lie():
                break
            self._call_once()
        else:
            claim = quantity(float(np.quantile(self._claims, _SHORTEST)), "s")
            least = quantity(self._bound_for_refusal(), "s")
            raise ValueError(f"it claims {claim}, but its process needed at least {least}")
        if self._process.is_emulated:
            return
        if self.device == "cuda":
            self._prepare()
            if self._remote.ask("elsewhere").get("elsewhere"):
                raise ValueError(ELSEWHERE)
        elif self._process.maps(Path(_core.__file__)):
            raise ValueError("it calls the library's own variants")


class IsolatedKernel(IsolatedCall):
    """A kernel under the runner, which times launches with events of its own."""

    def __init__(
        self, variant: OwnVariant, problem: Problem, process: Candidate, plan: KernelCall
    ) -> None:
        self._plan = plan  # the launch in this process, which is never run
        self._base: Values | None = None  # the values from which samples are made
        super().__init__(variant, problem, process)
        self.block, self.grid = plan.block, plan.grid

    def kernels(self) -> Sequence[_core.KernelInfo]:
        """The kernels that it launches."""
        return self._plan.kernels()

    @cached_property
    def _units(self) -> list[tuple[np.dtype[Any], bool]]:
        """Per block: the type of the elements that are renewed, and whether they are multiplied."""
        found = []
        operands = len(self._blocks) - len(self.memory.guarded_results)
        for place, block in enumerate(self._blocks):
            size = block.dtype.itemsize // (1 + (block.dtype.kind == "c"))
            multiplied = place < operands and block.dtype.kind in "fc" and size in _FLOATS
            unit = f"f{size}" if multiplied else f"u{math.gcd(block.dtype.itemsize, 8)}"
            found.append((np.dtype(unit), multiplied))
        return found

    @cached_property
    def _message(self) -> dict[str, Any]:
        """The launches for the runner, with numbers of blocks instead of addresses."""
        message = super()._message
        renew = []
        for unit, multiplied in [] if self.problem.device_id == "emulator" else self._units:
            names = _FLOATS if multiplied else _INTEGERS
            text = _RENEW.format(
                include="#include <cuda_fp16.h>" if unit == np.float16 else "",
                type=names[unit.itemsize],
                operator="*" if multiplied else "^",
            )
            known = compile_cuda(text, "renew")
            renew.append((known.code, known.symbol))
        units = [unit for unit, _ in self._units]
        return message | {"plans": self._plan.plans, "renew": renew, "units": units}

    def _compare(self, interval: float) -> None:
        """Do nothing: the times of the runner are trusted."""

    def conclude(self) -> None:
        """Verify the last sample."""
        self._verify()

    def _change(self, renewals: Sequence[Renewal]) -> list[tuple[int, float]]:
        """The parameters of a renewal of each block; results get their sentinel bytes again."""
        changes: list[tuple[int, float]] = [(0, 0.0)] * len(self._blocks)
        facts = zip(renewals, self._blocks, self._units, strict=False)
        for place, (renewal, block, (_, multiplied)) in enumerate(facts):
            mask = renewal.mask * (block.dtype.kind in "iu")
            changes[place] = renewal.distance, renewal.factor if multiplied else mask
        return changes

    def between_samples(self) -> None:
        """Verify the last sample."""
        self._verify()

    def _verify(self) -> None:
        """Copy the memory of the last launch to the host of the runner if it is to be verified."""
        if self._taken:
            self._remote.ask("fetch")
        super()._verify()

    def sample(self, cold: bool, repeats: int) -> tuple[float, float, bool, float]:
        """Take a sample of launches with new operands.

        Each launch is timed alone. Its time therefore contains more overhead than `repeats`
        launches in one interval; the additional overhead is subtracted.
        """
        self._verify()
        arrays = [a for a in self.memory.host_arguments if is_array(a)]
        drawn = [[self._renewal(array) for array in arrays] for _ in range(repeats)]
        keep = int(self._rng.integers(repeats)) if self._is_chosen() else -1
        new = self._base is not self.memory.values
        if new:
            self._write(self.memory.values)
            self._base = self.memory.values
        changes = list(map(self._change, drawn))
        answer = self._remote.ask("sample", changes=changes, cold=cold, keep=keep, base=new)
        if keep >= 0:
            renewals = iter(drawn[keep])
            self._taken = changed_values(self.memory, lambda array: next(renewals).of(array))
        seconds = max(answer["seconds"] - answer["overhead"] * (1 - 1 / repeats), TICK)
        return seconds, answer["hertz"], answer["blocked"], answer["waited"]


class Isolation(ExitStack):
    """The processes of the own variants of a comparison. They end with the context."""

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self._timeout = timeout
        self._compiled: dict[tuple[Any, ...], CompiledKernel] = {}
        #: By name, device, and id of the function or source, which stays unique while it is held.
        self._processes: dict[tuple[str, str, int], tuple[Any, Candidate]] = {}

    def ladder(self, ladder: Ladder) -> OwnLadder:
        """The ladder with its own variants in sandboxes."""
        found = extended(ladder, ())
        for variant in ladder:
            if isinstance(variant, OwnVariant):
                found.replace(dataclasses.replace(variant, isolation=self))
        return found

    def _process(self, variant: OwnVariant | None, problem: Problem) -> Candidate:
        """The process of a variant; None: the twin, a process that never loads a function."""
        code = getattr(variant, "function", getattr(variant, "text", None))
        key = (variant.name if variant else "", problem.device, id(code))
        if key not in self._processes:
            process = Candidate(variant, problem, self._timeout)
            self._processes[key] = code, process
            self.callback(process.close)
        return self._processes[key][1]

    def compiled(self, *request: Any) -> CompiledKernel:
        """Compile a kernel in a separate process, which is killed if it exceeds the limits."""
        if request not in self._compiled:
            with closing(CompilerProcess(self._timeout)) as process:
                self._compiled[request] = process.compiled(*request)
        return self._compiled[request]

    def call(
        self, variant: OwnVariant, problem: Problem, plan: KernelCall | None = None
    ) -> IsolatedCall:
        """A call of a function, or a launch of a kernel, in the process of the variant."""
        process = self._process(variant, problem)
        if plan:
            return IsolatedKernel(variant, problem, process, plan)
        return IsolatedCall(variant, problem, process, lambda: self._process(None, problem))
