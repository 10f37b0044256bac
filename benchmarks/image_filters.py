"""Compares the image filters with their peers, in one run, as ratios.

    python benchmarks/image_filters.py                 # OpenCV, with the same number of threads
    python benchmarks/image_filters.py --device cuda   # torch, CuPy, NPP and CV-CUDA, on the GPU
    python benchmarks/image_filters.py --peers-only    # check and time them without adokernels

The script prints one table per routine, with one row per shape (rows x columns): the default
variant's time, its share of the copy bandwidth measured in the same run, and its speed-up over each
peer. A peer that is not installed, or differs from its reference in image_peers.py, is reported and
left out.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
from beside_peers import Peers, Problem, compare, parser
from image_peers import Library, correct_filters, libraries

ROUTINES = ("grayscale", "gaussian_blur", "sobel", "edge_detect")
SHAPES = {"cpu": [(2160, 3840)], "cuda": [(16384, 16384), (1600, 2560)]}


def random_image(routine: str, shape: tuple[int, ...]) -> np.ndarray:
    channels = (4,) if routine in ("grayscale", "edge_detect") else ()
    return np.random.default_rng().integers(0, 256, (*shape, *channels), np.uint8)


def checked(routine: str, image: np.ndarray, found: dict[str, Library]) -> Peers:
    """The peers whose results are correct; the others are reported."""
    peers, left_out, wrong = correct_filters(routine, image, found)
    for name, reason in (left_out | wrong).items():
        print(f"left out {name} of {routine}: {reason}")
    return peers


def rough_seconds(run: Callable[[], object], device: str) -> float:
    """Median of a few warm calls, not interleaved, including launch overhead."""
    if device == "cpu":
        clocks = [time.perf_counter()]
        for _ in range(10):
            run()
            clocks.append(time.perf_counter())
        return float(np.median(np.diff(clocks)))
    from torch.cuda import Event, synchronize

    events = [Event(enable_timing=True) for _ in range(11)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(events)) / 1e3


def only_peers(
    routine: str, shape: tuple[int, ...], device: str, found: dict[str, Library]
) -> None:
    size = "x".join(map(str, shape))
    for name, run in checked(routine, random_image(routine, shape), found).items():
        print(f"{routine:14}{size:>12}  {name:18}{1e3 * rough_seconds(run, device):9.4f} ms")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--routines", nargs="+", choices=ROUTINES, default=ROUTINES)
    arguments.add_argument("--peers-only", action="store_true")
    options = arguments.parse_args()
    shapes = options.shapes or SHAPES[options.device]
    if options.peers_only:
        found = libraries(options.device, len(os.sched_getaffinity(0)))
        for routine in options.routines:
            for shape in shapes:
                only_peers(routine, shape, options.device, found)
        return

    import adokernels as ado

    roof = ado.machine(options.device, refresh=True)
    found = libraries(options.device, roof.threads)

    def problems(routine: str) -> Iterator[Problem]:
        for shape in shapes:
            image, size = random_image(routine, shape), "x".join(map(str, shape))
            yield Problem((size,), (image,), checked(routine, image, found), f"{routine}-{size}")

    for routine in options.routines:
        compare(ado.routines[routine], ("shape",), problems(routine), roof, options)


if __name__ == "__main__":
    main()
