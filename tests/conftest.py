"""Shared by all tests: the variants to test, random data of any type, and the seed of both."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import re
import subprocess
import sys
import zlib
from dataclasses import replace

import hypothesis
import hypothesis.core
import numpy as np
import pytest
from choices import CORES
from hypothesis.internal.conjecture import providers

import adokernels as ado
from adokernels import _core
from adokernels.measuring import machine
from adokernels.model import compiler, tasks
from adokernels.process import ALL_CHECKS

#: By default, JAX allocates three quarters of the GPU's memory. Tests in other processes need it.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
NO_CUDA = _core.why_no_cuda()
#: Whether tests with the mark "cuda" run on the emulator.
EMULATED = bool(NO_CUDA) and not _core.why_no_emulator()
_seed = 0
#: Variants that compute with shared memory that no thread has written, and ignore the results:
#: lanes outside of the matrix or of the image execute the same instructions as the others.
READ_UNWRITTEN = {"single_launch", "lane_per_row", "sliding_window"}
#: On the emulator: elements of the operands of a case and of a test, and cases of a test.
EMULATED_ELEMENTS, EMULATED_IN_TOTAL, EMULATED_CASES = 12_000, 40_000, 12


def _seed_of(text):
    return int(np.random.SeedSequence().entropy) % 2**32 if text == "random" else int(text)


def pytest_addoption(parser):
    words = "seed of all random data, or 'random' for a new one; default: 0"
    parser.addoption("--seed", type=_seed_of, default=0, help=words)
    words = "run all cases, also where the suite runs only a part of them by default"
    parser.addoption("--exhaustive", action="store_true", help=words)


def pytest_configure(config):
    global _seed  # noqa: PLW0603
    _seed = getattr(config, "workerinput", {}).get("seed", config.getoption("seed"))
    # Examples depend on the seed alone: not on the constants of the modules that earlier tests have
    # imported. No example fails because the machine is slow.
    hypothesis.core.global_force_seed = _seed
    providers._get_local_constants = lambda: providers._local_constants
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("suite", deadline=None, suppress_health_check=slow)
    hypothesis.settings.load_profile("suite")


def pytest_collection_finish():
    """Exclude the collected tests from garbage collection, which then takes less time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Pass the seed to all processes of pytest-xdist, so that they collect the same tests."""
    node.workerinput["seed"] = _seed


#: The first lines of a program: the random numbers that the library draws depend on the seed.
SEEDED = """
import numpy
make, seeds = numpy.random.default_rng, numpy.random.SeedSequence({seed})
numpy.random.default_rng = lambda seed=None: make(seeds.spawn(1)[0] if seed is None else seed)
"""


def start_python(code, *arguments, **environment):
    """Run a Python program in a separate process, on the CPU by default."""
    return subprocess.run(
        [sys.executable, "-c", SEEDED.format(seed=_seed) + code, *arguments],
        env={**os.environ, "ADOKERNELS_DEVICE": "cpu", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def run_python(code, *arguments, **environment):
    """Run a Python program in a separate process, and return its output."""
    done = start_python(code, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


#: Python code that defines functions. QEMU's own thread is not a thread of the pool.
POOL_THREADS = """
import pathlib, time
def pool_threads():
    names = pathlib.Path("/proc/self/task").glob("*/comm")
    return sum(name.read_text() == "ado-pool\\n" for name in names)
def pool_gets(count):  # a thread has its name only after its start
    return any(pool_threads() == count or time.sleep(0.01) for _ in range(1000))
