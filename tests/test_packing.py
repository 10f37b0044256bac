"""Packing of strided host arrays into contiguous memory, and back, in a small compiled library.

Calls on the GPU pack host operands and unpack results in this way, in parts of any size.
"""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import random_of

SOURCES = Path(__file__).parents[1] / "src"
COMPILER = shutil.which(os.environ.get("CXX", "c++"))

# It includes source files, because the compiler needs most of its time for headers.
LIBRARY = """
#include "core/interrupt.cpp"
#include "core/processors.cpp"
#include "core/thread.cpp"
#include "core/thread_pool.cpp"
#include "runtime/strided.cpp"

#include <algorithm>

#include "core/streaming.hpp"
#include "runtime/host.hpp"
#include "runtime/strided.hpp"

namespace ado {

Isa host::supported_isa() { return Isa::kBaseline; }
namespace baseline {
void stream_bytes(std::byte* to, const std::byte* from, std::int64_t n) { stream(to, from, n); }
}
#if defined(__x86_64__)
namespace avx2 {
void stream_bytes(std::byte*, const std::byte*, std::int64_t) {}
}
namespace avx512 {
void stream_bytes(std::byte*, const std::byte*, std::int64_t) {}
}
#endif

extern "C" void move_bytes(std::byte* packed, std::byte* data, int size, int rank,
                           const std::int64_t* shape, const std::int64_t* stride,
                           std::size_t first, std::size_t bytes, int how) {
  Array array{.data = data, .type = {'V', size}, .rank = rank};
  std::copy_n(shape, rank, array.shape);
  std::copy_n(stride, rank, array.stride);
  if (how == 0) pack_all(packed, array);
  if (how == 1) unpack_all(array, packed);
  if (how == 2) pack_bytes(packed, array, first, bytes);
  if (how == 3) unpack_bytes(array, packed, first, bytes, Stores::kOrdinary);
  if (how == 4) unpack_bytes(array, packed, first, bytes, Stores::kNonTemporal);
}

}  // namespace ado
"""
PACK_ALL, UNPACK_ALL, PACK, UNPACK, UNPACK_STREAMING = range(5)


@pytest.fixture(scope="module")
def move(tmp_path_factory):
    """A function that copies bytes between packed memory and an array."""
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("packing")
    (folder / "library.cpp").write_text(LIBRARY)
    build = [COMPILER, "-std=c++20", "-O1", "-pthread", "-fPIC", "-shared", f"-I{SOURCES}"]
    files = [folder / "library.cpp", SOURCES / "core" / "threads.cpp"]
    subprocess.run([*build, "-o", folder / "library.so", *files], check=True)
    function = ctypes.CDLL(str(folder / "library.so")).move_bytes

    def moved(packed, array, how, first=0, count=0):
        lengths = ctypes.c_int64 * array.ndim
        function(
            ctypes.c_void_p(packed.ctypes.data), ctypes.c_void_p(array.ctypes.data),
            array.itemsize, array.ndim, lengths(*array.shape), lengths(*array.strides),
            ctypes.c_size_t(first * array.itemsize), ctypes.c_size_t(count * array.itemsize), how,
        )  # fmt: skip

    return moved


def views(whole):
    """Views of an array: packed, reversed, padded, with steps, transposed, and with one row."""
    yield whole
    yield whole[tuple(slice(None, None, -1) for _ in whole.shape)]
    yield whole[..., 1:-1]
    yield whole[tuple(slice(None, None, 2 - 4 * (i % 2)) for i in range(whole.ndim))]
    yield whole.T
    yield np.moveaxis(whole, 0, -1)[..., 1:2]


@pytest.mark.parametrize("shape", [(300,), (17, 23), (5, 7, 9), (3, 4, 5, 6), (70, 50, 40)])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16", "V3", "V600"])
def test_every_layout(move, dtype, shape, rng):
    if dtype == "V600":  # runs that are long enough for non-temporal stores
        shape = shape[-2:]
    whole = random_of(rng, shape, dtype)
    for which, view in enumerate(views(whole)):
        expected = view.tobytes()
        packed = np.zeros(view.nbytes, np.uint8)
        move(packed, view, PACK_ALL)
        assert packed.tobytes() == expected
        first, end = sorted(rng.integers(0, view.size + 1, 2))
        part = np.zeros((end - first) * view.itemsize, np.uint8)
        move(part, view, PACK, first, end - first)
        inside = slice(first * view.itemsize, end * view.itemsize)
        assert part.tobytes() == expected[inside]
        for how in (UNPACK_ALL, UNPACK, UNPACK_STREAMING):
            restored = whole.copy()
            target = list(views(restored))[which]
            target[...] = np.zeros((), dtype)
            cleared = restored.copy()
            if how == UNPACK_ALL:
                move(packed, target, how)
            else:
                move(part, target, how, first, end - first)
                missing = list(views(cleared))[which]
                flat = np.frombuffer(bytearray(missing.tobytes()), np.uint8)
                flat[inside] = part
                missing[...] = flat.view(dtype).reshape(missing.shape)
            wanted = whole if how == UNPACK_ALL else cleared
            assert restored.tobytes() == wanted.tobytes()
