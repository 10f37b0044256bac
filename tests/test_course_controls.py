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


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_controls_are_correct(name):
    rng = np.random.default_rng(1)
    vectors, matrix = (rng.integers(1, 3, s).astype("f4") for s in ((5, 900, 70), (900, 900)))
    checked = ado.check(control(name), ado.average_matvec, vectors, matrix, timed=False)
    assert checked, checked.reason


# --- stored measurements --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["block_per_set", "warp_average"])
def test_the_stored_hot_spots_are_lines_of_the_controls(name):
    lines = control(name).text.splitlines()
    hot = ado.load(DATA / f"average_matvec-plain_{name}-hotspots.json.xz")
    own = [line for line in hot.lines if line.path.endswith(f"{name}.cu")]  # without CUDA headers
    assert own
    for line in own:
        assert line.text.strip() == lines[line.line - 1].strip()
