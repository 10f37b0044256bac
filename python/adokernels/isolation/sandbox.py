"""A process for untrusted code: it can be stopped, watched and ended, and its memory can be read.

docs/grading.md describes the protection. The process is a child of a warden, which adopts
all processes that the code starts. Messages to the child are pickles in a file that both processes
have open. Messages from the child are untrusted, so they are JSON.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import math
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels._core import Unavailable
from adokernels.model.problem import Broken
from adokernels.text import printable, quantity

#: Addresses of the child, with arrays of bytes in the memory of this process.
Places = Iterable[tuple[int, NDArray[np.uint8]]]

#: The program of the child. The interpreter runs the file: importing it would import the package.
_PROGRAM = Path(__file__).with_name("child.py")
_LONGEST = 1 << 17  # bytes of a message of the child
_WATCHED_SECONDS = 0.02
_STOP_SECONDS = 5.0
_START_SECONDS = 60.0
_MOST_PROCESSES, _MOST_THREADS = 64, 1024
#: A thread may run for this time after the system has reported it as stopped.
_STOPPED_NANOSECONDS = 30_000
#: A run of less than this part of a call gains nothing.
_STOPPED_SHARE = 0.01
#: Longer runs are tolerated in this number or this part of the calls, because the system can
#: account for a run late: on a busy machine, in some of a hundred calls. If two of at least five
#: samples are too short, the median is still one of the other samples, or between two of them.
_MOST_RUNS, _RUNS_OF_CALLS = 2, 0.1
#: If other threads ran for longer than this time, the first one can have waited for them.
_OTHERS_NANOSECONDS = 40_000
_CPUCLOCK_SCHED = 2  # of clock_getcpuclockid()
_MOST_BYTES_PER_COPY = 1 << 30
_PR_GET_CHILD_SUBREAPER = 37
_STOPPED = set("TtZX")  # states of /proc/PID/task/TID/stat


def _missing() -> str:
    """What isolation needs and this system lacks, for example in QEMU; else empty."""
    if not os.path.isdir("/proc/self/task"):
        return "/proc"
    copied = _copier("process_vm_readv")(0, None, 0, None, 0, 0)
    if copied and ctypes.get_errno() == errno.ENOSYS:
        return "process_vm_readv()"
    adopts = ctypes.c_int()
    if ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0):
        return "prctl(PR_SET_CHILD_SUBREAPER)"
    return ""


def _inheritable(descriptor: int) -> int:
    """Move a descriptor above 2: the standard streams of the child have the numbers 0 to 2.

    It can have such a number if this process has closed its own standard streams.
    """
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return moved


class Sandbox:
    """A child process, ready to receive its function. Close it after use.

    An answer may take `seconds`, and all processes may use `memory` bytes; `memory` is infinite if
    the child runs trusted code only. `settings` are sent to the program of the child.
    """

    def __init__(self, seconds: float, memory: float, **settings: Any) -> None:
        if missing := _missing():
            words = f"isolation needs {missing}, which this system lacks"
            raise Unavailable(f"{words}; remedy: isolated=False")
        self.seconds, self._memory, self._broken = seconds, memory, ""
        self._calls = self._runs = 0  # of the child, and of stopped processes
        self.interval = 0.0
        self._known: list[int] = []  # the child, and the processes that it has started
        self._file = os.fdopen(_inheritable(os.memfd_create("messages")), "wb")
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket, other = (socket.socket(fileno=_inheritable(s.detach())) for s in pair)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        try:
            with other:
                inherited = other.fileno(), self._file.fileno()
                command = [sys.executable, "-I", str(_PROGRAM), *map(str, inherited)]
                self._warden = subprocess.Popen(
                    command, **streams, pass_fds=inherited, start_new_session=True
                )
            self._send(path=sys.path, **settings)
            self._pid = int(self._receive(_START_SECONDS)["pid"])
            self._known = [self._pid]
            self._halt()
            self._spent = self._processor_times()
        except BaseException:
            self.close()
            raise

    # --- Messages ---------------------------------------------------------------------------------

    def ask(self, **message: Any) -> dict[str, Any]:
        """Send a message to the stopped child, let it run until it answers, and stop it.

        Attributes then have the seconds of this call: its first thread has run for `run`, and it or
        the parent has waited for a processor for `waited`, because of other work. `interval` is the
        time on the parent's clock, without the waits.
        """
        self._send(**message)
        spent, before = self._processor_times(), self._waits()
        longest = max((spent[pid] - self._spent.get(pid, 0) for pid in spent), default=0)
        self._calls += 1
        share = 1e9 * _STOPPED_SHARE * self.interval  # of the last call
        self._runs += longest > max(_STOPPED_NANOSECONDS, share)
        too_often = self._runs > max(_MOST_RUNS, _RUNS_OF_CALLS * self._calls)
        what = f"ran {self._runs} times" if too_often else ""
        if not all(_states(pid) <= _STOPPED for pid in self._known):
            what = "were resumed"
        if not set(self._descendants()) <= set(self._known):
            what = "started others"
        if what:
            self._broken = f"its processes {what} while they were stopped"
            self.close()
        start = time.perf_counter_ns()
        self._kill(self._known, signal.SIGCONT)
        try:
            answer = self._receive(self.seconds)
        finally:
            end = self._halt()
            self._spent = self._processor_times()
        run, waited, started = (a - b for a, b in zip(self._waits(), before, strict=True))
        others = sum(self._spent[pid] - spent.get(pid, 0) for pid in self._spent) - run
        # Other threads and processes of the code, also ended ones, can have caused the waits.
        unknown = started or spent.keys() - self._spent.keys()
        if self._memory < math.inf and (others > _OTHERS_NANOSECONDS or unknown):
            waited = 0
        # The waits also include waits after the interval, until the process is stopped.
        self.interval = 1e-9 * max(end - start - waited, run)
        self.run, self.waited = 1e-9 * run, 1e-9 * waited
        return answer

    def _send(self, **message: Any) -> None:
        data, written = memoryview(pickle.dumps(message)), 0
        with suppress(OSError):  # it is closed: _receive() finds the reason
            for _, event in self._poll.poll(0):
                if self._socket.recv(_LONGEST) or not event & select.POLLHUP:
                    self._broken = "its process sent a message without being asked"
                    self.close()
        while written < len(data) and not self._file.closed:
            written += os.pwrite(self._file.fileno(), data[written:], written)
        with suppress(OSError):
            self._socket.sendall(str(len(data)).encode())

    def _receive(self, seconds: float) -> dict[str, Any]:
        """The next message of the child, within the limits; otherwise, the child is ended."""
        try:
            message = self._next(seconds)
        except Broken as error:
            self._broken = self._broken or str(error)
            self.close()
            raise
        if "error" in message:
            raise Broken(printable(str(message["error"]), _LONGEST, lines=True))
        return message

    def _next(self, seconds: float) -> dict[str, Any]:
        if self._broken:
            raise Broken(self._broken)
        end = time.monotonic() + seconds
        while not self._poll.poll(1000 * _WATCHED_SECONDS):
            self._watch()
            if time.monotonic() > end:
                raise Broken(f"it did not return within {quantity(seconds, 's')}")
        try:
            data = self._socket.recv(_LONGEST)
        except ConnectionResetError:
            data = b""
        if not data:
            with suppress(subprocess.TimeoutExpired):
                self._warden.wait(_STOP_SECONDS)
            raise Broken(self._end())
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise Broken("its process sent a malformed message")
        return message

    def _end(self) -> str:
        status = self._warden.poll()
        if status is None:
            return "it closed its connection"
        if status >= 0:
            return f"it ended its process with exit status {status}"
        return f"it crashed: its process was ended by {signal.Signals(-status).name}"

    def _watch(self) -> None:
        """Raise Broken if a limit is exceeded or the child has ended."""
        if self._warden.poll() is not None:
            raise Broken(self._end())
        pids = list(self._descendants())
        self._require_few(pids)
        resident = sum(map(_resident_bytes, pids))
        if resident > self._memory:
            used, most = quantity(resident, "B"), quantity(self._memory, "B")
            raise Broken(f"it used {used} of memory, more than {most}")

    # --- Processes --------------------------------------------------------------------------------

    def _descendants(self) -> Iterator[int]:
        """The child and all processes that it has started."""
        if self._warden.returncode is not None:  # its number can belong to another process
            return
        found = [self._warden.pid]
        for pid in found:
            with suppress(OSError):
                for task in _tasks(pid):
                    children = map(int, _words(f"/proc/{pid}/task/{task}/children"))
                    found += [child for child in children if child not in found]
            if len(found) > 4 * _MOST_PROCESSES:
                break
        yield from found[1:]

    def _require_few(self, pids: list[int]) -> None:
        """End the child if it has too many processes or threads."""
        what = f"{_MOST_PROCESSES} processes" if len(pids) > _MOST_PROCESSES else ""
        if not what and sum(len(_tasks(pid)) for pid in pids) > _MOST_THREADS:
            what = f"{_MOST_THREADS} threads"
        if what:
            self._broken = f"it started more than {what}"
            self.close()
            raise Broken(self._broken)

    def _kill(self, pids: list[int], number: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _halt(self) -> int:
        """Stop all processes, and return the clock in nanoseconds at which they had the signal.

        When it returns, the system has stopped all of their threads. If a thread has run on for
        longer than the system needs, for example within a long system call, the clock is read then.
        """
        end = time.monotonic() + _STOP_SECONDS
        self._kill(self._known, signal.SIGSTOP)
        clock, before = time.perf_counter_ns(), self._processor_times()
        while True:
            known, self._known = self._known, list(self._descendants())
            self._require_few(self._known)
            running = [pid for pid in self._known if not _states(pid) <= _STOPPED]
            if not running and known == self._known:
                after = self._processor_times()
                ran = max((after[pid] - before.get(pid, 0) for pid in after), default=0)
                return time.perf_counter_ns() if ran > _STOPPED_NANOSECONDS else clock
            if time.monotonic() > end:
                raise Broken("its processes cannot be stopped")
            self._kill(running, signal.SIGSTOP)
            if set(self._known) - set(known):  # new processes ran until now
                clock = time.perf_counter_ns()

    def _processor_times(self) -> dict[int, int]:
        """Nanoseconds for which each process has run, with all threads, including ended ones."""
        found = {}
        for pid in self._known:
            with suppress(OSError):  # it has ended
                found[pid] = time.clock_gettime_ns(~pid << 3 | _CPUCLOCK_SCHED)
        return found

    def _waits(self) -> tuple[int, int, int]:
        """Nanoseconds for which the first thread of the child has run, and waited to run.

        The waits include the waits of this thread, which reads the clock. The third number changes
        if any process or thread of the system starts.
        """
        with suppress(OSError, ValueError):
            run, waited, *_ = _words(f"/proc/{self._pid}/schedstat")
            own, started = _words("/proc/thread-self/schedstat")[1], _words("/proc/loadavg")[-1]
            return int(run), int(waited) + int(own), int(started)
        return 0, 0, 0

    def maps(self, file: Path) -> bool:
        """Whether a process of the child has mapped this file, or a file with the same content."""
        facts = file.stat()
        for path in {name for pid in self._known for _, _, name in _mappings(pid) if "/" in name}:
            with suppress(OSError):
                other = os.stat(path)
                same_size = other.st_size == facts.st_size
                if os.path.samestat(other, facts) or (
                    same_size and Path(path).read_bytes() == file.read_bytes()
                ):
                    return True
        return False

    def close(self) -> None:
        """End all processes."""
        self._socket.close()
        self._file.close()
        end = time.monotonic() + _STOP_SECONDS
        with suppress(AttributeError, OSError, subprocess.TimeoutExpired):
            while (pids := list(self._descendants())) and time.monotonic() < end:
                self._kill(pids, signal.SIGSTOP)  # so that they start no further processes
                self._kill(pids, signal.SIGKILL)
            self._warden.kill()
            self._warden.wait(_STOP_SECONDS)
        self._known = []

    # --- Memory -----------------------------------------------------------------------------------

    def shared_memory(self) -> list[tuple[int, int]]:
        """The address ranges of the child that can share memory with other ranges or processes."""
        mappings = list(_mappings(self._pid))
        return [span for span, is_private, name in mappings if name or not is_private]

    def write(self, places: Places) -> None:
        """Copy bytes to addresses of the stopped child."""
        self._copy("process_vm_writev", places)

    def read(self, places: Places) -> None:
        """Copy bytes from addresses of the stopped child."""
        self._copy("process_vm_readv", places)

    def _copy(self, function: str, places: Places) -> None:
        copy = _copier(function)
        # A copy can wait for a stopped process of the child (userfaultfd).
        timer = threading.Timer(self.seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            for address, data in places:
                for offset in range(0, data.nbytes, _MOST_BYTES_PER_COPY):
                    count = min(data.nbytes - offset, _MOST_BYTES_PER_COPY)
                    local, remote = (
                        (ctypes.c_size_t * 2)(start + offset, count)
                        for start in (data.ctypes.data, address)
                    )
                    if copy(self._pid, local, 1, remote, 1, 0) != count:
                        error = os.strerror(ctypes.get_errno())
                        raise Broken(f"the memory of its process cannot be accessed ({error})")
        finally:
            timer.cancel()
        if self._broken:
            raise Broken(self._broken)

    def _expire(self) -> None:
        self._broken = f"its memory could not be copied within {quantity(self.seconds, 's')}"
        self.close()


def _copier(name: str) -> Any:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_ssize_t
    return function


def _words(path: str) -> list[str]:
    return Path(path).read_text("ascii").split()


def _mappings(pid: int) -> Iterator[tuple[tuple[int, int], bool, str]]:
    """The address ranges of a process, whether each is private, and its file or an empty string."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").splitlines():
            span, mode, _, _, number, *name = line.split(maxsplit=5)
            low, high = (int(address, 16) for address in span.split("-"))
            yield (low, high), mode.endswith("p"), "".join(name) if number != "0" else ""


def _tasks(pid: int) -> list[str]:
    """The threads of a process; empty if it has ended."""
    with suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


def _states(pid: int) -> set[str]:
    """The states of the threads of a process, one letter each."""
    found = set()
    for task in _tasks(pid):
        with suppress(OSError, IndexError):
            text = Path(f"/proc/{pid}/task/{task}/stat").read_text("utf-8", "replace")
            found.add(text.rpartition(")")[2].split()[0])
    return found


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(_words(f"/proc/{pid}/statm")[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
