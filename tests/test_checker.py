"""The check of variants, with built-in ones that misbehave: memory, values, layouts."""

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

import adokernels as ado
from adokernels.model.checker import Checker
from adokernels.model.routine import BuiltInCall

QUICK = {"device": "cpu", "cache": "warm", "seconds": 0.01, "progress": False, "ceilings": False}


class Misbehaving(BuiltInCall):
    """A call of a built-in variant that does `mischief` after each run."""

    def __init__(self, problem, mischief):
        super().__init__(problem, "simd", None)
        self.mischief, self.runs = mischief, 0

    def run(self):
        super().run()
        self.runs += 1
        operand, result = self.problem.guarded_operands[0], self.problem.guarded_results[0]
        self.mischief(self, operand.memory, result.memory)


def write(address):
    """Change the byte at an address."""
    byte = ctypes.c_uint8.from_address(address)
    byte.value ^= 0x55


def before_the_result(call, operand, result):
    write(result.ctypes.data - 1)


def after_the_result(call, operand, result):
    write(result.ctypes.data + result.nbytes)


def before_the_operand(call, operand, result):
    write(operand.ctypes.data - 4000)


def after_the_operand(call, operand, result):
    write(operand.ctypes.data + operand.nbytes + 3000)


def changes_the_operand(call, operand, result):
    operand[3, 2] += 1


def leaves_a_hole(call, operand, result):
    result[5, 1] = np.nan


def is_stale(call, operand, result):
    if call.runs == 1:
        call.known = result.copy()
    result[...] = call.known


def is_wrong_after_timing(call, operand, result):
    result[-1, -1] += call.runs > 1


@pytest.fixture
def problem(rng):
    return ado.transpose.problem(rng.random((33, 70), dtype=np.float32), device="cpu")


