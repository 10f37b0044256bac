"""Task of ``ado.gpp``: the terms of the generalised plasmon-pole model and realistic problems."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import Reference, SanitizerCases, Task
from adokernels.model.values import narrowed
from adokernels.text import require

#: Names of the lengths that make up a size.
GPP_LENGTHS = ("nbands", "ngpown", "ncouls", "nfreqs")
#: BerkeleyGW's Si-214 benchmark and smaller sizes.
GPP_SIZES = {
    "test": (24, 11, 67, 2),
    "small": (96, 64, 512, 2),
    "si214": (800, 1385, 11075, 2),
}
#: Share of Si-214's 800 bands that are occupied.
_OCCUPIED = 428 / 800
#: Each rare kind has one of _RARE bands, or one entry of wtilde per _RARE rows or columns, rounded
#: up.
_RARE = 64
_TINY = 1e-9
#: The largest number of terms that the reference result computes within a few seconds.
_MAX_TERMS = 8_000_000
#: Minimum number of pairs of band and igp whose terms a check of a larger problem computes.
_FEWEST_PAIRS = 32
_TOL_ZERO = 1e-12

#: Branches of a term: the pole is far enough from the energy, the pole is too near, or no
#: contribution.
POLE, NEAR, NOTHING = range(3)


class GppTerms:
    """The model's two terms without their weights, from the formulas in `src/routines/gpp.hpp`.

    `real` is the floating-point type; the options are the same as for ``ado.gpp``.
    """

    def __init__(
        self, real: Any, *, gamma: float = 0.5, sexcut: float = 4.0, tol: float = 1e-6
    ) -> None:
        self.complex = np.result_type(real, np.complex64).type
        self.limit_one, self.limit_two = 1 / (4 * real(tol)), real(gamma) ** 2
        self.sexcut = real(sexcut)

    def __call__(
        self, x: NDArray[Any], w: NDArray[Any], eps: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Compute ``sch``, ``ssx`` and the branch taken for arrays that broadcast."""
        wdiff = x - w
        wdiffr = wdiff.real**2 + wdiff.imag**2
        delw = w * np.conj(wdiff) / wdiffr
        delwr = delw.real**2 + delw.imag**2
        pole = (wdiffr > self.limit_two) & (delwr < self.limit_one)
        near = ~pole & (delwr > _TOL_ZERO)
        nothing = self.complex(0)
        sch = np.where(pole, delw * eps, nothing)
        # Forms of x^2 - w^2 and delw + 1/2 that avoid cancellation for x near w or -w.
        squares, half_more = wdiff * (x + w), (x + w) / (2 * wdiff)
        ssx = np.where(near, -w * w * eps * delw / (4 * w * w * half_more), nothing)
        ssx = np.where(pole, w * w * eps / squares, ssx)
        # ssx is infinite at x = -w, which exceeds any cut-off.
        within = np.isfinite(ssx) & (np.abs(ssx) <= self.sexcut * np.abs(eps))
        ssx[(x < 0) & ~within] = nothing
        return sch, ssx, np.where(pole, POLE, np.where(near, NEAR, NOTHING))


class GppOperands(NamedTuple):
    """The operands of ``ado.gpp`` in order: ``ado.gpp(*problem)``."""

    wtilde: NDArray[np.complex128]
    i_eps: NDArray[np.complex128]
    aqsn: NDArray[np.complex128]
    aqsm: NDArray[np.complex128]
    wx: NDArray[np.float64]
    vcoul: NDArray[np.float64]
    occ: NDArray[np.float64]


