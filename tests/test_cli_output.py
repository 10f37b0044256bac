"""The command line and the library with a standard output that fails, or does not exist."""

import io
import json
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
import pytest
from charting import make_transpose

import adokernels as ado
from adokernels import cli
from adokernels.charts import files
from adokernels.measuring.progress import ProgressDisplay

BENCH = ["bench", "transpose", "--shape", "8x8", "--json"]


def closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


def closed_file():
    stream = io.StringIO()
    stream.close()
    return stream


class OnlyWrites:
    """A stream with one method, as programs with a window use it."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


STREAMS = {
    "closed pipe": closed_pipe,
    "closed": closed_file,
    "none": lambda: None,
    "without isatty": OnlyWrites,
    "ascii": lambda: io.TextIOWrapper(io.BytesIO(), encoding="ascii"),
}


every_stream = pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)


@contextmanager
def replaced(name, stream):
    """Replace a stream of sys in a test; pytest would replace it again after a fixture."""
    before = getattr(sys, name)
    setattr(sys, name, stream)
    try:
        yield
    finally:
        setattr(sys, name, before)
        with suppress(AttributeError, OSError):
            stream.close()


@pytest.fixture
def measured(monkeypatch):
    """A stored sweep instead of a measurement."""
    sweep = make_transpose()
    monkeypatch.setattr(ado, "sweep", lambda *_, **__: sweep)
    return sweep


@every_stream
def test_a_command_ends_with_its_usual_status(make, measured, tmp_path, capfd):
    store = tmp_path / "t.json"
    with replaced("stdout", make()):
        assert cli.main([*BENCH, str(store)]) == 0
    assert ado.load(store) == measured
    assert not capfd.readouterr().err


@pytest.mark.usefixtures("measured")
def test_an_ascii_terminal_gets_replacements(tmp_path):
    screen = io.BytesIO()
    with replaced("stdout", io.TextIOWrapper(screen, encoding="ascii")):
        assert cli.main([*BENCH, str(tmp_path / "t.json")]) == 0
        text = screen.getvalue().decode("ascii")
    assert "padded" in text
    assert "?s" in text  # µs


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_full_disk_is_an_error_after_the_result_is_stored(
    interrupted, tmp_path, capfd, monkeypatch
):
    store, measured = tmp_path / "t.json", replace(make_transpose(), interrupted=interrupted)
    monkeypatch.setattr(ado, "sweep", lambda *_, **__: measured)
    with replaced("stdout", open("/dev/full", "w")):
        assert cli.main([*BENCH, str(store)]) == 2
    assert ado.load(store) == measured
    expected = "adokernels: standard output: No space left on device\n"
    assert capfd.readouterr().err == expected


@every_stream
def test_errors_without_standard_error(make):
    with replaced("stderr", make()):
        assert cli.main(["list", "transpsoe"]) == 2


def test_results_are_stored_before_they_are_printed(measured, tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError

    monkeypatch.setattr("adokernels.tables.measurements.sweep_tables", fails)
    with pytest.raises(RuntimeError):
        cli.main([*BENCH, str(tmp_path / "t.json")])
    assert ado.load(tmp_path / "t.json") == measured


@pytest.mark.parametrize("failing", ["json", "chart"])
def test_results_are_printed_if_they_cannot_be_stored(failing, tmp_path, capsys, monkeypatch):
    sweep = make_transpose()

    def fails(*_, **__):
        raise OSError("no space")

    monkeypatch.setattr(ado, "sweep", lambda *_, **__: sweep)
    if failing == "json":
        monkeypatch.setattr(type(sweep), "save", fails)
    else:
        monkeypatch.setattr(files, "save", fails)
    store = tmp_path / "t.json"
    assert cli.main([*BENCH, str(store), "--plot", str(tmp_path / "t.png")]) == 2
    captured = capsys.readouterr()
    assert "padded" in captured.out
    assert "no space" in captured.err
    assert (f"wrote{store}" in "".join(captured.out.split())) is (failing == "chart")


@pytest.mark.parametrize(
    ("shell", "status", "message"),
    [
        ('"$0" -m adokernels list transpose | true; exit ${PIPESTATUS[0]}', 0, ""),
        ('"$0" -m adokernels list transpose >&-', 0, ""),
        (
            '"$0" -m adokernels list transpose >/dev/full',
            2,
            "standard output: No space left on device",
        ),
        (
            '"$0" -m adokernels list --json >/dev/full',
            2,
            "standard output: No space left on device",
        ),
        ('"$0" -m adokernels --help >/dev/full', 2, "standard output: No space left on device"),
        ('"$0" -m adokernels --help | true; exit ${PIPESTATUS[0]}', 0, ""),
        ('PYTHONIOENCODING=ascii "$0" -m adokernels list transpose >/dev/null', 0, ""),
    ],
)
def test_the_program_in_a_shell(shell, status, message):
    command = ["bash", "-c", shell, sys.executable]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    assert done.returncode == status
    assert done.stderr == (f"adokernels: {message}\n" if message else "")


#: Prints from Python, C and another process, and writes to the file descriptors.
PRINTS = """
import ctypes, os, subprocess, sys
def prints():
    print("python")
    sys.__stdout__.write("kept ")
    ctypes.CDLL(None).printf(b"libc\\n")
    os.write(1, b"descriptor\\n")
    try:
        os.write(2, b"error\\n")
    except OSError:
        pass
    subprocess.run(["echo", "process"])
    return 1
"""


@pytest.mark.parametrize("capture", ["capsys", "capfd"])
@pytest.mark.parametrize("command", ["compare", "check"])
def test_standard_output_has_only_json_if_the_code_prints(capture, command, request, tmp_path):
    words = ["compare", "prints()", "1", "--setup", PRINTS, "--seconds", "0", "--json"]
    if command == "check":
        file = tmp_path / "own.py"
        own = "own = ado.ladder('own', reference=np.sqrt, problems=lambda rng: [(np.ones(3),)])"
        code = f"import numpy as np\nimport adokernels as ado\n{PRINTS}\nprints()\n{own}\n"
        file.write_text(f"{code}own.variant(np.sqrt, name='sqrt')\n")
        words = [*f"check {file} --ladder own --no-timing --json".split()]
    captured = request.getfixturevalue(capture)
    assert cli.main(words) == 0
    print("after")
    out, err = captured.readouterr()
    assert json.loads(out.removesuffix("after\n"))["schema"] == 2
    assert "python" in err
    if capture == "capfd":
        assert all(word in err for word in ("kept", "libc", "descriptor", "process"))


def test_standard_output_of_the_program_has_only_json_if_the_code_prints():
    words = ["-m", "adokernels", "compare", "prints()", "1", "--setup", PRINTS, "--seconds", "0"]
    for closed in ("", "2>&-"):
        command = ["bash", "-c", f'"$0" "$@" {closed}', sys.executable, *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        assert json.loads(done.stdout)["kind"] == "comparison"
        assert ("libc" in done.stderr) is (not closed)


@every_stream
def test_the_library_needs_no_standard_output(make):
    """Reprs of code ask whether it is a terminal, and so does the display of progress."""
    a, quick = np.arange(6.0).reshape(2, 3), {"seconds": 0, "ceilings": False}
    with replaced("stdout", make()):
        assert "transpose" in repr(ado.transpose["naive_loops"].source)
        found = ado.sweep(ado.transpose, a, variants="simd", device="cpu", **quick)
        assert "simd" in repr(found)


@every_stream
def test_the_library_needs_no_standard_error(make):
    with replaced("stderr", make()), ProgressDisplay(enabled=True) as display:
        display.phase("checking")
