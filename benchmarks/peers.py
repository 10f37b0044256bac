"""Compares default variants with other libraries, in the same rounds.

    python benchmarks/peers.py                    # NumPy and OpenCV, on the CPU
    python benchmarks/peers.py --device cuda      # torch, CuPy, cuBLAS geam, NPP and CV-CUDA
    python benchmarks/peers.py transpose --shapes 8191x8193 --dtypes float32 int64

On a GPU, the problems come from the stored ladders; on the CPU, they are the default problems.
The script prints one table per problem: the default variant, the ceiling of its ladder, and its
peers. A peer that cannot run here, or whose result is wrong, is reported and left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import array_peers
import image_peers
from arguments import parser, shape
from array_peers import Peers

import adokernels as ado
from adokernels.cli.everything import problems
from adokernels.cli.program import parse

#: Functions that make a library's peers, by routine, device and library.
PEERS: dict[tuple[str, str], dict[str, Callable[..., Peers]]] = {
    **array_peers.PEERS,
    **image_peers.PEERS,
}


def correct(
    makers: Mapping[str, Callable[..., Peers]],
    args: Sequence[Any],
    error_of: Callable[[Any], float] = lambda _: 0,
    tolerance: float = 0,
) -> tuple[Peers, dict[str, str]]:
    """The correct peers, and the reasons why others are left out.

    Each of the `makers`, by library, makes the peers that work on `args`.
    """
    kept: Peers = {}
    left_out: dict[str, str] = {}
    for library, make in makers.items():
        name = library
        try:
            for name, run in make(*args).items():
                if (error := error_of(run())) <= tolerance:
                    kept[name] = run
                else:
                    left_out[name] = f"WRONG: error {error:.3g} exceeds {tolerance:.3g}"
        except Exception as error:  # any error of another library
            left_out[name] = first_line(error)
    return kept, left_out


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]


def cases(name: str, options: argparse.Namespace) -> Iterator[tuple[str, list[Any]]]:
    """The names and operands of the requested problems, or of the stored or default ones."""
    task = ado.routines[name].task
    if options.shapes:
        for lengths in options.shapes:
            for dtype in options.dtypes:
                words = (name, "x".join(map(str, lengths)), dtype)
                yield "-".join(filter(None, words)), task.random_operands(lengths, dtype)
    else:
        for problem, known in problems(options.device, lambda given: parse(["bench", *given])):
            if known.routine == name and problem in (options.problems or [problem]):
                yield problem, task.random_operands(known.shape, known.dtype)


def measure(name: str, problem: str, operands: list[Any], options: argparse.Namespace) -> None:
    """Measure a variant, the first ceiling and the peers in the same rounds."""
    routine, device = ado.routines[name], options.device
    args = [*map(ado.to_device, operands)] if device == "cuda" else operands
    peers, left_out = correct(PEERS[name, device], args)  # ado.sweep checks results of arrays
    ours = options.variant or routine.problem(*args, device=device).best()
    ceilings = [v.name for v in routine if v.device == device and v.ceiling][:1]
    sweep = ado.sweep(
        routine, *args, device=device, variants=[*ceilings, ours], peers=peers,
        cache=options.cache, seconds=options.seconds, progress=False,
    )  # fmt: skip
    print(sweep)
    for function, reason in left_out.items():
        print(f"left out {function} of {name}: {reason}")
    if options.json:
        options.json.mkdir(parents=True, exist_ok=True)
        sweep.save(options.json / f"{problem}-peers.json.xz")


def main() -> None:
    options = parser(__doc__, dict.fromkeys(name for name, _ in PEERS))
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--problems", nargs="+", help="names, such as transpose-int64-8192")
    options.add_argument("--shapes", type=shape, nargs="+", help="for example 8192x8192")
    options.add_argument("--dtypes", nargs="+", default=[None], help="for --shapes")
    options.add_argument("--variant", help="default: the default variant")
    options.add_argument("--seconds", type=float, default=12.0, help="per problem")
    options.add_argument("--cache", choices=("cold", "warm"), default="cold")
    options.add_argument("--json", type=Path, help="folder for the raw measurements")
    given = options.parse_args()
    for name in given.routines:
        for problem, operands in cases(name, given):
            measure(name, problem, operands, given)


if __name__ == "__main__":
    main()
