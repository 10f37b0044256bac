"""The choice of the default variant, and the reasons that it reports."""

import numpy as np
import pytest
from choices import H200, h200_choice
from test_contract import BATCHES, FULL, THIN

import adokernels as ado
from adokernels.model.ladder import choose
from adokernels.model.routine import batch_option

ROUTINES = list(ado.routines.values())


def problems(routine):
    """Yield operands of many sizes, filled with zeros."""
    lengths = [*FULL[len(routine.dimensions)], *THIN[len(routine.dimensions)]]
    for i, size in enumerate(lengths):
        batch = BATCHES[i % 3] if routine.batched else ()
        yield tuple(np.zeros(*each) for each in routine.task.operand_types((*batch, *size)))


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda r: r.name)
def test_every_problem_has_a_default(routine):
    for operands in problems(routine):
        options = batch_option(routine, operands[0])
        chosen = h200_choice(routine, *operands, **options)
        assert chosen in [v.name for v in routine if v.device == "cuda"]
        choice = routine.choose(*operands, device="cpu", **options)
        assert choice.device == "cpu"
        assert choice.variant == routine.problem(*operands, device="cpu", **options).best()


def test_a_call_runs_the_variant_of_its_choice():
    """This includes problems for which the last variant is not the fastest."""
    for side in (300, 3000):
        a = np.broadcast_to(np.float32(0), (side, side))
        choice = ado.transpose.choose(a, device="cpu")
        assert choice.variant == ado.transpose.problem(a, device="cpu").best()
    assert any("faster" in reason for reason in choice.skipped.values())


def test_choice_lists_reasons_of_later_variants():
    choice = choose(ado.transpose, (np.zeros((300, 3), np.float32),), {}, "cuda", gpu=H200)
    later = [v.name for v in ado.transpose if v.device == "cuda"]
    assert list(choice.skipped) == later[: later.index(choice.variant) : -1]
    assert all(reason and not reason.endswith(".") for reason in choice.skipped.values())
    choice = ado.transpose.choose(np.zeros((300, 3)), device="cpu")
    assert repr(choice).startswith(f"transpose runs {choice.variant!r} on cpu. It is the last ")
    assert repr(choice).count(".") == 2


def test_choice_requires_valid_operands_and_device():
    with pytest.raises(ValueError, match="transpose: a must have shape"):
        ado.transpose.choose(np.zeros(3))
    with pytest.raises(ValueError, match="device must be"):
        ado.transpose.choose(np.zeros((2, 2)), device="gpu")
    if not ado.transpose["naive"].available:
        with pytest.raises(ado.Unavailable):
            ado.transpose.choose(np.zeros((2, 2)), device="cuda")
