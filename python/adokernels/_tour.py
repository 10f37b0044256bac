"""The main job on real input: every rung of every ladder on a photograph and on a large array."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.image
import numpy as np
from matplotlib import cbook
from matplotlib.figure import Figure

import adokernels as ado
from adokernels import _core, _roofline

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

_SECONDS_PER_RUNG = 2.0


def photograph() -> NDArray[np.uint8]:
    """Grace Hopper as matplotlib ships her: (height, width, 3) uint8."""
    path = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    return np.array(matplotlib.image.imread(str(path)))


def run(folder: Path, size: int, console: Console) -> None:
    """Write the tour's pictures, charts, measurements and report into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    photo = photograph()
    console.print(
        f"Transposing a photograph of {photo.shape[1]} x {photo.shape[0]} pixels,"
        " each channel as a matrix of bytes."
    )
    turned = np.stack([ado.transpose(photo[..., c]) for c in range(photo.shape[2])], axis=-1)
    if not np.array_equal(turned, photo.swapaxes(0, 1)):
        raise ValueError("the photograph came out wrong")  # the oracle of this very picture
    picture = folder / "photograph.png"
    _side_by_side(photo, turned, picture)

    large = np.random.default_rng().random((size, size), dtype=np.float32)
    devices = ["cpu"] + ([] if _core.why_no_cuda() else ["cuda"])
    sweeps = []
    for device in devices:
        for name, problem in (("photograph", photo[..., 0].copy()), ("large", large)):
            sweep = ado.sweep(ado.transpose, problem, device=device, seconds=_SECONDS_PER_RUNG)
            console.print(sweep)
            sweep.save(folder / f"transpose-{device}-{name}.json")
            sweeps.append(sweep)
            figure = Figure(figsize=(10, 6), layout="constrained")
            ado.roofline(sweep, ax=figure.add_subplot())
            for suffix in ("png", "svg"):
                _roofline.save(figure, folder / f"roofline-{device}-{name}.{suffix}")

    report = ado.write_report(
        folder / "report.html",
        title="adokernels tour",
        sweeps=sweeps,
        pictures=[("A photograph, and its transpose by the default variant.", picture)],
    )
    for device in devices:
        answers = [s for s in sweeps if s.rungs and s.rungs[0].device == device]
        best = answers[-1].fastest
        gain = answers[-1].rungs[0].seconds / best.seconds
        console.print(
            f"On {best.context['device_name']} the {best.variant} rung takes"
            f" {1e3 * best.seconds:.3g} ms for {best.problem}: {gain:.3g} times faster than the"
            " first rung."
        )
    console.print(f"Open {report.resolve()} in a browser.", soft_wrap=True)


def _side_by_side(photo: NDArray[np.uint8], turned: NDArray[np.uint8], path: Path) -> None:
    figure = Figure(figsize=(9, 5), layout="constrained")
    for ax, image, title in zip(
        figure.subplots(1, 2), (photo, turned), ("photograph", "its transpose"), strict=True
    ):
        ax.imshow(image)
        ax.set_title(f"{title}: {image.shape[0]} rows, {image.shape[1]} columns")
        ax.set_axis_off()
    figure.savefig(path, dpi=120)
