"""Draws random problems with log-uniform sizes and aspect ratios, including difficult shapes.

Sides of 1 and thin sides are frequent, and most lengths are odd. Some lengths are powers of two,
their neighbours, or multiples of a page, whose rows compete for few sets of a cache.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from shape_references import FILTERS, is_colour

SINGLE, THIN = 0.1, 0.2  # shares of problems with a side of 1, and with a side of 2 to 32
THICKEST = 32
ODD, CONFLICTING = 0.6, 0.25  # shares of the other lengths
PAGE = 4096  # bytes; also the distance at which addresses share a set of an L1 cache
BATCHED = 0.25  # share of problems with several images
PHOTOGRAPHS = 0.6  # share of images whose aspect ratio is at most 4
SMALLEST_GPP, LARGEST_GPP = (8, 8, 64, 1), (800, 1385, 11075, 2)


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
