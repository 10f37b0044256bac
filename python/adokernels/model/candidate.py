"""The process of an untrusted function, and its warden. It is a program, not a module to import.

It imports NumPy, but not this package, whose variants the function must not call. The parent
(sandbox.py) sends pickled messages. Replies are JSON: what this process says is never trusted.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import json
import os
import pickle
import resource
import runpy
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 1 << 17  # bytes of a message
_LONGEST_TEXT = 10_000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PAGE = 4096


class Missing(Exception):
    """The file does not define the function."""


def guard(connection: socket.socket) -> None:
    """Fork, and return in the child. The warden adopts orphans, and ends as the child ends."""
    parent, prctl = os.getppid(), ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        return
    connection.close()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while os.getppid() == parent:  # otherwise, the system ends the child, too
        signal.sigtimedwait({signal.SIGCHLD}, 1)
        ended = True
        while ended:
            pid, status = os.waitpid(-1, os.WNOHANG)
            ended = pid != 0
            if pid == child and os.WIFSIGNALED(status):
                with contextlib.suppress(OSError):  # the handler of SIGKILL cannot be changed
                    signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
                os.kill(os.getpid(), os.WTERMSIG(status))
            if pid == child:
                os._exit(os.WEXITSTATUS(status))
    os._exit(1)


def nothing(*_: object, **__: object) -> None:
    """Do nothing: the function until the parent sends one."""


def load(message: dict[str, Any]) -> Callable[..., Any]:
    """Return the function of a file or of a pickle."""
    function: Callable[..., Any]
    if "file" not in message:
        with open(message["pickle"], "rb") as file:
            function = pickle.load(file)
        return function
    found = runpy.run_path(message["file"])
    if message["name"] not in found:
        raise Missing(f"{message['file']} must define {message['name']}")
    function = found[message["name"]]
    return function


def has_out(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter for its results."""
    try:
        return "out" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-in functions without a signature
        return False


class FunctionOnHost:
    """Memory for the operands and results of one problem, and the call of the function."""

    def __init__(self, function: Callable[..., Any], message: dict[str, Any]) -> None:
        import numpy

        self._numpy, self.function = numpy, function
        self.blocks: list[Any] = []
        operands = list(map(self._array, message["operands"]))
        self._results = list(map(self._array, message["results"]))
        self._library = message["library"]
        self._args = list(map(self._converted, operands))
        self._options: dict[str, Any] = dict(message["options"])
        self._ring: list[Any] = []
        self._kept: Any = None  # the returned arrays
        if message["out"]:
            out = tuple(map(self._converted, self._results))
            self._options["out"] = out if len(out) > 1 else out[0]

    def _array(self, layout: Any) -> Any:
        """An array in a new block of memory; other operands do not change."""
        if not isinstance(layout, dict):
            return layout
        self.blocks.append(self._aligned(layout["bytes"], layout["address"]))
        shape, dtype, offset, strides = (layout[n] for n in ("shape", "dtype", "offset", "strides"))
        return self._numpy.ndarray(shape, dtype, self.blocks[-1], offset, strides)

    def _aligned(self, size: int, address: int) -> Any:
        """Memory with an address that is equal to another one modulo the size of a page."""
        memory = self._numpy.empty(size + _PAGE, self._numpy.uint8)
        start = (address - memory.ctypes.data) % _PAGE
        return memory[start : start + size]

    def _converted(self, array: Any) -> Any:
        if self._library == "numpy" or not isinstance(array, self._numpy.ndarray):
            return array
        module = __import__(self._library)
        return module.from_numpy(array) if self._library == "torch" else module.device_put(array)

    def ring(self) -> list[int]:
        """Allocate further memory for operands and results; return the addresses.

        It is copied to the memory that the function uses just before a warm call.
        """
        self._ring = [self._aligned(block.size, block.ctypes.data) for block in self.blocks]
        return [block.ctypes.data for block in self._ring]

    def _timed(self) -> tuple[int, Any, Any]:
        """Call the function; nanoseconds, the returned arrays, packed, and as they are."""
        start = time.perf_counter_ns()
        returned = self.function(*self._args, **self._options)
        arrays = self._arrays(returned)
        claim = time.perf_counter_ns() - start
        return claim, arrays, returned if isinstance(returned, tuple) else (returned,)

    def _arrays(self, returned: Any) -> Any:
        """The returned arrays; None if the function writes to `out`."""
        if hasattr(returned, "block_until_ready"):
            returned.block_until_ready()
        if "out" in self._options:
            return None
        if self.function is nothing:
            return self._results  # its interval contains their description, as that of others
        several = isinstance(returned, tuple)
        for array in returned if several else (returned,):
            if not hasattr(array, "shape") and not self._numpy.isscalar(array):
                raise ValueError(f"wrong result: it returns a {type(array).__name__}, not an array")
        if several:
            return tuple(self._numpy.asarray(array, order="C") for array in returned)
        return [self._numpy.asarray(returned, order="C")]

    def call(self) -> dict[str, Any]:
        """Call the function once. Its result stays in memory until the parent has read it."""
        for block, source in zip(self.blocks, self._ring, strict=False):
            self._numpy.copyto(block, source)
        claim, self._kept, returned = self._timed()
        if self._kept is None:
            return {"claim": claim, "results": None}
        facts = [(a.ctypes.data, a.shape, a.dtype.str) for a in self._kept]
        views = any(self._is_view(array) for array in (*self._kept, *returned))
        described = {"several": isinstance(self._kept, tuple), "arrays": facts, "views": views}
        return {"claim": claim, "results": described}

    def _is_view(self, array: Any) -> bool:
        """Whether an array shares memory with an operand: returning a view does no work."""
        kind = self._numpy.ndarray
        return isinstance(array, kind) and any(
            self._numpy.may_share_memory(array, block) for block in self.blocks
        )

    def rehearse(self) -> dict[str, Any]:
        """Call the function on operands that the parent has already seen, without a reply."""
        self._timed()
        return {}

    def release(self) -> dict[str, Any]:
        """Free the returned arrays."""
        self._kept = None
        return {}


