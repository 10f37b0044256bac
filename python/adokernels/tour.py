"""``adokernels tour``: edges of a photograph, then ladders on large problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import adokernels as ado
from adokernels import _core
from adokernels.charts.files import closing, save
from adokernels.charts.picture import picture
from adokernels.measuring.progress import ProgressDisplay
from adokernels.model.tasks import TASKS
from adokernels.pictures import photograph, read_image, save_side_by_side
from adokernels.text import number, percent, quantity

#: The ladders of the short tour, with lengths for which a CPU takes a fraction of a second. On a
#: GPU, the default lengths are used.
_SHORT = {"transpose": (2048, 4096), "average_matvec": (128, 256, 256)}
#: Seconds per ladder.
_SECONDS = 4.0
_NEXT_STEPS = """\
A notebook that explains each step: notebooks/01_transpose.ipynb in the repository
A command: adokernels bench transpose --shape 4096x4096 --plot transpose.png
Your own picture: adokernels tour --image FILE"""


def tour(
    folder: Path,
    console: Console,
    *,
    image: Path | None = None,
    size: int | None = None,
    everything: bool = False,
) -> bool:
    """Write pictures, charts, measurements and a report into a folder, which is created.

    The console shows one line per ladder and the progress. Without `image`, the picture is a
    photograph that matplotlib contains. `size` is the upper limit for every length of the ladders.
    `everything` measures every ladder on every device instead of three ladders.

    The result states whether the tour was interrupted; the report then contains the measurements
    until then. KeyboardInterrupt is raised before the first measurement, OSError if the picture
    cannot be read or a file cannot be written, and ValueError if the detected edges are wrong.
    """

    def say(line: str) -> None:
        console.print(line, soft_wrap=True, highlight=False)

    photo = photograph() if image is None else read_image(image)
    folder.mkdir(parents=True, exist_ok=True)
    rows, cols = photo.shape[:2]
    say(f"Detecting edges in a photograph of {cols} x {rows} pixels.")
    edges = folder / "edges.png"
    found = ado.edge_detect(photo)
    if not np.array_equal(found, TASKS["edge_detect"].expected(photo)):
        raise ValueError("edge_detect disagrees with the reference result on this image")
    save_side_by_side({"the photograph": photo, "its edges": found}, edges)
    problems = list(_problems(photo, size, everything=everything))
    # Overwriting a large cache before each sample takes longer than most variants.
    cache: Literal["cold", "warm"] = "cold" if everything else "warm"
    sweeps: list[ado.records.Sweep] = []
    interrupted = False
    with ProgressDisplay(measurements=len(problems), console=console) as display:
        for name, routine, device, operands in problems:
            common: dict[str, Any] = {"device": device, "cache": cache, "seconds": _SECONDS}
            try:
                sweep = ado.sweep(routine, *operands(), progress=display, **common)
                sweeps.append(sweep)
                path = folder / f"{device}-{name}.json"
                sweep.save(path)
                if len(sweep):
                    with closing(picture, sweep) as figure:
                        save(figure, path.with_suffix(".png"), dpi=120)
                say(summary(sweep))
                interrupted = sweep.interrupted
            except KeyboardInterrupt:
                interrupted = True
            if interrupted:
                break
    if not sweeps:
        raise KeyboardInterrupt
    caption = "A photograph and its edges, by the default variant."
    contents: dict[str, Any] = {"sweeps": sweeps, "pictures": [(caption, edges)]}
    report = ado.write_report(folder / "report.html", title="adokernels tour", **contents)
    if interrupted:
        say("Interrupted: the report contains what was measured until then.")
    say(f"\nReport: {report.resolve()}\n")
    say(_NEXT_STEPS)
    return interrupted


def _problems(
    photo: NDArray[np.uint8], size: int | None, *, everything: bool
) -> Iterator[tuple[str, ado.Routine, str, Callable[[], tuple[NDArray[Any], ...]]]]:
    """The ladders to measure: name, routine, device, and a function that makes the operands."""
    devices = ["cpu"] + ([] if _core.why_no_cuda() else ["cuda"])
    for device in devices:
        yield "photograph", ado.edge_detect, device, lambda: (photo,)
    for device in devices if everything else devices[-1:]:
        for name in ado.routines if everything else _SHORT:
            routine = ado.routines[name]
            lengths = tuple(TASKS[name].lengths.values())
            if not everything and device == "cpu":
                lengths = _SHORT[name]
            if size is not None:
                lengths = tuple(min(length, size) for length in lengths)
            if any(v.device == device for v in routine):
                yield name, routine, device, partial(routine.task.random_operands, lengths)


def summary(sweep: ado.records.Sweep) -> str:
    """Describe a sweep in one line: the fastest variant, its time, speed-up and share of the roof.

    For example ``transpose on EPYC 9654: threaded 21.3 ms, 14.5 times as fast as naive_loops, 92 %
    of the roof``. It names the variants that may be as fast as the fastest one.
    """
    if not sweep.variants:
        return f"{sweep.routine}: no variant was measured"
    first, best = sweep.variants[0], sweep.fastest
    lead = f" ({sweep.lead})" if sweep.lead else ""
    parts = [f"{best.variant} {quantity(best.seconds, 's')}{lead}"]
    if best is not first:
        found = best.compare(first)
        gain = f"{number(best.speedup_over(first))} times as fast as {first.variant}"
        parts.append(f"{gain} ({found.verdict}: {found.doubt})" if found.doubt else gain)
    nearest = sweep.nearest_limit(best)
    if nearest and nearest.applies:
        parts.append(f"{percent(nearest.share)} of the {nearest.name}")
    where = best.machine_title or best.device
    return f"{sweep.routine} on {where}: {', '.join(parts)}"
