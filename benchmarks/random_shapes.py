"""Random problems with log-uniform sizes and aspect ratios, and their operands.

Sides of 1 and thin sides are frequent, and most lengths are odd. Some lengths are powers of two,
their neighbours, or multiples of a page, whose rows compete for few sets of a cache.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
FILTERS = ("grayscale", "gaussian_blur", "sobel", "edge_detect")
GRAY_WEIGHTS = (19585, 38457, 7494)  # in units of 2^-16
TAPS = (1, 2, 3, 4, 3, 2, 1)  # of the blur, in units of 1/16
PERIOD = (1 << 20) - 3  # a prime number
SINGLE, THIN = 0.1, 0.2  # shares of problems with a side of 1, and with a side of 2 to 32
THICKEST = 32
ODD, CONFLICTING = 0.6, 0.25  # shares of the other lengths
PAGE = 4096  # bytes; also the distance at which addresses share a set of an L1 cache
BATCHED = 0.25  # share of problems with several images
PHOTOGRAPHS = 0.6  # share of images whose aspect ratio is at most 4
SMALLEST_GPP, LARGEST_GPP = (8, 8, 64, 1), (800, 1385, 11075, 2)


def is_colour(routine: str) -> bool:
    """Whether the routine accepts RGB and RGBA images."""
    return routine in ("grayscale", "edge_detect")


@dataclass(frozen=True)
class Case:
    """One problem: the shape of the first operand (for gpp: its four lengths), and the dtype."""

    routine: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def operand_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of all operands, except for gpp."""
        if self.routine == "average_matvec":
            return [self.shape, (self.shape[1], self.shape[1])]
        return [self.shape, self.shape[:1]] if self.routine == "max_plus" else [self.shape]

    def __str__(self) -> str:
        return f"{self.routine} ({', '.join(map(str, self.shape))}) {self.dtype}"


@dataclass(frozen=True)
class Limits:
    """Maxima of the drawn problems: bytes of the first operand, pixels, FLOPs, terms of gpp."""

    bytes: float
    pixels: float
    flops: float
    gpp_terms: float


LIMITS = {
    "cpu": Limits(256e6, pixels=64e6, flops=4e9, gpp_terms=5e6),
    "cuda": Limits(6 * 2**30, pixels=6 * 2**30, flops=4e12, gpp_terms=math.inf),
}


def cases(routine: str, seed: int, count: int, limits: Limits) -> Iterator[Case]:
    """The same seed gives the same problems of a routine, whatever other routines are drawn."""
    rng = np.random.default_rng([seed, zlib.crc32(routine.encode())])
    for _ in range(count):
        yield DRAW[routine](routine, rng, limits)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(max(low, high))))


def conflicting(rng: np.random.Generator, about: float) -> int:
    """A power of two near `about`, a neighbour of it, or a multiple of a page."""
    power = 1 << round(math.log2(about))
    pages = max(1, round(about / PAGE)) * PAGE if about > PAGE / 2 else power
    return int(rng.choice((power, power, max(1, power - 1), power + 1, pages)))


def length(rng: np.random.Generator, about: float) -> int:
    """A length near `about`: conflicting, odd, or arbitrary."""
    kind = rng.random()
    if about < 2:
        return 1
    if kind < CONFLICTING:
        return conflicting(rng, about)
    near = round(about)
    return near | 1 if kind < CONFLICTING + ODD else near


def sides(rng: np.random.Generator, size: float, count: int = 2) -> tuple[int, ...]:
    """Lengths whose product is about `size`."""
    kind = rng.random()
    if kind < SINGLE:
        first = 1.0
    elif kind < SINGLE + THIN:
        first = float(round(log_uniform(rng, 2, min(size, THICKEST)))) if size >= 2 else 1.0
    else:
        first = size ** rng.random()
    lengths = [round(first) if kind < SINGLE + THIN else length(rng, first)]
    rest = max(1.0, size / lengths[0])
    if count == 2:
        lengths.append(length(rng, rest))
    else:
        lengths.extend(sides(rng, rest, count - 1))
    return tuple(int(n) for n in rng.permutation(lengths))


def draw_matrix(routine: str, rng: np.random.Generator, limits: Limits) -> Case:
    dtypes = ("u1", "u2", "f4", "f8", "c16") if routine == "transpose" else ("f4", "f8")
    dtype = str(rng.choice(dtypes))
    size = log_uniform(rng, 1, limits.bytes / np.dtype(dtype).itemsize)
    return Case(routine, sides(rng, size), dtype)


