"""Calls in a sandbox: the operands, the clock and the expected results are the parent's.

docs/grading.md describes the protocol.
"""

from __future__ import annotations

import random
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adokernels import _core
from adokernels.model.guarded import GuardedArray
from adokernels.model.own_variant import OwnCall
from adokernels.model.problem import Problem, Values, changed_values
from adokernels.model.sandbox import Broken
from adokernels.model.values import Renewal, is_array
from adokernels.text import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from adokernels.model.isolated_process import Candidate
    from adokernels.model.own_variant import OwnVariant

#: The least time is shorter than the measured intervals by this time, and by this share of them.
_SLACK, _SLACK_SHARE = 40e-6, 0.01
#: The quantile of claims and intervals that is compared. Other work can make intervals longer, but
#: not shorter.
_SHORTEST = 0.1
#: The interval of a warm-up call is longer than the call by at most this time.
_MOST_OVERHEAD = 2e-3
#: Claims below this share of the least time, minus a constant, are refused, after further calls:
#: other work may have made all intervals longer. Other claims are raised to the least time.
_LIE, _LIE_SECONDS, _ROUNDS, _CALLS = 0.5, 300e-6, 4, 12
#: Before a warm call, the process touches memory of less than this number of bytes, which brings it
#: into the caches of its core. The writes of the parent leave other memory in a shared cache.
_TOUCHED = 16 << 20
#: Every sample is verified if that takes less time than this. Otherwise, the first ten are verified
#: with the larger probability, which then falls to the smaller one.
_CHEAP_SECONDS, _VERIFIED, _EXPECTED = 0.05, (0.5, 0.1), 5
#: Errors that messages of the process can cause: it is not trusted.
MALFORMED = (KeyError, TypeError, ValueError, OverflowError, SyntaxError)
ELSEWHERE = "it launches work on a stream other than the timed one"


def _packed(array: NDArray[Any]) -> NDArray[Any]:
    """A packed copy with the alignment of device memory."""
    memory = np.empty(array.nbytes + 256, np.uint8)
    start = -memory.ctypes.data % 256
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _layouts(operands: Sequence[Any]) -> list[Any]:
    return [o.layout if isinstance(o, GuardedArray) else o for o in operands]


class Reply(NamedTuple):
    """A call in a process: times in seconds, and how the process describes its results.

    `claim` is the time that the process states. `interval` is the time between two readings of the
    parent's clock around the call, without the time for which the process waited for a processor
    because of other work. `waited` is the part of this time that is within the claim.
    """

    claim: float
    interval: float
    waited: float
    results: Any


class Remote:
    """A problem in the process of a candidate: its memory, and calls."""

    def __init__(self, candidate: Candidate, **message: Any) -> None:
        self._candidate = candidate
        answer = candidate.ask(verb="prepare", out=candidate.writes_out, **message)
        try:
            self._number = int(answer["problem"])
            self.addresses = [int(address) for address in answer["addresses"]]
        except MALFORMED as error:
            raise Broken("its process sent a malformed answer") from error

    def ask(self, verb: str, **message: Any) -> dict[str, Any]:
        """Send a message about the problem to the stopped process; return its answer."""
        return self._candidate.ask(verb=verb, problem=self._number, **message)

    def write(self, blocks: Sequence[GuardedArray]) -> None:
        """Write operands and results."""
        for block, address in zip(blocks, self.addresses, strict=True):
            self._candidate.sandbox.write(address, block.block)

    def read(self, blocks: Sequence[GuardedArray]) -> None:
        """Read operands and results."""
        for block, address in zip(blocks, self.addresses, strict=True):
            self._candidate.sandbox.read(address, block.block)

    def call(self, **how: int) -> Reply:
        """Let the process call the function; it is then stopped."""
        message = {"verb": "call", "problem": self._number, **how}
        answer, times = self._candidate.sandbox.ask(**message)
        try:
            claim, results = float(answer["claim"]), answer["results"]
        except MALFORMED as error:
            raise Broken("its process sent a malformed answer") from error
        if not 0 <= claim < self._candidate.timeout:
            raise Broken("its process claims an impossible time")
        interval, run, others, waited = (1e-9 * each for each in times)
        if others > _SLACK:  # its own threads can have caused the waits
            return Reply(claim, interval, 0.0, results)
        # The waits include those after the interval, until the process is stopped.
        interval = max(interval - waited, run)
        return Reply(claim, interval, min(waited, max(claim - run, 0.0)), results)


