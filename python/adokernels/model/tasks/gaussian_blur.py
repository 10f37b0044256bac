"""Task of ``ado.gaussian_blur``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import SanitizerCases, Task
from adokernels.model.tasks._images import BENCHMARK_PROBLEMS, by_bands, weighted


def expected(
    gray: Any,
    *,
    border: str = "constant",
    taps: Sequence[int] = (1, 2, 3, 4, 3, 2, 1),
    batch: bool = False,
) -> NDArray[np.uint8]:
    """Weighted sum over 7x7 pixels, divided by the square of the sum of the taps, truncated.

    `batch` does not change the result.
    """
    weights = [int(tap) for tap in taps]

    def blur(band: NDArray[np.int32]) -> NDArray[np.int32]:
        down = weighted(band, weights, axis=-2)
        return np.asarray(weighted(down, weights, axis=-1) // sum(weights) ** 2)

    return by_bands(blur, np.asarray(gray), reach=3, border=border)


TASK = Task(
    expected,
    sanitizer=SanitizerCases(
        options={
            "border": ("constant", "replicate", "reflect101"),
            "taps": ((1, 2, 3, 4, 3, 2, 1), (1, 6, 15, 20, 15, 6, 1)),
        }
    ),
    benchmark_problems=BENCHMARK_PROBLEMS,
)
