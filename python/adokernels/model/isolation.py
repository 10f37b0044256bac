"""Own variants in sandboxes: calls whose operands, clock and expected results are the parent's.

docs/grading.md describes the protocol.
"""

from __future__ import annotations

import itertools
import pickle
import random
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from adokernels import _core
from adokernels.model.guarded import GuardedArray
from adokernels.model.libraries import reach
from adokernels.model.own_variant import FunctionVariant, OwnCall, OwnVariant
from adokernels.model.problem import Block, Problem, Values, changed_values
from adokernels.model.sandbox import Broken, Limits, Sandbox
from adokernels.model.values import fresh, is_array
from adokernels.records.contention import WAITED
from adokernels.records.statistics import FEWEST_SAMPLES
from adokernels.text import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from adokernels.model.ladder import Ladder
    from adokernels.model.own_ladder import OwnLadder
    from adokernels.model.source import Source

#: A claim may be lower than the parent's clock permits by this time, and by this share of itself.
_SLACK, _SLACK_SHARE = 30e-6, 0.01
#: A variant is refused if more than this share of its claims is too low by more than this.
_LIES, _LIE, _LIE_SHARE = 0.25, 100e-6, 0.02
#: Calls that do nothing, whose interval is known to contain no work.
_IDLE_CALLS, _IDLE_BATCHES = 25, 5
#: Every call is verified if that takes less time than this, otherwise this share of the calls.
_CHEAP_SECONDS, _VERIFIED = 0.05, 0.5
#: Seconds that a call may take, by default.
TIMEOUT = 60.0
_MEMORY, _MEMORY_FACTOR = 2 << 30, 16
#: The arrays of these libraries may have negative strides.
_ANY_STRIDES = ("numpy",)


class Isolation:
    """The sandboxes of the own variants of a comparison. It ends them when its context ends."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._opened: list[Candidate] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for candidate in self._opened:
            candidate.close()

    def ladder(self, ladder: Ladder) -> OwnLadder:
        """The ladder with its own variants in sandboxes."""
        found = ladder.with_variants()
        for variant in ladder:
            if isinstance(variant, OwnVariant) and not isinstance(variant, IsolatedVariant):
                found.replace(IsolatedVariant.of_variant(variant, self))
        return found

    def open(self, variant: OwnVariant) -> Candidate:
        """Start a sandbox for a variant."""
        self._opened.append(Candidate(variant, self.timeout))
        return self._opened[-1]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class IsolatedVariant(OwnVariant):
    """An own variant whose calls run in a sandbox."""

    original: OwnVariant
    isolation: Isolation
    opened: list[Candidate] = field(default_factory=list)

    @classmethod
    def of_variant(cls, original: OwnVariant, isolation: Isolation) -> Self:
        """The variant in a sandbox, which starts at the first call."""
        copied = {f.name: getattr(original, f.name) for f in fields(OwnVariant)}
        return cls(**copied, original=original, isolation=isolation)

    @property
    def candidate(self) -> Candidate:
        """Its sandbox."""
        if not self.opened:
            self.opened.append(self.isolation.open(self.original))
        return self.opened[0]

    def prepare(self, problem: Problem, block: Block | None = None) -> IsolatedCall:
        """Prepare a call in the sandbox."""
        if block is not None:
            raise ValueError(f"block must be None for {self.label}, which is isolated, got {block}")
        return IsolatedCall(self, problem)

    @property
    def source(self) -> Source:
        """Its source code."""
        return self.original.source


class FileFunction:
    """A function in a Python file, which only the sandbox runs."""

    def __init__(self, file: Path, name: str) -> None:
        self.file, self.__name__ = file, name

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Raise TypeError: the function does not run in this process."""
        raise TypeError(f"{self.__name__} must run in isolation")


