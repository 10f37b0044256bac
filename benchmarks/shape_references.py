"""Random operands and reference results for NumPy and CuPy arrays, with limited memory use.

The references of `adokernels.model.tasks` support only NumPy arrays. They need minutes for long
reductions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

Array = Any
FILTERS = ("grayscale", "gaussian_blur", "sobel", "edge_detect")
GRAY_WEIGHTS = (19585, 38457, 7494)  # in units of 2^-16
TAPS = (1, 2, 3, 4, 3, 2, 1)  # of the blur, in units of 1/16
PERIOD = (1 << 20) - 3  # a prime number
#: Elements per piece, by library.
PIECE = {"numpy": 1 << 18, "cupy": 1 << 26}


@contextmanager
def plain_reductions(xp: Any) -> Iterator[None]:
    """Disable CUB in CuPy's reductions, because its kernels take seconds to compile."""
    if xp is np:
        yield
        return
    accelerators = importlib.import_module("cupy._core._accelerator")
    saved = accelerators.get_reduction_accelerators()
    accelerators.set_reduction_accelerators([])
    try:
        yield
    finally:
        accelerators.set_reduction_accelerators(saved)


def fill_randomly(array: Array, xp: Any, rng: np.random.Generator) -> None:
    """Fill an array with numbers from -0.5 to 0.5, or with random bytes if it has no floats.

    The numbers repeat after PERIOD elements, so that large arrays are filled quickly.
    """
    real = {"f4": "f4", "f8": "f8", "c16": "f8"}.get(array.dtype.str[1:])
    flat = array.reshape(-1).view(real or "u1")
    count = min(len(flat), PERIOD)
    numbers = rng.random(count, real) - 0.5 if real else np.frombuffer(rng.bytes(count), "u1")
    period = xp.asarray(numbers, flat.dtype)
    for first in range(0, len(flat), PERIOD):
        part = flat[first : first + PERIOD]
        part[...] = period[: len(part)]


def reference(xp: Any, routine: str, arrays: list[Array]) -> tuple[Array, Array | None]:
    """The result, and the error that the task allows per element if the result is not exact."""
    if routine == "transpose":
        return xp.ascontiguousarray(arrays[0].T), None
    if routine in FILTERS:
        return filtered(xp, routine, *arrays), None
    if routine == "average_matvec":
        return averages(xp, *arrays)
    big, small = arrays
    return xp.maximum((big + small[:, None]).max(axis=0), 0), None


def averages(xp: Any, vectors: Array, matrix: Array) -> tuple[Array, Array]:
    wide, kind = matrix.astype("f8"), np.finfo(vectors.dtype.str)
    signed, unsigned = (v.mean(axis=2, dtype="f8").T for v in (vectors, xp.abs(vectors)))
    rounding = float(kind.epsneg) * (xp.abs(wide) @ unsigned)
    underflow = float(kind.smallest_subnormal) * (1 + xp.abs(wide).sum(axis=1, keepdims=True))
    return wide @ signed, (32 + len(wide)) * (rounding + underflow)


def is_colour(routine: str) -> bool:
    """Whether the routine accepts RGB and RGBA images."""
    return routine in ("grayscale", "edge_detect")


# Formulas for arrays of NumPy, CuPy and torch. The last two axes of an image are its rows and
# columns. Pixels that lack neighbours are omitted from the result.


def weighted(wide: Array, weights: Sequence[float], axis: int) -> Array:
    """Weighted sum of neighbours along axis -2 or -1."""
    length = wide.shape[axis] - len(weights) + 1
    rest = (slice(None),) * (-1 - axis)
    parts = (w * wide[(..., slice(i, i + length), *rest)] for i, w in enumerate(weights) if w)
    return sum(parts, start=next(parts))


def gray_of(channels: Array) -> Array:
    red, green, blue = GRAY_WEIGHTS
    return (red * channels[..., 0] + green * channels[..., 1] + blue * channels[..., 2]) >> 16


def blur_of(wide: Array, taps: Sequence[float] = TAPS) -> Array:
    return weighted(weighted(wide, taps, -2), taps, -1)


def squared_gradient(wide: Array) -> Array:
    x = weighted(weighted(wide, (1, 2, 1), -2), (-1, 0, 1), -1)
    y = weighted(weighted(wide, (-1, 0, 1), -2), (1, 2, 1), -1)
    return x * x + y * y


def filtered(xp: Any, routine: str, image: Array) -> Array:
    """The result of a filter for an image or a batch, padded with zeros."""
    rank = 2 + is_colour(routine)
    shape = image.shape[: image.ndim - (rank - 2)]
    images = image.reshape(-1, *image.shape[image.ndim - rank :])
    if is_colour(routine):
        images = in_pieces(xp, gray_of, images, 0)
    if routine in ("gaussian_blur", "edge_detect"):
        images = in_pieces(xp, lambda wide: blur_of(wide) >> 8, images, 3)
    if routine in ("sobel", "edge_detect"):
        images = in_pieces(xp, lambda w: xp.sqrt(squared_gradient(w)).clip(max=255), images, 1)
    return images.reshape(shape)


def pieces(xp: Any, length: int, other: int = 1) -> Iterator[slice]:
    """Slices of an axis with about PIECE elements each; every index has `other` elements."""
    step = max(1, PIECE[xp.__name__] // max(1, other))
    return (slice(i, min(i + step, length)) for i in range(0, length, step))


def in_pieces(xp: Any, work: Callable[[Array], Array], images: Array, reach: int) -> Array:
    """Apply a filter to int32 pieces of (B, H, W) or (B, H, W, C) images, padded with zeros."""
    count, rows, cols = images.shape[:3]
    out = xp.empty((count, rows, cols), "u1")
    for j in pieces(xp, cols):
        for i in pieces(xp, rows, j.stop - j.start):
            near = [slice(max(p.start - reach, 0), p.stop + reach) for p in (i, j)]
            missing = [
                (max(reach - p.start, 0), max(p.stop + reach - length, 0))
                for p, length in ((i, rows), (j, cols))
            ]
            for b in pieces(xp, count, (i.stop - i.start) * (j.stop - j.start)):
                wide = images[b, near[0], near[1]].astype("i4")
                wide = xp.pad(wide, ((0, 0), *missing)) if reach else wide
                out[b, i, j] = work(wide).astype("u1")
    return out


def error(xp: Any, result: Array, expected: Array, unit: Array | None) -> float:
    """The largest difference in multiples of `unit`; without units, 1 if any element differs."""
    if result.shape != expected.shape or (unit is None and result.dtype != expected.dtype):
        return np.inf
    if unit is not None:
        quotient = xp.abs(result - expected) / unit
        return float(xp.nan_to_num(quotient, nan=np.inf).max()) if result.size else 0.0
    if result.dtype.kind != "f":
        result, expected = (array.reshape(-1).view("u1") for array in (result, expected))
    return float(not bool((result == expected).all()))
