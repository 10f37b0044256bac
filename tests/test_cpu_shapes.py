"""Thin, small and large shapes on the CPU: results and the choice of the default variant."""

import ctypes
import mmap

import conftest
import numpy as np
import pytest
from conftest import isa_levels, random_of

import adokernels as ado
from adokernels import _core

TYPES = ["u1", "u2", "f4", "f8", "c16"]
SHORT = [*range(1, 18), 20, 31, 33, 64, 65, 100]
LONG = [1, 2, 15, 16, 17, 63, 64, 65, 127, 129, 257, 700]


def check(a, **how):
    assert conftest.check(ado.transpose, (a,), a.T, **how)


@pytest.fixture(params=isa_levels())
def isa(request, isa_restored):
    ado.settings.isa = request.param
    return request.param


@pytest.mark.parametrize("dtype", TYPES)
def test_thin_matrices(isa, dtype, rng):
    for short in SHORT:
        for long in LONG:
            check(random_of(rng, (short, long), dtype), variant="direct")
            check(random_of(rng, (long, short), dtype), variant="direct")


@pytest.mark.parametrize("dtype", TYPES)
def test_large_thin_matrices(isa, dtype, rng):
    """Outputs that are large enough for non-temporal stores."""
    for short in (1, 3, 20, 130):
        length = (9 << 20) // np.dtype(dtype).itemsize // short
        check(random_of(rng, (short, length), dtype), variant="direct")
        check(random_of(rng, (length, short), dtype), variant="direct")
        if short > 1:
            check(random_of(rng, (length, short), dtype)[:, 1:], variant="direct")
            check(random_of(rng, (short, length), dtype)[1:], variant="direct")


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_that_compete_for_few_cache_sets(isa, dtype, rng):
    """Rows are a power of two, a page or a fraction of a page apart, or nearly so."""
    page = 4096 // np.dtype(dtype).itemsize
    for cols in (page - 1, page, page + 1, 2 * page, page // 3, page // 4, 3 * page // 8):
        for rows in (17, 31, 127, 128, 129, 200, 257):
            wide = random_of(rng, (rows + 2, cols + page), dtype)
            check(np.ascontiguousarray(wide[:rows, :cols]), variant="direct")
            for view in (wide[2:, 3 : cols + 3], wide[::-1, 1 : page // 8 + 5]):
                check(view, variant="direct")
                out = np.zeros((view.shape[1], 2 * len(view)), dtype)
                for part in (out[:, 1 : 1 + len(view)], out[:, ::2]):
                    assert ado.transpose(view, out=part, variant="direct") is part
                    assert part.tobytes() == view.T.tobytes()


@pytest.mark.parametrize("dtype", TYPES)
def test_thin_matrices_in_threads(dtype, rng):
    """Shares of several threads, including empty shares."""
    before = _core.max_threads()
    try:
        for threads in (2, 3, 5):
            _core.set_max_threads(threads, at_any_size=True)
            for short in (1, 2, 3, 7, 20):
                for long in (1, 15, 64, 65, 129, 321, 700, 1024):
                    check(random_of(rng, (short, long), dtype), variant="direct")
                    check(random_of(rng, (long, short), dtype), variant="direct")
                    check(random_of(rng, (2 * long, short), dtype)[::2], variant="direct")
    finally:
        _core.set_max_threads(before)


@pytest.mark.parametrize("dtype", TYPES)
def test_reads_stay_within_the_matrix(isa, dtype, rng):
    """The matrix ends at an inaccessible page."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert mprotect(address + 2 * page, page, 0) == 0  # PROT_NONE
    try:
        bytes_ = np.frombuffer(memory, np.uint8, 2 * page)
        bytes_[:] = rng.integers(0, 256, 2 * page, np.uint8)
        size = np.dtype(dtype).itemsize
        for short in range(1, 18):
            for long in (5, 16, 64, 67, 90):
                if short * long * size > 2 * page:
                    continue
                a = bytes_[2 * page - short * long * size :].view(dtype)
                check(a.reshape(short, long), variant="direct")
                check(a.reshape(long, short), variant="direct")
                if short > 1:
                    check(a.reshape(long, short)[:, 1:], variant="direct")
    finally:
        mprotect(address + 2 * page, page, mmap.PROT_READ | mmap.PROT_WRITE)


@pytest.mark.parametrize(
    ("dtype", "shape", "variant"),
    [
        # less than 8 MiB
        *[("f4", (1447, 1449), "direct"), ("f4", (1449, 1449), "threaded")],
        *[("u1", (2896, 2896), "direct"), ("u1", (2897, 2897), "threaded")],
        # rows of a of less than 128 bytes
        *[("f4", (200000, 31), "direct"), ("f4", (200000, 32), "threaded")],
        ("u1", (200000, 127), "direct"),
        # rows of out of less than 512 bytes
        *[("f4", (127, 200000), "direct"), ("f4", (128, 200000), "threaded")],
        *[("c16", (31, 200000), "direct"), ("c16", (32, 200000), "threaded")],
        # one row or one column
        *[("f8", (1, 3000000), "direct"), ("f8", (3000000, 1), "direct")],
    ],
)
def test_default_transpose(dtype, shape, variant):
    assert ado.transpose.choose(np.zeros(shape, dtype), device="cpu").variant == variant


def test_default_transpose_in_place():
    a = np.zeros((100, 100), "f4")
    assert ado.transpose.choose(a, out=a, device="cpu").variant == "threaded"


def error_of_average_matvec(vectors, matrix, variant):
    """Returns the largest error, relative to the bound in src/routines/average_matvec.hpp."""
    out = ado.average_matvec(vectors, matrix, variant=variant)
    exact = matrix.astype("f8") @ vectors.astype("f8").mean(axis=2).T
    magnitude = np.abs(matrix).astype("f8") @ np.abs(vectors).astype("f8").mean(axis=2).T
    u = np.finfo(out.dtype).eps / 2
    slack = 1 if out.dtype == np.float32 else 2  # the reference has rounding errors, too
    return np.max(np.abs(out - exact) / (slack * (32 + len(matrix)) * u * magnitude + 1e-300))


@pytest.mark.parametrize("variant", ["simd", "prefetch", "threaded", "blocked"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_average_matvec_of_any_number_of_sets(isa, dtype, variant, rng):
    for sets in (*range(1, 14), 23, 24, 25, 47, 48, 49, 97, 131):
        for length, samples in ((1, 5), (2, 1), (3, 17), (9, 1), (33, 3), (40, 40)):
            vectors = rng.standard_normal((sets, length, samples)).astype(dtype)
            matrix = rng.standard_normal((length, length)).astype(dtype)
            for v, m in (
                (vectors, matrix),
                (vectors[::-1], matrix.T),
                (vectors.copy("F"), matrix[::-1]),
            ):
                assert error_of_average_matvec(v, m, variant) <= 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_average_matvec_of_several_groups(isa, dtype, rng):
    """More averages than one group holds, and more rows than are multiplied at a time."""
    vectors = rng.standard_normal((301, 700, 1)).astype(dtype)
    matrix = rng.standard_normal((700, 700)).astype(dtype)
    assert error_of_average_matvec(vectors, matrix, "blocked") <= 1
    assert error_of_average_matvec(vectors[:5], matrix, "blocked") <= 1
