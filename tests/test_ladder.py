"""Custom ladders on the CPU: results, checks, and variants that would defeat a benchmark."""

import ctypes
import re
import threading

import numpy as np
import pytest

import adokernels as ado
from adokernels.model.values import scaled_problems

QUICK = {"seconds": 0.02, "progress": False, "ceilings": False}


def saxpy(**settings):
    """A ladder with two correct variants."""
    ladder = ado.ladder(
        "saxpy", reference=lambda a, x, y: a * x + y, flops=lambda a, x, y: 2 * x.size, **settings
    )

    @ladder.variant(changes="One vector operation per array.")
    def vectorised(a, x, y):
        return a * x + y

    @ladder.variant
    def in_place(a, x, y, out):
        """Write to the result."""
        np.multiply(x, a, out=out)
        out += y

    return ladder


@pytest.fixture
def operands(rng):
    return 2.0, *(rng.random(500, dtype=np.float32) for _ in range(2))


def skipped(ladder, operands, **settings):
    """Sweep a ladder; return the reason for each skipped variant."""
    return ado.sweep(ladder, *operands, **QUICK, **settings).skipped


def test_custom_variants_are_checked_timed_and_compared(operands):
    sweep = ado.sweep(saxpy(), *operands, **QUICK)
    assert [m.variant for m in sweep] == ["vectorised", "in_place"]
    assert not sweep.skipped
    for m in sweep:
        assert (m.routine, m.device) == ("saxpy", "cpu")
        assert (m.flops, m.bytes) == (1000, 3 * 2000)
        assert m.error == 0
        assert str(m.problem) == "a: float, x: (500,) float32, y: (500,) float32"
    assert sweep["in_place"].changes == "Write to the result."
    before, after = sweep["vectorised"], sweep["in_place"]
    assert sweep.step_pairs() == {after: before}
    assert "saxpy[in_place]" in repr(after.compare(before))


def test_a_ladder_is_called_listed_and_indexed(operands):
    ladder = saxpy()
    assert ladder(*operands).tolist() == ladder["vectorised"](*operands).tolist()
    ladder.variant(lambda a, x, y: np.zeros_like(x), name="zeros")
    assert not ladder(*operands, variant="zeros").any()
    assert ladder(*operands, variant="in_place", device="cpu").all()
    assert len(ladder) == 3
    assert "in_place" in ladder
    assert ladder["in_place"] in ladder
    assert "vectorised" in repr(ladder)
    with pytest.raises(KeyError, match=r"saxpy has no variant 'vectorized'.*'vectorised'"):
        ladder["vectorized"]
    with pytest.raises(ValueError, match="saxpy already has a variant 'in_place'"):
        ladder.add(ladder["in_place"])


def wrong_at_the_end(a, x, y):
    result = a * x + y
    result[-1] += 1
    return result


def wrong_when_large(a, x, y):
    result = a * x + y
    result[256:257] += 1
    return result


def wrong_type(a, x, y):
    return (a * x + y).astype(np.float64)


def remembers_by_identity(a, x, y, known={}):  # noqa: B006
    return known.setdefault((x.ctypes.data, x.shape), a * x + y)


def returns_an_operand(a, x, y):
    y += a * x
    return y


def changes_an_operand(a, x, y):
    result = a * x + y
    x[0] = 7
    return result


def returns_a_promise(a, x, y):
    return threading.Thread(target=lambda: a * x + y)


def returns_a_mask(a, x, y):
    return np.ma.masked_array(a * x + y, np.ones(x.shape))


def fails(a, x, y):
    return 1 // 0


def writes_too_far(a, x, y, out):
    out[...] = a * x + y
    beyond = np.lib.stride_tricks.as_strided(out, (out.size + 1,), out.strides)
    beyond[-1] = 1


def writes_before(a, x, y, out):
    out[...] = a * x + y
    address = out.ctypes.data - 4
    ctypes.c_float.from_address(address).value = 1


