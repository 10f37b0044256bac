"""What image filters must reach on a GPU, relative to a copy of as many bytes and to one image."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from random_shapes import Case, is_colour
from shape_report import Record

MIB = 2**20
VIDEO = ((1080, 1920), (2160, 3840))
#: A batch, and one image of as many pixels.
BATCHES = (
    ((64, 224, 224), (1792, 1792)),
    ((16, 512, 512), (2048, 2048)),
    ((9, 1001, 1503), (3003, 4509)),
)
#: Name, which problems it is about, and the smallest share of the copy.
SHARES: tuple[tuple[str, Callable[[Record], bool], float], ...] = (
    ("traffic of 64 MiB and more", lambda r: r.bytes >= 64 * MIB, 0.75),
    (
        "the same where rows begin at multiples of 4 bytes",
        lambda r: r.bytes >= 64 * MIB and pixels_of(r.case)[-1] % 4 == 0,
        0.8,
    ),
    ("traffic of 4 MiB and more", lambda r: r.bytes >= 4 * MIB, 0.6),
    ("1080p and 4K", lambda r: pixels_of(r.case) in VIDEO, 1 / 1.5),
)
SLOWEST_BATCH = 1.25  # times one image


def pixels_of(case: Case) -> tuple[int, ...]:
    """The shape without channels."""
    return case.shape[:-1] if is_colour(case.routine) else case.shape


def standard_cases(routine: str) -> Iterator[Case]:
    """The images and batches that the criteria name."""
    channels = ((3,), (4,)) if is_colour(routine) else ((),)
    for last in channels:
        for shape in (*VIDEO, *(shape for pair in BATCHES for shape in pair)):
            yield Case(routine, (*shape, *last), "u1")


def verdicts(records: Sequence[Record]) -> Iterator[str]:
    """One line per criterion that is about any of the problems."""
    for name, about, least in SHARES:
        if those := [record for record in records if about(record)]:
            worst = min(those, key=lambda record: record.share_of_copy)
            below = sum(record.share_of_copy < least for record in those)
            yield (
                f"{name}: at least {least:.0%} of the copy {'MISSED' if below else 'met'}: worst "
                f"{worst.share_of_copy:.1%} at {worst.case}, {below} of {len(those)} shapes below"
            )
    by_shape = {record.case.shape: record for record in records}
    for record in records:
        for batch, image in BATCHES:
            if pixels_of(record.case) != batch:
                continue
            assert math.prod(batch) == math.prod(image)
            single = by_shape.get((*image, *record.case.shape[len(batch) :]))
            if single:
                ratio = record.ours / single.ours
                verdict = "met" if ratio <= SLOWEST_BATCH else "MISSED"
                yield (
                    f"at most {SLOWEST_BATCH} times one image of as many pixels {verdict}: "
                    f"{ratio:.2f} at {record.case}"
                )
