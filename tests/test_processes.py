"""Calls from many threads, from spawned processes, from other interpreters and at exit."""

import os
import subprocess
import sys

import numpy as np
import pytest

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


def python(code, folder=None):
    """Run a Python program in a separate process, and return its output."""
    file = folder / "program.py" if folder else None
    if file:
        file.write_text(COMMON + code)
    done = subprocess.run(
        [sys.executable, *([file] if file else ["-c", COMMON + code])],
        env={**os.environ, "ADOKERNELS_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
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
    assert python(code) == ["320", "True"]


def test_number_of_threads_changes_during_calls():
    # A call sizes its scratch memory for a number of threads, and must then use this number.
    code = """
import sys, threading, time
sys.setswitchinterval(1e-6)
OPERANDS["max_plus"] = ado.max_plus.task.random_operands((20, 1000))
expected, wrong = results("max_plus"), []
end = time.monotonic() + 2


def work():
    while time.monotonic() < end:
        if results("max_plus") != expected: wrong.append(True)


def change():
    while time.monotonic() < end:
        for n in (1, 5): _core.set_max_threads(n, at_any_size=True)


threads = [threading.Thread(target=f) for f in [change] + [work] * 16]
for t in threads: t.start()
for t in threads: t.join()
print(len(wrong))
"""
    assert python(code) == ["0"]


def test_spawned_processes(tmp_path):
    code = """
import multiprocessing


def work(routine):  # routines and variants are pickled by name
    return all_right(), routine is ado.sobel


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(*pool.map(work, [ado.sobel] * 4))
"""
    assert "False" not in "".join(python(code, tmp_path))


@pytest.mark.parametrize("registered", ["before", "after"])
def test_calls_at_exit(registered):
    """The exit handlers of a program may call, whether they were registered before the import."""
    register = "import atexit\natexit.register(lambda: print(all_right()))\n"
    code = "ado.sobel(np.zeros((9, 9), 'u1'))\n"
    program = register + COMMON + code if registered == "before" else COMMON + code + register
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ADOKERNELS_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


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
    assert python(code) == ["True"]


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
    assert python(code) == ["True"] * 4
