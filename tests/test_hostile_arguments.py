"""Arguments whose conversion runs Python code that changes other arguments."""

import numpy as np
import pytest

import adokernels as ado

SHAPE = (300, 400)


class Number:
    """A number whose conversion calls a function."""

    def __init__(self, value, function):
        self.value, self.function = value, function

    def __index__(self):
        self.function()
        return self.value

    def __float__(self):
        self.function()
        return float(self.value)


class Image:
    """An array-like whose conversion calls a function."""

    def __init__(self, array, function):
        self.array, self.function = array, function

    def __array__(self, dtype=None, copy=None):
        self.function()
        return self.array


def shrink(array):
    """Frees most of the array's memory."""
    array.resize((3, 5), refcheck=False)


def check_blur_that_shrinks(gray, taps):
    """The call must see the shrunk operand, not the memory that it had before."""
    result = ado.gaussian_blur(gray, taps=taps, device="cpu")
    assert result.shape == (3, 5)
    assert np.array_equal(result, ado.gaussian_blur(gray, device="cpu"))


@pytest.fixture
def gray(rng):
    return rng.integers(0, 256, SHAPE, np.uint8)


def test_option_that_resizes_an_operand(gray):
    check_blur_that_shrinks(gray, (1, 2, 3, Number(4, lambda: shrink(gray)), 3, 2, 1))


def test_sequence_of_options_that_resizes_an_operand(gray):
    class Taps(list):
        def __getitem__(self, i):
            if i == 0:
                shrink(gray)
            return super().__getitem__(i)

    check_blur_that_shrinks(gray, Taps([1, 2, 3, 4, 3, 2, 1]))


def test_option_that_resizes_the_result(gray):
    out = np.empty(SHAPE, np.uint8)
    taps = (1, 2, 3, Number(4, lambda: shrink(out)), 3, 2, 1)
    with pytest.raises(ValueError, match="out"):
        ado.gaussian_blur(gray, taps=taps, out=out, device="cpu")


def test_operand_that_resizes_another_operand(rng):
    big, small = rng.random((64, 5000)), rng.random(64)
    array_like = Image(small, lambda: big.resize((64, 2), refcheck=False))
    result = ado.max_plus(big, array_like, device="cpu")
    assert np.array_equal(result, np.maximum(0, (big + small[:, None]).max(axis=0)))
    assert result.shape == (2,)


def test_out_that_is_a_subclass_of_tuple():
    shapes = [(2, 3), (2, 3), (4, 3), (4, 2)]
    operands = [np.ones(shape, complex) for shape in shapes]
    operands += [np.ones((4, 2)), np.ones(2), np.ones(4)]

    class Outs(tuple):
        def __len__(self):
            return 7

        def __getitem__(self, i):
            raise AssertionError

        def __iter__(self):
            raise AssertionError

    out = Outs((np.empty(2, complex), np.empty(2, complex)))
    expected = ado.gpp(*operands, device="cpu")
    result = ado.gpp(*operands, out=out, device="cpu")
    assert type(result) is tuple
    assert all(np.array_equal(a, b) for a, b in zip(result, expected, strict=True))
    with pytest.raises(ValueError, match="out has 1 arrays for 2 results"):
        ado.gpp(*operands, out=Outs((np.empty(2, complex),)), device="cpu")


def test_subclass_that_runs_code_when_overlap_is_checked(rng):
    class Array(np.ndarray):
        def __array_function__(self, *args, **keywords):
            raise AssertionError("Python code ran after the addresses were read")

    memory = rng.integers(0, 256, (10, 40), np.uint8)
    gray, out = memory[:, ::2].view(Array), memory[:, 1::2]  # interleaved
    expected = ado.sobel(np.array(gray), device="cpu")
    assert np.array_equal(ado.sobel(gray, out=out, device="cpu"), expected)
