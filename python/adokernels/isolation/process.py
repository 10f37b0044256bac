"""The process of a candidate: how it gets a function, and the memory of problems in it."""

from __future__ import annotations

import base64
import ctypes
import io
import itertools
import json
import math
import operator
import sys
import sysconfig
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from adokernels import _core
from adokernels.isolation.sandbox import Sandbox
from adokernels.model.arguments import Parameter
from adokernels.model.compiler import CompilationError, CompiledKernel, UnknownKernel
from adokernels.model.cuda_variant import CudaVariant
from adokernels.model.guarded import GuardedArray
from adokernels.model.own_variant import FunctionVariant, OwnVariant
from adokernels.model.problem import Broken, Problem
from adokernels.model.values import is_array
from adokernels.text import printable

#: Bytes that a process may use: a constant, and a multiple of the operands.
_MEMORY, _MEMORY_FACTOR = 4 << 30, 16
#: The shortest time of a call in seconds: ratios of times need a number above 0.
TICK = 1e-9
_LONGEST = 10_000  # characters of a message


class Missing(ValueError):
    """The file of a submission does not define its function."""


class FileFunction:
    """A function in a Python file, which only the sandbox runs."""

    def __init__(self, file: Path, name: str) -> None:
        self.file, self.__name__ = file, name

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Raise TypeError: the function does not run in this process."""
        raise TypeError(f"{self.__name__} must run in isolation")


def _unsendable(name: str, error: str) -> TypeError:
    return TypeError(
        f"{name} must be a function that can be sent to another process, but {error}; move that "
        "object to a module that the function imports, or use isolated=False to run it in this "
        "process"
    )


def pickled(function: Callable[..., Any], name: str) -> bytes:
    """A function for another process: with its code, unless it belongs to an installed package."""
    import cloudpickle  # type: ignore[import-untyped]  # not loaded before it is needed

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, what: Any) -> Any:
            """Also reduce pointer and array types of ctypes."""
            if isinstance(what, type(ctypes.POINTER(ctypes.c_int))):
                return ctypes.POINTER, (what._type_,)
            if isinstance(what, type(ctypes.c_int * 1)):
                return operator.mul, (what._type_, what._length_)
            return super().reducer_override(what)

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    installed = tuple(sysconfig.get_path(key) for key in ("stdlib", "purelib", "platlib"))
    own = file and not file.startswith(installed)
    if own:
        cloudpickle.register_pickle_by_value(module)
    try:
        if "triton" in sys.modules:
            from adokernels.kernels import triton  # noqa: F401  # lets kernels be pickled
        file_of_pickle = io.BytesIO()
        Pickler(file_of_pickle).dump(function)
        return file_of_pickle.getvalue()
    except Exception as error:
        raise _unsendable(name, f"{type(error).__name__}: {error}") from error
    finally:
        if own:
            cloudpickle.unregister_pickle_by_value(module)


@contextmanager
def well_formed() -> Iterator[None]:
    """Raise Broken for the errors that a malformed answer of the untrusted process causes."""
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Broken("its process sent a malformed answer") from error


class Candidate(Sandbox):
    """The process of a variant. Without a variant, its calls do nothing."""

    def __init__(self, variant: OwnVariant | None, problem: Problem, seconds: float) -> None:
        size = sum(a.nbytes for a in problem.host_arguments if is_array(a))
        memory = _MEMORY + _MEMORY_FACTOR * size if variant else math.inf
        self.is_emulated = problem.device_id == "emulator"
        kind = "Kernel" if isinstance(variant, CudaVariant) else "Function"
        kind += "OnEmulator" if self.is_emulated else "OnDevice"
        super().__init__(seconds, memory, on_device=kind if problem.device == "cuda" else "")
        self.library, self.writes_out = "numpy", False
        #: Numbers of unused problems. The process frees their memory when it prepares the next one.
        self.unused: list[int] = []
        if not isinstance(variant, FunctionVariant):
            return
        self.library, function = variant.arrays, variant.function
        try:
            source: dict[str, Any]
            if isinstance(function, FileFunction):
                source = {"file": str(function.file), "name": function.__name__}
            else:
                source = {"pickle": pickled(function, variant.label)}
            answer = self.ask(verb="load", **source)
            if error := answer.get("unsendable"):
                raise _unsendable(variant.label, printable(str(error), _LONGEST, lines=True))
            if answer.get("found") is False:
                raise Missing(f"{source.get('file')} must define {source.get('name')}")
        except BaseException:
            self.close()
            raise
        self.writes_out = bool(answer.get("out"))


class CompilerProcess(Sandbox):
    """A process that compiles one kernel, because NVRTC cannot be interrupted."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds, _MEMORY, on_device="Compilation")

    def compiled(
        self, source: str, kernel: str, arch: str, file: str, options: tuple[tuple[str, str], ...]
    ) -> CompiledKernel:
        """The kernel, as :func:`adokernels.model.compiler.compiled` returns it."""
        request = (source, kernel, arch, file, options)
        try:
            answer = self.ask(verb="prepare", unused=[], request=request)
        except Broken as error:
            raise Broken(f"its compilation failed: {error}") from error
        with well_formed():
            ((address, size),) = zip(map(int, answer["addresses"]), answer["sizes"], strict=True)
            data = np.empty(int(size), np.uint8)
            self.read([(address, data)])
            facts = json.loads(data.tobytes())
            if "error" not in facts:
                facts["code"] = base64.b64decode(facts["code"])
                facts["parameters"] = tuple(Parameter(**each) for each in facts["parameters"])
                return CompiledKernel(**facts)
        kind = UnknownKernel if facts.get("unknown") else CompilationError
        raise kind(str(facts["error"]), str(facts["log"]), file, source)


