"""The controls of document A: plain sums in the kernels of the series."""

import numpy as np
import pytest
from scripts import load_script

import adokernels as ado
from adokernels.model.compiler import compile_cuda, why_no_compiler

CONTROLS = load_script("benchmarks/course/average_matvec.py").CONTROLS


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("control", CONTROLS, ids=lambda c: c.name)
def test_controls_compile_without_warnings(control, arch):
    kernel = control.name.removeprefix("plain_") + "<float>"
    assert not compile_cuda(control.text, kernel, arch=arch).log


@pytest.mark.gpu
@pytest.mark.parametrize("control", CONTROLS, ids=lambda c: c.name)
def test_controls_are_correct(control):
    rng = np.random.default_rng(1)
    vectors, matrix = (rng.integers(1, 3, s).astype("f4") for s in ((5, 900, 70), (900, 900)))
    checked = ado.check(control, ado.average_matvec, vectors, matrix, timed=False)
    assert checked, checked.reason
