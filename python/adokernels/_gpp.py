"""The generalised plasmon-pole model's terms in NumPy, and problems that look like physics."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: What the numbers of a size are.
GPP_LENGTHS = ("nbands", "ngpown", "ncouls", "nfreqs")
#: Of BerkeleyGW's Si-214 benchmark, and smaller ones.
GPP_SIZES = {
    "test": (24, 11, 67, 2),
    "small": (96, 64, 512, 2),
    "si214": (800, 1385, 11075, 2),
}
#: Of 800 bands of Si-214.
_OCCUPIED = 428 / 800
#: One in so many bands, or entries of wtilde, is of a rare kind; but at least one.
_RARE = 64
_TINY = 1e-9
_TOL_ZERO = 1e-12

#: What a term may be: a pole far enough from the energy, one too near, or nothing.
POLE, NEAR, NOTHING = range(3)


class GppTerms:
    """The model's two terms without their weights, as the header of `src/routines/gpp.hpp` says.

    Parameters
    ----------
    real
        The type to compute in.
    gamma, sexcut, tol
        As for ``ado.gpp``.
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
        """Give ``sch``, ``ssx`` and which branch was taken, of arrays that broadcast."""
        wdiff = x - w
        wdiffr = wdiff.real**2 + wdiff.imag**2
        delw = w * np.conj(wdiff) / wdiffr
        delwr = delw.real**2 + delw.imag**2
        pole = (wdiffr > self.limit_two) & (delwr < self.limit_one)
        near = ~pole & (delwr > _TOL_ZERO)
        nothing = self.complex(0)
        sch = np.where(pole, delw * eps, nothing)
        # x^2 - w^2 and delw + 1/2, which would lose digits where x is near w or -w.
        squares, half_more = wdiff * (x + w), (x + w) / (2 * wdiff)
        ssx = np.where(near, -w * w * eps * delw / (4 * w * w * half_more), nothing)
        ssx = np.where(pole, w * w * eps / squares, ssx)
        # Infinite ssx, of x = -w, are above any cut-off.
        within = np.isfinite(ssx) & (np.abs(ssx) <= self.sexcut * np.abs(eps))
        ssx[(x < 0) & ~within] = nothing
        return sch, ssx, np.where(pole, POLE, np.where(near, NEAR, NOTHING))


class GppProblem(NamedTuple):
    """The operands of ``ado.gpp``, in their order: ``ado.gpp(*problem)``."""

    wtilde: NDArray[np.complex128]
    i_eps: NDArray[np.complex128]
    aqsn: NDArray[np.complex128]
    aqsm: NDArray[np.complex128]
    wx: NDArray[np.float64]
    vcoul: NDArray[np.float64]
    occ: NDArray[np.float64]

    def branch_shares(self, samples: int = 1_000_000, **options: float) -> dict[str, float]:
        """How often each branch is taken, found from so many of the (band, igp, ig, frequency).

        Parameters
        ----------
        samples
            How many to draw.
        **options
            `gamma`, `sexcut` and `tol` of ``ado.gpp``.

        Returns
        -------
        dict
            Shares of all terms: ``"pole"``, ``"near"`` (the second branch) and ``"nothing"`` add
            up to 1. Of those, ``"near, occupied"`` and ``"cut off, occupied"`` are what occupied
            bands have of the second branch and of the cut-off.

        Raises
        ------
        ValueError
            If there are no terms, or no samples.
        """
        if samples < 1 or not (self.wx.size and self.wtilde.size):
            raise ValueError("there is no term to look at")
        rng = np.random.default_rng(0)
        band, f = (rng.integers(0, n, samples) for n in self.wx.shape)
        row, column = (rng.integers(0, n, samples) for n in self.wtilde.shape)
        with np.errstate(all="ignore"):
            terms = GppTerms(np.float64, **options)
            x, w, eps = self.wx[band, f], self.wtilde[row, column], self.i_eps[row, column]
            _, ssx, branch = terms(x, w, eps)
            occupied = self.occ[band] != 0
            cut = (branch != NOTHING) & (ssx == 0) & (w != 0) & (eps != 0)
            kinds = {
                "pole": branch == POLE,
                "near": branch == NEAR,
                "nothing": branch == NOTHING,
                "near, occupied": (branch == NEAR) & occupied,
                "cut off, occupied": cut & occupied,
            }
        return {kind: float(np.mean(those)) for kind, those in kinds.items()}


def gpp_problem(
    size: str | Sequence[int] = "small", seed: int | None = None, *, near: bool = True
) -> GppProblem:
    """Make random operands of ``ado.gpp`` that look like physics and take every branch.

    Re wtilde lies in [0.5, 5.5] and Im wtilde in [-0.51, -0.01]; wx of occupied bands in [3, 9], of
    the others in [-6, 0], and 0.3 higher from one frequency to the next; all else in [-1, 1]. Of 64
    bands, one is half occupied, one occupied with wx in [-5, -1], and one at 0.1 for all
    frequencies; one entry of wtilde in 64 rows or columns is tiny, another lies next to an energy.

    Parameters
    ----------
    size
        ``"test"``, ``"small"``, ``"si214"`` (800 bands, 1385, 11075, 2), or a tuple of bands,
        ngpown (igp), ncouls (ig) and frequencies.
    seed
        The same seed gives the same problem; none a fresh one.
    near
        Whether energies may come nearer to a pole than the default gamma, which takes the second
        branch; if not, Im wtilde lies in [-1.11, -0.61] and no entry is tiny or next to an energy.

    Returns
    -------
    GppProblem
        A named tuple of the operands.

    Raises
    ------
    ValueError
        If there is no such size.
    TypeError
        If a length is no integer.

    Examples
    --------
    >>> import adokernels as ado
    >>> asx, ach = ado.gpp(*ado.gpp_problem("test", seed=1))
    >>> asx.shape
    (2,)
    """
    if isinstance(size, str):
        if size not in GPP_SIZES:
            raise ValueError(f"no size {size!r}; there is {', '.join(GPP_SIZES)}, or a tuple")
        size = GPP_SIZES[size]
    lengths = tuple(map(operator.index, size))
    if len(lengths) != len(GPP_LENGTHS) or min(lengths) < 0:
        raise ValueError(f"a size is ({', '.join(GPP_LENGTHS)}), got {lengths}")
    bands, rows, columns, frequencies = lengths
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
        # Only near the origin are tiny poles neither far enough nor of any weight.
        wx[origin] = 0.1
    return GppProblem(
        wtilde=wtilde,
        i_eps=numbers(rows, columns),
        aqsn=numbers(bands, columns),
        aqsm=numbers(bands, rows),
        wx=wx,
        vcoul=numbers(rows).real.copy(),
        occ=occ,
    )
