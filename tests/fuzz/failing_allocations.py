"""Make each allocation of some calls of a routine fail, one per forked child.

    python tests/fuzz/failing_allocations.py ROUTINE malloc|python

With "malloc", failing_malloc.c must be preloaded. With "python", the hook of CPython makes its own
allocations fail. Prints the number of failed allocations and of wrong reactions to them.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import traceback

import numpy as np

import adokernels as ado
from adokernels import _core
from adokernels.model.tasks import as_tuple

SHAPES = {"average_matvec": (20, 33, 40), "gpp": (30, 20, 33, 2), "max_plus": (20, 800)}
SHAPES["strided_copy"] = (6000,)
RIGHT, WRONG, NONE_FAILED = 0, 1, 2
#: The C library ends the process if it has no memory for the first thread-local variable that a
#: thread uses.
ENDED_BY_LIBC = ("memory for thread-local data: ABORT", "failed to register TLS destructor")

name, hook = sys.argv[1:]
if hook == "python":
    import _testcapi

    def arm(n, following):
        _testcapi.set_nomemory(n, 0 if following else n + 1)

    disarm = _testcapi.remove_mem_hooks
else:
    arm = ctypes.CDLL(os.environ["LD_PRELOAD"]).fail_allocation

    def disarm():
        return arm(-1, 0)


routine = ado.routines[name]
operands = routine.task.random_operands(SHAPES.get(name, (60, 100)))
strided = [np.repeat(a, 2, axis=-1)[..., ::2] for a in operands]
expected = routine.task.expected(*operands)
unit = routine.task.error_unit(*operands) if routine.task.error_unit else None
results = as_tuple(expected)
out = tuple(map(np.empty_like, results)) if len(results) > 1 else np.empty_like(results[0])
slowest = next(v.name for v in routine.variants if v.device == "cpu" and not v.ceiling)
calls = {
    "direct": lambda: routine(*operands),
    "strided": lambda: routine(*strided, out=out),
    "variant": lambda: routine(*operands, variant=slowest, out=out),
    "invalid": lambda: routine(operands[0].reshape((-1,) + (1,) * 8), *operands[1:]),
}


def right(given):
    """Whether a result is within the error bound of its task."""
    try:
        routine.task.check(given, expected, unit)
    except ValueError:
        return False
    return True


def lost_by_python(error):
    """CPython 3.11 itself loses some exceptions for which it has no memory."""
    return hook == "python" and isinstance(error, SystemError) and "exception" in str(error)


def attempt(call, n, following):
    """Let allocation n of a call fail, then call again."""
    error = given = made = None
    arm(n, following)
    try:
        given = call()
    except BaseException as caught:
        error = caught
    made = disarm()
    refused = isinstance(error, ValueError) and call is calls["invalid"]
    if error is None:
        assert right(given), "wrong result"
    elif not (isinstance(error, MemoryError) or refused or lost_by_python(error)):
        raise error
    assert right(routine(*operands)), "the next call is wrong"
    none_failed = following and not isinstance(error, MemoryError) if made is None else made <= n
    return NONE_FAILED if none_failed else RIGHT


def in_child(call, n, following):
    with tempfile.TemporaryFile("w+") as messages:
        child = os.fork()
        if child == 0:
            os.dup2(messages.fileno(), 2)
            code = WRONG
            try:
                code = attempt(call, n, following)
            except BaseException:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        messages.seek(0)
        text = messages.read()
    if code in (RIGHT, NONE_FAILED) or any(known in text for known in ENDED_BY_LIBC):
        return NONE_FAILED if code == NONE_FAILED else RIGHT
    print(f"{name}: allocation {n}, {following=}: exit status {code}\n{text}", file=sys.stderr)
    return WRONG


def every_allocation(call):
    """Let each allocation fail, once with all later ones and once alone."""
    codes, count = [], 0
    while (code := in_child(call, count, True)) != NONE_FAILED:
        codes.append(code)
        count += 1
    for n in range(count):
        codes.append(in_child(call, n, False))
    return len(codes), codes.count(WRONG)


_core.set_max_threads(3, at_any_size=True)
counts = [every_allocation(call) for call in calls.values()]
print(*map(sum, zip(*counts, strict=True)))
