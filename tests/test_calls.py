"""Calls of routines and variants: results, references, and no Python code."""

import contextlib
import gc
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import tuple_of

import adokernels as ado
from adokernels.model import tasks

SIZES = {"average_matvec": (3, 4, 5), "gpp": (8, 8, 6, 2), "max_plus": (3, 40)}
SIZES["strided_copy"] = (60,)
ROUTINES = list(ado.routines.values())


def small_operands(routine):
    return routine.task.random_operands(SIZES.get(routine.name, (5, 12)))


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.fixture(autouse=True)
def on_cpu(device_restored):
    ado.settings.device = "cpu"


@contextlib.contextmanager
def no_python_code():
    """Fail if a Python function of the package runs."""
    package, called = Path(ado.__file__).parent, []

    def note(frame, event, argument):
        if event == "call" and package in Path(frame.f_code.co_filename).parents:
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
    assert not called


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda r: r.name)
def test_common_calls(routine):
    operands = small_operands(routine)
    with no_python_code():
        results = tuple_of(routine(*operands))
    task = tasks.TASKS[routine.name]
    unit = task.error_unit(*operands) if task.error_unit else None
    expected = task.expected(*operands)
    task.check(results if isinstance(expected, tuple) else results[0], expected, unit)
    for result in results:
        assert type(result) is np.ndarray
        assert result.flags.owndata
        assert result.flags.c_contiguous
        assert result.flags.writeable
    for keywords in ({"device": "cpu"}, {"out": None}, {"device": None, "out": None}):
        assert all(map(same, tuple_of(routine(*operands, **keywords)), results))
    if len(results) == 1:
        out = np.full_like(results[0], 7)
        assert routine(*operands, out=out) is out
        assert same(out, results[0])


DTYPES = ("?", "i1", ">u2", "f2", "<i4", ">f4", "m8[s]", "M8[D]", "c16", "V16", "S4", "U2")


@pytest.mark.parametrize("dtype", [*DTYPES, [("x", "i4"), ("y", "f4")]], ids=str)
def test_results_keep_the_dtype(dtype):
    a = np.zeros((2, 3), dtype)
    result = ado.transpose(a)
    assert result.dtype == a.dtype
    assert result.shape == (3, 2)


A, SQUARE = np.arange(6.0).reshape(2, 3), np.arange(9.0).reshape(3, 3)
ONES, OUT, STRIDED = np.ones((9, 9), np.uint8), np.empty((3, 2)), np.empty((3, 4))[:, ::2]
OTHERS = {
    "list": (ado.transpose, (A.tolist(),), {}, A.T),
    "subclass": (ado.transpose, (A.view(np.recarray),), {}, A.T),
    "keyword": (ado.transpose, (), {"a": A}, A.T),
    "name that is not interned": (ado.transpose, (A,), {"".join(["o", "ut"]): OUT}, A.T),
    "variant": (ado.transpose, (A,), {"variant": "naive_loops"}, A.T),
    "called variant": (ado.transpose["naive_loops"], (A,), {"out": OUT, "device": "cpu"}, A.T),
    "in place": (ado.transpose, (SQUARE,), {"out": SQUARE}, SQUARE.T.copy()),
    "strided out": (ado.transpose, (A,), {"out": STRIDED}, A.T),
    "option": (ado.gaussian_blur, (ONES,), {"border": "replicate"}, ONES),
    "equal types": (ado.max_plus, (np.ones((2, 3)), np.ones(2, np.dtype("f8", copy=True))), {}, 2),
    "no elements": (ado.transpose, (np.empty((0, 3)),), {}, np.empty((3, 0))),
}


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_other_calls(case):
    function, operands, keywords, expected = OTHERS[case]
    with no_python_code():
        result = function(*operands, **keywords)
    assert keywords.get("out", result) is result
    assert same(
        np.ascontiguousarray(result), np.broadcast_to(expected, result.shape).astype(result.dtype)
    )


def test_options_of_one_call_do_not_reach_the_next_one():
    image = np.arange(81, dtype=np.uint8).reshape(9, 9)
    default = ado.gaussian_blur(image)
    for options in ({"border": "replicate"}, {"taps": (0, 0, 0, 1, 0, 0, 0)}):
        assert not same(ado.gaussian_blur(image, **options), default)
        with pytest.raises(ValueError, match="border must be one of"):
            ado.gaussian_blur(image, **options | {"border": "none"})
        assert same(ado.gaussian_blur(image), default)


def test_results_that_exceed_memory():
    wide = np.broadcast_to(np.float64(1), (1 << 30, 1 << 20))
    with pytest.raises(MemoryError, match=r"Unable to allocate 8\.00 PiB"):
        ado.transpose(wide)
    assert same(ado.transpose(A), A.T.copy())


def test_calls_leak_no_references():
    operands = small_operands(ado.max_plus)
    out, dtype = ado.max_plus(*operands), operands[0].dtype

    def counts():
        gc.collect()
        return [sys.getrefcount(o) for o in (*operands, out, dtype, ado.max_plus)]

    ado.max_plus(*operands)
    before = counts()
    for _ in range(100):
        ado.max_plus(*operands)
        ado.max_plus(*operands, out=out)
        ado.max_plus(*operands, variant="naive_loops", out=out)
        with pytest.raises(TypeError):
            ado.max_plus(operands[0], operands[1].astype("f4"))
    after = counts()
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True))
