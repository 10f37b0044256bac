"""Calls in a sandbox: the operands, the clock and the expected results are the parent's.

docs/grading.md describes the protocol.
"""

from __future__ import annotations

import itertools
import random
import sys
import sysconfig
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from adokernels import _core
from adokernels.model.cuda_variant import CudaVariant
from adokernels.model.guarded import GuardedArray
from adokernels.model.own_variant import FunctionVariant, OwnCall, OwnVariant
from adokernels.model.problem import Problem, Values, changed_values
from adokernels.model.sandbox import THIS_THREAD, Broken, Limits, Missing, Sandbox
from adokernels.model.values import Renewal, is_array
from adokernels.records.contention import WAITED
from adokernels.text import quantity

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

#: The median claim may be lower than the parent's clock permits by this time, and by this share.
_SLACK, _SLACK_SHARE = 250e-6, 0.01
#: The quantile of the intervals of verified calls that bounds the claims. Other work can make
#: intervals longer, but not shorter.
_SHORTEST = 0.1
#: Errors that messages of the process can cause: it is not trusted.
_MALFORMED = (KeyError, TypeError, ValueError, OverflowError)
ELSEWHERE = "it launches work on a stream other than the timed one"
#: Calls that do nothing, whose interval is known to contain no work.
_IDLE_CALLS = 15
#: Calls of a warm sample.
_MOST_CALLS = 10
#: Every sample is verified if that takes less time than this. Otherwise, the first ten are verified
#: with the larger probability, which then falls to the smaller one.
_CHEAP_SECONDS, _VERIFIED, _EXPECTED = 0.05, (0.5, 0.1), 5
_MEMORY, _MEMORY_FACTOR = 4 << 30, 16


def _packed(array: NDArray[Any]) -> NDArray[Any]:
    """A packed copy with the alignment of device memory."""
    memory = np.empty(array.nbytes + 256, np.uint8)
    start = -memory.ctypes.data % 256
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _layout(operand: Any) -> Any:
    return operand.layout if isinstance(operand, GuardedArray) else operand