def pickled(function: Callable[..., Any], name: str) -> bytes:
    """A function for another process: with its code, unless it belongs to an installed package."""
    try:
        import cloudpickle
    except ImportError:
        cloudpickle = pickle
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    installed = tuple(sysconfig.get_path(key) for key in ("stdlib", "purelib", "platlib"))
    own = cloudpickle is not pickle and file and not file.startswith(installed)
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


class Candidate:
    """A variant in its sandbox, and what is known about the intervals around its calls."""

    def __init__(self, variant: OwnVariant | None, timeout: float) -> None:
        self._variant, self._timeout = variant, timeout
        self._folder = tempfile.TemporaryDirectory(prefix="adokernels-")
        self._sandbox: Sandbox | None = None
        self._numbers = itertools.count()
        self.sizes_checked = False
        #: Seconds of an interval around a call that does nothing, and of the wait in it.
        self.idle = 0.0, 0.0
        self.writes_out = False

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

    def start(self, call: IsolatedCall) -> None:
        """Start the process, time calls that do nothing, and load the function."""
        sizes = [a.nbytes for a in (*call.problem.host_arguments,) if is_array(a)]
        memory = _MEMORY + _MEMORY_FACTOR * sum(sizes)
        message: dict[str, Any] = {"verb": "load"}
        if isinstance(self._variant, FunctionVariant):
            function = self._variant.function
            if isinstance(function, FileFunction):
                message |= {"file": str(function.file), "name": function.__name__}
            else:
                path = Path(self._folder.name, "function.pickle")
                path.write_bytes(pickled(function, self._variant.label))
                message["pickle"] = str(path)
        self._sandbox = Sandbox(Limits(self._timeout, memory), {})
        self.sandbox.halt()
        call.connect()
        self.idle = call.idle(_IDLE_CALLS)
        if len(message) > 1:
            self.writes_out = bool(self.ask(**message).get("out"))

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
        answer = self.ask(verb="prepare", problem=number, out=self.writes_out, **problem)
        return number, [int(address) for address in answer["addresses"]]