def draw_averages(routine: str, rng: np.random.Generator, limits: Limits) -> Case:
    """(N, L, M); the product has 2 N L^2 FLOPs, and the matrix L^2 elements."""
    dtype = str(rng.choice(("f4", "f8")))
    most = limits.bytes / np.dtype(dtype).itemsize
    sets, rows, samples = sides(rng, log_uniform(rng, 1, most), 3)
    largest = int(min(math.sqrt(most), math.sqrt(limits.flops / (2 * sets))))
    if rows > largest:  # moves the excess to the number of samples
        samples = length(rng, samples * rows / max(1, largest))
        rows = max(1, largest)
    return Case(routine, (sets, rows, samples), dtype)


def draw_images(routine: str, rng: np.random.Generator, limits: Limits) -> Case:
    channels = tuple(rng.choice(((3,), (4,)))) if is_colour(routine) else ()
    pixels = log_uniform(rng, 1, min(limits.pixels, limits.bytes / math.prod(channels)))
    batch: tuple[int, ...] = ()
    if rng.random() < BATCHED and pixels >= 4:
        batch = (int(log_uniform(rng, 2, min(64, pixels / 2))),)
        pixels /= batch[0]
    if rng.random() < PHOTOGRAPHS:
        height = length(rng, math.sqrt(pixels * log_uniform(rng, 0.25, 4)))
        image = height, length(rng, pixels / height)
    else:
        image = sides(rng, pixels)
    return Case(routine, tuple(map(int, (*batch, *image, *channels))), "u1")


def draw_gpp(routine: str, rng: np.random.Generator, limits: Limits) -> Case:
    while True:
        ends = zip(SMALLEST_GPP, LARGEST_GPP, strict=True)
        *lengths, frequencies = (log_uniform(rng, low, high) for low, high in ends)
        near = (min(length(rng, n), most) for n, most in zip(lengths, LARGEST_GPP, strict=False))
        shape = (*near, round(frequencies))
        if math.prod(shape) <= limits.gpp_terms:
            return Case(routine, shape, "c16")


DRAW: dict[str, Callable[[str, np.random.Generator, Limits], Case]] = {
    "transpose": draw_matrix,
    **dict.fromkeys(FILTERS, draw_images),
    "average_matvec": draw_averages,
    "max_plus": draw_matrix,
    "gpp": draw_gpp,
}


# --- Operands, results of NumPy, and errors -------------------------------------------------------


def random_array(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Numbers from -0.5 to 0.5, or random bytes if the type has no floats.

    They repeat after PERIOD elements, so that large arrays are made quickly.
    """
    real = {"f4": "f4", "f8": "f8", "c16": "f8"}.get(dtype)
    size = math.prod(shape) * np.dtype(dtype).itemsize // np.dtype(real or "u1").itemsize
    count = min(size, PERIOD)
    numbers = rng.random(count, real) - 0.5 if real else np.frombuffer(rng.bytes(count), "u1")
    return np.resize(numbers.astype(real or "u1"), size).view(dtype).reshape(shape)


def worst_error(result: Array, expected: Array, unit: float = 0.0) -> float:
    """The largest difference in multiples of `unit`; without a unit, 1 if any element differs."""
    if result.shape != expected.shape or (not unit and result.dtype != expected.dtype):
        return np.inf
    if not unit:
        return float(not np.array_equal(result, expected))
    return float(np.nan_to_num(np.abs(result - expected) / unit, nan=np.inf).max(initial=0))


# Formulas for arrays of NumPy and torch. The last two axes of an image are its rows and columns.
# Pixels that lack neighbours are omitted from the result.


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


def filtered(routine: str, image: np.ndarray) -> np.ndarray:
    """The result of a filter for an image or a batch, padded with zeros."""

    def padded(images: np.ndarray, reach: int) -> np.ndarray:
        widths = [*[(0, 0)] * (images.ndim - 2), (reach, reach), (reach, reach)]
        return np.pad(images, widths).astype("i4")

    if is_colour(routine):
        image = gray_of(image.astype("i4"))
    if routine in ("gaussian_blur", "edge_detect"):
        image = blur_of(padded(image, 3)) >> 8
    if routine in ("sobel", "edge_detect"):
        image = np.sqrt(squared_gradient(padded(image, 1))).clip(max=255)
    return image.astype("u1")