"""


def run_seed():
    """The seed of this run, for data that is made while tests are collected."""
    return _seed


def pytest_report_header():
    return f"seed: {_seed} (--seed {_seed} repeats this run)"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        report.sections.append(("seed", f"--seed {_seed}"))


def pytest_collection_modifyitems(items):
    if not NO_CUDA:
        return
    for item in items:
        cuda = item.get_closest_marker("cuda")
        if item.get_closest_marker("gpu") or (cuda and not EMULATED):
            item.add_marker(pytest.mark.skip(reason=NO_CUDA))
        elif cuda and item.get_closest_marker("large"):
            item.add_marker(pytest.mark.skip(reason="too large for the emulator"))


@pytest.fixture(autouse=True)
def emulator(request):
    """Without a GPU, CUDA variants run on the emulator, with all its checks."""
    if not (EMULATED and request.node.get_closest_marker("cuda")):
        yield False
        return
    device, checks = _core.device(), ado.settings.emulator_checks
    _emulated.update(elements=EMULATED_IN_TOTAL, cases=EMULATED_CASES)
    ado.settings.device = "emulator"
    variant = getattr(request.node, "callspec", None) and request.node.callspec.params.get(
        "variant"
    )
    reads_unwritten = variant is None or variant in READ_UNWRITTEN
    ado.settings.emulator_checks = [*ALL_CHECKS, *(() if reads_unwritten else ["shared_initcheck"])]
    yield True
    _emulated.clear()
    ado.settings.device, ado.settings.emulator_checks = device, checks


#: What the current test may still process on the emulator; empty if it does not use it.
_emulated = {}


def affordable(work):
    """Whether a test may process these operands, or this number of elements.

    On the emulator, a test processes few cases, and no large ones.
    """
    if not _emulated:
        return True
    size = work if isinstance(work, int) else sum(a.size for a in work)
    if not _emulated["cases"] or size > min(EMULATED_ELEMENTS, _emulated["elements"]):
        return False
    _emulated["elements"] -= size
    _emulated["cases"] -= 1
    return True


def _work(case):
    """The work of a case on the emulator, in elements that are copied."""
    flops = case.routine.variants[0].cost(*case.operands, **case.options).flops
    return sum(a.size for a in case.operands) + flops / 20


def few(cases, emulator, count, of=lambda case: case):
    """All cases, or a random selection of small cases on the emulator.

    They depend on the run's seed. Half of them are among the larger ones.
    """
    if not emulator:
        return cases
    works = [_work(of(case)) for case in cases]
    order = np.argsort(works, kind="stable")
    small = [cases[i] for i in order if works[i] <= EMULATED_ELEMENTS]
    rng = np.random.default_rng(_seed)
    half = len(small) // 2
    picks = [*rng.permutation(half)[: count // 2], *(half + rng.permutation(len(small) - half))]
    return [small[i] for i in sorted(picks[:count])]


def variants_of(routine: ado.Routine, *, ceilings: bool = False):
    """The variants of a ladder as pytest parameters; those on CUDA are marked."""
    return [
        pytest.param(v.name, marks=[pytest.mark.cuda] if v.device == "cuda" else [], id=v.name)
        for v in routine.variants
        if ceilings or not v.ceiling
    ]


def cuda_variants(*, defaults=False):
    """The CUDA variants of all routines, each with its routine; None is the default of a call."""
    return [
        pytest.param(routine, variant, id=f"{routine.name}-{variant or 'default'}")
        for routine in ado.routines.values()
        for variant in (
            *([None] if defaults else []),
            *(v.name for v in routine if v.device == "cuda" and not v.ceiling),
        )
    ]


def tuple_of(result):
    """The result of a routine as a tuple, even if there is only one."""
    return result if isinstance(result, tuple) else (result,)


def on_gpus(parameters):
    """Parameters of a test that needs a GPU. Without a GPU, it is reported as skipped once."""
    return parameters[:1] if NO_CUDA else parameters


def isa_levels():
    """The instruction sets that this processor can run, lowest first."""
    levels = ["baseline", "avx2", "avx512"]
    return levels[: levels.index(_core.supported_isa()) + 1]


@pytest.fixture
def isa_restored():
    before = _core.isa()
    yield
    ado.settings.isa = before


@pytest.fixture
def device_restored():
    before = _core.device()
    yield
    ado.settings.device = before


@pytest.fixture
def sources_on_emulator():
    """Skip the test if variants with CUDA C++ source cannot run on the emulator."""
    if reason := compiler.why_no_compiler() or _core.why_no_emulator():
        pytest.skip(reason)


@pytest.fixture
def two_gpus():
    try:
        _core.resolve_device("cuda:1")
    except ado.Unavailable as error:
        pytest.skip(str(error))


_sample = _core.sample


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Tests do not use the user's cache, and share the ceilings that one of them measures.

    Ceilings of the CPU are measured with arrays of at most 8 MiB. Without a GPU, they are measured
    with few samples, and samples do not evict the caches: that takes 0.14 s each for 300 MiB.
    """
    cases = machine._cases

    def small_cases(device):
        for case in cases(device):
            yield replace(case, bytes=min(case.bytes, 8 << 20)) if device == "cpu" else case

    def sample(*arguments):
        cold = len(arguments) // 2  # the position of `cold`
        return _sample(*arguments[:cold], False, *arguments[cold + 1 :])

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADOKERNELS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        patch.setattr(machine, "_cases", small_cases)
        if NO_CUDA:
            patch.setattr(machine, "_SAMPLES", 3)
            patch.setattr(_core, "sample", sample)
        yield


