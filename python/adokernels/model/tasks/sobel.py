"""Task of ``ado.sobel``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import Task
from adokernels.model.tasks._images import BENCHMARK_PROBLEMS, by_bands, weighted


def expected(gray: Any, *, batch: bool = False) -> NDArray[np.uint8]:
    """``min(255, floor(sqrt(gx**2 + gy**2)))``; pixels outside the image are zero.

    `batch` does not change the result.
    """

    def magnitude(band: NDArray[np.int32]) -> NDArray[np.float64]:
        gx = weighted(weighted(band, (1, 2, 1), axis=-2), (-1, 0, 1), axis=-1)
        gy = weighted(weighted(band, (1, 0, -1), axis=-2), (1, 2, 1), axis=-1)
        # The correctly rounded root of a small integer never crosses the next integer.
        return np.minimum(np.sqrt(gx * gx + gy * gy), 255.0)

    return by_bands(magnitude, np.asarray(gray), reach=1)


TASK = Task(expected, benchmark_problems=BENCHMARK_PROBLEMS)
