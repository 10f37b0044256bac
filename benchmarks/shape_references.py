"""Random operands and reference results for NumPy and CuPy arrays, with limited memory use.

The references of `adokernels.model.tasks` support only NumPy arrays. They need minutes for long
reductions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from image_peers import blur_of, gray_of, is_colour, squared_gradient
from random_shapes import Case

Array = Any

#: Number of elements per piece, by library.
PIECE = {"numpy": 1 << 18, "cupy": 1 << 26}
PERIOD = (1 << 20) - 3  # a prime number


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


def operand_shapes(case: Case) -> list[tuple[int, ...]]:
    if case.routine == "average_matvec":
        _, rows, _ = case.shape
        return [case.shape, (rows, rows)]
    if case.routine == "max_plus":
        return [case.shape, case.shape[:1]]
    return [case.shape]


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


def pieces(xp: Any, length: int, other: int = 1) -> Iterator[slice]:
    """Slices of an axis with about PIECE elements each; every index has `other` elements."""
    step = max(1, PIECE[xp.__name__] // max(1, other))
    for first in range(0, length, step):
        yield slice(first, min(first + step, length))


def transpose(xp: Any, a: Array) -> Array:
    return xp.ascontiguousarray(a.T)


def averages(xp: Any, vectors: Array, matrix: Array) -> tuple[Array, Array]:
    """The result in float64, and the error that `adokernels.model.tasks` allows per element."""
    sets, rows, samples = vectors.shape
    flat = vectors.reshape(-1, samples)
    signed, unsigned = (xp.empty(len(flat)) for _ in range(2))
    for some in pieces(xp, len(flat), samples):
        signed[some] = flat[some].mean(axis=1, dtype="f8")
        unsigned[some] = xp.abs(flat[some]).mean(axis=1, dtype="f8")
    wide = matrix.astype("f8")
    kind = np.finfo(vectors.dtype.str)
    rounding = float(kind.epsneg) * (xp.abs(wide) @ unsigned.reshape(sets, rows).T)
    underflow = float(kind.smallest_subnormal) * (1 + xp.abs(wide).sum(axis=1, keepdims=True))
    return wide @ signed.reshape(sets, rows).T, (32 + rows) * (rounding + underflow)


def max_plus(xp: Any, big: Array, small: Array) -> Array:
    terms, points = big.shape
    out = xp.zeros(points, big.dtype)
    for some in pieces(xp, points):
        best = out[some]
        for rows in pieces(xp, terms, len(best)):
            xp.maximum(best, (big[rows, some] + small[rows, None]).max(axis=0), out=best)
    return out


def tiled(xp: Any, work: Callable[[Array], Array], images: Array, reach: int) -> Array:
    """Apply a filter to int32 tiles of (B, H, W) or (B, H, W, C) images, padded with zeros."""
    count, rows, cols = images.shape[:3]
    out = xp.empty((count, rows, cols), "u1")
    for j in pieces(xp, cols):
        for i in pieces(xp, rows, j.stop - j.start):
            top, left = max(i.start - reach, 0), max(j.start - reach, 0)
            bottom, right = min(i.stop + reach, rows), min(j.stop + reach, cols)
            above, below = top - i.start + reach, i.stop + reach - bottom
            before, behind = left - j.start + reach, j.stop + reach - right
            tile = (i.stop - i.start + 2 * reach) * (j.stop - j.start + 2 * reach)
            for b in pieces(xp, count, tile):
                wide = images[b, top:bottom, left:right].astype("i4")
                if reach:
                    wide = xp.pad(wide, ((0, 0), (above, below), (before, behind)))
                out[b, i, j] = work(wide).astype("u1")
    return out


def filtered(xp: Any, routine: str, image: Array) -> Array:
    """The result of a filter for an image or a batch, padded with zeros."""
    rank = 2 + is_colour(routine)
    shape = image.shape[: image.ndim - (rank - 2)]
    images = image.reshape(-1, *image.shape[image.ndim - rank :])
    if is_colour(routine):
        images = tiled(xp, gray_of, images, 0)
    if routine in ("gaussian_blur", "edge_detect"):
        images = tiled(xp, lambda wide: blur_of(wide) >> 8, images, 3)
    if routine in ("sobel", "edge_detect"):
        images = tiled(xp, lambda wide: xp.minimum(xp.sqrt(squared_gradient(wide)), 255), images, 1)
    return images.reshape(shape)


def error(xp: Any, result: Array, expected: Array, unit: Array | None = None) -> float:
    """Return the largest difference.

    It is in multiples of `unit` if `unit` is given, and in levels for uint8. For other types, it is
    1 if any element differs, and 0 otherwise.
    """
    if result.shape != expected.shape:
        return np.inf
    got, want = result.reshape(-1), expected.reshape(-1)
    if unit is not None:
        quotient = xp.abs(got - want) / unit.reshape(-1)
        return float(xp.nan_to_num(quotient, nan=np.inf).max()) if got.size else 0.0
    if got.dtype != want.dtype:
        return np.inf
    levels = got.dtype == np.uint8
    if not levels and got.dtype.kind != "f":
        got, want = got.view("u1"), want.view("u1")
    worst = 0.0
    for some in pieces(xp, len(got)):
        if levels:
            a, b = got[some], want[some]
            worst = max(worst, float((xp.maximum(a, b) - xp.minimum(a, b)).max()))
        elif not bool((got[some] == want[some]).all()):
            return 1.0
    return worst