class IsolatedCall(OwnCall):
    """A call in a sandbox. Its operands and results have copies in the memory of the parent."""

    isolated = True

    def __init__(self, variant: IsolatedVariant, problem: Problem) -> None:
        super().__init__(variant, problem)
        original = variant.original
        self._library = original.arrays if isinstance(original, FunctionVariant) else "numpy"
        arguments = problem.arguments
        if problem.device != "cpu" or self._library not in _ANY_STRIDES:
            packed = (np.ascontiguousarray(o) if is_array(o) else o for o in problem.host_arguments)
            arguments = tuple(packed)
        hosts = problem.host_arguments if arguments is problem.arguments else arguments
        of = (problem.ladder, arguments, hosts, problem.options, "cpu", problem.result_types)
        #: The memory of the parent, which is copied to and from the process.
        self._memory = Problem(*of)
        self._rng = np.random.default_rng()
        self._addresses: list[list[int]] = []  # of the blocks of each call of a batch
        self._answer: Any = None  # describes the returned arrays
        self._prepared: list[Values] = []
        self._taken: list[Values] = []
        self._verify_seconds = 0.0
        self._claims: list[tuple[float, float]] = []  # of undisturbed samples: claim, excess
        self.verified = 0
        self._candidate = variant.candidate
        if not self._candidate.started:
            self._candidate.start(self)
            self._forget()
        self.connect()

    # --- Memory -----------------------------------------------------------------------------------

    @cached_property
    def _blocks(self) -> list[GuardedArray]:
        memory = self._memory
        memory.load(memory.values)
        found = (*memory.guarded_operands, *memory.guarded_results)
        return [block for block in found if isinstance(block, GuardedArray)]

    def connect(self) -> None:
        """Let the process allocate its memory for the problem."""

        def layout(operand: Any) -> Any:
            return operand.layout if isinstance(operand, GuardedArray) else operand

        assert self._blocks
        self._number, addresses = self._candidate.prepare(
            operands=list(map(layout, self._memory.guarded_operands)),
            results=list(map(layout, self._memory.guarded_results)),
            options=self._memory.options,
            library=self._library,
        )
        self._addresses = [addresses]

    def _write(self, values: Sequence[Values]) -> None:
        """Write operands and poisoned results for calls to the stopped process."""
        self._verify()
        self._release()
        sandbox = self._candidate.sandbox
        if len(values) != len(self._addresses):
            number = {"problem": self._number}
            if len(values) == 1:
                self._forget()
                self.connect()
            else:
                found = self._candidate.ask(verb="ring", count=len(values), **number)["addresses"]
                self._addresses = [[int(address) for address in each] for each in found]
        for each, addresses in zip(values, self._addresses, strict=True):
            self._memory.load(each)
            self._memory.poison()
            for block, address in zip(self._blocks, addresses, strict=True):
                sandbox.write(address, block.block)
        self._prepared = list(values)

    def _forget(self) -> None:
        self._candidate.ask(verb="forget", problem=self._number)

    def _release(self) -> None:
        """Let the process free the last returned result, outside of all intervals."""
        if self._answer is not None:
            self._answer = None
            self._candidate.ask(verb="release", problem=self._number)

    def _read(self, place: int, values: Values, views: bool) -> Any:
        """The result of the last call; ValueError if other memory has changed."""
        sandbox, memory = self._candidate.sandbox, self._memory
        memory.forget()
        for block, address in zip(self._blocks, self._addresses[place], strict=True):
            sandbox.read(address, block.block)
        returned = None if self._answer is None else self._returned(views)
        memory.require_intact(values, results=returned is not None)
        return memory.results() if returned is None else returned

    def _returned(self, views: bool) -> Any:
        """The arrays that the process has returned, as it describes them."""
        kinds = self._memory.result_types
        try:
            described = [
                (int(address), tuple(map(int, shape)), np.dtype(dtype), tuple(map(int, strides)))
                for address, shape, dtype, strides in self._answer["arrays"]
            ]
            several = bool(self._answer["several"])
        except (KeyError, TypeError, ValueError) as error:
            raise Broken("its process describes its result wrongly") from error
        if len(described) != len(kinds):
            raise ValueError(f"wrong result: {len(described)} arrays, expected {len(kinds)}")
        found = []
        for (address, shape, dtype, strides), kind in zip(described, kinds, strict=True):
            if (dtype.str, shape) != (kind.dtype.str, tuple(kind.shape)):
                wanted = f"{kind.dtype} {tuple(kind.shape)}"
                raise ValueError(f"wrong result: {dtype} {shape}, expected {wanted}")
            below, above = reach(shape, strides, dtype.itemsize)
            for block, at in zip(self._blocks, self._addresses[0], strict=True):
                overlaps = at < address + above and address - below < at + block.block.size
                if overlaps and not views:
                    raise ValueError("wrong result: it returns a view of an operand, not data")
            if below + above > 16 * (self._size + 4096):
                raise ValueError("wrong result: it returns a view with large gaps")
            data = np.empty(below + above, np.uint8)
            self._candidate.sandbox.read(address - below, data)
            found.append(np.ndarray(shape, kind.dtype, data, below, strides).copy())
        return tuple(found) if several else found[0]

    @cached_property
    def _size(self) -> int:
        return sum(block.block.size for block in self._blocks)

    # --- Calls ------------------------------------------------------------------------------------

    def interval(self, count: int) -> tuple[list[float], float, float]:
        """Let the process make calls: their claims, the rest of the interval, the longest wait."""
        sandbox = self._candidate.sandbox
        sandbox.send(verb="call", problem=self._number, batch=count > 1)
        before = sandbox.waited()
        start = time.perf_counter_ns()
        sandbox.resume()
        try:
            answer = sandbox.receive()
        finally:
            end = sandbox.halt()
        after = sandbox.waited()
        try:
            claims = [float(claim) / 1e9 for claim in answer["claims"]]
            self._answer = answer["results"]
        except (KeyError, TypeError, ValueError) as error:
            raise Broken("its process sent a malformed answer") from error
        if len(claims) != count or not all(0 <= claim < float("inf") for claim in claims):
            raise Broken("its process claims impossible times")
        waits = [after[task] - before[task] for task in after if task in before]
        return claims, (end - start) / 1e9 - sum(claims), max(waits, default=0) / 1e9

    def computed(self, values: Values, *, views: bool = False) -> Any:
        """The result for these values; ValueError if it changes other memory."""
        self._write([values])
        self.interval(1)
        return self._read(0, values, views)

    def run(self) -> Any:
        """The result for the operands of the problem."""
        return self.computed(self._memory.values)

    def _fresh(self) -> Values:
        """Operands that no call had so far."""
        indices = self._memory.task.core is None or self._memory.task.adjusted is not None
        return changed_values(self._memory, lambda a, rng: fresh(a, rng, indices), self._rng)

    def _prepare(self, count: int) -> None:
        self._write([self._fresh() for _ in range(count)])

    def _verify(self) -> None:
        """Verify one of the calls of the last sample if it has been chosen."""
        taken, self._taken = self._taken, []
        if not taken:
            return
        start = time.perf_counter()
        place = random.randrange(len(taken))
        values = taken[place]
        results = [self._read(place, values, False)]
        results += [self.computed(other) for other in values.runs[1:]]
        values.check(*results)
        self.verified += 1
        self._verify_seconds = time.perf_counter() - start

    @property
    def between_samples(self) -> Callable[[], None]:
        """Verify the last sample, and write new operands."""
        return lambda: self._prepare(max(len(self._prepared), 1))

    def sample(self, cold: bool, repeats: int) -> tuple[float, float, bool, float]:
        """Take a sample of calls whose operands are new."""
        if self._taken or len(self._prepared) != repeats:
            self._prepare(repeats)
        prepared = self._prepared
        if cold:
            _core.sample(lambda: None, "cpu", True, 1, 0)  # overwrites the caches
        claims, rest, waited = self.interval(repeats)
        if random.random() < (1 if self._verify_seconds < _CHEAP_SECONDS else _VERIFIED):
            self._taken = prepared
        self._prepared = []
        claimed = sum(claims)
        idle, wait = self._idle(repeats)
        excess, waited = rest - idle, max(waited - wait, 0.0)
        if waited > max(WAITED * claimed, _SLACK):
            claimed += max(excess, 0.0)
        else:
            waited = 0.0
            self._claims.append((claimed, excess))
            claimed += max(excess - _SLACK - _SLACK_SHARE * claimed, 0.0)
        return claimed / repeats, 0.0, True, waited / repeats

    def idle(self, calls: int, count: int = 1) -> tuple[float, float]:
        """The rest of an interval of calls that do nothing, and the wait; not of a busy moment."""
        found = [self.interval(count)[1:] for _ in range(calls)]
        rest, wait = np.quantile(found, 0.25, axis=0)
        return float(rest), float(wait)

    def _idle(self, count: int) -> tuple[float, float]:
        """The rest of the interval of calls that do nothing."""
        return self._candidate.idle

    def conclude(self) -> None:
        """Verify the last sample, and refuse claims that are too low."""
        self._verify()
        lies = [excess > _LIE + _LIE_SHARE * claim for claim, excess in self._claims]
        if len(lies) >= FEWEST_SAMPLES and sum(lies) > _LIES * len(lies):
            claim, excess = np.median(self._claims, axis=0)
            raise ValueError(
                f"it claims {quantity(claim, 's')} per sample, but its process needed "
                f"{quantity(claim + excess, 's')} for it"
            )
        core = Path(_core.__file__)
        if self._candidate.sandbox.maps(core):
            raise ValueError("it calls the library's own variants")
