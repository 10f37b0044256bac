"""Every allocation of a call fails once: the call raises MemoryError, and the next one is right.

A library that is loaded before the C library replaces malloc, which operator new and NumPy call. A
hook of CPython does the same for its own allocations. Each call runs in a forked child, in which
the thread pool, the scratch memory and the reused problems do not exist yet.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMPILER = shutil.which(os.environ.get("CC", "cc"))

FUZZ = Path(__file__).parent / "fuzz"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A shared library whose malloc can fail."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    if "LD_PRELOAD" in os.environ:
        pytest.skip("a sanitizer has its own malloc")
    target = tmp_path_factory.mktemp("malloc") / "failing_malloc.so"
    source = FUZZ / "failing_malloc.c"
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", target, source], check=True)
    return target


def run(name, hook, **environment):
    done = subprocess.run(
        [sys.executable, FUZZ / "failing_allocations.py", name, hook],
        env={**os.environ, "ADOKERNELS_DEVICE": "cpu", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    tried, failures = done.stdout.split() or (0, -1)
    assert (done.returncode, int(failures)) == (0, 0), done.stderr[-5000:]
    return int(tried)


#: Routines of each kind. For the others: `python tests/fuzz/failing_allocations.py`.
ROUTINES = ("transpose", "gpp")


@pytest.mark.parametrize("name", ROUTINES)
def test_malloc_fails(name, library):
    assert run(name, "malloc", LD_PRELOAD=str(library)) > 20


@pytest.mark.parametrize("name", ROUTINES)
def test_allocations_of_python_fail(name):
    pytest.importorskip("_testcapi")
    assert run(name, "python") > 20
