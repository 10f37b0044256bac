"""The process of a candidate: how it starts, and how a function is sent to it."""

from __future__ import annotations

import math
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from adokernels.model.cuda_variant import CudaVariant
from adokernels.model.own_variant import FunctionVariant, OwnVariant
from adokernels.model.sandbox import Broken, Sandbox
from adokernels.model.values import is_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from adokernels.model.problem import Problem

#: Bytes that a process may use: a constant, and a multiple of the operands.
_MEMORY, _MEMORY_FACTOR = 4 << 30, 16


class Missing(ValueError):
    """The file of a submission does not define its function."""


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
        self._sandbox = Sandbox(self.timeout, memory, on_device=on_device)
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
        answer = self.ask(verb="load", **source)
        if answer.get("found") is False:
            raise Missing(f"{source.get('file')} must define {source.get('name')}")
        self.writes_out = bool(answer.get("out"))

    def ask(self, **message: Any) -> dict[str, Any]:
        """Send a message to the stopped process, and return its answer; it is then stopped."""
        return self.sandbox.ask(**message)[0]
