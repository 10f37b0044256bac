"""The controls of document A: plain sums in the kernels of the series."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scripts import load_script

import adokernels as ado
from adokernels.model.compiler import compile_cuda, why_no_compiler

ROOT = Path(__file__).parent.parent
DATA = ROOT / "notebooks" / "data" / "course"
NAMES = ("one_block", "block_per_set", "warp_average", "warp_shuffle")


@cache
def controls():
    return {c.name: c for c in load_script("benchmarks/course/average_matvec.py").CONTROLS}


def control(name):
    return controls()[f"plain_{name}"]


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
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


def test_controls_reject_long_vectors():
    matrix = np.empty((1025, 1025), np.float32)
    for name in NAMES:
        assert control(name).refuses(matrix[None], matrix)
        assert not control(name).refuses(matrix[None, :1024], matrix[:1024, :1024])


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_controls_are_correct(name):
    rng = np.random.default_rng(1)
    vectors, matrix = (rng.integers(1, 3, s).astype("f4") for s in ((5, 900, 70), (900, 900)))
    checked = ado.check(control(name), ado.average_matvec, vectors, matrix, timed=False)
    assert checked, checked.reason


# --- stored measurements --------------------------------------------------------------------------


def test_the_stored_controls_are_those_of_the_script():
    sweep = ado.load(DATA / "average_matvec-plain.json.xz")
    assert [p.variant for p in sweep.peers] == [f"plain_{name}" for name in NAMES]
    assert {m.variant for m in sweep.variants} == set(NAMES[1:])
    for m in (*sweep.variants, *sweep.peers):
        assert m.session == sweep.variants[0].session
        assert m.error is not None
    for name in ("block_per_set", "warp_average"):
        (kernel,) = ado.load(DATA / f"average_matvec-plain_{name}.json.xz").kernels
        assert kernel.kernel.name == f"{name}<float>"
        assert kernel.kernel.block == ado.average_matvec[name].blocks[0]


@pytest.mark.parametrize("name", ["block_per_set", "warp_average"])
def test_the_stored_hot_spots_are_lines_of_the_controls(name):
    lines = control(name).text.splitlines()
    hot = ado.load(DATA / f"average_matvec-plain_{name}-hotspots.json.xz")
    own = [line for line in hot.lines if line.path.endswith(f"{name}.cu")]  # without CUDA headers
    assert own
    for line in own:
        assert line.text.strip() == lines[line.line - 1].strip()
