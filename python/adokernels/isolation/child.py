"""The program of the child that runs untrusted functions, and of its warden. device.py imports it.

It imports NumPy, but not this package, whose variants the function must not call. The parent
(sandbox.py) writes pickled messages to a file and sends their sizes. Replies are JSON, because this
process is never trusted.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import json
import mmap
import os
import pickle
import resource
import runpy
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_LONGEST = 16  # bytes of a message, which is the size of a pickle
_LONGEST_TEXT = 10_000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PAGE, _HUGE = 4096, 4 << 20
#: M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: freed arrays stay in the process, as in one that has run
#: for a long time, so that later calls have no page faults.
_MALLOC = {-3: 32 << 20, -1: (1 << 31) - 1}


def guard(connection: socket.socket) -> None:
    """Fork, and return in the child. The warden adopts orphans, and ends as the child ends.

    It first ends all other processes: the system would not end them with the child or the warden.
    """
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
    while os.getppid() == parent:
        signal.sigtimedwait({signal.SIGCHLD}, 1)
        ended = True
        while ended:
            pid, status = os.waitpid(-1, os.WNOHANG)
            ended = pid != 0
            if pid == child:
                end_children()
                if os.WIFSIGNALED(status):
                    with contextlib.suppress(OSError):  # the handler of SIGKILL cannot be changed
                        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
                    os.kill(os.getpid(), os.WTERMSIG(status))
                os._exit(os.WEXITSTATUS(status))
    end_children()
    os._exit(1)


def end_children() -> None:
    """End all children, and their children, which this process then adopts."""
    with contextlib.suppress(ChildProcessError):
        while True:
            with open("/proc/thread-self/children", encoding="ascii") as file:
                pids = [int(pid) for pid in file.read().split()]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.001)


def received(file: int, size: int) -> dict[str, Any]:
    """Return the message in a file. One call of the system reads at most 2 GiB."""
    data = b""
    while part := os.pread(file, size - len(data), len(data)):
        data += part
    found: dict[str, Any] = pickle.loads(data)
    return found


def load(message: dict[str, Any]) -> Callable[..., Any] | None:
    """Return the function of a pickle or of a file; None if the file does not define it."""
    if "pickle" in message:
        function: Callable[..., Any] = pickle.loads(message["pickle"])
        return function
    sys.path.insert(0, os.path.dirname(message["file"]))  # as Python does for a script
    return runpy.run_path(message["file"]).get(message["name"])


def has_out(function: Any) -> bool:
    """Whether a function has a parameter for its results."""
    try:
        return "out" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-in functions without a signature
        return False


class HostBlock:
    """The memory of an array with red zones, at the same offset in a page as in the parent."""

    def __init__(self, layout: dict[str, Any]) -> None:
        import numpy

        pages = mmap.mmap(-1, layout["bytes"] + _PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if layout["bytes"] >= _HUGE:  # as NumPy does
            with contextlib.suppress(OSError):  # the system can lack huge pages
                pages.madvise(mmap.MADV_HUGEPAGE)
        self.pages = numpy.frombuffer(pages, numpy.uint8)
        start = layout["address"] % _PAGE
        #: The offset of the first element.
        self.at = start + layout["offset"]
        #: The part of the pages that the parent reads and writes.
        self.host = self.pages[start : start + layout["bytes"]]
        self.shape, self.dtype = layout["shape"], layout["dtype"]
        place = layout["offset"], layout["strides"]
        self.array = numpy.ndarray(self.shape, self.dtype, self.host, *place)


class FunctionOnHost:
    """Memory for the operands and results of one problem, and the call of the function.

    Without a function, a call touches the memory.
    """

    def __init__(self, function: Callable[..., Any] | None, message: dict[str, Any]) -> None:
        import numpy

        self._numpy, self._function, self._library = numpy, function, message["library"]
        #: The memory that the function uses. The parent reads it.
        self.blocks: list[Any] = []
        operands, out = (
            [self._array(each) if isinstance(each, dict) else each for each in message[key]]
            for key in ("operands", "results")
        )
        self._args, self._out = operands, tuple(out)
        self._types = [(each["dtype"], each["shape"]) for each in message["results"]]
        self._options: dict[str, Any] = dict(message["options"])
        if message["out"]:
            self._options["out"] = self._out if len(out) > 1 else out[0]
        self._returned: Any = None  # as the function has returned it
        self._kept: list[Any] | None = None  # the packed arrays

    def _array(self, layout: dict[str, Any]) -> Any:
        """An array of the library in a new block."""
        block = HostBlock(layout)
        self.blocks.append(block.host)
        if self._library == "numpy":
            return block.array
        module = __import__(self._library)
        make = module.from_numpy if self._library == "torch" else module.device_put
        return make(block.array)

    def _run(self) -> None:
        """Call the function, and wait for its result."""
        if self._function:
            self._returned = self._function(*self._args, **self._options)
        else:
            self._touch()
            self._returned = self._out
        if hasattr(self._returned, "block_until_ready"):
            self._returned.block_until_ready()

    def _pack(self) -> None:
        """Keep packed arrays on the host, unless the function writes to `out`."""
        if "out" in self._options:
            return
        if not isinstance(self._returned, tuple):
            self._returned = (self._returned,)
        for array in self._returned:
            masked = hasattr(array, "filled")  # avoids an import of numpy.ma in the timed interval
            if masked or not (hasattr(array, "shape") or self._numpy.isscalar(array)):
                raise ValueError(f"wrong result: it returns a {type(array).__name__}, not an array")
        self._kept = [self._on_host(array) for array in self._returned]

    def _on_host(self, array: Any) -> Any:
        return self._numpy.asarray(array, order="C")

    def _is_view(self, array: Any) -> bool:
        """Whether an array shares memory with an operand: returning a view does no work."""
        kind = self._numpy.ndarray
        return isinstance(array, kind) and any(
            self._numpy.may_share_memory(array, block) for block in self.blocks
        )

    def _timed(self, repeats: int, **how: Any) -> float:  # of the GPU
        """Call the function; return the seconds until its results are packed, per call."""
        start = time.perf_counter_ns()
        for _ in range(repeats):
            self._returned = self._kept = None
            self._run()
            self._pack()
        return 1e-9 * (time.perf_counter_ns() - start) / repeats

    def _touch(self) -> None:
        """Bring the memory of a call into the caches of this core."""
        used = len(self.blocks) - (0 if "out" in self._options else len(self._out))
        for block in self.blocks[:used]:
            self._numpy.bitwise_or(block, 0, out=block)
        for block in self.blocks[used:]:  # as large as the arrays that the function returns
            self._numpy.empty(block.size, self._numpy.uint8).fill(0)

    def call(self, *, repeats: int = 1, touch: bool = False, **how: Any) -> dict[str, Any]:
        """Call the function. Its last result stays in memory until the parent has read it."""
        if touch:
            self._touch()
        claim = self._timed(repeats, **how)
        if self._kept is None:
            return {"claim": claim, "arrays": None}
        found = [(array.dtype, array.shape) for array in self._kept]
        if found != self._types:
            words = (", ".join(f"{t} {n}" for t, n in each) for each in (found, self._types))
            raise ValueError("wrong result: {}, expected {}".format(*words))
        view = any([self._is_view(array) for array in (*self._kept, *self._returned)])
        return {"claim": claim, "arrays": [a.ctypes.data for a in self._kept], "view": view}

    def ready(self, *, warm: bool) -> None:
        """Free the last result. Before a warm call, repeat the last one, which warms its code."""
        if warm:
            self._touch()
            self._timed(1)
        self._returned = self._kept = None


def text_of(error: BaseException) -> str:
    """Describe an error of the function."""
    try:
        text = str(error)
    except BaseException as second:
        text = f"(its text cannot be read: {type(second).__name__})"
    wrong = type(error) is ValueError and text.startswith("wrong result")
    return (text if wrong else f"it fails with {type(error).__name__}: {text}")[:_LONGEST_TEXT]


class Server:
    """Answers messages about problems, which are objects of one class."""

    def __init__(self, kind: Callable[..., Any]) -> None:
        self._kind = kind
        self._function: Callable[..., Any] | None = None
        self._problems: list[Any] = []

    def answer(self, verb: str, problem: int = -1, **message: Any) -> dict[str, Any]:
        """Do what a message asks for; return the answer."""
        if verb == "load":
            try:
                self._function = load(message)
            except Exception as error:
                if "pickle" in message:
                    return {"unsendable": f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]}
                raise
            return {"found": bool(self._function), "out": has_out(self._function)}
        if verb == "prepare":
            for number in message["unused"]:
                self._problems[number] = None
            made = self._kind(self._function, message)
            self._problems.append(made)
            facts = {"problem": len(self._problems) - 1, "refusal": getattr(made, "refusal", "")}
            facts["addresses"] = [block.ctypes.data for block in made.blocks]
            return facts | {"sizes": [block.size for block in made.blocks]}
        return getattr(self._problems[problem], verb)(**message) or {}

    def serve(self, connection: socket.socket, file: int) -> None:
        """Answer messages in a file until the parent closes the connection."""
        while size := connection.recv(_LONGEST):
            try:
                reply = self.answer(**received(file, int(size)))
            except BaseException as error:  # also SystemExit
                reply = {"error": text_of(error)}
            connection.send(json.dumps(reply).encode())


def main() -> None:
    """Run the warden and the child."""
    connection, file = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    settings = received(file, int(connection.recv(_LONGEST)))
    guard(connection)
    sys.path[:] = settings["path"]
    import numpy  # noqa: F401  # before the function could replace it

    for option, value in _MALLOC.items():
        ctypes.CDLL(None).mallopt(option, value)
    connection.send(json.dumps({"pid": os.getpid()}).encode())
    kind: Callable[..., Any] = FunctionOnHost
    if name := settings["on_device"]:
        kind = getattr(__import__("adokernels.isolation.device", fromlist=[name]), name)
    else:
        sys.modules["adokernels"] = None  # type: ignore[assignment]  # it cannot be imported
    Server(kind).serve(connection, file)


if __name__ == "__main__":
    main()
