"""Criteria for default calls: bounds on ratios of times, and the problems to which they apply."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np
from image_peers import FILTERS, is_colour
from random_shapes import Case
from shape_report import EQUAL, Record

MIB = 2**20
LARGE = 64 * MIB
VIDEO = ((1080, 1920), (2160, 3840))
#: A batch, and one image with the same number of pixels.
BATCHES = (
    ((64, 224, 224), (1792, 1792)),
    ((16, 512, 512), (2048, 2048)),
    ((9, 1001, 1503), (3003, 4509)),
)
SLOWEST_BATCH = 1.25  # maximum time of a batch, relative to one image
SHORT_CALL = 5e-6  # time of a peer in seconds, below which the overhead per call dominates


def pixels_of(case: Case) -> tuple[int, ...]:
    """The shape without channels."""
    return case.shape[:-1] if is_colour(case.routine) else case.shape


def standard_cases(routine: str) -> Iterator[Case]:
    """The images and batches to which the criteria apply."""
    channels = ((3,), (4,)) if is_colour(routine) else ((),)
    for last in channels:
        for shape in (*VIDEO, *(shape for pair in BATCHES for shape in pair)):
            yield Case(routine, (*shape, *last), "u1")


def share(record: Record) -> float:
    return record.share_of_copy


def against(*peers: str) -> Callable[[Record], float]:
    """Time of the fastest peer with one of these name prefixes, divided by our time."""

    def ratio(record: Record) -> float:
        seconds = [s for name, s in record.peers.items() if name.startswith(peers)]
        return min(seconds) / record.ours if seconds else math.nan

    return ratio


def single(record: Record) -> bool:
    return min(record.case.shape) == 1 and record.bytes >= LARGE


def thin_or_small(record: Record) -> bool:
    """Thin matrices, and elements of 1 and 2 bytes."""
    thin = min(record.case.shape) <= 32 or np.dtype(record.case.dtype).itemsize <= 2
    return thin and record.bytes >= LARGE


def aligned(record: Record) -> bool:
    return record.bytes >= LARGE and pixels_of(record.case)[-1] % 4 == 0


def short(record: Record) -> bool:
    return min(record.peers.values(), default=math.inf) < SHORT_CALL


@dataclass(frozen=True)
class Bound:
    """Lower bounds on a ratio: on its value for each problem, and on its geometric mean."""

    name: str
    value: Callable[[Record], float]
    least: float
    about: Callable[[Record], bool] = lambda _: True
    mean: float = 0.0

    def verdicts(self, records: Sequence[Record]) -> Iterator[str]:
        """Lines that state whether the bound holds; no lines if it applies to no problem."""
        values = [(self.value(r), r.case) for r in records if self.about(r)]
        values = [(value, case) for value, case in values if not math.isnan(value)]
        if not values:
            return
        worst, case = min(values, key=lambda pair: pair[0])
        below = sum(value < self.least for value, _ in values)
        yield (
            f"{self.name} at least {self.least:.2f}: {'MISSED' if below else 'met'}, worst "
            f"{worst:.3f} at {case}, {below} of {len(values)} shapes below"
        )
        if self.mean:
            mean = geometric_mean([value for value, _ in values])
            verdict = "met" if mean >= self.mean else "MISSED"
            yield f"{self.name}, geometric mean at least {self.mean}: {verdict}, {mean:.2f}"


OF_FILTERS = (
    Bound("share of the copy, traffic >= 64 MiB,", share, 0.75, lambda r: r.bytes >= LARGE),
    Bound("share of the copy, traffic >= 64 MiB, width a multiple of 4,", share, 0.8, aligned),
    Bound("share of the copy, traffic >= 4 MiB,", share, 0.6, lambda r: r.bytes >= 4 * MIB),
    Bound(
        "share of the copy at 1080p and 4K", share, 1 / 1.5, lambda r: pixels_of(r.case) in VIDEO
    ),
)
OF_FILTERS_ON_CPU = (
    Bound("against NumPy", against("numpy"), 0.95),
    Bound("against OpenCV", against("cv2"), 1.0, mean=3),
)
OF_ARRAYS_ON_CPU = (
    Bound("against NumPy", against("numpy"), 0.95, lambda r: not short(r)),
    Bound("against NumPy, calls below 5 us", against("numpy"), 0.9, short),
)
THIN = "share of the copy, thin or 1-byte or 2-byte elements, traffic >= 64 MiB,"
DOUBLE = "float64 against torch.compile"
BOUNDS: dict[tuple[str, str], tuple[Bound, ...]] = {
    ("transpose", "cuda"): (
        Bound("against the best peer", against(""), EQUAL, mean=1.8),
        Bound("share of the copy, one row or column, traffic >= 64 MiB,", share, 0.95, single),
        Bound(THIN, share, 0.8, thin_or_small),
    ),
    ("average_matvec", "cuda"): (
        Bound("against the best peer", against(""), EQUAL, mean=1.4),
        Bound(DOUBLE, against("torch.compile"), EQUAL, lambda r: r.case.dtype == "f8"),
    ),
    ("max_plus", "cuda"): (Bound("against the best peer", against(""), 1.3),),
    ("gpp", "cuda"): (Bound("against the best variant", against(""), EQUAL),),
    **{(routine, "cuda"): OF_FILTERS for routine in FILTERS},
    **{(routine, "cpu"): OF_FILTERS_ON_CPU for routine in FILTERS},
    **{(name, "cpu"): OF_ARRAYS_ON_CPU for name in ("transpose", "average_matvec", "max_plus")},
}


def verdicts(routine: str, device: str, records: Sequence[Record]) -> Iterator[str]:
    """The lines of all criteria that apply to any of the problems."""
    for bound in BOUNDS.get((routine, device), ()):
        yield from bound.verdicts(records)
    if device == "cuda" and routine in FILTERS:
        yield from batch_verdicts(records)


def batch_verdicts(records: Sequence[Record]) -> Iterator[str]:
    """Times of batches divided by the time of one image with the same number of pixels."""
    by_shape = {record.case.shape: record for record in records}
    for record in records:
        for batch, image in BATCHES:
            channels = record.case.shape[len(batch) :]
            one = by_shape.get((*image, *channels))
            if pixels_of(record.case) == batch and one:
                ratio = record.ours / one.ours
                yield (
                    f"batch at most {SLOWEST_BATCH} times one image of the same total size: "
                    f"{'met' if ratio <= SLOWEST_BATCH else 'MISSED'}, {ratio:.2f} at {record.case}"
                )
