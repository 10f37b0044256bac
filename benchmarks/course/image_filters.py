"""Records the data of notebooks/02_image_filters.ipynb beyond the stored ladders, on a GPU.

The image has the size of the GTC 2015 talk.

* image_filters-application.json: the host time of each step of the application: copy the photograph
  to the device, run the naive variant of each filter, copy the edges back. The steps are the peers
  of a CPU variant of the whole pipeline.
* image_filters-samples-pipeline.json: samples of the warps of all three kernels.
* image_filters-samples-VARIANT.json: samples of the warps of variants of the Gaussian.

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
#: Before and after the step to coalesced loads, and with the tile in shared memory.
SAMPLED = ("naive", "coalesced", "shared")
STEPS = ("copy to the device", "grayscale", "gaussian_blur", "sobel", "copy to the host")
WHOLE = "all steps"


def steps_of(rgba: Any) -> dict[str, Callable[[], Any]]:
    """The steps of the application on a GPU; each returns after the GPU has finished."""
    photo, gray = ado.to_device(rgba), ado.to_device(rgba[..., 0].copy())
    blurred, edges = (ado.to_device(rgba[..., 0].copy()) for _ in range(2))

    def to_device() -> None:
        photo.copy_from(rgba)
        ado.synchronize()

    def filtered(routine: Any, source: Any, result: Any) -> Callable[[], None]:
        def run() -> None:
            routine(source, variant="naive", out=result)
            ado.synchronize()

        return run

    def to_host() -> None:
        edges.numpy()

    filters = (
        filtered(ado.grayscale, photo, gray),
        filtered(ado.gaussian_blur, gray, blurred),
        filtered(ado.sobel, blurred, edges),
    )
    steps = dict(zip(STEPS, (to_device, *filters, to_host), strict=True))

    def application() -> Any:
        for step in list(steps.values())[:-1]:
            step()
        return edges.numpy()

    return {**steps, WHOLE: application}


def application(seconds: float) -> ado.records.Sweep:
    """Time the steps; the result of all steps is checked."""
    rgba = np.random.default_rng(7).integers(0, 256, (*SHAPE, 4), np.uint8)
    cpu = [v.name for v in ado.edge_detect if v.device == "cpu" and not v.ceiling]
    return ado.sweep(
        ado.edge_detect, rgba, device="cpu", variants=cpu[-1:], peers=steps_of(rgba),
        seconds=seconds, ceilings=False, progress=False,
    )  # fmt: skip


def records(seconds: float) -> dict[str, Callable[[], Any]]:
    """The functions that make the records, by name."""
    gray = np.random.default_rng(7).integers(0, 256, SHAPE, np.uint8)
    rgba = np.random.default_rng(7).integers(0, 256, (*SHAPE, 4), np.uint8)
    found: dict[str, Callable[[], Any]] = {
        "application": lambda: application(seconds),
        "samples-pipeline": lambda: ado.hotspots(
            ado.edge_detect["pipeline_naive"], rgba, seconds=seconds
        ),
    }
    for name in SAMPLED:
        found[f"samples-{name}"] = partial(
            ado.hotspots, ado.gaussian_blur[name], gray, seconds=seconds
        )
    return found


def is_complete(record: Any) -> bool:
    """Whether a sweep has all steps, or hot spots have lines."""
    if isinstance(record, ado.records.Sweep):
        return {p.variant for p in record.peers} == {*STEPS, WHOLE}
    return bool(record.lines)


def record(recorder: Recorder) -> None:
    """Make the records."""
    for name, make in records(recorder.seconds).items():
        recorder.attempt(f"image_filters-{name}", make, is_complete)


if __name__ == "__main__":
    run(record, __doc__, seconds=0.5)
