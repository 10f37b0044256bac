"""Records the data of notebooks/02_image_filters.ipynb beyond the stored ladders, on a GPU.

The image has the size of the GTC 2015 talk.

* image_filters-application.json: the host time of each step of the application: copy the photograph
  to the device, run the naive variant of each filter, copy the edges back. The steps are the peers
  of a CPU variant of the whole pipeline.
* image_filters-samples-pipeline.json: samples of the warps of all three kernels.
* image_filters-samples-VARIANT.json, gaussian_blur-heatmap-VARIANT.json: samples of the warps of
  variants of the Gaussian, and counts by source line.

It needs a GPU whose counters can be read, and about 20 seconds on an H200. It exits with status 1
if a record is missing.

    python benchmarks/course/image_filters.py FOLDER
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from recording import Recorder, run

import adokernels as ado

SHAPE = (1600, 2560)
#: Variants before and after the step to coalesced loads, and with the tile in shared memory.
SAMPLED = ("naive", "coalesced", "shared")
STEPS = ("copy to the device", "grayscale", "gaussian_blur", "sobel", "copy to the host")
WHOLE = "all steps"


def steps_of(rgba: Any) -> dict[str, Callable[[], Any]]:
    """The steps of the application on a GPU; each returns after the GPU has finished."""
    photo, gray = ado.to_device(rgba), ado.to_device(rgba[..., 0].copy())
    blurred, edges = (ado.to_device(rgba[..., 0].copy()) for _ in range(2))

    def finished(call: Callable[..., object], *args: Any, **options: Any) -> Callable[[], None]:
        def run() -> None:
            call(*args, **options)
            ado.synchronize()

        return run

    def filtered(routine: Any, source: Any, result: Any) -> Callable[[], None]:
        return finished(routine, source, variant="naive", out=result)

    works = (
        finished(photo.copy_from, rgba),
        filtered(ado.grayscale, photo, gray),
        filtered(ado.gaussian_blur, gray, blurred),
        filtered(ado.sobel, blurred, edges),
    )

    def to_host() -> None:
        edges.numpy()

    def application() -> Any:
        for work in works:
            work()
        return edges.numpy()

    return {**dict(zip(STEPS, (*works, to_host), strict=True)), WHOLE: application}


def application(rgba: Any, seconds: float) -> ado.records.Sweep:
    """Time the steps; the result of all steps is checked."""
    cpu = [v.name for v in ado.edge_detect if v.device == "cpu" and not v.ceiling]
    return ado.sweep(
        ado.edge_detect, rgba, device="cpu", variants=cpu[-1:], peers=steps_of(rgba),
        seconds=seconds, ceilings=False, progress=False,
    )  # fmt: skip


def record(recorder: Recorder) -> None:
    """Make the records."""
    rgba = np.random.default_rng(7).integers(0, 256, (*SHAPE, 4), np.uint8)
    gray = np.random.default_rng(7).integers(0, 256, SHAPE, np.uint8)
    recorder.attempt(
        "image_filters-application",
        partial(application, rgba, recorder.seconds),
        lambda sweep: {p.variant for p in sweep.peers} == {*STEPS, WHOLE},
    )
    sampled = {"pipeline": (ado.edge_detect["pipeline_naive"], rgba)}
    sampled |= {name: (ado.gaussian_blur[name], gray) for name in SAMPLED}
    for name, work in sampled.items():
        recorder.attempt(
            f"image_filters-samples-{name}",
            partial(ado.hotspots, *work, seconds=recorder.seconds / 10),
            lambda hotspots: hotspots.lines,
        )
    for name in SAMPLED:
        heat = partial(ado.heatmap, ado.gaussian_blur[name], gray)
        recorder.attempt(f"gaussian_blur-heatmap-{name}", heat)


if __name__ == "__main__":
    run(record, __doc__, seconds=5.0)
