"""Compares default variants with other libraries, in the same rounds.

    python benchmarks/peers.py                    # NumPy and OpenCV, on the CPU
    python benchmarks/peers.py --device cuda      # torch, CuPy, cuBLAS geam, NPP and CV-CUDA
    python benchmarks/peers.py transpose --shapes 8191x8193 --dtypes float32

The script prints one table per problem: the default variant, the ceiling of its ladder, and its
peers. A peer that cannot run here, or whose result is wrong, is reported and left out. Problems of
gpp are small, because each step of its formulas makes an array.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from array_peers import PEERS
from beside_peers import Peers, correct, parser, shape
from image_peers import FILTERS, correct_filters, libraries

import adokernels as ado
from adokernels.model.tasks.gpp import GPP_SIZES

#: A shape and a type, as for `adokernels bench`. The operands of gpp have several types.
Case = tuple[tuple[int, ...], str | None]
Cases = list[Case]

TYPES = ("uint8", "uint16", "float32", "float64", "complex128")
ON_BOTH: dict[str, Cases] = {
    "transpose": [((8192, 8192), dtype) for dtype in TYPES],
    "average_matvec": [((1024, 1024, 1024), "float32"), ((512, 1024, 1024), "float64")],
    "max_plus": [((64, 4 << 20), "float64"), ((64, 8 << 20), "float32")],
}
CASES: dict[str, dict[str, Cases]] = {
    "cpu": {
        **ON_BOTH,
        **{name: [((2160, 3840), "uint8")] for name in FILTERS},
        "gpp": [(GPP_SIZES["small"], None)],
    },
    "cuda": {
        **ON_BOTH,
        **{name: [((16384, 16384), "uint8"), ((1600, 2560), "uint8")] for name in FILTERS},
        "gpp": [((64, 512, 4096, 2), None)],
    },
}


def chosen(known: Cases, options: argparse.Namespace) -> Iterable[Case]:
    """The requested shapes and types that the routine accepts, or else the known ones.

    Shapes with another number of lengths are ignored. So is ``--dtypes`` if only one type exists.
    """
    types = list(dict.fromkeys(dtype for _, dtype in known))
    if options.dtypes and types[1:]:
        types = options.dtypes
    elif not options.shapes:
        return known
    shapes = options.shapes or dict.fromkeys(lengths for lengths, _ in known)
    return itertools.product((s for s in shapes if len(s) == len(known[0][0])), types)


def without_result(run: Callable[[], object]) -> None:
    """Run a checked filter. Its result may differ from ours by more than ado.sweep allows."""
    run()


def measure(routine: ado.Routine, case: Case, options: argparse.Namespace) -> None:
    """Measure a variant, the first ceiling and the peers in the same rounds."""
    (lengths, dtype), device, name = case, options.device, routine.name
    operands = routine.task.random_operands(lengths, dtype)
    args = tuple(map(ado.to_device, operands)) if device == "cuda" else operands
    peers: Peers
    if name in FILTERS:
        found, left_out, wrong = correct_filters(name, operands[0], options.libraries)
        peers = {peer: partial(without_result, run) for peer, run in found.items()}
    else:  # ado.sweep checks the results
        peers, left_out, wrong = correct(PEERS[name, device], args, lambda _: 0, 0)
    ours = options.variant or routine.problem(*args, device=device).best()
    ceilings = [v.name for v in routine if v.device == device and v.ceiling][:1]
    sweep = ado.sweep(
        routine, *args, device=device, variants=[*ceilings, ours], peers=peers,
        cache=options.cache, seconds=options.seconds, progress=False,
    )  # fmt: skip
    print(sweep)
    for function, reason in (left_out | wrong).items():
        print(f"left out {function} of {name}: {reason}")
    if options.json:
        options.json.mkdir(parents=True, exist_ok=True)
        words = [device, name, "x".join(map(str, lengths)), *([dtype] if dtype else [])]
        sweep.save(options.json / f"{'-'.join(words)}.json")


def main() -> None:
    options = parser(__doc__, CASES["cpu"])
    options.add_argument("--shapes", type=shape, nargs="+", help="for example 8192x8192")
    options.add_argument("--dtypes", nargs="+", choices=TYPES, help="if the routine has several")
    options.add_argument("--variant", help="default: the default variant")
    options.add_argument("--seconds", type=float, default=12.0, help="per problem")
    options.add_argument("--cache", choices=("cold", "warm"), default="cold")
    options.add_argument("--json", type=Path, help="folder for the raw measurements")
    given = options.parse_args()
    ado.machine(given.device, refresh=True)
    given.libraries = libraries(given.device) if set(given.routines) & set(FILTERS) else {}
    for name in given.routines:
        for case in chosen(CASES[given.device][name], given):
            measure(ado.routines[name], case, given)


if __name__ == "__main__":
    main()
