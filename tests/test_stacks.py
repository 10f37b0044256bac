"""Calls from threads with small stacks, which Python and other programs can create."""

import os
import resource
import subprocess
import sys

import pytest

import adokernels as ado

# The smallest stack that Python accepts: 32 KiB on x86-64, 128 KiB on 64-bit Arm.
SMALL_STACK = max(32 << 10, os.sysconf("SC_THREAD_STACK_MIN"))

CODE = """
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


def run(name, **options):
    done = subprocess.run(
        [sys.executable, "-c", CODE, name, str(SMALL_STACK)],
        env={**os.environ, "ADOKERNELS_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("name", ado.routines)
def test_small_stack(name):
    run(name)


@pytest.mark.parametrize("kib", [384, 900])
def test_small_stack_of_the_main_thread(kib):
    """Less than a kernel may need, and twice this minus what Python has used."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    run("gpp", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (kib << 10, hard)))