def text_of(error: BaseException) -> str:
    """Describe an error of the function."""
    try:
        text = str(error)
    except BaseException as second:
        text = f"(its text cannot be read: {type(second).__name__})"
    wrong = type(error) is ValueError and text.startswith("wrong result")
    described = wrong or isinstance(error, Missing)
    return (text if described else f"it fails with {type(error).__name__}: {text}")[:_LONGEST_TEXT]


class Server:
    """Answers messages about problems, which are objects of one class."""

    def __init__(self, kind: Callable[..., Any]) -> None:
        self._kind, self._function = kind, nothing
        self._problems: dict[int, Any] = {}

    def answer(self, verb: str, problem: int = -1, **message: Any) -> dict[str, Any]:
        """Do what a message asks for; return the answer."""
        if verb == "load":
            self._function = load(message)
            return {"out": has_out(self._function)}
        if verb == "prepare":
            made = self._problems[problem] = self._kind(self._function, message)
            return {"addresses": [block.ctypes.data for block in made.blocks]}
        if verb == "forget":
            del self._problems[problem]
            return {}
        found = getattr(self._problems[problem], verb)(**message)
        return found if isinstance(found, dict) else {"addresses": found}

    def serve(self, connection: socket.socket) -> None:
        """Answer messages until the parent closes the connection."""
        while data := connection.recv(_LONGEST):
            try:
                reply = self.answer(**pickle.loads(data))
            except BaseException as error:  # also SystemExit
                reply = {"error": text_of(error), "missing": isinstance(error, Missing)}
            connection.send(json.dumps(reply).encode())


def main() -> None:
    """Run the warden and the child."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    settings = pickle.loads(connection.recv(_LONGEST))
    guard(connection)
    sys.path[:] = settings["path"]
    import numpy  # noqa: F401  # before the function could replace it

    connection.send(json.dumps({"pid": os.getpid()}).encode())
    kind: Callable[..., Any] = FunctionOnHost
    if name := settings["on_device"]:
        runner = __import__("adokernels.model.runner", fromlist=[name])
        kind = getattr(runner, name)
    else:
        sys.modules["adokernels"] = None  # type: ignore[assignment]  # it cannot be imported
    Server(kind).serve(connection)


if __name__ == "__main__":
    main()
