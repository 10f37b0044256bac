"""Empty results: `out` can have any strides and can alias operands, because it has no elements."""

import itertools

import numpy as np
import pytest
from conftest import tuple_of

import adokernels as ado
from adokernels.model.tasks import TASKS


def empty_layouts(shape, dtype):
    """Arrays of an empty shape with different strides."""
    larger = np.empty([2 * n + 1 for n in shape], dtype)
    return [
        np.empty(shape, dtype),
        np.empty(shape, dtype, order="F"),
        larger[tuple(slice(0, 2 * n, 2) for n in shape)],
        larger[tuple(slice(None, None, -1) for _ in shape)][tuple(slice(n) for n in shape)],
        np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, [0] * len(shape)),
    ]


def problems_with_empty_results(routine):
    """Operands of all small problems whose results are empty."""
    task = TASKS[routine.name]
    sizes = [*itertools.product((0, 1, 3), repeat=len(task.lengths))]
    if routine.batched:
        sizes += [(0, *size) for size in sizes]
    for size in sizes:
        operands = [np.zeros(*each) for each in routine.task.operand_types(size)]
        try:
            results = tuple_of(routine(*operands, device="cpu"))
        except ValueError:
            continue  # for example, the average of zero vectors is undefined
        if all(result.size == 0 for result in results):
            yield operands, results


def cpu_variants(routine):
    return [None, *(v.name for v in routine.variants if v.device == "cpu")]


@pytest.mark.parametrize("routine", ado.routines.values(), ids=lambda r: r.name)
def test_empty_out(routine):
    problems = list(problems_with_empty_results(routine))
    # The results of gpp have one element per frequency, and there must be a frequency.
    assert problems or routine.name == "gpp"
    for operands, results in problems:
        layouts = zip(*(empty_layouts(r.shape, r.dtype) for r in results), strict=True)
        for outs in layouts:
            given = outs if len(outs) > 1 else outs[0]
            for variant in cpu_variants(routine):
                if variant and routine.problem(*operands, device="cpu").why_not(variant):
                    continue
                how = {"variant": variant} if variant else {"device": "cpu"}
                assert routine(*operands, out=given, **how) is given


@pytest.mark.parametrize("routine", ado.routines.values(), ids=lambda r: r.name)
def test_empty_out_may_alias_an_operand(routine):
    for operands, (result, *others) in problems_with_empty_results(routine):
        assert not others
        for operand in operands:
            if operand.dtype != result.dtype or operand.size < 1:
                out = np.ndarray(result.shape, result.dtype, operand)  # the same address
            else:
                out = operand.reshape(-1)[:0].reshape(result.shape)
            for how in ({"device": "cpu"}, {"variant": "naive_loops"}):
                if how.get("variant", "naive_loops") not in cpu_variants(routine):
                    continue
                assert routine(*operands, out=out, **how) is out


def test_a_result_with_elements_must_not_overlap_itself():
    out = np.lib.stride_tricks.as_strided(np.empty(7, "u1"), (3, 7), (0, 1))
    with pytest.raises(ValueError, match="internal overlap"):
        ado.sobel(np.zeros((3, 7), "u1"), out=out, device="cpu")
