"""Tasks of the image filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import SanitizerCases, Task


def luminance(rgba: Any, weights: Sequence[int], divisor: int) -> NDArray[np.uint8]:
    """Weighted sum of the colour channels, divided by `divisor` and truncated."""
    rgba = np.asarray(rgba)
    red, green, blue = weights

    def weigh(band: NDArray[np.int32]) -> NDArray[np.int32]:
        weighted = red * band[..., 0] + green * band[..., 1] + blue * band[..., 2]
        return np.asarray(weighted // divisor)

    return by_bands(weigh, rgba[..., :3], channels=1)


def weighted(images: NDArray[np.int32], weights: Sequence[int], axis: int) -> NDArray[np.int32]:
    """Weighted sum of neighbours along an axis, without the ends, which lack neighbours."""
    along = np.moveaxis(images, axis, -1)
    length = along.shape[-1] - len(weights) + 1
    total = np.zeros((*along.shape[:-1], length), np.int32)
    for i, weight in enumerate(weights):
        total += weight * along[..., i : i + length]
    return np.moveaxis(total, -1, axis)


def by_bands(
    work: Callable[[NDArray[np.int32]], NDArray[Any]],
    images: NDArray[Any],
    *,
    reach: int = 0,
    border: str = "constant",
    channels: int = 0,
) -> NDArray[np.uint8]:
    """Apply `work` to bands of rows, each extended by `reach` pixels on every side, as int32.

    A band is a few rows of one image, or several small images. Bands need little memory and are
    processed in parallel.
    """
    shape = images.shape[: images.ndim - channels]
    out = np.zeros(shape, np.uint8)
    if not out.size:
        return out
    rows, cols = shape[-2:]
    batch = images.reshape(-1, rows, cols, *images.shape[len(shape) :])
    results = out.reshape(-1, rows, cols)
    mode: Any = {"constant": "constant", "replicate": "edge", "reflect101": "reflect"}[border]
    around = [(0, 0), (reach, reach), (reach, reach)] + [(0, 0)] * channels
    together = max(1, 500_000 // (rows * cols))
    height = max(1, 500_000 // cols)

    def band(padded: NDArray[Any], target: NDArray[np.uint8], top: int) -> None:
        source = padded[:, top : min(top + height, rows) + 2 * reach].astype(np.int32)
        target[:, top : top + height] = work(source)

    from concurrent.futures import ThreadPoolExecutor  # slow to import

    with ThreadPoolExecutor() as pool:
        for first in range(0, len(batch), together):
            some = slice(first, first + together)
            padded = np.pad(batch[some], around, mode) if reach else batch[some]
            list(pool.map(partial(band, padded, results[some]), range(0, rows, height)))
    return out


def grayscale(rgba: Any) -> NDArray[np.uint8]:
    """``(298839 R + 586811 G + 114350 B) // 1000000``, exactly."""
    return luminance(rgba, (298839, 586811, 114350), 1_000_000)


def gaussian_blur(
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


def sobel(gray: Any, *, batch: bool = False) -> NDArray[np.uint8]:
    """``min(255, floor(sqrt(gx**2 + gy**2)))``; pixels outside the image are zero.

    `batch` does not change the result.
    """

    def magnitude(band: NDArray[np.int32]) -> NDArray[np.float64]:
        gx = weighted(weighted(band, (1, 2, 1), axis=-2), (-1, 0, 1), axis=-1)
        gy = weighted(weighted(band, (1, 0, -1), axis=-2), (1, 2, 1), axis=-1)
        # The correctly rounded root of a small integer never crosses the next integer.
        return np.minimum(np.sqrt(gx * gx + gy * gy), 255.0)

    return by_bands(magnitude, np.asarray(gray), reach=1)


def edge_detect(rgba: Any) -> NDArray[np.uint8]:
    """Apply the filters in sequence; each result is rounded to bytes.

    The luminance has the weights of ``ado.grayscale``, in units of 1/65536. With the exact weights
    of that routine's reference result, it would differ by up to one level and change the edges.
    """
    gray = luminance(rgba, (19585, 38457, 7494), 65536)
    return sobel(gaussian_blur(gray))


#: The image sizes of the stored ladders: the size in the talk, and one much larger than any cache.
_PROBLEMS = {
    "2560x1600": "--shape 1600x2560",
    "16384": "--shape 16384x16384 --seconds 15",
}
TASKS = {
    "grayscale": Task(grayscale, tolerance=1, benchmark_problems=_PROBLEMS),
    "gaussian_blur": Task(
        gaussian_blur,
        sanitizer=SanitizerCases(
            options={
                "border": ("constant", "replicate", "reflect101"),
                "taps": ((1, 2, 3, 4, 3, 2, 1), (1, 6, 15, 20, 15, 6, 1)),
            }
        ),
        benchmark_problems=_PROBLEMS,
    ),
    "sobel": Task(sobel, benchmark_problems=_PROBLEMS),
    "edge_detect": Task(edge_detect, benchmark_problems=_PROBLEMS),
}
