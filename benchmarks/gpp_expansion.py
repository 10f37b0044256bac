"""Whether matrix instructions in FP64 (DMMA) can shorten ``ado.gpp`` by an expansion in energy.

    python benchmarks/gpp_expansion.py [--arch sm_90]

Far from a pole, 1 / (x - w) is smooth in the energy x. If it is interpolated at K energies (nodes),
the bands of a group are replaced by K bands: m of node j is the sum of L_j(x) conj(aqsm) aqsn over
the group, which is a complex matrix product over bands. It serves all frequencies, because it
depends on differences of energies only. Each pair then evaluates K bands.

The script prints the share of the terms that K nodes interpolate within the error bound, and the
time of the best division into groups. Nodes are counted for polynomials (Chebyshev) and, as a lower
limit, for the best rational functions (Zolotarev). Matrix instructions are counted at their peak,
with four or with three real products per complex product. The bands that a warp cannot expand, and
the evaluation at nodes, take the time of the loops in gpp_bound.py. It needs no GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
from gpp_bound import CHUNK, bounds, chunks
from numpy.typing import NDArray

import adokernels as ado
from adokernels.model.tasks.gpp import GppOperands

ROUNDINGS = 400  # of the 832 that the bound allows for 800 bands; the sums need the others
PRECISION = ROUNDINGS * 2.0**-53
PEAK = 2 * 33.45e12  # FLOP/s of DMMA: twice the FMA peak of an H100 or H200
ROWS, LANES, WARPS = 2, 32, 32  # the poles of a warp must agree; number of random warps

Nodes = Callable[[float, float, NDArray[np.complex128]], float]


def chebyshev(low: float, high: float, poles: NDArray[np.complex128]) -> float:
    """Nodes on [low, high] for a relative error of PRECISION: 2 / |rho|^K, for the nearest pole."""
    z = (poles - (low + high) / 2) / max((high - low) / 2, 1e-9)
    rho = np.abs(z + np.sqrt(z - 1) * np.sqrt(z + 1)).min()
    return np.ceil(np.log(2 / PRECISION) / np.log(rho)) if rho > 1 + 1e-9 else np.inf


def ring(r: float) -> float:
    """Return Groetzsch's ring function, pi K(sqrt(1 - r^2)) / (2 K(r))."""

    def mean(y: float) -> float:  # arithmetic-geometric mean of 1 and y
        x = 1.0
        for _ in range(9):
            x, y = (x + y) / 2, float(np.sqrt(x * y))
        return x

    return float(np.pi / 2 * mean(np.sqrt((1 - r) * (1 + r))) / mean(r))


def zolotarev(low: float, high: float, poles: NDArray[np.complex128]) -> float:
    """Nodes of the best rational functions, if the poles were real: the numerical rank."""
    ends = sorted(((low, high + 1e-9), (poles.real.min(), poles.real.max())))
    (a, b), (c, d) = ends
    if b >= c:
        return np.inf
    ratio = (c - a) * (d - b) / ((c - b) * (d - a))
    return np.ceil(np.log(4 / PRECISION) * 2 * ring(ratio**-0.5) / np.pi**2)


def warps(problem: GppOperands) -> Iterator[NDArray[np.complex128]]:
    """Poles of random warps, at both frequencies."""
    rng = np.random.default_rng(0)
    rows, columns = problem.wtilde.shape
    step = problem.wx[0, 1] - problem.wx[0, 0]
    for _ in range(WARPS):
        row, column = rng.integers(0, rows - ROWS), rng.integers(0, columns - LANES)
        w = problem.wtilde[row : row + ROWS, column : column + LANES].ravel()
        w = w[np.abs(w) > 1e-6]  # evaluated by the formulas in any case
        yield np.concatenate((w, w - step))


def shares(energies: NDArray[np.float64], problem: GppOperands) -> list[float]:
    """Shares of (chunk, pole) that at most 8, 12, 16 and 24 Chebyshev nodes interpolate."""
    found = [
        chebyshev(c.min(), c.max(), np.array([w, w - 0.3]))
        for c in chunks(energies)
        for w in next(warps(problem))
    ]
    return [float(np.mean(np.array(found) <= most)) for most in (8, 12, 16, 24)]


def best_groups(
    energies: NDArray[np.float64],
    poles: NDArray[np.complex128],
    nodes: Nodes,
    loop: float,
    fma: float,
) -> tuple[float, float]:
    """Seconds saved by the best division into groups, and the seconds of its matrix products."""
    best = [(0.0, 0.0)]
    ends = [*range(0, len(energies), CHUNK), len(energies)]
    for end in ends[1:]:
        candidates = [best[-1]]  # the last chunk directly
        for (saved, products), begin in zip(best, ends, strict=False):
            group = energies[begin:end]
            count = nodes(group.min(), group.max(), poles)
            if count < len(group):
                time = count * len(group) * fma
                candidates.append((saved + (len(group) - count) * loop - time, products + time))
        best.append(max(candidates))
    return best[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="sm_90", help="the architecture of the measured GPU")
    loops = {name: (bands, time) for name, bands, _, time in bounds(parser.parse_args().arch)}
    total = sum(time for _, time in loops.values())
    problem = ado.gpp_operands("si214", seed=0)
    pairs = problem.wtilde.size
    energies = {
        "full": np.sort(problem.wx[(problem.occ == 1) & (problem.wx >= 0).all(1), 0])[::-1],
        "empty": np.sort(problem.wx[problem.occ == 0, 0]),
    }
    for kind, x in energies.items():
        print(f"{kind}: share of terms with at most 8, 12, 16, 24 nodes per chunk of {CHUNK}:")
        print("  ", *(f"{share:.0%}" for share in shares(x, problem)))
    print(f"now: {1e3 * total:.1f} ms by the loops")
    for nodes in (chebyshev, zolotarev):
        for products in (4, 3):
            fma = 2 * products * pairs / PEAK
            saved = matrices = 0.0
            for kind, x in energies.items():
                bands, time = loops[f"{kind}, moments"]
                every = [best_groups(x, w, nodes, time / bands, fma) for w in warps(problem)]
                saved += float(np.mean([s for s, _ in every]))
                matrices += float(np.mean([m for _, m in every]))
            print(
                f"{nodes.__name__}, {products} products: {1e3 * (total - saved):.1f} ms one after "
                f"the other, with {1e3 * matrices:.1f} of DMMA; "
                f"{1e3 * max(matrices, total - saved - matrices):.1f} ms if they overlapped"
            )


if __name__ == "__main__":
    main()
