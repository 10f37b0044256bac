"""Measures ``ado.gpp``: its ladder, the speed-up of its last variant, and its peers.

    python benchmarks/gpp.py                 # 200x200x2000x2, and NumPy, on the CPU
    python benchmarks/gpp.py --device cuda   # Si-214, and CuPy, on the GPU

The script prints how often each branch is taken, the ladder, and the speed-up of its last variant
over the best of the published steps (on the CPU: over `threaded`). It then measures that variant
with no energy near a pole, and compares it with an array library on the problems of --shapes. These
are smaller, because each step of the formulas makes an array. Sizes are
bands x ngpown x ncouls x frequencies.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from beside_peers import Peers, Problem, compare, parser
from image_peers import host

import adokernels as ado
from adokernels.model.tasks import difference
from adokernels.model.tasks.gpp import GPP_SIZES, GppOperands, GppTerms, error_unit, expected

SIZES: dict[str, tuple[int, ...]] = {"cpu": (200, 200, 2000, 2), "cuda": GPP_SIZES["si214"]}
PEER_SHAPES = {"cpu": [GPP_SIZES["small"]], "cuda": [(64, 512, 4096, 2)]}
#: The first and the last variant of the published steps, or their substitutes.
PUBLISHED = {"cpu": ("threaded", "threaded"), "cuda": (None, "large_blocks")}

Array = Any  # NumPy or CuPy


def size_of(text: str) -> tuple[int, ...]:
    return GPP_SIZES[text] if text in GPP_SIZES else tuple(map(int, text.lower().split("x")))


def words_of(size: Sequence[int]) -> str:
    return "x".join(map(str, size))


def placed(problem: GppOperands, device: str) -> tuple[Any, ...]:
    return tuple(map(ado.to_device, problem)) if device == "cuda" else tuple(problem)


def array_formulas(operands: Sequence[Array], library: Any) -> tuple[Array, Array]:
    """Evaluate the formulas literally, for all pairs of plane waves at once."""
    wtilde, i_eps, aqsn, aqsm, wx, vcoul, occ = operands
    terms = GppTerms(np.float64)
    asx, ach = library.zeros((2, wx.shape[1]), wtilde.dtype)
    with np.errstate(all="ignore"):
        for band in range(len(wx)):
            m = (vcoul * aqsm[band].conj())[:, None] * aqsn[band]
            for f in range(wx.shape[1]):
                sch, ssx, _ = terms(wx[band, f], wtilde, i_eps)
                asx[f] -= occ[band] * (ssx * m).sum()
                ach[f] += (sch * m).sum() / 2
    return asx, ach


def peers_of(problem: GppOperands, args: tuple[Any, ...], device: str) -> Peers:
    """The array library of the device, if it is installed and its result is correct."""
    name = "cupy" if device == "cuda" else "numpy"
    try:
        library = __import__(name)
        arrays = tuple(map(library.asarray, args))
        result = tuple(map(host, array_formulas(arrays, library)))
    except Exception as error:  # any error of another library
        print(f"left out {name}: {type(error).__name__}: {error}")
        return {}
    found = difference(result, expected(*problem), error_unit(*problem))
    if found > 1:
        print(f"left out {name}: error {found:.3g} above the tolerance of 1")
        return {}
    return {name: lambda: array_formulas(arrays, library)}


def ladder(size: Sequence[int], options: argparse.Namespace) -> str:
    """Measure every variant, print the speed-up of the last one, and return its name."""
    problem = ado.gpp_operands(size, seed=0)
    shares = ", ".join(
        f"{kind} {100 * share:.3g} %" for kind, share in problem.branch_shares().items()
    )
    print(f"branches of {words_of(size)}: {shares}")
    sweep = measured(problem, "ladder", size, options)
    print(sweep)
    first, last = PUBLISHED[options.device]
    names = [m.variant for m in sweep.variants]
    top = sweep.variants[-1]
    if last in names:
        published = sweep.variants[names.index(first) if first else 0 : names.index(last) + 1]
        best = min(published, key=lambda m: m.seconds)
        _, ratio, (low, high) = top.compare(best)
        others = f", the fastest of {len(published)} published steps" if published[1:] else ""
        print(
            f"{top.variant} is {ratio:.3g} times as fast as {best.variant}{others} "
            f"(99.9 % CI {low:.3g} to {high:.3g})"
        )
    far = measured(ado.gpp_operands(size, seed=0, near=False), "far", size, options, [top.variant])
    print(f"with every energy far from every pole: {far[top.variant]!r}")
    return top.variant


def measured(
    problem: GppOperands,
    what: str,
    size: Sequence[int],
    options: argparse.Namespace,
    variants: Sequence[str] | None = None,
) -> ado.records.Sweep:
    how = {"device": options.device, "cache": options.cache, "seconds": options.seconds}
    sweep = ado.sweep(
        ado.gpp, *placed(problem, options.device), variants=variants, progress=False, **how
    )
    if options.json:
        options.json.mkdir(parents=True, exist_ok=True)
        sweep.save(options.json / f"{options.device}-gpp-{what}-{words_of(size)}.json")
    return sweep


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--size", type=size_of, help=f"size for the ladder: {', '.join(GPP_SIZES)}, or four lengths"
    )
    options = arguments.parse_args()
    roof = ado.machine(options.device, refresh=True)
    top = ladder(options.size or SIZES[options.device], options)
    options.variant = options.variant or top

    def problems() -> Iterator[Problem]:
        for shape in options.shapes or PEER_SHAPES[options.device]:
            problem = ado.gpp_operands(shape, seed=0)
            args = placed(problem, options.device)
            peers = peers_of(problem, args, options.device)
            yield Problem((words_of(shape),), args, peers, f"gpp-peers-{words_of(shape)}")

    compare(ado.gpp, ("shape",), problems(), roof, options)


if __name__ == "__main__":
    main()
