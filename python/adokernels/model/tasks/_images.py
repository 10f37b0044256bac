"""Shared code of the image filters' reference results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray


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

    with ThreadPoolExecutor() as pool:
        for first in range(0, len(batch), together):
            some = slice(first, first + together)
            padded = np.pad(batch[some], around, mode) if reach else batch[some]
            list(pool.map(partial(band, padded, results[some]), range(0, rows, height)))
    return out


#: The image sizes of the stored ladders: that of the talk, and one much larger than any cache.
BENCHMARK_PROBLEMS = {
    "2560x1600": "--shape 1600x2560",
    "16384": "--shape 16384x16384 --seconds 1.5",
}
