"""The first call of a process: Python code of other libraries runs in static initialisers.

A fake torch module before version 2.10, which has no table of C functions, stands for the real one.
"""

import textwrap

import pytest
from conftest import run_python

from adokernels import _core

TORCH = """
import os, sys, threading, time, types
import numpy as np

calls = []


class Functions:
    @property
    def _cuda_getCurrentRawStream(self):
        time.sleep(0.3)  # Python code: other threads run
        calls.append("looked up")
        return lambda device: calls.append(device) or 0


class Tensor:
    requires_grad = False

    def is_conj(self):
        return False

    is_neg = is_conj

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **keywords):
        calls.append(keywords.get("stream"))
        raise RuntimeError("exported")


Tensor.__module__ = "torch"
torch = types.ModuleType("torch")
torch._C = Functions()
sys.modules["torch"] = torch


def together(function, count):
    barrier, ended = threading.Barrier(count), []

    def run(i):
        barrier.wait()
        function(i)
        ended.append(i)

    threads = [threading.Thread(target=run, args=[i], daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    print(len(ended), flush=True)
    os._exit(0)
"""


def run(code):
    """Run a program after the definition of the fake module; return its output."""
    return run_python(TORCH + textwrap.dedent(code))


def test_a_call_uses_the_current_stream_of_torch_before_2_10():
    """On a GPU, no wait is requested (stream=-1): the call waits for the current stream itself."""
    lines = run(
        """
        import adokernels as ado
        for _ in range(2):
            try:
                ado.transpose(Tensor())
            except Exception as error:
                print(type(error).__name__, error)
        print(calls)
        """
    ).splitlines()
    if _core.why_no_cuda():
        assert lines[-1] == "['looked up', 0, 0]"
    else:
        assert lines == ["RuntimeError exported"] * 2 + ["['looked up', 0, -1, 0, -1]"]


@pytest.mark.parametrize("what", ["ado.transpose(Tensor())", "ado.routines['transpose']"])
def test_two_threads_in_a_first_call_do_not_wait_for_each_other(what):
    """With a plain static variable, one thread holds its guard, and another holds the GIL."""
    code = f"""
        def first(i):
            import adokernels as ado
            try:
                {what}
            except Exception:
                pass

        together(first, 4)
        """
    assert run(code) == "4"


def test_two_threads_that_look_for_a_memory_map_first():
    code = """
        import builtins
        import adokernels as ado
        original = builtins.__import__

        def slow(name, *rest, **keywords):
            if name == "mmap":
                time.sleep(0.3)
            return original(name, *rest, **keywords)

        builtins.__import__ = slow

        def first(i):
            source = np.frombuffer(bytearray(64), "f4").reshape(4, 4)
            ado.transpose(source, out=np.empty((4, 4), "f4"))

        together(first, 2)
        """
    assert run(code) == "2"
