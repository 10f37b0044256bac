"""The process of an untrusted function, and its warden. It is a program, not a module to import.

It imports NumPy, but not this package, whose variants the function must not call. The parent
(sandbox.py) sends pickled messages. Replies are JSON: what this process says is never trusted.
"""

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

LONGEST = 1 << 17  # bytes of a message
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PAGE = 4096


def guard(connection):
    """Fork; return in the child. The warden adopts orphans, and ends as the child ends."""
    parent = os.getppid()
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        return
    connection.close()
    while True:
        signal.sigtimedwait({signal.SIGCHLD}, 1)
        if os.getppid() != parent:
            os._exit(1)  # the system then ends the child, too
        pid = status = None
        while pid != 0:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if pid == child and os.WIFSIGNALED(status):
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                with contextlib.suppress(OSError):  # the handler of SIGKILL cannot be changed
                    signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
                os.kill(os.getpid(), os.WTERMSIG(status))
            if pid == child:
                os._exit(os.WEXITSTATUS(status))


class Missing(Exception):
    """The file does not define the function."""


def load(message):
    """The function of a file or of a pickle."""
    if "file" not in message:
        with open(message["pickle"], "rb") as file:
            return pickle.load(file)
    found = runpy.run_path(message["file"])
    if message["name"] not in found:
        raise Missing(f"{message['file']} must define {message['name']}")
    return found[message["name"]]


class Problem:
    """Memory for the operands and results of one problem, and the call of the function."""

    def __init__(self, function, message):
        import numpy

        self.np, self.function = numpy, function
        self.blocks, self.arrays = [], []
        for layout in (*message["operands"], *message["results"]):
            block = None
            if isinstance(layout, dict):
                self.blocks.append(self.aligned(layout["bytes"], layout["address"]))
                block = self.blocks[-1]
                names = ("shape", "dtype", "offset", "strides")
                shape, dtype, offset, strides = (layout[name] for name in names)
                layout = numpy.ndarray(shape, dtype, block, offset, strides)
            self.arrays.append(layout)
        count = len(message["operands"])
        self.operands, self.results = self.arrays[:count], self.arrays[count:]
        self.args = [self.converted(a, message["library"]) for a in self.operands]
        self.options, self.rings, self.kept = dict(message["options"]), [], None
        if message["out"]:
            out = tuple(self.converted(a, message["library"]) for a in self.results)
            self.options["out"] = out if len(out) > 1 else out[0]

    def aligned(self, size, address):
        """Memory with an address that is equal to another one modulo the size of a page."""
        memory = self.np.empty(size + PAGE, self.np.uint8)
        start = (address - memory.ctypes.data) % PAGE
        return memory[start : start + size]

    def converted(self, array, library):
        if library == "numpy" or not isinstance(array, self.np.ndarray):
            return array
        if library == "torch":
            return __import__("torch").from_numpy(array)
        return __import__(library).device_put(array)

    def ring(self, count):
        """Memory for the blocks of a number of calls; their addresses."""
        self.rings = [
            [self.aligned(block.size, block.ctypes.data) for block in self.blocks]
            for _ in range(count)
        ]
        return [[block.ctypes.data for block in blocks] for blocks in self.rings]

    def timed(self):
        start = time.perf_counter_ns()
        returned = self.function(*self.args, **self.options)
        if hasattr(returned, "block_until_ready"):
            returned.block_until_ready()
        return time.perf_counter_ns() - start, returned

    def call(self):
        """One call. Its result stays in memory until the next message."""
        claim, returned = self.timed()
        kept = "out" not in self.options and self.function is not nothing
        self.kept = self.as_arrays(returned) if kept else None
        return {"claims": [claim], "results": self.described()}

    def batch(self):
        """A call per set of operands in the ring; the results are copied to the ring."""
        claims = []
        for blocks in self.rings:
            for block, source in zip(self.blocks, blocks):
                self.np.copyto(block, source)
            claim, returned = self.timed()
            claims.append(claim)
            self.keep(returned)
            for block, copy in zip(self.blocks, blocks):
                self.np.copyto(copy, block)
        return {"claims": claims, "results": None}

    def keep(self, returned):
        """Copy a returned result to the memory of the results."""
        if "out" in self.options or self.function is nothing:
            return
        for memory, array in zip(self.results, self.as_arrays(returned), strict=True):
            if (array.shape, array.dtype) != (memory.shape, memory.dtype):
                raise ValueError(f"it returns {array.dtype} {array.shape}")
            self.np.copyto(memory, array)

    def as_arrays(self, returned):
        arrays = returned if isinstance(returned, tuple) else (returned,)
        for array in arrays:
            if not hasattr(array, "shape") and not self.np.isscalar(array):
                raise ValueError(f"wrong result: it returns a {type(array).__name__}, not an array")
        found = [self.np.asarray(array) for array in arrays]
        return tuple(found) if isinstance(returned, tuple) else found

    def described(self):
        """Address, shape, type and strides of each returned array."""
        if self.kept is None:
            return None
        facts = [(a.ctypes.data, a.shape, a.dtype.str, a.strides) for a in self.kept]
        return {"several": isinstance(self.kept, tuple), "arrays": facts}


def nothing(*_, **__):
    """The function whose call measures the interval around a call."""


def text_of(error):
    try:
        text = str(error)
    except BaseException as second:
        text = f"(its text cannot be read: {type(second).__name__})"
    if isinstance(error, Missing) or (type(error) is ValueError and text.startswith("wrong result")):
        return text[:10000]
    return f"it fails with {type(error).__name__}: {text}"[:10000]


def serve(connection):
    function, problems = nothing, {}
    while data := connection.recv(LONGEST):
        reply = {}
        try:
            message = pickle.loads(data)
            verb, problem = message.get("verb"), problems.get(message.get("problem"))
            if verb == "load":
                function = load(message)
                try:
                    reply["out"] = "out" in inspect.signature(function).parameters
                except (TypeError, ValueError):  # built-in functions without a signature
                    reply["out"] = False
                for known in problems.values():
                    known.function = function
            elif verb == "prepare":
                problem = problems[message["problem"]] = Problem(function, message)
                reply["addresses"] = [block.ctypes.data for block in problem.blocks]
            elif verb == "ring":
                reply["addresses"] = problem.ring(message["count"])
            elif verb == "call":
                reply = problem.batch() if message["batch"] else problem.call()
            elif verb == "release":
                problem.kept = None
            elif verb == "forget":
                del problems[message["problem"]]
            del problem
        except BaseException as error:
            reply = {"error": text_of(error), "missing": isinstance(error, Missing)}
        connection.send(json.dumps(reply).encode())


if __name__ == "__main__":
    connection = socket.socket(fileno=int(sys.argv[1]))
    sys.path[:] = pickle.loads(connection.recv(LONGEST))["path"]
    import numpy  # noqa: F401  # in both processes; the child then starts at once

    guard(connection)
    sys.modules["adokernels"] = None  # an import of this package raises ImportError
    connection.send(json.dumps({"pid": os.getpid()}).encode())
    serve(connection)