def leaves_a_hole(a, x, y, out):
    out[:-1] = (a * x + y)[:-1]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (wrong_at_the_end, r"wrong result: 1 of \d+ elements is out of tolerance"),
        (
            wrong_when_large,
            r"wrong result: 1 of 257 elements is out of tolerance: the worst at \[256\]",
        ),
        (wrong_type, "wrong result: float64 .*, expected float32"),
        (remembers_by_identity, r"wrong result: \d+ of \d+ elements (is|are) out of tolerance"),
        (returns_an_operand, "wrong result: it changes the operand y"),
        (changes_an_operand, "wrong result: it changes the operand x"),
        (returns_a_promise, "wrong result: it returns a Thread, not an array"),
        (returns_a_mask, "wrong result: it returns a MaskedArray, not an array"),
        (fails, "it fails with ZeroDivisionError"),
        (
            writes_too_far,
            r"wrong result: it writes outside of an array \(1 B after its last element",
        ),
        (
            writes_before,
            r"wrong result: it writes outside of an array \(1 B before its first element",
        ),
        (leaves_a_hole, "wrong result: the result was never written; 1 of 1 elements is out of"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
@pytest.mark.parametrize("isolated", [True, False])
def test_a_wrong_variant_is_detected(function, reason, isolated, operands):
    result = ado.check(function, saxpy(), *operands, timed=False, isolated=isolated)
    assert not result.correct
    assert re.search(reason, result.reason), result.reason


@pytest.mark.parametrize("end", ["before its first element", "after its last element"])
def test_a_single_byte_outside_of_an_array_is_detected(end):
    def inverted(x, out):
        np.invert(x, out=out)
        place = -1 if end.startswith("before") else out.nbytes
        ctypes.c_uint8.from_address(out.ctypes.data + place).value ^= 0xFF

    ladder = ado.ladder("inverted", reference=lambda x: ~x)
    result = ado.check(inverted, ladder, np.arange(100, dtype=np.uint8), timed=False)
    assert f"writes outside of an array (1 B {end})" in result.reason


def test_a_wrong_variant_is_reported_and_not_timed(operands):
    ladder = saxpy()
    ladder.add(wrong_when_large, remembers_by_identity)
    sweep = ado.sweep(ladder, *operands, **QUICK)
    assert list(sweep.skipped) == ["wrong_when_large", "remembers_by_identity"]
    assert [m.variant for m in sweep] == ["vectorised", "in_place"]


def test_a_view_is_not_accepted_as_a_transpose(rng):
    a = rng.random((60, 70))
    view = ado.check(lambda a: a.T, ado.transpose, a, timed=False)
    assert view.reason.startswith("wrong result: it returns a view of an operand")
    assert ado.check(lambda a: a.T.copy(), ado.transpose, a, timed=False)


def test_callers_operands_do_not_change(operands):
    before = [np.copy(o) for o in operands]
    ado.sweep(saxpy(), *operands, **QUICK)
    assert all(np.array_equal(a, b) for a, b in zip(operands, before, strict=True))


def test_a_variant_that_refuses_a_problem_is_skipped(operands):
    ladder = saxpy()
    refuses = lambda a, x, y: "x must have 4 n elements" if x.size % 4 else None  # noqa: E731
    ladder.variant(lambda a, x, y: a * x + y, name="by_four", refuses=refuses)
    assert not skipped(ladder, operands)
    odd = (2.0, *(o[:499] for o in operands[1:]))
    assert skipped(ladder, odd) == {"by_four": "x must have 4 n elements"}
    with pytest.raises(ValueError, match=r"saxpy\[by_four\]: x must have 4 n elements"):
        ado.measure(ladder["by_four"], *odd, seconds=0.01)


def test_tolerance_and_type_of_the_result(rng):
    x = rng.random(4000, dtype=np.float32)
    exact = ado.ladder("sum", reference=lambda x: np.sum(x, dtype=np.float64), dtype=np.float32)

    @exact.variant
    def pairwise(x):
        return np.sum(x)

    @exact.variant
    def written(x, out):
        assert out.dtype == np.float32
        out[...] = np.sum(x)

    @exact.variant
    def poor(x):
        return np.float32(np.sum(x) * np.float32(1.001))

    assert list(skipped(exact, (x,))) == ["poor"]
    loose = ado.ladder(
        "sum", reference=lambda x: np.sum(x, dtype=np.float64), dtype=np.float32, tolerance=0.01
    )
    loose.add(*(v for v in exact))
    assert not skipped(loose, (x,))


def test_signature_defines_lengths_and_checks_shapes(rng):
    product = ado.ladder(
        "product", reference=np.matmul, signature="(m,k),(k,n)->(m,n)", tolerance=1e-12
    )
    product.variant(lambda a, b: a @ b, name="blas")
    assert not skipped(product, (rng.random((30, 20)), rng.random((20, 10))))
    with pytest.raises(ValueError, match=r"operand 2 must match \(m,k\),\(k,n\)->\(m,n\), got"):
        product.problem(rng.random((30, 20)), rng.random((30, 10)))
    with pytest.raises(ValueError, match="signature must have the form"):
        ado.ladder("product", reference=np.matmul, signature="m,k")


def test_problems_of_the_user_are_checked(operands):
    """The bug affects negative numbers only."""

    def problems(rng):
        yield 2.0, -rng.random(5, dtype=np.float32), rng.random(5, dtype=np.float32)

    ladder = saxpy(problems=problems)
    ladder.variant(lambda a, x, y: a * np.abs(x) + y, name="absolute")
    assert "(5,) float32" in skipped(ladder, operands)["absolute"]


def test_scaled_problems_keep_equal_lengths_equal(rng):
    a, b = rng.random((7, 6)), rng.random((6, 3))
    for small, other in [p for _ in range(10) for p in scaled_problems((a, b), rng)]:
        assert small.shape[1] == other.shape[0]
        assert small.shape[0] != small.shape[1]
        assert other.shape[1] == 3
        assert np.isin(small, a).all()


def test_two_results(rng):
    ladder = ado.ladder("extremes", reference=lambda x: (x.min(axis=0), x.max(axis=0)))
    ladder.variant(lambda x: (np.sort(x, axis=0)[0], np.sort(x, axis=0)[-1]), name="sorted")
    ladder.variant(lambda x: (np.sort(x, axis=0)[-1], np.sort(x, axis=0)[0]), name="swapped")
    ladder.variant(lambda x: x.min(axis=0), name="one")

    @ladder.variant
    def written(x, out):
        out[0][...], out[1][...] = x.min(axis=0), x.max(axis=0)

    reasons = skipped(ladder, (rng.random((20, 6)),))
    assert list(reasons) == ["swapped", "one"]
    assert "1 arrays, expected 2" in reasons["one"]


def test_peers_are_checked_if_they_return_an_array(operands):
    a, x, y = operands
    peers = {"right": lambda: a * x + y, "wrong": lambda: x, "nothing": lambda: None}
    sweep = ado.sweep(saxpy(), *operands, peers=peers, **QUICK)
    assert [p.variant for p in sweep.peers] == ["right", "nothing"]
    assert sweep["right"].error == 0
    assert sweep["nothing"].flags[:1] == ("unchecked",)
    assert "wrong result" in sweep.skipped["wrong"]
    assert "nothing (peer," in repr(sweep)
    assert "unchecked)" in repr(sweep)
    routine = ado.sweep(
        ado.transpose, x.reshape(20, 25), device="cpu", peers={"view": lambda: x.reshape(20, 25).T},
        **QUICK,
    )  # fmt: skip
    assert "view of an operand" in routine.skipped["view"]


def test_custom_variants_are_added_to_built_in_ones(rng):
    image = rng.integers(0, 256, (50, 40, 4), np.uint8)

    def numpy_grayscale(rgba):
        return ado.grayscale(rgba, variant=next(iter(ado.grayscale.variants)).name)

    extended = ado.grayscale.with_variants(numpy_grayscale)
    assert extended.variants[-1].name == "numpy_grayscale"
    assert len(extended) == len(ado.grayscale) + 1
    sweep = ado.sweep(extended, image, device="cpu", **QUICK)
    assert sweep["numpy_grayscale"].error is not None
    assert sweep["numpy_grayscale"].bytes == sweep.measurements[-2].bytes
    with pytest.raises(ValueError, match="grayscale already has a variant 'simd'"):
        ado.grayscale.with_variants(ado.variant(numpy_grayscale, name="simd"))


def test_options_reach_custom_variants(rng):
    image = rng.integers(0, 256, (30, 40), np.uint8)

    def ignores_the_border(gray, border="replicate"):
        return ado.gaussian_blur(gray)

    def passes_it_on(gray, border):
        return ado.gaussian_blur(gray, border=border)

    sweep = ado.sweep(
        ado.gaussian_blur, image, device="cpu", border="reflect101",
        extra=[ignores_the_border, passes_it_on], **QUICK,
    )  # fmt: skip
    assert "ignores_the_border" in sweep.skipped
    assert "passes_it_on" not in sweep.skipped


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ado.ladder("", reference=len), "name must be a non-empty str"),
        (lambda: ado.ladder("x", reference=3), "reference must be a function"),
        (lambda: ado.ladder("x", reference=len, tolerance=-1), "tolerance must be a finite number"),
        (lambda: ado.variant(len, device="gpu"), "device must be 'cpu' or 'cuda'"),
        (lambda: ado.variant(len, arrays="cupy"), "arrays on cpu must be of a known library"),
        (
            lambda: ado.variant(len, arrays="nmpy"),
            "arrays on cpu must be of a known library, got .*: did you mean 'numpy'",
        ),
        (lambda: ado.transpose.with_variants(3), "variant must be a function"),
        (lambda: ado.sweep(len, 3), "routine must be a routine or a ladder"),
        (lambda: ado.variant(len)(3), "variant len must belong to a ladder"),
        (lambda: ado.cuda_variant("k", source="", block=(0,)), "block must be 1 to 3 positive"),
        (
            lambda: ado.cuda_variant("k", source="", block=1, parameters={"T": []}),
            "at least one value each, got no value for T",
        ),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_own_cpu_variants_have_no_counters_and_no_hot_spots(operands):
    variant = saxpy()["vectorised"]
    with pytest.raises(ValueError, match=r"saxpy\[vectorised\] must be a CUDA variant"):
        ado.profile(variant, *operands)
    with pytest.raises(ValueError, match="variant must be a CUDA variant, got saxpy"):
        ado.hotspots(variant, *operands)
