"""Records the data of notebooks/02_image_filters.ipynb beyond the stored ladders, on a GPU.

The image has the size of the GTC 2015 talk.

* image_filters-application: the host time of each step of the application: copy the photograph
  to the device, run the naive variant of each filter, copy the edges back. The steps are the peers
  of a CPU variant of the whole pipeline.
* image_filters-samples-pipeline: samples of the warps of all three kernels.
* image_filters-samples-VARIANT, gaussian_blur-heatmap-VARIANT: samples of the warps of
  variants of the Gaussian, and counts by source line.

    python benchmarks/course/image_filters.py FOLDER
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from recording import complete, run

import adokernels as ado

SHAPE = (1600, 2560)
#: Variants before and after the step to coalesced loads, and with the tile in shared memory.
SAMPLED = ("naive", "coalesced", "shared")


def steps_of(rgba: Any) -> dict[str, Callable[[], Any]]:
    """The steps of the application on a GPU; each returns after the GPU has finished."""
    photo = ado.to_device(rgba)
    gray, blurred, edges = (ado.to_device(rgba[..., 0].copy()) for _ in range(3))

    def finished(call: Callable[..., object], *args: Any, **options: Any) -> Callable[[], None]:
        def run() -> None:
            call(*args, **options)
            ado.synchronize()

        return run

    steps: dict[str, Callable[[], Any]] = {"copy to the device": finished(photo.copy_from, rgba)}
    arrays = ((photo, gray), (gray, blurred), (blurred, edges))
    routines = (ado.grayscale, ado.gaussian_blur, ado.sobel)
    for routine, (source, result) in zip(routines, arrays, strict=True):
        steps[routine.name] = finished(routine, source, variant="naive", out=result)
    works = [*steps.values()]

    def application() -> Any:
        for work in works:
            work()
        return edges.numpy()

    def to_host() -> None:  # its result is not checked
        edges.numpy()

    return steps | {"copy to the host": to_host, "all steps": application}


def application(rgba: Any) -> ado.records.Sweep:
    """Time the steps; the result of all steps is checked."""
    cpu = [v.name for v in ado.edge_detect if v.device == "cpu" and not v.ceiling]
    steps = steps_of(rgba)
    sweep = ado.sweep(
        ado.edge_detect, rgba, device="cpu", variants=cpu[-1:], peers=steps, seconds=5,
        ceilings=False, progress=False,
    )  # fmt: skip
    return complete(sweep, steps)


def records() -> Iterator[tuple[str, Callable[[], Any]]]:
    rgba = np.random.default_rng(7).integers(0, 256, (*SHAPE, 4), np.uint8)
    gray = np.random.default_rng(7).integers(0, 256, SHAPE, np.uint8)
    yield "image_filters-application", partial(application, rgba)
    pipeline = ado.edge_detect["pipeline_naive"]
    yield "image_filters-samples-pipeline", partial(ado.hotspots, pipeline, rgba, seconds=0.5)
    for name in SAMPLED:
        variant = ado.gaussian_blur[name]
        yield f"image_filters-samples-{name}", partial(ado.hotspots, variant, gray, seconds=0.5)
        yield f"gaussian_blur-heatmap-{name}", partial(ado.heatmap, variant, gray)


if __name__ == "__main__":
    run(records(), __doc__)
