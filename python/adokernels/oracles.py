"""What each routine must answer, in NumPy, from the formulas; slow and independent of the core.

``ado.sweep`` checks every rung against these before it times any, and so do the tests. A routine
without an entry in ``ORACLES`` fails the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels._gpp import GPP_LENGTHS, GPP_SIZES, GppTerms, gpp_problem


@dataclass(frozen=True)
class Oracle:
    """A reference result and how near a variant must come to it.

    Attributes
    ----------
    expected
        Takes the routine's operands and options; gives its result or a tuple of results.
    tolerance
        Largest allowed difference: of integers as such, of floating-point numbers in the unit
        below; 0 demands the same bytes.
    unit
        Takes what `expected` takes; gives the unit of each element's error. Default: the largest
        magnitude in the expected result, for all.
    lengths, dtype
        Of a problem worth measuring: the lengths that the names in the shapes of the operands stand
        for, in the order in which people give them, and the type of operands that leave it open.
    operands
        Takes lengths in that order; makes operands. Default: random numbers.
    thinned
        Takes what `expected` takes; gives operands of the same shapes, most of whose terms are
        zero, where `expected` would take too long, else None. Every variant does the same work on
        them.
    """

    expected: Callable[..., Any]
    tolerance: float = 0.0
    unit: Callable[..., Any] | None = None
    lengths: Mapping[str, int] = field(default_factory=lambda: {"rows": 2160, "cols": 3840})
    dtype: str = "float32"
    operands: Callable[[Sequence[int]], tuple[NDArray[Any], ...]] | None = None
    thinned: Callable[..., tuple[NDArray[Any], ...] | None] | None = None


#: A tolerance that takes any NaN for another and -0 for 0.
SAME_VALUES = float(np.nextafter(0.0, 1.0))


def transpose(a: Any) -> NDArray[Any]:
    """``out[col, row] = a[row, col]``."""
    a = np.asarray(a)
    # Copied as plain bytes: NumPy does not copy the padding inside structures.
    raw = a.view(f"V{a.dtype.itemsize}") if a.dtype.names and a.size else a
    return np.array(raw.T, order="C", copy=True).view(a.dtype)


def grayscale(rgba: Any) -> NDArray[np.uint8]:
    """``(298839 R + 586811 G + 114350 B) // 1000000``, exactly."""
    return _luminance(rgba, (298839, 586811, 114350), 1_000_000)


