"""Direct calls (C code for NumPy arrays on the CPU) behave exactly like general calls."""

import gc
import sys

import numpy as np
import pytest

import adokernels as ado
from adokernels.model import tasks
from adokernels.model.operands import random_operands

SIZES = {"average_matvec": (3, 4, 5), "gpp": (8, 8, 6, 2), "max_plus": (3, 40)}
SIZES["strided_copy"] = (60,)
ROUTINES = list(ado.routines.values())


def small_operands(routine):
    return random_operands(routine, SIZES.get(routine.name, (5, 12)))


def tuple_of(result):
    return result if isinstance(result, tuple) else (result,)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.fixture(autouse=True)
def on_cpu(device_restored):
    ado.settings.device = "cpu"


@pytest.fixture
def only_direct(monkeypatch):
    def refuse(self, *args, **options):
        raise AssertionError("unexpected general call")

    monkeypatch.setattr(ado.Routine, "_general_call", refuse)


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda r: r.name)
def test_common_calls_are_direct(routine, only_direct):
    operands = small_operands(routine)
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


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda r: r.name)
def test_strided_operands_are_direct(routine, only_direct):
    operands = small_operands(routine)
    views = [np.repeat(a, 2, axis=-1)[..., ::2][::-1] for a in operands]
    packed = [view.copy() for view in views]
    for a, b in zip(tuple_of(routine(*views)), tuple_of(routine(*packed)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


DTYPES = ("?", "i1", ">u2", "f2", "<i4", ">f4", "m8[s]", "M8[D]", "c16", "V16", "S4", "U2")


@pytest.mark.parametrize("dtype", [*DTYPES, [("x", "i4"), ("y", "f4")]], ids=str)
def test_results_keep_the_dtype(dtype):
    a = np.zeros((2, 3), dtype)
    result = ado.transpose(a)
    assert result.dtype == a.dtype
    assert result.shape == (3, 2)
    assert ado.transpose._general_call(a).dtype == a.dtype


A, SQUARE = np.arange(6.0).reshape(2, 3), np.arange(9.0).reshape(3, 3)
READ_ONLY = np.empty((3, 2))
READ_ONLY.flags.writeable = False
V, M = np.ones((3, 4, 5)), np.ones((4, 4))
OTHERS = {
    "list": (ado.transpose, ([[1.0, 2.0]],), {}),
    "subclass": (ado.transpose, (A.view(np.recarray),), {}),
    "keyword": (ado.transpose, (), {"a": A}),
    "variant": (ado.transpose, (A,), {"variant": "naive_loops"}),
    "in place": (ado.transpose, (SQUARE.copy(),), {}),
    "strided out": (ado.transpose, (A,), {"out": np.empty((3, 4))[:, ::2]}),
    "option": (ado.gaussian_blur, (np.ones((9, 9), np.uint8),), {"border": "constant"}),
    "equal types": (ado.max_plus, (np.ones((2, 3)), np.ones(2, np.dtype("f8", copy=True))), {}),
    "no elements": (ado.transpose, (np.empty((0, 3)),), {}),
}


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_other_calls(case):
    routine, operands, keywords = OTHERS[case]
    if case == "in place":
        expected = operands[0].T.copy()
        assert same(routine(*operands, out=operands[0]), expected)
        return
    assert same(routine(*operands, **keywords), routine._general_call(*operands, **keywords))


OVERLAPPED = np.zeros(12)
INVALID = {
    "no operands": (ado.transpose, (), {}),
    "too many operands": (ado.transpose, (A, A), {}),
    "None": (ado.transpose, (None,), {}),
    "string": (ado.transpose, ("text",), {}),
    "masked": (ado.transpose, (np.ma.masked_array(A),), {}),
    "rank": (ado.transpose, (A[0],), {}),
    "dimensions": (ado.transpose, (np.zeros((1,) * 12),), {}),
    "element size": (ado.transpose, (np.zeros((2, 2), "V3"),), {}),
    "objects": (ado.transpose, (np.zeros((2, 2), object),), {}),
    "type": (ado.grayscale, (np.zeros((4, 4, 3)),), {}),
    "channels": (ado.grayscale, (np.zeros((4, 4, 5), np.uint8),), {}),
    "byte order": (ado.max_plus, (np.zeros((2, 2), ">f8"), np.zeros(2, ">f8")), {}),
    "mixed types": (ado.max_plus, (np.zeros((2, 2)), np.zeros(2, "f4")), {}),
    "lengths": (ado.max_plus, (np.zeros((2, 2)), np.zeros(3)), {}),
    "no samples": (ado.average_matvec, (V[:, :, :0], M), {}),
    "out type": (ado.transpose, (A,), {"out": np.empty((3, 2), "f4")}),
    "out shape": (ado.transpose, (A,), {"out": np.empty((2, 3))}),
    "out list": (ado.transpose, (A,), {"out": [1]}),
    "out read-only": (ado.transpose, (A,), {"out": READ_ONLY}),
    "out overlaps": (
        ado.transpose,
        (OVERLAPPED[:6].reshape(2, 3),),
        {"out": OVERLAPPED[3:9].reshape(3, 2)},
    ),
    "out overlaps itself": (
        ado.transpose,
        (A,),
        {"out": np.lib.stride_tricks.as_strided(np.empty(3), (3, 2), (8, 0))},
    ),
    "device": (ado.transpose, (A,), {"device": "gpu"}),
    "device type": (ado.transpose, (A,), {"device": 1}),
    "unknown keyword": (ado.transpose, (A,), {"stride": 1}),
    "unknown variant": (ado.transpose, (A,), {"variant": "fastest"}),
}


@pytest.mark.parametrize("case", INVALID, ids=str)
def test_errors_equal_those_of_general_calls(case):
    routine, operands, keywords = INVALID[case]
    errors = []
    for call in (routine, routine._general_call):
        with pytest.raises((TypeError, ValueError, KeyError)) as caught:
            call(*operands, **keywords)
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]
    assert same(ado.transpose(A), A.T.copy())  # the next valid call works


def test_values_are_checked():
    operands = list(small_operands(ado.gpp))
    names = [p.name for p in ado.gpp.parameters if p.role == "input"]
    occ = names.index("occ")
    operands[occ] = np.full_like(operands[occ], 2.0)
    with pytest.raises(ValueError, match=r"gpp: occ\[0\] must be from 0 to 1, got 2"):
        ado.gpp(*operands)


def test_results_that_exceed_memory():
    wide = np.broadcast_to(np.float64(1), (1 << 30, 1 << 20))
    with pytest.raises((MemoryError, ValueError)) as direct:
        ado.transpose(wide)
    with pytest.raises((MemoryError, ValueError)) as general:
        ado.transpose._general_call(wide)
    assert str(direct.value) == str(general.value)


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
        ado.max_plus._general_call(*operands)
        with pytest.raises(TypeError):
            ado.max_plus(operands[0], operands[1].astype("f4"))
    after = counts()
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True))


def test_constructor_requires_a_core_routine():
    for arguments in ((), (1,), (None,), (ado.transpose, 1)):
        with pytest.raises(TypeError, match=r"Routine\(\) requires one argument, a _core\.Routine"):
            ado.Routine(*arguments)
