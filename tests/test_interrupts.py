"""Ctrl-C during a call on the CPU: the call ends early, and later calls are correct.

Each test runs in a subprocess, which is killed if a call does not end. Without the interruption,
the calls would run for minutes. They need little memory, because operands are broadcast, and most
pages of a large result are never written.
"""

import pytest
from conftest import POOL_THREADS, run_python

import adokernels as ado

COMMON = """
import os, signal, sys, threading, time
import numpy as np
import adokernels as ado
from adokernels import _core

# The alarm of the kernel stands for Ctrl-C: unlike a thread, it is never late.
signal.signal(signal.SIGALRM, signal.default_int_handler)
rng = np.random.default_rng(0)
name = sys.argv[1] if len(sys.argv) > 1 else "gaussian_blur"
routine = getattr(ado, name)
small_operands = routine.task.random_operands([7] * len(routine.task.lengths))


def results_of_small():
    results = routine(*small_operands)
    return [r.tobytes() for r in (results if isinstance(results, tuple) else (results,))]


def large_operands(name, rows=1 << 19):
    def repeated(shape, contiguous=1):
        base = rng.random(shape[len(shape) - contiguous :])
        return np.broadcast_to(base, shape)

    if name in ("transpose", "branch", "instruction_parallelism"):
        return [repeated((1 << 14, 1 << 14))]
    if name == "average_matvec":
        return [repeated((1000, 64, 1 << 20)), repeated((64, 64))]
    if name == "strided_copy":
        return [repeated((1 << 29,), 0)]
    if name == "gather":
        return [rng.random(1000), np.broadcast_to(np.int64(7), (1 << 28,))]
    if name == "component":
        return [repeated((1 << 28, 3))]
    if name == "max_plus":
        return [repeated((1 << 20, 1 << 20)), repeated((1 << 20,), 0)]
    if name == "gpp":
        bands, igp, ig = 2000, 1000, 100_000
        shapes = [(igp, ig), (igp, ig), (bands, ig), (bands, igp)]
        return [
            *(np.broadcast_to(rng.random(shape[1:]) + 1j, shape) for shape in shapes),
            repeated((bands, 2)),
            repeated((igp,), 0),
            repeated((bands,), 0),
        ]
    row = rng.integers(1, 255, (4096, 4) if name in ("grayscale", "edge_detect") else 4096, "u1")
    return [np.broadcast_to(row, (rows, *row.shape))]


def press_ctrl_c(after=0.05):
    signal.setitimer(signal.ITIMER_REAL, after)
"""


def python(code, *arguments, **environment):
    # With huge pages, a few stores would touch all pages of a large result.
    return run_python(COMMON + code, *arguments, NUMPY_MADVISE_HUGEPAGE="0", **environment)


@pytest.mark.parametrize("name", ado.routines)
def test_ctrl_c_ends_every_variant(name):
    code = """
_core.set_max_threads(1, at_any_size=True)
expected = results_of_small()
operands = large_operands(name)
for threads in (1, 3):
    _core.set_max_threads(threads, at_any_size=True)
    for variant in routine.variants:
        if variant.device != "cpu" or variant.ceiling:
            continue
        try:
            press_ctrl_c()
            routine(*operands, variant=variant.name)
            print(variant.name, "was not interrupted", threads)
        except KeyboardInterrupt:
            pass
        if results_of_small() != expected:
            print("wrong after", variant.name, threads)
    if not pool_gets(threads - 1):
        print("the pool has the wrong number of threads")
print("done")
"""
    assert python(POOL_THREADS + code, name) == "done"


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        *(("transpose", v.name) for v in ado.transpose if v.device == "cpu" and not v.ceiling),
        *((name, None) for name in ("gaussian_blur", "sobel", "edge_detect")),
    ],
)
def test_ctrl_c_does_not_wait_for_the_huge_pages_of_a_new_result(name, variant):
    """The columns that are stored first extend over all pages of a result of 2 GiB."""
    code = """
def resident_bytes():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

variant = sys.argv[2] if len(sys.argv) > 2 else None
operands = large_operands(name)
out = np.empty((1 << 14, 1 << 14))
if name != "transpose":
    rows, columns = 1 << 10, 1 << 21
    operands = [np.broadcast_to(operands[0][0, 0], (rows, columns, *operands[0].shape[2:]))]
    out = np.empty((rows, columns), "u1")
_core.set_max_threads(1)
before = resident_bytes()
try:
    press_ctrl_c(0.02)
    routine(*operands, out=out, variant=variant)
except KeyboardInterrupt:
    print(resident_bytes() - before < 3 << 29)
"""
    arguments = [name] if variant is None else [name, variant]
    assert run_python(COMMON + code, *arguments, NUMPY_MADVISE_HUGEPAGE="1") == "True"


def test_a_call_finishes_if_the_handler_does_not_raise():
    code = """
received = []

def handler(signum, frame):
    received.append(routine(*small_operands).tobytes())  # another call of the same routine

signal.signal(signal.SIGALRM, handler)
[image] = large_operands(name, rows=1000)
image = image + np.arange(1000, dtype="u1")[:, None]
[expected_of_small], expected = results_of_small(), routine(image)
while len(received) < 3:
    press_ctrl_c()
    print(np.array_equal(routine(image, variant="naive_loops"), expected))
print(set(received) == {expected_of_small})
"""
    assert set(python(code).split()) == {"True"}


def test_an_interrupted_call_frees_its_scratch_memory():
    code = """
def virtual_bytes():
    return int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGESIZE")

operands = large_operands(name)
sizes = []
for _ in range(3):
    try:
        press_ctrl_c()
        routine(*operands, variant="two_pass")  # scratch memory of 4 GiB
    except KeyboardInterrupt:
        pass
    sizes.append(virtual_bytes())
print(max(sizes) - min(sizes) < 1 << 30)
"""
    assert python(code) == "True"


def test_ctrl_c_during_the_check_of_values():
    code = """
one = np.ones((1, 1), complex)
bands = 1 << 40
operands = [one, one, *[np.broadcast_to(one, (bands, 1))] * 2, np.broadcast_to(1.0, (bands, 1)),
            np.ones(1), np.broadcast_to(1.0, (bands,))]
try:
    press_ctrl_c()
    ado.gpp(*operands)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert python(code) == "interrupted"


def test_prepared_calls_can_be_interrupted():
    code = """
operands = large_operands(name, rows=1 << 17)  # a result of 512 MiB
call = routine.problem(*operands, device="cpu").prepare("naive_loops")
for run in (call.run, lambda: call.sample(False, 1)):
    try:
        press_ctrl_c()
        run()
    except KeyboardInterrupt:
        print("interrupted")
"""
    assert python(code).split() == ["interrupted"] * 2


def test_other_threads_run_during_a_call():
    """Here a thread presses Ctrl-C. It could not if the call held the lock of the interpreter."""
    code = """
operands = large_operands(name)
try:
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGALRM)).start()
    routine(*operands, variant="naive_loops")
except KeyboardInterrupt:
    print("interrupted")
"""
    assert python(code, "max_plus") == "interrupted"


def test_other_threads_are_not_interrupted():
    code = """
[image] = large_operands(name, rows=2000)
expected = routine(image).tobytes()
results = []
thread = threading.Thread(
    target=lambda: results.append(routine(image, variant="naive_loops").tobytes())
)
thread.start()
try:
    press_ctrl_c()
    while True:
        time.sleep(1)
except KeyboardInterrupt:
    print("interrupted")
thread.join()
print(results == [expected])
"""
    assert python(code).split() == ["interrupted", "True"]