def gpp_operands(
    size: str | Sequence[int] = "small", seed: int | None = None, *, near: bool = True
) -> GppOperands:
    """Make random, realistic operands of ``ado.gpp`` that take every branch.

    Re wtilde is in [0.5, 5.5] and Im wtilde in [-0.51, -0.01]. wx is in [3, 9] for occupied
    bands, in [-6, 0] for the others, and rises by 0.3 per frequency. All other numbers are in
    [-1, 1]. Per 64 bands, one is half occupied, one is occupied with wx in [-5, -1], and one has
    wx = 0.1 for all frequencies. One entry of wtilde per 64 rows or columns is tiny, and another
    one is next to an energy.

    Parameters
    ----------
    size
        ``"test"``, ``"small"``, ``"si214"`` (800 bands, 1385, 11075, 2), or a tuple of bands,
        ngpown (igp), ncouls (ig) and frequencies.
    seed
        The same seed gives the same problem; without one, each call gives a new problem.
    near
        Whether energies may be nearer to a pole than the default gamma, which selects the second
        branch. If not, Im wtilde is in [-1.11, -0.61] and no entry is tiny or next to an energy.

    Returns
    -------
    GppOperands
        A named tuple of the operands.

    Raises
    ------
    ValueError
        If `size` is not a known name or four lengths.
    TypeError
        If a length is not an integer.

    Examples
    --------
    >>> import adokernels as ado
    >>> asx, ach = ado.gpp(*ado.gpp_operands("test", seed=1))
    >>> asx.shape
    (2,)
    """
    if isinstance(size, str):
        if size not in GPP_SIZES:
            raise ValueError(f"size must be {', '.join(GPP_SIZES)} or a tuple, got {size!r}")
        size = GPP_SIZES[size]
    require(Iterable, "a name or a tuple", size=size)
    lengths = tuple(map(operator.index, size))
    if len(lengths) != len(GPP_LENGTHS) or min(lengths) < 0:
        raise ValueError(f"size must be ({', '.join(GPP_LENGTHS)}), each at least 0, got {lengths}")
    bands, rows, columns, frequencies = lengths
    require((SupportsIndex, type(None)), "an integer", seed=seed)
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> NDArray[np.complex128]:
        both = rng.random((*shape, 2))
        both *= 2
        both -= 1
        return both.view(np.complex128)[..., 0]

    wtilde = numbers(rows, columns)
    wtilde.real *= 2.5
    wtilde.real += 3
    wtilde.imag *= 0.25
    wtilde.imag -= 0.26 if near else 0.86
    occ = np.zeros(bands)
    occ[rng.permutation(bands)[: round(bands * _OCCUPIED)]] = 1
    wx = np.where(occ != 0, rng.uniform(3, 9, bands), rng.uniform(-6, 0, bands))
    rare = -(-bands // _RARE)
    halves, negative = np.array_split(rng.permutation(np.flatnonzero(occ))[: 2 * rare], 2)
    origin = rng.permutation(np.setdiff1d(np.arange(bands), [*halves, *negative]))[:rare]
    occ[halves] = 0.5
    wx[negative] = rng.uniform(-5, -1, len(negative))
    wx = wx[:, None] + 0.3 * np.arange(frequencies)
    if near and wtilde.size and wx.size:
        some = -(-max(rows, columns) // _RARE)
        tiny, close = rng.integers(0, wtilde.size, (2, some))
        wtilde.flat[tiny] = _TINY * (1 - 1j)
        wtilde.flat[close] = rng.choice(wx.ravel(), some) * (1 + _TINY * 1j)
        # Tiny poles take the third branch only at energies near the origin.
        wx[origin] = 0.1
    return GppOperands(
        wtilde=wtilde,
        i_eps=numbers(rows, columns),
        aqsn=numbers(bands, columns),
        aqsm=numbers(bands, rows),
        wx=wx,
        vcoul=numbers(rows).real.copy(),
        occ=occ,
    )


def exact(*operands: Any, **options: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Compute both sums in extended precision, from the formulas in `src/routines/gpp.hpp`."""
    asx, ach = _sums(np.longdouble, lambda term: term, *operands, **options)
    return asx, ach


def expected(*operands: Any, **options: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both sums, rounded to the type of the result."""
    asx, ach = map(narrowed, exact(*operands, **options))
    return asx, ach


def error_unit(*operands: Any, **options: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Allowed error of each sum, relative to the sum of its terms' magnitudes.

    It is 32 roundings, and one more per band up to 2048, because variants add up to 2048 bands
    without compensation.
    """
    bands = len(operands[GppOperands._fields.index("aqsm")])
    rounding = (32 + min(bands, 2048)) * float(np.finfo(np.float64).epsneg)
    asx, ach = _sums(np.float64, np.abs, *operands, **options)
    return rounding * asx.real, rounding * ach.real


def _sums(real: Any, of: Callable[..., Any], *operands: Any, **options: float) -> NDArray[Any]:
    """Sum a function of each term; bands whose aqsm is 0 are omitted."""
    wtilde, i_eps, aqsn, aqsm, wx, vcoul, occ = operands
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
            with np.errstate(all="ignore"):  # threads do not inherit the error state
                sch, ssx, _ = terms(x[:, None], w, eps)
                sums[0, f] = of(-occ[bands][filled, None] * ssx[filled] * m[filled]).sum()
                sums[1, f] = of(sch * m / 2).sum()
        return sums

    from concurrent.futures import ThreadPoolExecutor  # slow to import

    with ThreadPoolExecutor() as pool:
        zero = np.zeros((2, wx.shape[1]), terms.complex)
        return sum(pool.map(row, range(len(wtilde))), start=zero)


def spot_check(*operands: Any, **options: float) -> Reference | None:
    """A check by linearity, or None if there are few enough terms for the whole reference.

    The sums are linear in aqsm. With a random number c and a random sample s of the entries of
    aqsm, ``c gpp(aqsm) + gpp(other)`` is ``(1 + c) gpp(only s)``, where ``other`` is ``-c aqsm``
    except that it keeps s, and ``only s`` is 0 except in s. Both calls are dense, and the reference
    computes only the terms of s. Because c is not a power of 2, the rounding errors of the two
    calls differ.

    The sample contains the corners, pairs of any band and igp, and the same number of pairs of
    occupied bands.
    """
    arrays = dict(zip(GppOperands._fields, map(np.asarray, operands), strict=True))
    aqsm, each = arrays["aqsm"], arrays["aqsn"].shape[1] * arrays["wx"].shape[1]
    if aqsm.size * each <= _MAX_TERMS:
        return None
    rng, columns = np.random.default_rng(), aqsm.shape[1]
    factor = rng.uniform(0.5, 1)
    occupied = arrays["occ"] != 0
    number = max(_FEWEST_PAIRS, _MAX_TERMS // 4 // each)
    of_all = rng.integers(0, aqsm.size, number)
    of_occupied = (
        rng.choice(np.flatnonzero(occupied), number) if occupied.any() else np.empty(0, int)
    )
    of_occupied = of_occupied * columns + rng.integers(0, columns, of_occupied.size)
    corners = [0, columns - 1, aqsm.size - columns, aqsm.size - 1]
    kept = np.unique([*of_all, *of_occupied, *corners])
    only, other = np.zeros_like(aqsm), -factor * aqsm
    only.flat[kept] = other.flat[kept] = aqsm.flat[kept]
    part = tuple((arrays | {"aqsm": only}).values())
    # The magnitudes of all terms are estimated from the sample.
    asx, ach = error_unit(*part, **options)
    in_asx = occupied[kept // columns].sum() or 1
    pairs = occupied.sum() * columns / in_asx, aqsm.size / kept.size
    return Reference(
        tuple((1 + factor) * sums for sums in exact(*part, **options)),
        tuple((1 + factor) * n * unit for n, unit in zip(pairs, (asx, ach), strict=True)),
        counterpart=tuple((arrays | {"aqsm": other}).values()),
        factor=factor,
    )


TASKS = {
    "gpp": Task(
        expected,
        exact=exact,
        spot_check=spot_check,
        tolerance=1,
        error_unit=error_unit,
        lengths=dict(zip(GPP_LENGTHS, GPP_SIZES["small"], strict=True)),
        operands=gpp_operands,
        sanitizer=SanitizerCases(
            shapes=(
                *((0, 2, 3, 1), (1, 1, 1, 1), (2, 3, 5, 2), (33, 3, 65, 2)),
                *((5, 33, 31, 3), (70, 1, 34, 1), (3, 2, 300, 2), (17, 129, 2, 2)),
            ),
            large=(130, 17, 520, 2),
        ),
        # Counting FLOPs makes kernels 200 times slower, so it is done on a smaller problem.
        benchmark_problems={
            "si214": "--shape 800x1385x11075x2 --seconds 80 --counters light",
            "counted": "--shape 400x256x4096x2",
        },
    )
}