@pytest.fixture
def eviction(monkeypatch):
    """Cold samples evict the caches."""
    monkeypatch.setattr(_core, "sample", _sample)


def _sequence(request):
    """Entropy that depends on the run's seed and on the test, not on the other tests."""
    return np.random.SeedSequence([_seed, zlib.crc32(request.node.nodeid.encode())])


@pytest.fixture
def rng(request):
    return np.random.default_rng(_sequence(request))


def _seed_library(monkeypatch, sequence):
    """Random numbers that the library draws derive from `sequence`."""
    make = np.random.default_rng
    monkeypatch.setattr(
        np.random,
        "default_rng",
        lambda seed=None: make(sequence.spawn(1)[0] if seed is None else seed),
    )


@pytest.fixture(autouse=True)
def figures_are_closed():
    """Close the figures of a test, because matplotlib warns of many."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(autouse=True)
def library_is_seeded(request, monkeypatch):
    """Random numbers that the library draws derive from the seed, too."""
    _seed_library(monkeypatch, _sequence(request).spawn(1)[0])
    random.seed(_seed)


@contextlib.contextmanager
def shared_data(name):
    """Random numbers that the library draws here depend on the run's seed and on `name` alone.

    For data that several tests share: it must not depend on the test that comes first.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        _seed_library(monkeypatch, np.random.SeedSequence([_seed, zlib.crc32(name.encode())]))
        yield


def random_of(rng, shape, dtype):
    """Random bytes: every bit pattern of the type, NaN payloads included."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    return rng.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


POISON = 0xA5


def why_not(routine, variant, operands, device=None, **options):
    """Why the variant declines the problem; empty if it accepts it, as the default always does.

    Unlike a problem of the model, a problem of the core does not copy the operands.
    """
    if variant is None:
        return ""
    problem = CORES[routine.name].problem(tuple(operands), options, device, variant)
    return problem.why_not(variant)


def check(routine, operands, expected, variant=None, **options):
    """Call with a poisoned result between guards; compare every byte.

    Return False if the variant declines the problem; the call must then raise this reason. Problems
    that are not affordable on the emulator are not checked.
    """
    if not affordable(operands):
        return True
    how = {"variant": variant, **options}
    if reason := why_not(routine, variant, operands, **options):
        with pytest.raises((ValueError, ado.Unavailable), match=re.escape(reason)):
            routine(*operands, **how)
        return False
    guard = 64
    whole = np.full(guard * 2 + expected.nbytes, POISON, np.uint8)
    out = whole[guard : guard + expected.nbytes].view(expected.dtype).reshape(expected.shape)
    result = routine(*operands, out=out, **how)
    assert result is out
    same = out.tobytes() == expected.tobytes()
    assert same, f"{how}, {operands[0].shape}: {tasks.worst_elements(out, expected)}"
    assert (whole[:guard] == POISON).all()
    assert (whole[guard + out.nbytes :] == POISON).all()
    return True
