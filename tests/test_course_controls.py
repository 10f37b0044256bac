"""The controls of notebook 03: plain sums in the kernels of the series."""

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import adokernels as ado
from adokernels.custom.compiler import compile_cuda, why_no_compiler

ROOT = Path(__file__).parent.parent
NAMES = ("one_block", "block_per_set", "warp_average", "warp_shuffle")


@cache
def controls():
    path = ROOT / "benchmarks" / "course" / "average_matvec.py"
    spec = importlib.util.spec_from_file_location("course_average_matvec", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.definitions(module.NOTEBOOK)["plain"]


def control(name):
    return controls()[f"plain_{name}"]


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs cuda.core")
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", NAMES)
def test_controls_compile_without_warnings(name, arch):
    assert not compile_cuda(control(name).text, f"{name}<float>", arch=arch).log


@pytest.mark.parametrize("name", NAMES)
def test_controls_have_the_launch_configuration_of_the_variants(name):
    variant, problem = ado.average_matvec[name], np.empty((7, 3, 5), np.float32)
    assert control(name).blocks == variant.blocks
    grid = control(name).grid(problem, problem[0])
    assert grid == (1 if name == "one_block" else len(problem))


def test_controls_refuse_long_vectors():
    matrix = np.empty((1025, 1025), np.float32)
    for name in NAMES:
        assert control(name).why_not((matrix[None], matrix), {})
        assert not control(name).why_not((matrix[None, :1024], matrix[:1024, :1024]), {})


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_controls_are_correct(name):
    rng = np.random.default_rng(1)
    vectors, matrix = (rng.integers(1, 3, s).astype("f4") for s in ((5, 900, 70), (900, 900)))
    checked = ado.check(control(name), ado.average_matvec, vectors, matrix, timed=False)
    assert checked, checked.reason
