"""The custom kernels of notebook 07: their definitions and their stored measurements."""

from functools import cache
from pathlib import Path

import pytest
from scripts import load_script

import adokernels as ado
from adokernels.model.compiler import compile_cuda, why_no_compiler
from adokernels.model.cuda_variant import CudaVariant

ROOT = Path(__file__).parent.parent
DATA = ROOT / "notebooks" / "data" / "own_kernels"


@cache
def definitions():
    return load_script("benchmarks/course/own_kernels.py").definitions()


def kernels():
    softmax = definitions()["softmax"].with_variants(definitions()["warp_per_row"])
    return {v.name: v for v in softmax if isinstance(v, CudaVariant)}


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
@pytest.mark.parametrize("name", kernels())
def test_kernels_compile_for_older_gpus(name):
    variant = kernels()[name]
    template, _, _ = variant.kernel.partition("<")
    values = ", ".join(map(str, variant.default_parameters.values()))
    kernel = f"{template}<{values}>" if values else template
    arch = "sm_90" if name == "cluster" else "sm_75"
    assert not compile_cuda(variant.text, kernel, arch=arch).log


def test_planted_bugs_change_the_source():
    correct = kernels()["block_per_row"].text
    sources = {correct, *(variant.text for variant in definitions()["planted"])}
    assert len(sources) == 1 + len(definitions()["planted"])


@pytest.mark.parametrize("record", ["softmax-long", "softmax-short"])
def test_the_stored_ladders_are_those_of_the_notebook(record):
    sweep = ado.load(DATA / f"{record}.json.xz")
    for m in sweep.variants:
        assert m.changes == kernels()[m.variant].changes
        assert m.block == kernels()[m.variant].blocks[0]
    if record == "softmax-long":
        assert [m.variant for m in sweep.variants] == [v.name for v in definitions()["softmax"]]


@pytest.mark.parametrize("variant", definitions()["planted"], ids=lambda v: v.name)
def test_the_stored_checks_name_the_planted_bugs(variant):
    assert not ado.load(DATA / f"softmax-{variant.name}.json.xz")
