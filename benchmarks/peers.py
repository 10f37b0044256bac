"""Compares default variants with other libraries, in the same rounds.

    python benchmarks/peers.py                    # NumPy and OpenCV, on the CPU
    python benchmarks/peers.py --device cuda      # torch, CuPy, cuBLAS geam, NPP and CV-CUDA
    python benchmarks/peers.py --device cuda --problems transpose-int64-8192

On a GPU, the problems come from the stored ladders; on the CPU, they are the default problems.
shapes.py compares other shapes. The script prints one table per problem: the default variant, the
ceiling of its ladder, and its peers. A peer that cannot run here, or whose result is wrong, is
reported and left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import array_peers
import image_peers
from arguments import parser
from array_peers import Peers

import adokernels as ado
from adokernels.cli.program import parse

#: Functions that make a library's peers, by routine, device and library.
PEERS: dict[tuple[str, str], dict[str, Callable[..., Peers]]] = {
    **array_peers.PEERS,
    **image_peers.PEERS,
}


def problems(device: str) -> list[tuple[str, argparse.Namespace]]:
    """The name of each problem and the arguments of its measurement."""
    found = []
    for routine in dict.fromkeys(name for name, where in PEERS if where == device):
        known = ado.routines[routine].task.benchmark_problems if device == "cuda" else {"": ""}
        for name, arguments in known.items():
            options = parse(["bench", routine, *arguments.split(), "--device", device])
            found.append((f"{routine}-{name}".removesuffix("-"), options))
    return found


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


def measure(name: str, problem: str, operands: list[Any], options: argparse.Namespace) -> None:
    """Measure the default variant, the first ceiling and the peers in the same rounds."""
    routine, device = ado.routines[name], options.device
    args = [*map(ado.to_device, operands)] if device == "cuda" else operands
    peers, left_out = correct(PEERS[name, device], args)  # ado.sweep checks results of arrays
    ours = routine.problem(*args, device=device).best()
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
    options.add_argument("--seconds", type=float, default=12.0, help="per problem")
    options.add_argument("--cache", choices=("cold", "warm"), default="cold")
    options.add_argument("--json", type=Path, help="folder for the raw measurements")
    given = options.parse_args()
    for problem, known in problems(given.device):
        if known.routine in given.routines and problem in (given.problems or [problem]):
            task = ado.routines[known.routine].task
            operands = task.random_operands(known.shape, known.dtype)
            measure(known.routine, problem, operands, given)


if __name__ == "__main__":
    main()