@pytest.mark.parametrize(
    ("mischief", "reason"),
    [
        (before_the_result, r"it writes outside of an array \(1 B before its first element\)"),
        (after_the_result, r"it writes outside of an array \(1 B after its last element\)"),
        (before_the_operand, r"it writes outside of an array \(4000 B before its first element\)"),
        (after_the_operand, r"it writes outside of an array \(3001 B after its last element\)"),
        (changes_the_operand, "it changes the operand a"),
        (leaves_a_hole, r"1 of 2310 elements is out of tolerance: the worst at \[5, 1\] is nan"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_built_in_variant_is_rejected_before_timing(problem, mischief, reason):
    checker = Checker(problem)
    with pytest.raises(ValueError, match=f"wrong result: {reason}"):
        checker.before(Misbehaving(problem, mischief))
    # Other variants find the memory as it was.
    assert checker.before(problem.prepare("simd")).in_unit == 0
    assert checker.after(problem.prepare("simd")).in_unit == 0


@pytest.mark.parametrize("mischief", [is_stale, is_wrong_after_timing])
def test_a_built_in_variant_is_rejected_after_timing(problem, mischief):
    checker, call = Checker(problem), Misbehaving(problem, mischief)
    assert checker.before(call).in_unit == 0
    with pytest.raises(ValueError, match="wrong result: "):
        checker.after(call)
    assert checker.after(problem.prepare("simd")).in_unit == 0


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("variant", ["simd", "stream_copy"])
def test_a_sweep_skips_it(monkeypatch, rng, variant, when):
    """A ceiling is checked too, although it has no result to compare."""
    original = BuiltInCall.run

    def run(self):
        original(self)
        run.count += self.variant == variant
        if self.variant == variant and run.count > (when == "after"):
            result = self.problem.guarded_results[0].memory
            write(result.ctypes.data + result.nbytes)

    run.count = 0
    monkeypatch.setattr(BuiltInCall, "run", run)
    sweep = ado.sweep(ado.transpose, rng.random((40, 50)), **QUICK)
    assert list(sweep.skipped) == [variant]
    assert "it writes outside of an array (1 B after" in sweep.skipped[variant]
    assert sweep.skipped[variant].endswith("(after timing)") == (when == "after")


def test_a_failure_is_that_of_the_variant(monkeypatch, rng):
    original = BuiltInCall.run

    def run(self):
        if self.variant == "blocked":
            raise RuntimeError("broken")
        original(self)

    monkeypatch.setattr(BuiltInCall, "run", run)
    sweep = ado.sweep(ado.transpose, rng.random((40, 50)), **QUICK)
    assert sweep.skipped == {"blocked": "it fails with RuntimeError: broken (a: (40, 50) float64)"}


def views(rng):
    whole = rng.random((64, 96), dtype=np.float32)
    yield "padded", whole[:40, 3:50]
    yield "reversed", whole[::-1, ::-2]
    yield "transposed", whole.T
    yield "broadcast", np.broadcast_to(whole[0], (30, 96))
    yield "shifted", whole.reshape(-1)[1 : 1 + 63 * 97].reshape(63, 97)
    yield "sliding", np.lib.stride_tricks.sliding_window_view(whole[0], 20)
    yield "empty", whole[:0]


@pytest.mark.parametrize("name", [name for name, _ in views(np.random.default_rng())])
def test_the_layout_of_operands_is_that_of_the_caller(rng, name):
    given = dict(views(rng))[name]
    problem = ado.transpose.problem(given, device="cpu")
    used = problem.guarded_operands[0].memory
    assert (used.shape, used.strides) == (given.shape, given.strides)
    assert not given.size or (used.ctypes.data - given.ctypes.data) % 256 == 0
    before = given.copy()
    sweep = ado.sweep(
        ado.transpose, given, extra=[ado.variant(lambda a: a.T.copy(), name="own")], **QUICK
    )
    assert not [reason for reason in sweep.skipped.values() if "wrong" in reason]
    assert {"simd", "own"} <= {m.variant for m in sweep}
    np.testing.assert_array_equal(given, before)


def test_kernels_in_source_get_packed_copies(rng):
    given = rng.random((40, 60))[::2, ::-1]
    problem = ado.transpose.problem(given, device="cpu")
    (packed,) = problem.packed_operands()
    assert packed.is_packed
    np.testing.assert_array_equal(packed.memory, given)
    packed.memory[0, 0] += 1
    with pytest.raises(ValueError, match="it changes the operand a"):
        problem.require_intact(problem.values)


def test_too_little_memory_is_reported(monkeypatch, rng):
    a = rng.random((100, 100))
    monkeypatch.setattr(Path, "read_text", lambda *_: "MemFree: 9 kB\nMemAvailable: 64 kB\n")
    with pytest.raises(MemoryError, match="need 160000 B of host memory, 65536 B are free"):
        ado.transpose.problem(a, device="cpu").prepare("simd")
    with pytest.raises(MemoryError, match="checks of transpose need 320000 B of host memory"):
        Checker(ado.transpose.problem(a, device="cpu"))


# --- Variants that are wrong only on the large problem that is timed ------------------------------

#: Larger than the problems whose whole result is checked.
LARGE = (1 << 19) + 1000


def zeros_if_dense(x, right):
    return right * 0 if x.all() else right


def right_where_the_operand_is_zero(x, right):
    return np.where(x == 0, right, 0)


def every_tenth_element_is_wrong(x, right):
    right[::10] *= 1.001
    return right


def wrong_at_the_end(x, right):
    right[-1] = 0
    return right


@pytest.mark.parametrize("name", ["branch", "instruction_parallelism"])
@pytest.mark.parametrize(
    "cheat",
    [
        zeros_if_dense,
        right_where_the_operand_is_zero,
        every_tenth_element_is_wrong,
        wrong_at_the_end,
    ],
)
def test_a_cheat_on_large_dense_arrays_is_rejected(name, cheat, rng):
    routine, sizes = ado.routines[name], []

    def own(x):
        sizes.append(x.size)
        right = routine(x, device="cpu")
        return right if x.size < LARGE else cheat(x, right)

    x = rng.uniform(-1, 1, LARGE).astype(np.float32)
    result = ado.check(own, routine, x, timed=False, isolated=False)
    assert sizes[-1] == LARGE
    assert not result.correct
    assert re.search(r"\d+ of \d{6} randomly chosen elements (is|are) out of", result.reason)


@pytest.mark.parametrize("name", ["branch", "instruction_parallelism"])
def test_large_dense_arrays_are_checked_before_and_after_timing(name, rng):
    """A variant that is right in the first check only is rejected by the second one."""
    routine, dense = ado.routines[name], []

    def own(x):
        if x.size < LARGE:
            return routine(x, device="cpu")
        dense.append(np.count_nonzero(x))
        return routine(x, device="cpu") * (len(dense) == 1)

    x = rng.uniform(0.5, 1, LARGE).astype(np.float32)
    assert not ado.check(own, routine, x, timed=False, isolated=False)
    assert dense == [LARGE] * 2
    sweep = ado.sweep(routine, x, variants="simd", **QUICK)
    assert not sweep.skipped
    assert 0 < sweep["simd"].error <= 1
    assert 0.5 < sweep["simd"].error_ulp < 257


def test_one_wrong_element_of_65536_is_found(rng):
    """Up to 524,288 elements, all are checked."""
    place = int(rng.integers(1 << 16))

    def own(x):
        right = ado.branch(x, device="cpu")
        if x.size == 1 << 16:
            right[place] *= 1.01
        return right

    x = rng.uniform(-1, 1, 1 << 16).astype(np.float32)
    result = ado.check(own, ado.branch, x, timed=False, isolated=False)
    assert f"1 of 65536 elements is out of tolerance: the worst at [{place}]" in result.reason


def test_a_peer_of_a_large_problem_is_checked(rng):
    x = rng.uniform(-1, 1, LARGE).astype(np.float32)
    right = ado.branch(x, device="cpu")
    peers = {"right": lambda: right, "zeros": lambda: 0 * right}
    sweep = ado.sweep(ado.branch, x, variants="threaded", peers=peers, **QUICK)
    assert [m.variant for m in sweep.peers] == ["right"]
    assert "randomly chosen elements are out of tolerance" in sweep.skipped["zeros"]
    assert 0 < sweep.peers[0].error <= 1