class Reply(NamedTuple):
    """A call in a process: times in seconds, and the answer of the process.

    `claim` is the time that the process states. `interval` is the time between two readings of the
    parent's clock around the call, without waits for a processor. `waited` is the part of these
    waits that is within the claim.
    """

    claim: float
    interval: float
    waited: float
    answer: dict[str, Any]


class Remote:
    """A problem in a process: its memory, and calls.

    `blocks` are arrays in the memory of the parent, operands first, with the same layout.
    """

    def __init__(self, process: Candidate, blocks: Sequence[GuardedArray], **message: Any) -> None:
        self._process = process
        unused = [process.unused.pop() for _ in range(len(process.unused))]
        answer = process.ask(verb="prepare", unused=unused, **message)
        with well_formed():
            self._number = int(answer["problem"])
            self._places = list(zip(map(int, answer["addresses"]), blocks, strict=True))
        self._require_accepted(answer)
        weakref.finalize(self, process.unused.append, self._number)

    def _require_accepted(self, answer: dict[str, Any]) -> None:
        """Raise Unavailable if the emulator refuses the kernel."""
        if self._process.is_emulated and answer.get("refusal"):
            raise _core.Unavailable(printable(str(answer["refusal"]), _LONGEST, lines=True))

    def ask(self, verb: str, **message: Any) -> dict[str, Any]:
        """Send a message about the problem to the stopped process; return its answer."""
        return self._process.ask(verb=verb, problem=self._number, **message)

    def write(self) -> None:
        """Write operands and results."""
        self._process.write((address, block.block) for address, block in self._places)

    def read(self) -> None:
        """Read operands and results."""
        self._process.read((address, block.block) for address, block in self._places)

    def is_copied(self, arrays: Sequence[tuple[int, int]]) -> bool:
        """Whether returned arrays, as address ranges, share no memory with operands.

        Memory that the process can have mapped twice, to avoid a copy, counts as shared.
        """
        blocks = [(address, address + block.block.size) for address, block in self._places]
        mapped = self._process.shared_memory()
        taken = [*mapped, *blocks]
        pairs = [*itertools.product(arrays, taken), *itertools.product(blocks, mapped)]
        return not any(max(a[0], b[0]) < min(a[1], b[1]) for a, b in pairs)

    def call(self, **how: Any) -> Reply:
        """Let the process call the function; it is then stopped."""
        answer, process = self.ask("call", **how), self._process
        self._require_accepted(answer)
        with well_formed():
            claim = float(answer["claim"])
        if not 0 <= claim < process.seconds:
            raise Broken("its process claims an impossible time")
        waited = min(process.waited, max(claim - process.run, 0.0))
        return Reply(max(claim, TICK), process.interval, waited, answer)
