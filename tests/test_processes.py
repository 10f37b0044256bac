"""Calls from many threads, small stacks, spawned processes, other interpreters, and at exit."""

import os
import resource
import subprocess
import sys

import numpy as np
import pytest
from conftest import start_python

import adokernels as ado

COMMON = """
import numpy as np
import adokernels as ado
from adokernels import _core
from adokernels.model.tasks import as_tuple

LENGTHS = {"average_matvec": (12, 33, 40), "gpp": (8, 20, 33, 2), "max_plus": (20, 800)}
LENGTHS["strided_copy"] = (6000,)
OPERANDS = {n: r.task.random_operands(LENGTHS.get(n, (60, 100))) for n, r in ado.routines.items()}


def results(name):
    return [a.tobytes() for a in as_tuple(ado.routines[name](*OPERANDS[name]))]


def all_right():
    return all(results(name) == RESULTS[name] for name in ado.routines)


_core.set_max_threads(3, at_any_size=True)
RESULTS = {name: results(name) for name in ado.routines}
"""


def python(code):
    """Run a Python program in a separate process, and return its output."""
    done = start_python(code)
    assert (done.returncode, done.stderr) == (0, ""), (done.returncode, done.stderr)
    return done.stdout.split()


def test_sixteen_threads_share_operands():
    code = """
import threading
start, right = threading.Barrier(16), []


def work(i):
    start.wait()
    for n in range(20):
        if i == 0:  # settings may change while others call
            _core.set_max_threads(1 + n % 5, at_any_size=True)
        right.append(all_right())


threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
for t in threads: t.start()
for t in threads: t.join()
print(len(right), all(right))
"""
    assert python(COMMON + code) == ["320", "True"]


@pytest.mark.parametrize("registered", ["before", "after"])
def test_calls_at_exit(registered):
    """The exit handlers of a program may call, whether they were registered before the import."""
    register = "import atexit\natexit.register(lambda: print(all_right()))\n"
    code = "ado.sobel(np.zeros((9, 9), 'u1'))\n"
    program = register + COMMON + code if registered == "before" else COMMON + code + register
    assert python(program) == ["True"]


@pytest.mark.parametrize("name", ["sobel", "gpp"])
def test_daemon_threads_at_exit(name):
    """The process ends while 8 threads are in calls."""
    code = f"""
import atexit, threading, time


def work():
    while True:
        results("{name}")


for _ in range(8): threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
atexit.register(lambda: print(results("{name}") == RESULTS["{name}"]))
"""
    assert python(COMMON + code) == ["True"]


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="older NumPy only warns")
def test_other_interpreters():
    """The import is refused in another interpreter; calls in the first one still work."""
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    code = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
for _ in range(2):
    other = interpreters.create()
    try:
        error = interpreters.run_string(other, "import adokernels")
    except Exception as raised:
        error = raised
    interpreters.destroy(other)
    print("ImportError" in str(error), all_right())
"""
    assert python(COMMON + code) == ["True"] * 4


# --- Small stacks ---------------------------------------------------------------------------------

# The smallest stack that Python accepts: 32 KiB on x86-64, 128 KiB on 64-bit Arm.
SMALL_STACK = max(32 << 10, os.sysconf("SC_THREAD_STACK_MIN"))
STACKS = """
import sys, threading
import numpy as np
import adokernels as ado
from adokernels import _core

name, bytes_of_stack = sys.argv[1], int(sys.argv[2])
routine = getattr(ado, name)
lengths = {"average_matvec": (70, 65, 130), "gpp": (40, 70, 33, 3), "max_plus": (70, 3000)}
lengths["strided_copy"] = (315_000,)
operands = routine.task.random_operands(lengths.get(name, (150, 2100)))
swapped = [np.array(o.T, order="F").T if o.ndim == 2 else o for o in operands]
image = name in ("sobel", "gaussian_blur", "grayscale", "edge_detect")
problems = [operands, swapped, [o[:, ::-2] for o in operands] if image else operands]
_core.set_max_threads(2, at_any_size=True)


def results(problem, variant):
    if routine.problem(*problem).why_not(variant.name):
        return None
    found = routine(*problem, variant=variant.name)
    return [r.tobytes() for r in (found if isinstance(found, tuple) else (found,))]


def in_thread(function, *arguments):
    found = []
    thread = threading.Thread(target=lambda: found.append(function(*arguments)))
    thread.start()
    thread.join()
    return found[0]


variants = [v for v in routine.variants if v.device == "cpu" and not v.ceiling]
for isa in ("baseline", "avx2", "avx512"):
    try:
        ado.settings.isa = isa
    except ado.Unavailable:
        break
    for variant in variants:
        for problem in problems:
            expected = results(problem, variant)
            threading.stack_size(bytes_of_stack)
            found = in_thread(results, problem, variant)
            threading.stack_size(0)
            if found != expected:
                print(isa, variant.name, "differs")
threading.stack_size(bytes_of_stack)
in_thread(lambda: routine(*operands, device="cpu"))
print("done")
"""


@pytest.mark.parametrize("name", ado.routines)
def test_small_stack(name):
    done = start_python(STACKS, name, str(SMALL_STACK))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("kib", [384, 900])
def test_small_stack_of_the_main_thread(kib):
    """Less than a kernel may need, and twice this minus what Python has used."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    command = [sys.executable, "-c", STACKS, "gpp", str(SMALL_STACK)]
    output = subprocess.check_output(
        command,
        env={**os.environ, "ADOKERNELS_DEVICE": "cpu"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (kib << 10, hard)),
        text=True,
        timeout=300,
    )
    assert output == "done\n"
