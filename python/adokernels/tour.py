"""``adokernels tour``: edges of a photograph, then ladders on large problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import adokernels as ado
from adokernels import _core
from adokernels.charts.drawing import closing
from adokernels.charts.files import save
from adokernels.charts.picture import picture
from adokernels.measuring.progress import ProgressDisplay
from adokernels.model.operands import random_operands
from adokernels.model.tasks import TASKS
from adokernels.pictures import photograph, read_image, save_side_by_side
from adokernels.text import NO_LIMIT, number, percent, quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from rich.console import Console

    Operands = tuple[NDArray[Any], ...]

#: The ladders of the short tour, with lengths for which a CPU takes a fraction of a second. On a
#: GPU, the default lengths are used.
_SHORT = {"transpose": (2048, 4096), "average_matvec": (128, 256, 256)}
#: Maximum sampling time per variant in seconds.
_SECONDS = 0.25
_NEXT_STEPS = """\
A notebook that explains each step: notebooks/01_transpose.ipynb in the repository
A command: adokernels bench transpose --shape 4096x4096 --plot transpose.png
Your own picture: adokernels tour --image FILE"""


@dataclass(frozen=True)
class _Case:
    """A ladder to measure; `make` returns its operands."""

    name: str
    routine: ado.Routine
    device: str
    make: Callable[[], Operands]


class Tour:
    """Writes pictures, charts, measurements and a report into a folder.

    Parameters
    ----------
    folder
        The folder, which is created if it does not exist.
    console
        The console that shows one line per ladder and the progress.
    size
        The upper limit for every length of the ladders.
    everything
        Whether to measure every ladder on every device, not only two.
    """

    def __init__(
        self, folder: Path, console: Console, *, size: int | None = None, everything: bool = False
    ) -> None:
        self._folder, self._console = folder, console
        self._size, self._everything = size, everything
        self._sweeps: list[ado.Sweep] = []

    def run(self, image: Path | None = None) -> bool:
        """Run the tour on a picture file, by default on a photograph that matplotlib contains.

        Returns
        -------
        bool
            Whether the tour was interrupted. The report then contains the measurements until then.

        Raises
        ------
        OSError
            If the picture cannot be read, or a file cannot be written.
        ValueError
            If the detected edges differ from the reference result.
        KeyboardInterrupt
            If the tour was interrupted before the first measurement.
        """
        photo = photograph() if image is None else read_image(image)
        self._folder.mkdir(parents=True, exist_ok=True)
        edges = self._save_edges(photo)
        interrupted = self._measure(photo)
        if not self._sweeps:
            raise KeyboardInterrupt
        report = ado.write_report(
            self._folder / "report.html",
            title="adokernels tour",
            sweeps=self._sweeps,
            pictures=[("A photograph and its edges, by the default variant.", edges)],
        )
        if interrupted:
            self._print("Interrupted: the report contains what was measured until then.")
        self._print(f"\nReport: {report.resolve()}\n")
        self._print(_NEXT_STEPS)
        return interrupted

    def _save_edges(self, photo: NDArray[np.uint8]) -> Path:
        rows, cols = photo.shape[:2]
        self._print(f"Detecting edges in a photograph of {cols} x {rows} pixels.")
        edges = ado.edge_detect(photo)
        if not np.array_equal(edges, TASKS["edge_detect"].expected(photo)):
            raise ValueError("edge_detect disagrees with the reference result on this image")
        path = self._folder / "edges.png"
        save_side_by_side({"the photograph": photo, "its edges": edges}, path)
        return path

    def _measure(self, photo: NDArray[np.uint8]) -> bool:
        """Measure each ladder and print its line; return whether it was interrupted."""
        problems = list(self._problems(photo))
        # Overwriting a large cache before each sample takes longer than most variants.
        cache: Literal["cold", "warm"] = "cold" if self._everything else "warm"
        with ProgressDisplay(measurements=len(problems), console=self._console) as display:
            for problem in problems:
                try:
                    sweep = ado.sweep(
                        problem.routine,
                        *problem.make(),
                        device=problem.device,
                        cache=cache,
                        seconds=_SECONDS,
                        progress=display,
                    )
                    self._keep(sweep, f"{problem.device}-{problem.name}")
                except KeyboardInterrupt:
                    return True
                if sweep.interrupted:
                    return True
        return False

    def _problems(self, photo: NDArray[np.uint8]) -> Iterator[_Case]:
        devices = ["cpu"] + ([] if _core.why_no_cuda() else ["cuda"])
        for device in devices:
            yield _Case("photograph", ado.edge_detect, device, lambda: (photo,))
        for device in devices if self._everything else devices[-1:]:
            for name in ado.routines if self._everything else _SHORT:
                routine = ado.routines[name]
                lengths = tuple(TASKS[name].lengths.values())
                if not self._everything and device == "cpu":
                    lengths = _SHORT[name]
                if self._size is not None:
                    lengths = tuple(min(length, self._size) for length in lengths)
                if any(v.device == device for v in routine):
                    yield _Case(name, routine, device, partial(random_operands, routine, lengths))

    def _keep(self, sweep: ado.Sweep, name: str) -> None:
        """Save a sweep and its chart, and print its line."""
        self._sweeps.append(sweep)
        sweep.save(self._folder / f"{name}.json")
        if len(sweep):
            with closing(picture, sweep) as figure:
                save(figure, self._folder / f"{name}.png", dpi=120)
        self._print(summary(sweep))

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, highlight=False)


def summary(sweep: ado.Sweep) -> str:
    """Describe a sweep in one line: the fastest variant, its time, speed-up and share of the roof.

    For example ``transpose on EPYC 9654: threaded 21.3 ms, 14.5 times as fast as naive_loops, 92 %
    of the roof``.
    """
    if not sweep.variants:
        return f"{sweep.routine}: no variant was measured"
    first, best = sweep.variants[0], sweep.fastest
    parts = [f"{best.variant} {quantity(best.seconds, 's')}"]
    if best is not first:
        verdict = best.compare(first).verdict
        gain = f"{number(best.speedup_over(first))} times as fast as {first.variant}"
        parts.append(gain if verdict == "faster" else f"{gain} ({verdict})")
    share = sweep.share_of_roof(best)
    if share is not None and share <= NO_LIMIT:
        parts.append(f"{percent(share)} of the roof")
    where = best.machine_title or best.device
    return f"{sweep.routine} on {where}: {', '.join(parts)}"
