"""The ladders of textbooks: their results on the emulator, and the scores of their records."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scripts import load_script

import adokernels as ado
from adobook.pages import stored
from adobook.score import score
from adokernels.diagnosis.evidence import Facts
from adokernels.measuring.emulating import all_checks
from adokernels.model.values import as_tuple
from adokernels.records.limiter import Step

FOLDER = Path(__file__).parent / "kernels"
LADDERS = [f"{path.parent.name}/{path.stem}" for path in sorted(FOLDER.glob("set*/*.py"))]
TUNED = ("set1", "set2")  # the sets on which rules were tuned


@cache
def module(name):
    return load_script(f"tests/kernels/{name}.py")


@cache
def sweeps(folder):
    return stored.unseen()[folder]


def check(ladder, name, operands):
    with all_checks():
        found = ladder(*operands, variant=name, device="emulator")
    ladder.task.check(as_tuple(found), ladder.task.expected(*operands))


@pytest.mark.parametrize("name", LADDERS)
def test_a_ladder_states_its_steps_and_what_they_change(name):
    first, *later = module(name).ladder.variants
    assert first.steps is None
    assert all(v.steps for v in later)
    assert all(v.changes.endswith(".") for v in (first, *later))
    assert len(later) >= 4


@pytest.mark.usefixtures("sources_on_emulator")
@pytest.mark.parametrize("name", LADDERS)
def test_all_variants_are_correct_on_the_emulator(name, rng):
    """A second launch has other operands, and finds the variables that the first one has left."""
    ladder = module(name).ladder
    for variant in ladder.variants:
        has_variables = re.search(r"^__device__ [^(]*;", variant.text, re.MULTILINE)
        for _ in range(2 if has_variables else 1):
            check(ladder, variant.name, module(name).operands(rng, small=True))


@pytest.mark.usefixtures("sources_on_emulator")
def test_a_wrong_variant_is_found():
    source = module("set1/reduction").SOURCE
    wrong = source.replace("__shfl_down_sync(kAll, value, distance)", "value")
    assert wrong != source
    ladder = module("set1/reduction").ladder
    kernel = ladder["shuffle"].kernel
    mistaken = ado.cuda_variant("mistaken", source=wrong, kernel=kernel, block=256, grid=4)
    operands = module("set1/reduction").operands(np.random.default_rng(1), small=True)
    with pytest.raises(ValueError, match="wrong result"):
        check(ladder.with_variants(mistaken), "mistaken", operands)


def test_no_bound_of_the_stored_sweeps_is_violated():
    found = [score(sweeps(folder).values()) for folder in TUNED]
    assert not any(each.violated for each in found)
    # Rules were tuned on both sets, with records of another GPU.
    assert sum(len(each.named) for each in found) >= 32  # of 53 steps


def test_dram_writes_of_earlier_work_are_not_traffic_of_the_kernel():
    """A sum stores hardly anything, but its reads displace the lines that the flush wrote."""
    sweep = sweeps("set1")["reduction"]
    m = sweep["many_per_thread"]
    assert m.profile["dram_bytes"] > 1.25 * m.bytes
    assert Facts(m, sweep.machine).traffic == pytest.approx(1, abs=0.02)
    assert ado.diagnose(sweep)["many_per_thread"].advice.step is Step.WIDER
    scan = sweeps("set1")["row_scan"]["naive"]
    traffic = scan.profile["dram_bytes"] / scan.bytes  # it stores as much as it loads
    assert Facts(scan, None).traffic == pytest.approx(traffic, rel=0.02)
