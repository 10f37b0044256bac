"""``adokernels tour``: edges of a photograph, then every ladder on a large problem."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

import adokernels as ado
from adokernels import _core
from adokernels.arrays.operands import random_operands
from adokernels.arrays.pictures import photograph, read_image, save_side_by_side
from adokernels.charts.files import save
from adokernels.tables.measurements import sweep_tables
from adokernels.tables.rendering import show
from adokernels.tasks import TASKS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

_SECONDS_PER_VARIANT = 1.0


def run(folder: Path, image: Path | None, size: int | None, console: Console) -> None:
    """Write pictures, charts, measurements and a report into `folder`."""
    photo = photograph() if image is None else read_image(image)
    folder.mkdir(parents=True, exist_ok=True)
    rows, cols = photo.shape[:2]
    console.print(f"Detecting edges in a photograph of {cols} x {rows} pixels.")
    edges = ado.edge_detect(photo)
    if not np.array_equal(edges, TASKS["edge_detect"].expected(photo)):
        raise ValueError("edge_detect disagrees with the reference result on this image")
    before_and_after = folder / "edges.png"
    save_side_by_side({"the photograph": photo, "its edges": edges}, before_and_after)

    problems: dict[str, tuple[ado.Routine, tuple[NDArray[Any], ...]]]
    problems = {"photograph": (ado.edge_detect, (photo,))}
    for routine in ado.routines.values():
        usual = TASKS[routine.name].lengths.values()
        lengths = tuple(usual if size is None else (min(length, size) for length in usual))
        problems[routine.name] = (routine, random_operands(routine, lengths))
    devices = ["cpu"] + ([] if _core.why_no_cuda() else ["cuda"])
    sweeps = []
    for device in devices:
        for name, (routine, operands) in problems.items():
            if not any(v.device == device for v in routine):
                continue
            sweep = ado.sweep(routine, *operands, device=device, seconds=_SECONDS_PER_VARIANT)
            show(console, sweep_tables(sweep))
            sweep.save(folder / f"{device}-{name}.json")
            sweeps.append(sweep)
            if not len(sweep):
                continue
            figure = Figure(figsize=(10, 6), layout="constrained")
            ado.roofline(sweep, ax=figure.add_subplot())
            for suffix in ("png", "svg"):
                save(figure, folder / f"{device}-{name}.{suffix}")

    report = ado.write_report(
        folder / "report.html",
        title="adokernels tour",
        sweeps=sweeps,
        pictures=[("A photograph and its edges, by the default variant.", before_and_after)],
    )
    for sweep in sweeps:
        if not sweep.variants:
            continue
        best, first = sweep.fastest, sweep.variants[0]
        console.print(
            f"{sweep.routine} of {best.problem} on {best.context['device_name']}:"
            f" {1e3 * best.seconds:.3g} ms by {best.variant},"
            f" {first.seconds / best.seconds:.3g} times faster than {first.variant}."
        )
    console.print(f"Open {report.resolve()} in a browser.", soft_wrap=True)
