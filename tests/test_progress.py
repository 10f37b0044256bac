"""The display of progress: what it shows, and where it shows nothing."""

import io
import re
import sys
import threading

import numpy as np
import pytest
from rich.console import Console

import adokernels as ado
from adokernels.measuring import progress
from adokernels.measuring.progress import ProgressDisplay, displayed
from adokernels.measuring.sampling import Sampler, Timing

A = np.arange(64.0 * 48).reshape(64, 48)
QUICK = {"device": "cpu", "cache": "warm", "seconds": 0.01, "ceilings": False}


def terminal(width=120, **options):
    return Console(file=io.StringIO(), width=width, force_terminal=True, **options)


def text_of(console):
    return re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", console.file.getvalue())


@pytest.fixture
def every_update(monkeypatch):
    monkeypatch.setattr(progress, "_INTERVAL", 0.0)


def test_phases_variants_and_budget_are_shown(every_update):
    console = terminal()
    with ProgressDisplay(console=console) as display:
        ado.sweep(ado.transpose, A, variants=["blocked", "simd"], progress=display, **QUICK)
    text = text_of(console)
    phases = ["computing the reference result", "checking blocked", "warming up simd"]
    phases += ["timing", "checking again blocked"]
    places = [text.index(phase) for phase in phases]
    assert places == sorted(places)
    assert "transpose on cpu, warm" in text
    assert re.search(r"timing (blocked|simd).* \d/2 0:\d\d, budget 0:\d\d", text)


@pytest.mark.parametrize(("width", "title"), [(60, "x" * 100), (80, "[bold]\x1b[1m")])
def test_a_line_never_wraps(width, title):
    console = terminal(width)
    with ProgressDisplay(console=console) as display, display.measurement(title):
        for name in display.each("checking", ["y" * 100]):
            assert name == "y" * 100
    assert all(len(line) <= width for line in re.split(r"[\r\n]", text_of(console)))
    assert title == "x" * 100 or "[bold]" in text_of(console)


def sampler(name):
    return Sampler(take=lambda repeats: (1.0, 0.0, True, -1.0), device="cpu", name=name)


def test_what_is_done_increases_during_timing():
    shown = []

    class Recorder(ProgressDisplay):
        def is_due(self):
            return True

        def show(self, name, count, done):
            shown.append((name, count, done))

    display = Recorder(enabled=False)
    samplers = [sampler("a"), sampler("b")]
    Timing("cold", 0, 1e-9).sample(samplers, "cpu", display)
    timed = [each for each in shown if each[0]][2:]  # after the warm-up
    assert {name for name, _, _ in timed} == {"a", "b"}
    assert [done for _, _, done in timed] == sorted(done for _, _, done in timed)
    assert 0 < timed[-1][2] <= 2


@pytest.mark.parametrize(
    "console",
    [lambda: Console(file=io.StringIO()), lambda: terminal(_environ={"TERM": "dumb"})],
    ids=["file", "dumb terminal"],
)
def test_nothing_is_shown_elsewhere(console):
    made = console()
    with ProgressDisplay(console=made) as display, display.measurement("title"):
        assert not display.is_due()
        list(display.each("checking", ["x"]))
    assert made.file.getvalue() == ""


class Handle:
    """Records what IPython.display.display and its handle would show."""

    def __init__(self):
        self.bundles = []

    def display(self, bundle, *, raw, display_id):
        assert raw
        assert display_id
        self.bundles.append(bundle)
        return self

    def update(self, bundle, *, raw):
        assert raw
        self.bundles.append(bundle)


def test_jupyter_needs_no_ipywidgets(monkeypatch, recwarn):
    handle = Handle()
    monkeypatch.setitem(sys.modules, "IPython.display", handle)
    console = Console(file=io.StringIO(), force_jupyter=True)
    with ProgressDisplay(console=console) as display, display.measurement("<b> on cpu"):
        for _ in display.each("checking", ["one", "two"]):
            pass
    texts = [bundle["text/plain"] for bundle in handle.bundles]
    assert any(re.search(r"<b> on cpu +checking two .* 1/2 0:00$", text) for text in texts)
    assert "<b>" not in "".join(bundle["text/html"] for bundle in handle.bundles)
    assert handle.bundles[-1] == {"text/plain": "", "text/html": ""}
    assert not recwarn.list
    assert console.file.getvalue() == ""


def test_no_progress_prints_nothing(capfd, monkeypatch):
    monkeypatch.setattr(progress, "Console", lambda stderr: terminal())
    with displayed(False) as display:
        ado.sweep(ado.transpose, A, variants="simd", progress=display, **QUICK)
    assert display._console.file.getvalue() == ""
    ado.sweep(ado.transpose, A, variants="simd", **QUICK)
    assert capfd.readouterr() == ("", "")


def test_the_terminal_is_restored_after_an_error():
    console = terminal()
    before = set(threading.enumerate())  # other tests leave threads of Dask

    def interrupted():
        with ProgressDisplay(console=console) as display, display.measurement("title"):
            list(display.each("checking", ["x"]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    written = console.file.getvalue()
    assert written.strip("\r").endswith("\x1b[2K\x1b[?25h")  # line removed, cursor shown
    assert set(threading.enumerate()) <= before