class FileFunction:
    """A function in a Python file, which only the sandbox runs."""

    def __init__(self, file: Path, name: str) -> None:
        self.file, self.__name__ = file, name

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Raise TypeError: the function does not run in this process."""
        raise TypeError(f"{self.__name__} must run in isolation")


def pickled(function: Callable[..., Any], name: str) -> bytes:
    """A function for another process: with its code, unless it belongs to an installed package."""
    import cloudpickle  # type: ignore[import-untyped]  # not loaded before it is needed

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    installed = tuple(sysconfig.get_path(key) for key in ("stdlib", "purelib", "platlib"))
    own = file and not file.startswith(installed)
    try:
        if own:
            cloudpickle.register_pickle_by_value(module)
        return bytes(cloudpickle.dumps(function))
    except Exception as error:
        raise TypeError(
            f"{name} must be a function that can be sent to another process, but "
            f"{type(error).__name__}: {error}; use isolated=False to run it in this process"
        ) from error
    finally:
        if own:
            cloudpickle.unregister_pickle_by_value(module)


class Idle(NamedTuple):
    """Seconds of an interval around a call that does nothing: in total, waiting, and running."""

    seconds: float
    waited: float
    run: float


class Candidate:
    """A variant in its sandbox, and what is known about the intervals around its calls."""

    def __init__(self, variant: OwnVariant, timeout: float) -> None:
        self._variant, self.timeout = variant, timeout
        self._folder = tempfile.TemporaryDirectory(prefix="adokernels-")
        self._sandbox: Sandbox | None = None
        self._numbers = itertools.count()
        #: Intervals around calls that do nothing: cold and warm.
        self.idle: list[Idle] = []
        self.writes_out = self.sizes_are_checked = False

    @property
    def library(self) -> str:
        """The library whose arrays the function receives."""
        return self._variant.arrays if isinstance(self._variant, FunctionVariant) else "numpy"

    @property
    def sandbox(self) -> Sandbox:
        """The process; Broken is raised if it has not been started."""
        if self._sandbox is None:
            raise Broken("its process has ended")
        return self._sandbox

    def close(self) -> None:
        """End the process."""
        if self._sandbox:
            self._sandbox.close()
        self._folder.cleanup()

    def file(self, name: str) -> Path:
        """A file for the process."""
        return Path(self._folder.name, name)

    def start(self, problem: Problem) -> None:
        """Start the process, stopped. Its memory is limited for the size of a problem."""
        size = sum(a.nbytes for a in problem.host_arguments if is_array(a))
        limits = Limits(self.timeout, _MEMORY + _MEMORY_FACTOR * size)
        kind = "KernelOnDevice" if isinstance(self._variant, CudaVariant) else "FunctionOnDevice"
        kind = "KernelOnEmulator" if problem.device_id == "emulator" else kind
        on_device = kind if problem.device == "cuda" else ""
        self._sandbox = Sandbox(limits, {"on_device": on_device})
        self.sandbox.halt()

    def load(self) -> None:
        """Let the process load the function."""
        if not isinstance(self._variant, FunctionVariant):
            return
        function = self._variant.function
        if isinstance(function, FileFunction):
            source = {"file": str(function.file), "name": function.__name__}
        else:
            path = self.file("function.pickle")
            path.write_bytes(pickled(function, self._variant.label))
            source = {"pickle": str(path)}
        try:
            self.writes_out = bool(self.ask(verb="load", **source).get("out"))
        except Broken as error:
            raise Missing(str(error)) if error.missing else error from None

    @property
    def started(self) -> bool:
        """Whether the process has been started."""
        return self._sandbox is not None

    def ask(self, **message: Any) -> dict[str, Any]:
        """Send a message to the stopped process, and return its answer; it is then stopped."""
        self.sandbox.send(**message)
        self.sandbox.resume()
        try:
            return self.sandbox.receive()
        finally:
            self.sandbox.halt()

    def prepare(self, **problem: Any) -> tuple[int, list[int]]:
        """Let it allocate the memory of a problem: a number, and the addresses of the blocks."""
        number = next(self._numbers)
        how = {"problem": number, "out": self.writes_out, **problem}
        return number, self.addresses("prepare", **how)

    def addresses(self, verb: str, **message: Any) -> list[int]:
        """Let it allocate memory; the addresses."""
        answer = self.ask(verb=verb, **message)
        try:
            return [int(address) for address in answer["addresses"]]
        except _MALFORMED as error:
            raise Broken("its process sent a malformed answer") from error


class IsolatedCall(OwnCall):
    """A call in a sandbox. Its operands and results have copies in the memory of the parent."""

    isolated = True

    def __init__(self, variant: OwnVariant, candidate: Candidate, problem: Problem) -> None:
        super().__init__(variant, problem)
        self._candidate = candidate
        self._library = candidate.library
        arguments, hosts = problem.arguments, problem.host_arguments
        if problem.device != "cpu" or self._library != "numpy":
            # Kernels and these libraries receive packed arrays.
            arguments = hosts = tuple(_packed(o) if is_array(o) else o for o in hosts)
        of = (problem.ladder, arguments, hosts, problem.options, "cpu", problem.result_types)
        #: The memory of the parent, which is copied to and from the process.
        self._memory = Problem(*of)
        self._rng = np.random.default_rng()
        self._addresses: list[int] = []  # of the blocks
        self._ring: list[int] = []  # of the blocks that are copied just before a warm call
        self._answer: Any = None  # describes the returned arrays
        self._prepared: Values | None = None
        self._taken: Values | None = None  # of the last sample, if it is to be verified
        self._verify_seconds = 0.0
        self._claims: list[float] = []  # seconds of each sample
        self._interval = 0.0  # around the last sample
        self._intervals: list[float] = []  # around verified samples
        if not candidate.started:
            candidate.start(problem)
            self._begin()
        self.connect()

    @property
    def sizes_are_checked(self) -> bool:
        """Whether this or another call in the process was checked on edge cases."""
        return self._candidate.sizes_are_checked

    @sizes_are_checked.setter
    def sizes_are_checked(self, value: bool) -> None:
        self._candidate.sizes_are_checked = value

    def _begin(self) -> None:
        """Time calls that do nothing, cold and warm, then let the process load the function."""
        self.connect()
        self._candidate.idle = [self._idle()]
        self._make_ring()
        self._candidate.idle.append(self._idle())
        self._forget()
        self._candidate.load()

    # --- Memory -----------------------------------------------------------------------------------

    @cached_property
    def _blocks(self) -> list[GuardedArray]:
        memory = self._memory
        memory.load(memory.values)
        found = (*memory.guarded_operands, *memory.guarded_results)
        return [block for block in found if isinstance(block, GuardedArray)]

    def connect(self) -> None:
        """Let the process allocate its memory for the problem."""
        assert self._blocks  # allocates the memory
        self._number, addresses = self._candidate.prepare(**self.message())
        self._addresses, self._ring = addresses, []

    def message(self) -> dict[str, Any]:
        """The memory and the options of the problem, for the process."""
        return {
            "operands": list(map(_layout, self._memory.guarded_operands)),
            "results": list(map(_layout, self._memory.guarded_results)),
            "options": self._memory.options,
            "library": self._library,
            "device": self.problem.device_id,
        }

    def _write(self, values: Values) -> None:
        """Write operands and poisoned results for a call to the stopped process."""
        self._verify()
        self._release()
        if self._ring:  # the next call is warm: code and caches, too
            self._candidate.ask(verb="rehearse", problem=self._number)
        self._memory.load(values)
        self._memory.poison()
        for block, address in zip(self._blocks, self._ring or self._addresses, strict=True):
            self._candidate.sandbox.write(address, block.block)
        self._prepared = values

    def _forget(self) -> None:
        self._candidate.ask(verb="forget", problem=self._number)

    def _release(self) -> None:
        """Let the process free the last returned result, outside of all intervals."""
        if self._answer is not None:
            self._answer = None
            self._candidate.ask(verb="release", problem=self._number)

    def _read(self, values: Values, views: bool) -> Any:
        """The result of the last call; ValueError if other memory has changed."""
        sandbox, memory = self._candidate.sandbox, self._memory
        memory.forget()
        for block, address in zip(self._blocks, self._addresses, strict=True):
            sandbox.read(address, block.block)
        returned = None if self._answer is None else self._returned(views)
        memory.require_intact(values, results=returned is not None)
        return memory.results() if returned is None else returned

    def _returned(self, views: bool) -> Any:
        """The arrays that the process has returned, as it describes them."""
        kinds = self._memory.result_types
        try:
            described = [
                (int(address), tuple(map(int, shape)), np.dtype(dtype))
                for address, shape, dtype in self._answer["arrays"]
            ]
            several, is_view = bool(self._answer["several"]), bool(self._answer["views"])
        except (*_MALFORMED, SyntaxError) as error:
            raise Broken("its process describes its result wrongly") from error
        if len(described) != len(kinds):
            raise ValueError(f"wrong result: {len(described)} arrays, expected {len(kinds)}")
        found = []
        for (address, shape, dtype), kind in zip(described, kinds, strict=True):
            if (dtype.str, shape) != (kind.dtype.str, tuple(kind.shape)):
                wanted = f"{kind.dtype} {tuple(kind.shape)}"
                raise ValueError(f"wrong result: {dtype} {shape}, expected {wanted}")
            array = np.empty(shape, kind.dtype)
            for block, at in zip(self._blocks, self._addresses, strict=True):
                is_view |= at < address + array.nbytes and address < at + block.block.size
            if is_view and not views:
                raise ValueError("wrong result: it returns a view of an operand, not data")
            self._candidate.sandbox.read(address, array.reshape(-1).view(np.uint8))
            found.append(array)
        return tuple(found) if several else found[0]

    # --- Calls ------------------------------------------------------------------------------------

    def _make_ring(self) -> None:
        self._ring = self._candidate.addresses("ring", problem=self._number)

    def _call(self, **how: bool) -> tuple[float, float, float, float]:
        """Let the process make a call.

        Returns its claim, the interval around it, how long threads of the process and this thread
        waited for a processor, and the time that threads of the process have run.
        """
        sandbox, self._prepared = self._candidate.sandbox, None
        sandbox.send(verb="call", problem=self._number, **how)
        before = sandbox.scheduled()
        start = time.perf_counter_ns()
        sandbox.resume()
        try:
            answer = sandbox.receive()
        finally:
            end = sandbox.halt()
        after = sandbox.scheduled()
        try:
            claim, self._answer = float(answer["claim"]) / 1e9, answer["results"]
        except _MALFORMED as error:
            raise Broken("its process sent a malformed answer") from error
        if not 0 <= claim < self._candidate.timeout:
            raise Broken("its process claims an impossible time")
        spent = {task: np.subtract(after[task], before.get(task, (0, 0))) for task in after}
        _, ours = spent.pop(THIS_THREAD, (0, 0))
        waited = ours + max((wait for _, wait in spent.values()), default=0)
        return claim, (end - start) / 1e9, waited / 1e9, sum(run for run, _ in spent.values()) / 1e9

    def _idle(self) -> Idle:
        """An interval around a call that does nothing, without the intervals of busy moments."""
        found = [self._call() for _ in range(_IDLE_CALLS)]
        self._answer = None
        claim, interval, wait, run = np.quantile(found, 0.25, axis=0)
        return Idle(float(interval - claim), float(wait), float(run))

    def computed(self, values: Values, *, views: bool = False) -> Any:
        """The result for these values; ValueError if it changes other memory."""
        self._write(values)
        self._call()
        return self._read(values, views)

    def run(self) -> Any:
        """The result for the operands of the problem."""
        return self.computed(self._memory.values)

    def _fresh(self) -> Values:
        """Operands that no call had so far."""
        return changed_values(self._memory, lambda array: self._renewal(array).of(array))

    def _renewal(self, array: NDArray[Any]) -> Renewal:
        task = self._memory.task
        return Renewal.drawn(array, self._rng, task.core is None or task.adjusted is not None)

    def _verify(self) -> None:
        """Verify the last sample if it has been chosen."""
        values, self._taken = self._taken, None
        if values is None:
            return
        start = time.perf_counter()
        results = [self._read(values, False)]
        results += [self.computed(other) for other in values.runs[1:]]
        values.check(*results)
        self._intervals.append(self._interval)
        self._verify_seconds = time.perf_counter() - start

    @property
    def between_samples(self) -> Callable[[], None]:
        """Verify the last sample, and write new operands."""
        return lambda: self._write(self._fresh())

    def sample(self, cold: bool, repeats: int) -> tuple[float, float, bool, float]:
        """Take a sample: calls in intervals of their own, on new operands; on a GPU, one call."""
        calls = 1 if cold or self.device == "cuda" else min(repeats, _MOST_CALLS)
        seconds, waits = zip(*(self._sampled(cold) for _ in range(calls)), strict=True)
        return float(np.mean(seconds)), 0.0, True, max(waits)

    def _sampled(self, cold: bool) -> tuple[float, float]:
        """The time of one call, and the longest wait of a thread if it matters."""
        on_device = self.device == "cuda"
        if not (cold or on_device or self._ring):
            self._make_ring()
        if self._prepared is None or self._taken:
            self._write(self._fresh())
        prepared = self._prepared
        if cold and not on_device:
            _core.sample(lambda: None, "cpu", True, 1, 0)  # overwrites the caches
        claim, interval, waited, run = self._call(**({"cold": cold} if on_device else {}))
        idle = self._candidate.idle[bool(self._ring)]
        self._interval, waited = max(interval - idle.seconds, 0.0), max(waited - idle.waited, 0.0)
        if (run := run - idle.run) <= claim + _SLACK:
            # No other thread ran, so other processes have caused the waits. The share within the
            # call is the time of the claim for which the function did not run.
            self._interval = max(self._interval - waited, 0.0)
            waited = min(waited, max(claim - run, 0.0))
        elif waited > max(WAITED * claim, _SLACK):
            claim = max(claim, self._interval)  # its own threads may have caused the waits
        if waited <= _SLACK:
            waited = 0.0
        self._claims.append(claim)
        if self._is_chosen():
            self._taken = prepared
        return claim, waited

    def _is_chosen(self) -> bool:
        """Whether to verify a sample."""
        most, least = _VERIFIED
        share = min(max(_EXPECTED / (len(self._claims) + 1), least), most)
        return self._verify_seconds < _CHEAP_SECONDS or random.random() < share

    def conclude(self) -> None:
        """Verify the last sample, and refuse claims that are too low."""
        self._verify()
        if self._intervals:
            claim = float(np.median(self._claims))
            least = float(np.quantile(self._intervals, _SHORTEST))
            if claim < (1 - _SLACK_SHARE) * least - _SLACK:
                raise ValueError(
                    f"it claims {quantity(claim, 's')} per sample, but its process needed at least "
                    f"{quantity(least, 's')} for it"
                )
        if self.device == "cuda":
            self._write(self._fresh())
            if self._candidate.ask(verb="elsewhere", problem=self._number).get("elsewhere"):
                raise ValueError(ELSEWHERE)
        elif self._candidate.sandbox.maps(Path(_core.__file__)):
            raise ValueError("it calls the library's own variants")