class IsolatedCall(OwnCall):
    """A call in a sandbox. Its operands and results have copies in the memory of the parent."""

    isolated = True

    def __init__(
        self, variant: OwnVariant, problem: Problem, candidate: Candidate, twin: Candidate | None
    ) -> None:
        super().__init__(variant, problem)
        self._candidate, self._idle = candidate, twin
        arguments, hosts = problem.arguments, problem.host_arguments
        if problem.device != "cpu" or self._candidate.library != "numpy":
            # Kernels and these libraries receive packed arrays.
            arguments = hosts = tuple(_packed(o) if is_array(o) else o for o in hosts)
        of = (problem.ladder, arguments, hosts, problem.options, "cpu", problem.result_types)
        #: The memory of the parent, which is copied to and from the process.
        self._memory = Problem(*of)
        self._rng = np.random.default_rng()
        self._cold, self._warm = True, False
        self._described: Any = None  # the returned arrays
        self._prepared: Values | None = None  # for the next sample
        self._taken: Values | None = None  # of the last sample, if it is to be verified
        self._verify_seconds, self._samples = 0.0, 0
        self._claims: list[float] = []  # of samples that count
        self._interval = 0.0  # around the last sample
        self._intervals: list[tuple[float, float]] = []  # around verified and idle calls
        self._candidate.start(problem)
        self._remote = Remote(self._candidate, **self._message)

    @property
    def sizes_are_checked(self) -> bool:
        """Whether this or another call in the process was checked on edge cases."""
        return self._candidate.sizes_are_checked

    @sizes_are_checked.setter
    def sizes_are_checked(self, value: bool) -> None:
        self._candidate.sizes_are_checked = value

    # --- Memory -----------------------------------------------------------------------------------

    @cached_property
    def _blocks(self) -> list[GuardedArray]:
        memory = self._memory
        memory.load(memory.values)
        found = (*memory.guarded_operands, *memory.guarded_results)
        return [block for block in found if isinstance(block, GuardedArray)]

    @cached_property
    def _message(self) -> dict[str, Any]:
        """The memory and the options of the problem, for the process."""
        assert self._blocks  # allocates the memory
        return {
            "operands": _layouts(self._memory.guarded_operands),
            "results": _layouts(self._memory.guarded_results),
            "options": self._memory.options,
            "library": self._candidate.library,
            "device": self.problem.device_id,
        }

    @cached_property
    def _twin(self) -> Remote:
        """The same problem in a process that never has a candidate: its calls do nothing."""
        assert self._idle
        self._idle.start(self.problem)
        self._idle.writes_out = self._candidate.writes_out
        return Remote(self._idle, **self._message)

    def _write(self, values: Values, *, warm: bool = False) -> None:
        """Write operands, and results with sentinel values, to the stopped process."""
        self._verify()
        self._memory.load(values)
        self._memory.poison()
        self._described = None
        self._remote.ask("ready", warm=warm)
        self._remote.write(self._blocks)

    def _read(self, values: Values, views: bool) -> Any:
        """The result of the last call; ValueError if other memory has changed."""
        self._memory.forget()
        self._remote.read(self._blocks)
        returned = None if self._described is None else self._returned(views)
        self._memory.require_intact(values, results=returned is not None)
        return self._memory.results() if returned is None else returned

    def _returned(self, views: bool) -> Any:
        """The arrays that the process has returned, as it describes them."""
        kinds = self._memory.result_types
        try:
            described = [
                (int(address), tuple(map(int, shape)), np.dtype(dtype))
                for address, shape, dtype in self._described["arrays"]
            ]
            several, is_view = bool(self._described["several"]), bool(self._described["views"])
        except MALFORMED as error:
            raise Broken("its process describes its result wrongly") from error
        if len(described) != len(kinds):
            raise ValueError(f"wrong result: {len(described)} arrays, expected {len(kinds)}")
        found = []
        for (address, shape, dtype), kind in zip(described, kinds, strict=True):
            if (dtype.str, shape) != (kind.dtype.str, tuple(kind.shape)):
                wanted = f"{kind.dtype} {tuple(kind.shape)}"
                raise ValueError(f"wrong result: {dtype} {shape}, expected {wanted}")
            array = np.empty(shape, kind.dtype)
            for block, at in zip(self._blocks, self._remote.addresses, strict=True):
                is_view |= at < address + array.nbytes and address < at + block.block.size
            if is_view and not views:
                raise ValueError("wrong result: it returns a view of an operand, not data")
            self._candidate.sandbox.read(address, array.reshape(-1).view(np.uint8))
            found.append(array)
        return tuple(found) if several else found[0]

    # --- Calls ------------------------------------------------------------------------------------

    def computed(self, values: Values, *, views: bool = False) -> Any:
        """The result for these values; ValueError if it changes other memory."""
        self._write(values)
        self._described = self._remote.call().results
        return self._read(values, views)

    def run(self) -> Any:
        """The result for the operands of the problem."""
        return self.computed(self._memory.values)

    def _renewal(self, array: NDArray[Any]) -> Renewal:
        task = self._memory.task
        return Renewal.drawn(array, self._rng, task.core is None or task.adjusted is not None)

    def _prepare(self) -> None:
        """Verify the last sample, and write operands that no earlier call had."""
        values = changed_values(self._memory, lambda array: self._renewal(array).of(array))
        self._write(values, warm=self._warm)
        self._prepared = values

    @property
    def between_samples(self) -> Callable[[], None]:
        """Prepare the next sample."""
        return self._prepare

    def sample(self, cold: bool, repeats: int) -> tuple[float, float, bool, float]:
        """Take a sample: one call, or several warm calls, on new operands.

        Without isolation, a single call in a sample runs with the caches that other variants left.
        Therefore, another call and touches of the memory precede several calls, but not one call.
        """
        self._cold, warm = cold, repeats > 1
        if warm != self._warm:
            self._warm = warm
            self._intervals.clear()
        counts = self._prepared is not None  # calls that warm up do not count
        if not counts:
            self._prepare()
        values, reply = self._prepared, self._called(repeats)
        self._taken = values if self._is_chosen() or not counts else None
        if counts:
            self._claims.append(reply.claim)
            return max(reply.claim, self._least()), 0.0, True, reply.waited
        # It determines the number of calls per sample, which must not last for minutes.
        return max(reply.claim, reply.interval - _MOST_OVERHEAD), 0.0, True, reply.waited

    def _called(self, repeats: int = 1) -> Reply:
        """Let the process call the function on the prepared operands."""
        self._prepared = None
        reply = self._timed(self._remote, repeats)
        self._described, self._interval = reply.results, reply.interval
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
        return self._verify_seconds < _CHEAP_SECONDS or random.random() < share

    def _verify(self) -> None:
        """Verify the last sample if it has been chosen."""
        values, self._taken = self._taken, None
        if values is None:
            return
        start = time.perf_counter()
        self._check(values)
        if self._warm:  # the interval contains several calls on the same operands
            self._call_once()
        else:
            self._compare()
        self._verify_seconds = time.perf_counter() - start

    def _check(self, values: Values) -> None:
        results = [self._read(values, False)]
        results += [self.computed(other) for other in values.runs[1:]]
        values.check(*results)

    def _call_once(self) -> None:
        """Verify a call on new operands, which bounds the claims."""
        self._prepare()
        values = self._prepared
        assert values
        self._called()
        self._check(values)
        self._compare()

    def _compare(self) -> None:
        """Note the interval around a verified call, and around a call that does nothing."""
        self._twin.ask("ready", warm=self._warm)
        self._twin.write(self._blocks)
        idle = self._timed(self._twin)
        self._intervals.append((self._interval, idle.interval - idle.claim))

    def _least(self) -> float:
        """The shortest time of a call that the parent's clock permits."""
        if not self._intervals:
            return 0.0
        interval, idle = np.quantile(self._intervals, _SHORTEST, axis=0)
        return float((1 - _SLACK_SHARE) * (interval - idle) - _SLACK)

    def _is_lie(self) -> bool:
        low = np.quantile(self._claims, _SHORTEST) if self._claims else np.inf
        return bool(low < _LIE * self._least() - _LIE_SECONDS)

    def conclude(self) -> None:
        """Verify the last sample, and refuse claims that are far too low."""
        self._verify()
        for _ in range(_ROUNDS):
            for _ in range(_CALLS if self._is_lie() else 0):
                self._call_once()
        if self._is_lie():
            claim = quantity(float(np.quantile(self._claims, _SHORTEST)), "s")
            least = quantity(self._least(), "s")
            raise ValueError(f"it claims {claim}, but its process needed at least {least}")
        if self.device == "cuda":
            self._prepare()
            if self._remote.ask("elsewhere").get("elsewhere"):
                raise ValueError(ELSEWHERE)
        elif self._candidate.sandbox.maps(Path(_core.__file__)):
            raise ValueError("it calls the library's own variants")
