"""Display of progress during measurements, in terminals and in Jupyter."""

from __future__ import annotations

import html
import importlib
import io
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from adokernels.code_text import MONOSPACE
from adokernels.process import is_terminal
from adokernels.text import printable

T = TypeVar("T")

#: Seconds between updates of the display: by a thread, and between samples.
_INTERVAL = 0.25
_BAR_WIDTH, _JUPYTER_WIDTH = 20, 96  # characters
_LONGEST = 200  # characters of a title or of the name of a variant


class ProgressDisplay:
    """A line that shows the phase of a measurement, the elapsed time and the budget.

    This is a context manager, which removes the line on exit. The line is shown only if `enabled`,
    and only in a terminal or in Jupyter; by default on standard error. If several `measurements`
    use the display one after another, it begins with the number of the current one: ``"2/12"``.
    """

    def __init__(
        self, *, measurements: int = 1, console: Console | None = None, enabled: bool = True
    ) -> None:
        self._console = console or Console(stderr=True)
        in_jupyter = enabled and self._console.is_jupyter
        in_terminal = self._console.is_terminal and not self._console.is_dumb_terminal
        self._shown = in_jupyter or (enabled and in_terminal)
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
            # Otherwise, a measured function's output to a pipe would appear on this console.
            redirect_stdout=is_terminal(sys.stdout),
            disable=in_jupyter or not self._shown,
        )
        self._output: Any = None  # an output of the current cell that can be replaced
        if in_jupyter:
            display = importlib.import_module("IPython.display").display
            self._output = display(_bundle(""), raw=True, display_id=True)
        self._task = self._bar.add_task("", visible=False, doing="", count="", budget=None)
        self._phase, self._items = "", 0
        self._updated = 0.0
        self._closed = threading.Event()
        # Unset during timing, because updates by the thread would disturb it.
        self._refreshing = threading.Event()
        self._thread = threading.Thread(target=self._refresh_regularly, daemon=True)

    def __enter__(self) -> ProgressDisplay:
        self._bar.start()
        if self._shown:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        if self._shown:
            self._thread.join()
        self._bar.stop()
        if self._output:
            self._output.update(_bundle(""), raw=True)

    def print(self, *what: Any) -> None:
        """Print above the line, or normally if the line is not shown."""
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
        """Yield the items, and show the name of each item while the caller processes it."""
        listed = list(items)
        self.phase(phase, len(listed))
        for place, item in enumerate(listed):
            self.show(name(item), place, place)
            yield item

    def phase(self, name: str, items: int = 0) -> None:
        """Begin a phase with a number of items, which :meth:`show` displays."""
        self._begin(name, items, None)
        self.show("", 0, 0)
        self._refreshing.set()

    def begin_timing(self, samplers: int, budget: float) -> None:
        """Begin the phase in which only :meth:`show` updates the line; `budget` is in seconds."""
        self._refreshing.clear()
        self._begin("timing", samplers, (self._bar.tasks[0].elapsed or 0.0) + budget)

    def is_due(self) -> bool:
        """Whether the line is shown and was not updated recently."""
        return self._shown and time.monotonic() - self._updated >= _INTERVAL

    def show(self, name: str, count: int, done: float) -> None:
        """Show the current item, the number of finished items, and the progress in items."""
        doing = printable(f"{self._phase} {name}", _LONGEST)
        counted = f"{count}/{self._items}" if self._items else ""
        self._bar.update(self._task, doing=doing, count=counted, completed=done)
        self._refresh()
        self._updated = time.monotonic()

    def _begin(self, phase: str, items: int, budget: float | None) -> None:
        self._phase, self._items = phase, items
        self._bar.update(self._task, total=max(items, 1), completed=0, budget=budget)

    def _refresh_regularly(self) -> None:
        """Update the elapsed time while a reference result or a slow check is computed."""
        while not self._closed.wait(_INTERVAL):
            if self._refreshing.is_set():
                self._refresh()

    def _refresh(self) -> None:
        if self._output:
            # ipykernel sets FORCE_COLOR, so the absence of colours is explicit.
            how: dict[str, Any] = {"color_system": None, "force_terminal": False}
            plain = Console(file=io.StringIO(), width=_JUPYTER_WIDTH, force_jupyter=False, **how)
            with plain.capture() as captured:
                plain.print(self._bar.get_renderable())
            self._output.update(_bundle(captured.get().rstrip()), raw=True)
        else:
            self._bar.refresh()


@contextmanager
def displayed(progress: bool | ProgressDisplay, measurements: int = 1) -> Iterator[ProgressDisplay]:
    """Yield the display of the caller, or a new one that is closed at the end of the context."""
    if isinstance(progress, ProgressDisplay):
        yield progress
    else:
        with ProgressDisplay(measurements=measurements, enabled=progress) as display:
            yield display


class _Clock(ProgressColumn):
    """The elapsed time, and during timing its upper limit."""

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


def _bundle(text: str) -> dict[str, str]:
    """The text for Jupyter; rich needs ipywidgets, and leaves "Output()" in a saved notebook."""
    page = f'<pre style="margin:0;{MONOSPACE}">{html.escape(text)}</pre>' if text else ""
    return {"text/plain": text, "text/html": page}