def gaussian_blur(
    gray: Any, *, border: str = "constant", taps: Sequence[int] = (1, 2, 3, 4, 3, 2, 1)
) -> NDArray[np.uint8]:
    """Weighted sum over 7x7 pixels, divided by the square of the sum of the taps, truncated."""
    weights = [int(tap) for tap in taps]

    def blur(band: NDArray[np.int32]) -> NDArray[np.int32]:
        down = _weighted(band, weights, axis=-2)
        return np.asarray(_weighted(down, weights, axis=-1) // sum(weights) ** 2)

    return _by_bands(blur, np.asarray(gray), reach=3, border=border)


def sobel(gray: Any) -> NDArray[np.uint8]:
    """``min(255, floor(sqrt(gx**2 + gy**2)))``; outside the image there are zeros."""

    def magnitude(band: NDArray[np.int32]) -> NDArray[np.float64]:
        gx = _weighted(_weighted(band, (1, 2, 1), axis=-2), (-1, 0, 1), axis=-1)
        gy = _weighted(_weighted(band, (1, 0, -1), axis=-2), (1, 2, 1), axis=-1)
        # Rounded correctly, a root of so small an integer lies on its side of the next integer.
        return np.minimum(np.sqrt(gx * gx + gy * gy), 255.0)

    return _by_bands(magnitude, np.asarray(gray), reach=1)


def edge_detect(rgba: Any) -> NDArray[np.uint8]:
    """The filters in turn, each result rounded to bytes.

    The luminance is what ``ado.grayscale`` promises, with weights in 1/65536: within one level of
    the oracle above, which for the edges would not do.
    """
    return sobel(gaussian_blur(_luminance(rgba, (19585, 38457, 7494), 65536)))


def average_matvec(vectors: Any, matrix: Any) -> NDArray[Any]:
    """``matrix @ vectors.mean(axis=2).T`` in the next higher precision."""
    vectors = np.asarray(vectors)
    with np.errstate(all="ignore"):
        averages = _averages(vectors, lambda some: some)
        product = np.asarray(matrix).astype(averages.dtype) @ averages.T
        return np.asarray(product.astype(vectors.dtype))


def average_matvec_bound(vectors: Any, matrix: Any) -> NDArray[Any]:
    """What each element may be wrong by: L + 32 roundings of the magnitudes that it is made of.

    Of averages that underflow it is as many roundings of the smallest number.
    """
    vectors, magnitudes = np.asarray(vectors), np.abs(np.asarray(matrix))
    kind = np.finfo(vectors.dtype)
    with np.errstate(all="ignore"):
        averages = _averages(vectors, np.abs)
        wide = magnitudes.astype(averages.dtype)
        rounding = float(kind.epsneg) * (wide @ averages.T)
        underflow = float(kind.smallest_subnormal) * (1 + wide.sum(axis=1, keepdims=True))
        return np.asarray((32 + len(matrix)) * (rounding + underflow))


def _averages(vectors: NDArray[Any], of: Callable[..., Any]) -> NDArray[Any]:
    """Averages over the last axis in the next higher precision, of some sets at a time.

    They are made contiguous, for only so does NumPy add up pairwise.
    """
    wide = np.float64 if vectors.dtype == np.float32 else np.longdouble
    averages = np.empty(vectors.shape[:2], wide)
    together = max(1, 4_000_000 // max(1, vectors[:1].size))
    for first in range(0, len(vectors), together):
        some = np.ascontiguousarray(vectors[first : first + together])
        averages[first : first + together] = of(some).mean(axis=2, dtype=wide)
    return averages


def max_plus(big: Any, small: Any) -> NDArray[Any]:
    """``maximum(0, (big + small[:, None]).max(axis=0))``; a NaN propagates, and 0 is not -0."""
    big, small = np.asarray(big), np.asarray(small)
    best = np.zeros(big.shape[1], big.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        for row, term in zip(big, small, strict=True):
            np.maximum(best, row + term, out=best)
    return np.asarray(best + best.dtype.type(0))


def gpp(*operands: Any, **options: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both sums of the formulas in the header of `src/routines/gpp.hpp`, in extended precision."""
    asx, ach = _gpp_sums(np.longdouble, lambda term: term, *operands, **options)
    return asx.astype(np.complex128), ach.astype(np.complex128)


def gpp_bound(*operands: Any, **options: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """What each sum may be wrong by, from the magnitudes that it is made of.

    Of those 32 roundings, and one for each band, as rungs add up to 2048 of them plainly.
    """
    bands = len(operands[_GPP_OPERANDS.index("aqsm")])
    rounding = (32 + min(bands, 2048)) * float(np.finfo(np.float64).epsneg)
    asx, ach = _gpp_sums(np.float64, np.abs, *operands, **options)
    return rounding * asx.real, rounding * ach.real


def _gpp_sums(
    real: Any,
    of: Callable[..., Any],
    wtilde: Any,
    i_eps: Any,
    aqsn: Any,
    aqsm: Any,
    wx: Any,
    vcoul: Any,
    occ: Any,
    **options: float,
) -> NDArray[Any]:
    """Sums of the terms, or of a function of each; bands where aqsm is 0 are left out."""
    terms = GppTerms(real, **options)
    wx, occ = np.asarray(wx, real), np.asarray(occ, real)

    def row(igp: int) -> NDArray[Any]:
        bands = np.flatnonzero(np.asarray(aqsm)[:, igp])
        w, eps = (terms.complex(np.asarray(a)[igp]) for a in (wtilde, i_eps))
        m = np.conj(terms.complex(np.asarray(aqsm)[bands, igp]))[:, None]
        m = m * terms.complex(np.asarray(aqsn)[bands]) * real(np.asarray(vcoul)[igp])
        sums = np.zeros((2, wx.shape[1]), terms.complex)
        filled = occ[bands] != 0
        for f, x in enumerate(wx[bands].T):
            with np.errstate(all="ignore"):  # threads do not inherit it
                sch, ssx, _ = terms(x[:, None], w, eps)
                sums[0, f] = of(-occ[bands][filled, None] * ssx[filled] * m[filled]).sum()
                sums[1, f] = of(sch * m / 2).sum()
        return sums

    with ThreadPoolExecutor() as pool:
        zero = np.zeros((2, wx.shape[1]), terms.complex)
        return sum(pool.map(row, range(len(wtilde))), start=zero)


def thinned_gpp(*operands: Any, **_: float) -> tuple[NDArray[Any], ...] | None:
    """The same operands with aqsm 0 but for some pairs of band and igp, the corners among them."""
    arrays = dict(zip(_GPP_OPERANDS, map(np.asarray, operands), strict=True))
    aqsm, each = arrays["aqsm"], arrays["aqsn"].shape[1] * arrays["wx"].shape[1]
    if aqsm.size * each <= _MOST_GPP_TERMS:
        return None
    kept = np.random.default_rng().choice(aqsm.size, max(4, _MOST_GPP_TERMS // 2 // each))
    columns = aqsm.shape[1]
    kept = np.append(kept, [0, columns - 1, aqsm.size - columns, aqsm.size - 1])
    thin = np.zeros_like(aqsm)
    thin.flat[kept] = aqsm.flat[kept]
    return tuple((arrays | {"aqsm": thin}).values())


_GPP_OPERANDS = ("wtilde", "i_eps", "aqsn", "aqsm", "wx", "vcoul", "occ")
#: What the oracle does in a few seconds.
_MOST_GPP_TERMS = 8_000_000


def _luminance(rgba: Any, weights: Sequence[int], divisor: int) -> NDArray[np.uint8]:
    rgba = np.asarray(rgba)
    red, green, blue = weights

    def weigh(band: NDArray[np.int32]) -> NDArray[np.int32]:
        weighted = red * band[..., 0] + green * band[..., 1] + blue * band[..., 2]
        return np.asarray(weighted // divisor)

    return _by_bands(weigh, rgba[..., :3], channels=1)


def _weighted(images: NDArray[np.int32], weights: Sequence[int], axis: int) -> NDArray[np.int32]:
    """Sum of the neighbours along an axis with these weights; the ends are cut off."""
    along = np.moveaxis(images, axis, -1)
    length = along.shape[-1] - len(weights) + 1
    total = np.zeros((*along.shape[:-1], length), np.int32)
    for i, weight in enumerate(weights):
        total += weight * along[..., i : i + length]
    return np.moveaxis(total, -1, axis)


def _by_bands(
    work: Callable[[NDArray[np.int32]], NDArray[Any]],
    images: NDArray[Any],
    *,
    reach: int = 0,
    border: str = "constant",
    channels: int = 0,
) -> NDArray[np.uint8]:
    """Apply `work` to bands of rows with `reach` more pixels around, as integers without overflow.

    A band is some rows of one image, or some small images; no band needs much memory, and they are
    shared out over the processors.
    """
    shape = images.shape[: images.ndim - channels]
    out = np.zeros(shape, np.uint8)
    if not out.size:
        return out
    rows, cols = shape[-2:]
    batch = images.reshape(-1, rows, cols, *images.shape[len(shape) :])
    results = out.reshape(-1, rows, cols)
    mode: Any = {"constant": "constant", "replicate": "edge", "reflect101": "reflect"}[border]
    around = [(0, 0), (reach, reach), (reach, reach)] + [(0, 0)] * channels
    together = max(1, 500_000 // (rows * cols))
    height = max(1, 500_000 // cols)

    def band(padded: NDArray[Any], target: NDArray[np.uint8], top: int) -> None:
        source = padded[:, top : min(top + height, rows) + 2 * reach].astype(np.int32)
        target[:, top : top + height] = work(source)

    with ThreadPoolExecutor() as pool:
        for first in range(0, len(batch), together):
            some = slice(first, first + together)
            padded = np.pad(batch[some], around, mode) if reach else batch[some]
            list(pool.map(partial(band, padded, results[some]), range(0, rows, height)))
    return out


ORACLES: dict[str, Oracle] = {
    "transpose": Oracle(transpose, lengths={"rows": 8192, "cols": 8192}),
    "grayscale": Oracle(grayscale, tolerance=1),
    "gaussian_blur": Oracle(gaussian_blur),
    "sobel": Oracle(sobel),
    "edge_detect": Oracle(edge_detect),
    "average_matvec": Oracle(
        average_matvec,
        tolerance=1,
        unit=average_matvec_bound,
        lengths={"N": 128, "L": 256, "M": 1024},
    ),
    "max_plus": Oracle(
        max_plus, tolerance=SAME_VALUES, lengths={"K": 64, "P": 256 * 1024}, dtype="float64"
    ),
    "gpp": Oracle(
        gpp,
        tolerance=1,
        unit=gpp_bound,
        lengths=dict(zip(GPP_LENGTHS, GPP_SIZES["small"], strict=True)),
        operands=gpp_problem,
        thinned=thinned_gpp,
    ),
}


def difference(result: Any, expected: Any, unit: Any = None) -> float:
    """Largest difference: of integers as such, else in `unit`, by default the largest magnitude.

    Infinite where shapes or types differ, or where only one of the two is NaN, so that it can be
    compared with ``<=`` and NaN never passes. Types without arithmetic are compared byte by byte.
    """
    if isinstance(expected, tuple):
        if not isinstance(result, tuple) or len(result) != len(expected):
            return np.inf
        units = unit if isinstance(unit, tuple) else (unit,) * len(expected)
        return max(map(difference, result, expected, units))
    got, want = np.asarray(result), np.asarray(expected)
    if got.shape != want.shape or got.dtype != want.dtype:
        return np.inf
    if _same_bytes(got, want):
        return 0.0
    if got.dtype.kind in "iu":
        return float(np.max(np.maximum(got, want) - np.minimum(got, want)))
    if got.dtype.kind not in "fc":
        return np.inf
    special = ~np.isfinite(want)
    if not np.array_equal(got[special], want[special], equal_nan=True):
        return np.inf
    if not np.isfinite(got[~special]).all():
        return np.inf
    with np.errstate(over="ignore"):
        wrong = np.abs(got[~special] - want[~special])
    if not wrong.any():
        return SAME_VALUES
    if unit is None:
        scale = float(np.max(np.abs(want[~special]), initial=0.0)) or 1.0
        error = float(np.max(wrong, initial=0.0)) / scale
    else:
        units = np.broadcast_to(np.asarray(unit), want.shape)[~special][wrong > 0]
        with np.errstate(divide="ignore"):
            error = float(np.max(wrong[wrong > 0] / units, initial=0.0))
    # The values differ, even if the quotient has underflowed.
    return max(error, 2 * SAME_VALUES)


def _same_bytes(got: NDArray[Any], want: NDArray[Any]) -> bool:
    """Compare bit for bit, in pieces: a comparison of gigabytes at once would need as many more."""
    flat = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (got, want)]
    piece = 64 << 20
    return all(
        np.array_equal(flat[0][at : at + piece], flat[1][at : at + piece])
        for at in range(0, flat[0].size, piece)
    )


def check(name: str, result: Any, expected: Any, unit: Any = None) -> float:
    """The difference in `unit`, if it is within the routine's tolerance.

    Raises
    ------
    ValueError
        If it is not; the text says where the first wrong element is.
    """
    error = difference(result, expected, unit)
    if error <= ORACLES[name].tolerance:
        return error
    raise ValueError(f"wrong result: {first_difference(result, expected)}")


def first_difference(result: Any, expected: Any) -> str:
    """Say which elements differ, for people."""
    for got, want in zip(as_tuple(result), as_tuple(expected), strict=True):
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"{got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
        both_nan = (got != got) & (want != want)
        wrong = ~((got == want) | both_nan)
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            count = int(np.count_nonzero(wrong))
            return (
                f"{count} of {want.size} elements differ, the first at {index}: "
                f"{got[index]!r}, expected {want[index]!r}"
            )
    return "equal elements, other bytes"


def as_tuple(value: Any) -> tuple[NDArray[Any], ...]:
    """The results of a routine, also where it has but one."""
    return tuple(np.asarray(v) for v in value) if isinstance(value, tuple) else (np.asarray(value),)
