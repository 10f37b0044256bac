"""Own variants in sandboxes: ``isolated=True``. docs/grading.md describes the protocol."""

from __future__ import annotations

import math
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from adokernels.model.cuda_variant import CudaVariant
from adokernels.model.isolated_call import IsolatedCall
from adokernels.model.isolated_kernel import KernelCall
from adokernels.model.own_ladder import OwnLadder, extended
from adokernels.model.own_variant import FunctionVariant, OwnVariant
from adokernels.model.sandbox import Broken, Limits, Missing, Sandbox
from adokernels.model.values import is_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from adokernels.model.ladder import Ladder
    from adokernels.model.problem import Block, Problem
    from adokernels.model.source import Source

#: Seconds that a call may take, by default.
TIMEOUT = 60.0
#: Bytes that a process may use: a constant, and a multiple of the operands.
_MEMORY, _MEMORY_FACTOR = 4 << 30, 16


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


class Candidate:
    """A variant in its sandbox; without a variant, calls do nothing."""

    def __init__(self, variant: OwnVariant | None, timeout: float) -> None:
        self._variant, self.timeout = variant, timeout
        self._folder = tempfile.TemporaryDirectory(prefix="adokernels-")
        self._sandbox: Sandbox | None = None
        self.writes_out = self.sizes_are_checked = False

    @property
    def library(self) -> str:
        """The library whose arrays the function receives."""
        return self._variant.arrays if isinstance(self._variant, FunctionVariant) else "numpy"

    @property
    def sandbox(self) -> Sandbox:
        """The process; Broken is raised if it could not load the function."""
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
        """Start the process, unless it has been started, and let it load the function."""
        if self._sandbox:
            return
        size = sum(a.nbytes for a in problem.host_arguments if is_array(a))
        memory = _MEMORY + _MEMORY_FACTOR * size if self._variant else math.inf
        kind = "KernelOnDevice" if isinstance(self._variant, CudaVariant) else "FunctionOnDevice"
        kind = "KernelOnEmulator" if problem.device_id == "emulator" else kind
        on_device = kind if problem.device == "cuda" else ""
        self._sandbox = Sandbox(Limits(self.timeout, memory), {"on_device": on_device})
        if isinstance(self._variant, FunctionVariant):
            self._load(self._variant)

    def _load(self, variant: FunctionVariant) -> None:
        function = variant.function
        if isinstance(function, FileFunction):
            source = {"file": str(function.file), "name": function.__name__}
        else:
            path = self.file("function.pickle")
            path.write_bytes(pickled(function, variant.label))
            source = {"pickle": str(path)}
        try:
            self.writes_out = bool(self.ask(verb="load", **source).get("out"))
        except Broken as error:
            raise Missing(str(error)) if error.missing else error from None

    def ask(self, **message: Any) -> dict[str, Any]:
        """Send a message to the stopped process, and return its answer; it is then stopped."""
        return self.sandbox.ask(**message)[0]


class Isolation:
    """The sandboxes of the own variants of a comparison. It ends them when its context ends."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._opened: list[Candidate] = []
        self._twins: dict[str, Candidate] = {}  # by device

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for candidate in self._opened:
            candidate.close()

    def ladder(self, ladder: Ladder) -> OwnLadder:
        """The ladder with its own variants in sandboxes."""
        found = extended(ladder, ())
        for variant in ladder:
            if isinstance(variant, OwnVariant) and not isinstance(variant, IsolatedVariant):
                own: dict[str, Any] = {f.name: getattr(variant, f.name) for f in fields(OwnVariant)}
                own |= {"original": variant, "isolation": self, "candidate": self.open(variant)}
                found.replace(IsolatedVariant(**own))
        return found

    def open(self, variant: OwnVariant | None) -> Candidate:
        """A sandbox for a variant, which starts with the first call."""
        self._opened.append(Candidate(variant, self.timeout))
        return self._opened[-1]

    def twin(self, candidate: Candidate, problem: Problem) -> Candidate:
        """A process like that of a candidate, but one that never loads a function."""
        twin = self._twins.get(problem.device) or self.open(None)
        self._twins[problem.device] = twin
        twin.start(problem)
        twin.writes_out = candidate.writes_out
        return twin


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class IsolatedVariant(OwnVariant):
    """An own variant whose calls run in a sandbox."""

    original: OwnVariant
    isolation: Isolation
    candidate: Candidate

    def prepare(self, problem: Problem, block: Block | None = None) -> IsolatedCall:
        """Prepare a call in the sandbox."""
        if isinstance(self.original, CudaVariant):
            return KernelCall(self, problem, self.original.prepare(problem, block))
        if block is not None:
            raise ValueError(f"block must be None for the function {self.label}, got {block}")
        return IsolatedCall(self, problem)

    def why_unavailable_on(self, device: str) -> str:
        """Reason why it cannot run on a device; else empty."""
        return self.original.why_unavailable_on(device)

    @property
    def source(self) -> Source:
        """Its source code."""
        return self.original.source
