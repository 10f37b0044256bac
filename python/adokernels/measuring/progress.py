"""Display of progress during measurements, in terminals and in Jupyter."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.table import Column
from rich.text import Text

from adokernels.tables.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.progress import Task
    from typing_extensions import Self

T = TypeVar("T")

#: Seconds between updates of the display: by a thread, and between samples.
_INTERVAL = 0.25
_BAR_WIDTH = 20  # characters
_LONGEST = 200  # characters of a title or of the name of a variant


class ProgressDisplay:
    """A line that shows the phase of a measurement, the elapsed time and the budget.

    It is a context manager. The line disappears at its end. Nothing is shown unless the console is
    a terminal, or Jupyter with ipywidgets.

    Parameters
    ----------
    measurements
        The number of sweeps that use this display, one after the other. If it is greater than 1,
        the line begins with the number of the current one: ``"2/12"``.
    console
        Where to show it. Default: standard error.
    enabled
        Whether to show anything.
    """

    def __init__(
        self, *, measurements: int = 1, console: Console | None = None, enabled: bool = True
    ) -> None:
        self._console = console or Console(stderr=True)
        self._shown = enabled and _can_show(self._console)
        self._measurements, self._number = measurements, 0
        self._bar = Progress(
            TextColumn("{task.description}", markup=False, table_column=_shortened(3)),
            TextColumn("{task.fields[doing]}", markup=False, table_column=_shortened(2)),
            BarColumn(_BAR_WIDTH),
            TextColumn("{task.fields[count]}"),
            _Clock(),
            console=self._console,
            transient=True,
            expand=True,
            auto_refresh=False,
            # Otherwise, what a measured function prints to a pipe would appear on this console.
            redirect_stdout=sys.stdout.isatty(),
            disable=not self._shown,
        )
        self._task = self._bar.add_task("", visible=False, doing="", count="", budget=None)
        self._phase, self._items = "", 0
        self._updated = 0.0
        self._closed = threading.Event()
        self._refreshing = threading.Event()  # unset during timing, which a thread would disturb
        self._thread = threading.Thread(target=self._refresh_regularly, daemon=True)

    def __enter__(self) -> Self:
        self._bar.start()
        if self._shown:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        if self._shown:
            self._thread.join()
        self._bar.stop()

    def print(self, *what: Any) -> None:
        """Print above the line; also if the line is not shown."""
        self._console.print(*what)

    @contextmanager
    def measurement(self, title: str) -> Iterator[None]:
        """Show the title, and the time since the start of this measurement."""
        self._number += 1
        if self._measurements > 1:
            title = f"{self._number}/{self._measurements} {title}"
        title = printable(title, _LONGEST)
        empty: dict[str, Any] = {"doing": "", "count": "", "budget": None}
        self._bar.reset(self._task, description=title, visible=True, **empty)
        try:
            yield
        finally:
            self._refreshing.clear()
            self._bar.update(self._task, visible=False)

    def each(self, phase: str, items: Iterable[T], name: Callable[[T], str] = str) -> Iterator[T]:
        """Yield the items, and show the name of each one while the caller works on it."""
        listed = list(items)
        self.phase(phase, len(listed))
        for place, item in enumerate(listed):
            self.show(name(item), place, place)
            yield item

    def phase(self, name: str, items: int = 0) -> None:
        """Begin a phase, of a number of items that :meth:`show` shows."""
        self._begin(name, items, None)
        self.show("", 0, 0)
        self._refreshing.set()

    def begin_timing(self, samplers: int, budget: float) -> None:
        """Begin the phase in which the line is updated only by :meth:`show`.

        Parameters
        ----------
        samplers
            The number of functions that are timed.
        budget
            The upper limit of the sampling time in seconds.
        """
        self._refreshing.clear()
        self._begin("timing", samplers, (self._bar.tasks[0].elapsed or 0.0) + budget)

    def is_due(self) -> bool:
        """Whether the line is shown and was not updated recently."""
        return self._shown and time.monotonic() - self._updated >= _INTERVAL

    def show(self, name: str, count: int, done: float) -> None:
        """Show the current item, how many items are finished, and how much of them is done."""
        doing = printable(f"{self._phase} {name}", _LONGEST)
        counted = f"{count}/{self._items}" if self._items else ""
        self._bar.update(self._task, doing=doing, count=counted, completed=done, refresh=True)
        self._updated = time.monotonic()

    def _begin(self, phase: str, items: int, budget: float | None) -> None:
        self._phase, self._items = phase, items
        self._bar.update(self._task, total=max(items, 1), completed=0, budget=budget)

    def _refresh_regularly(self) -> None:
        """Let the time advance while a reference result or a slow check is computed."""
        while not self._closed.wait(_INTERVAL):
            if self._refreshing.is_set():
                self._bar.refresh()


@contextmanager
def displayed(progress: bool | ProgressDisplay, measurements: int = 1) -> Iterator[ProgressDisplay]:
    """The display of a caller, which starts and stops it, or one for this context."""
    if isinstance(progress, ProgressDisplay):
        yield progress
    else:
        with ProgressDisplay(measurements=measurements, enabled=progress) as display:
            yield display


class _Clock(ProgressColumn):
    """The elapsed time, and the upper limit that is known while variants are timed."""

    max_refresh = None

    def render(self, task: Task) -> Text:
        budget = task.fields["budget"]
        limit = f", budget {_clock(budget)}" if budget is not None else ""
        return Text(_clock(task.elapsed or 0.0) + limit)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _shortened(ratio: int) -> Column:
    return Column(ratio=ratio, no_wrap=True, overflow="ellipsis")


def _can_show(console: Console) -> bool:
    """Whether a line can be updated in place. Without ipywidgets, rich would show a warning."""
    if console.is_jupyter:
        return importlib.util.find_spec("ipywidgets") is not None
    return console.is_terminal and not console.is_dumb_terminal
