"""Isolated variants: what they may do, how failures are reported, and what reaches the caller."""

import ctypes
import errno
import importlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from charting import H200, Lab
from conftest import run_python

import adokernels as ado
from adokernels.cli.program import main
from adokernels.isolation import process as isolated
from adokernels.isolation import sandbox
from adokernels.isolation.calls import Isolation
from adokernels.measuring import pipeline
from adokernels.measuring.checking import _impossible
from adokernels.model.registry import routines
from adokernels.model.values import Renewal

#: Sources of `mine`, a part of the reason, and the settings of the check.
BROKEN = {
    "exit_7": ("import os\ndef mine(a): os._exit(7)", "ended its process with exit status 7"),
    "exit_0_at_import": ("import os; os._exit(0)", "ended its process with exit status 0"),
    "system_exit": ("def mine(a): raise SystemExit(0)", "it fails with SystemExit: 0"),
    "interrupt": ("def mine(a): raise KeyboardInterrupt", "it fails with KeyboardInterrupt"),
    "segmentation_fault": ("import ctypes\ndef mine(a): ctypes.string_at(8)", "SIGSEGV"),
    "hang": ("def mine(a):\n    while True: pass", "it did not return within"),
    "hang_at_import": ("while True: pass", "it did not return within"),
    "hang_in_text": (
        "class E(Exception):\n def __str__(self):\n  while True: pass\ndef mine(a): raise E",
        "it did not return within",
    ),
    "stopped": (
        "import os, signal\ndef mine(a): os.kill(os.getpid(), signal.SIGSTOP)",
        "it did not return within",
    ),
    "memory": (
        "def mine(a):\n    kept = bytearray(2 << 30)\n    while True: pass",
        "of memory, more than",
    ),
    "memory_in_pieces": (
        "kept = []\ndef mine(a):\n    while True: kept.append(b'x' * (8 << 20))",
        "of memory, more than",
    ),
    "processes": (
        "import os, time\ndef mine(a):\n    for _ in range(8): os.fork()\n    time.sleep(60)",
        "it started more than 64 processes",
    ),
    "processes_of_one_call": (
        """import os, time
def mine(a):
    for _ in range(300):
        if not os.fork(): time.sleep(60)
    return a.T.copy()""",
        "it started more than 64 processes",
    ),
    "threads": (
        """import threading, time
def mine(a):
    threading.stack_size(1 << 16)
    for _ in range(1100): threading.Thread(target=time.sleep, args=[60], daemon=True).start()
    return a.T.copy()""",
        "it started more than 1024 threads",
    ),
    "closed_connection": (
        "import os\ndef mine(a):\n    os.closerange(0, 256)\n    return a.T.copy()",
        "ended its process",
    ),
    "long_text": ("def mine(a): raise ValueError('x' * 10**7)", "ValueError: xxx"),
    "syntax_error": ("def mine(a) return a", "SyntaxError"),
    "library": ("import adokernels\ndef mine(a): return a", "import of adokernels halted"),
}  # fmt: skip
FINE = {
    "closed_streams": "import os, sys\nsys.stdout.close(); os.close(1); os.close(2)\n",
    "flooded_streams": "print('x' * 10**6)\n",
    "no_collection": "import gc\ngc.disable()\n",
    "threads": "import threading\nthreading.Thread(target=print).start()\n",
}
RIGHT = "def mine(a): return a.T.copy()\n"


def check_file(folder, source, *arguments):
    """The exit status and the record of ``adokernels check``."""
    (folder / "mine.py").write_text(source, encoding="utf-8")
    command = ["check", str(folder / "mine.py"), "--routine", "transpose", "--kernel", "mine"]
    command += ["--shape", "30x40", "--json", str(folder / "result.json"), *arguments]
    return main(command), json.loads((folder / "result.json").read_text(encoding="utf-8"))


def children():
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text("ascii")


def comes_true(condition):
    """Wait until a condition is true; False if it is not after a minute."""
    end = time.monotonic() + 60
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def ends(pid):
    return comes_true(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize("name", BROKEN)
def test_a_failure_is_a_verdict_with_a_record(name, tmp_path, capsys, monkeypatch):
    if "memory" in name:
        monkeypatch.setattr(isolated, "_MEMORY", 600 << 20)
    source, reason = BROKEN[name]
    before = children()  # of earlier tests
    seconds = "1" if "did not return" in reason else "60"
    status, record = check_file(tmp_path, source, "--timeout", seconds, "--no-timing")
    assert status == 1
    assert (record["kind"], record["correct"], record["isolated"]) == ("check", False, True)
    assert reason in record["reason"]
    assert "is wrong" in capsys.readouterr().out
    assert children() == before


@pytest.mark.parametrize("name", FINE)
def test_what_a_function_does_to_its_process_does_not_matter(name, tmp_path, capsys):
    status, record = check_file(tmp_path, FINE[name] + RIGHT, "--no-timing")
    assert (status, record["correct"], record["reason"]) == (0, True, "")
    assert capsys.readouterr().out.startswith("transpose[mine] is correct.")


@pytest.mark.parametrize("closed", [(0,), (0, 1), (0, 1, 2)])
def test_the_caller_has_closed_its_standard_streams(closed, tmp_path):
    """The child's own streams then have the numbers of the caller's messages."""
    run_python(
        """
import os, sys
for number in map(int, sys.argv[2]): os.close(number)
import numpy as np, adokernels as ado
found = ado.check(lambda a: a.T.copy(), ado.transpose, np.ones((3, 4)), timed=False)
open(sys.argv[1], "w").write(found.reason or "correct")
""",
        *(str(tmp_path / "verdict"), "".join(map(str, closed))),
    )
    assert (tmp_path / "verdict").read_text() == "correct"


def test_a_pipe_is_no_file_of_a_candidate(tmp_path, capsys):
    os.mkfifo(tmp_path / "mine.py")
    command = ["check", str(tmp_path / "mine.py"), "--routine", "transpose", "--kernel", "mine"]
    assert main(command) == 2
    assert "must be a regular file" in capsys.readouterr().err


def test_a_system_without_proc_is_no_verdict(monkeypatch):
    monkeypatch.setattr(sandbox.os.path, "isdir", lambda _: False)
    with pytest.raises(ado.Unavailable, match="isolation needs /proc"):
        sandbox.Sandbox(1.0, 1e9, on_device="")


def test_a_record_has_times_and_the_verdict(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "measured_machine", lambda *_: None)
    status, record = check_file(tmp_path, RIGHT, "--seconds", "0.02")
    assert status == 0
    assert record["seconds"] > 0
    assert record["ratio"] > 0
    assert record["verdict"] in ("faster", "slower", "same", "unclear")
    assert not record["sweep"]["skipped"]


@pytest.mark.parametrize("last", ["", "os._exit(0)\n"])
def test_orphans_end_with_the_check(last, tmp_path):
    pid = tmp_path / "pid"
    source = (
        "import os, time\n"
        f"pid = {str(pid)!r}\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.symlink(str(os.getpid()), pid)\n"
        "    while True: time.sleep(1)\n"
        "while not os.path.islink(pid): time.sleep(0.01)\n"
    )
    assert check_file(tmp_path, source + last + RIGHT, "--no-timing")[0] == bool(last)
    assert ends(pid.readlink())


def test_the_child_ends_with_its_parent(tmp_path):
    code = (
        "import os, sys, numpy as np, adokernels as ado\n"
        "from adokernels.isolation.calls import Isolation\n"
        "def mine(a): return a.T.copy()\n"
        "with Isolation(60) as isolation:\n"
        "    ladder = isolation.ladder(ado.transpose.with_variants(mine))\n"
        "    call = ladder.problem(np.ones((3, 4)), device='cpu').prepare('mine')\n"
        "    print(call._process._pid, flush=True)\n"
        "    os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ends(done.stdout.strip())


def test_a_closed_sandbox_ends_no_process_with_its_old_number():
    closed = sandbox.Sandbox(5.0, 1e9, on_device="")
    closed.close()
    closed._warden.pid = os.getpid()
    with subprocess.Popen(["sleep", "60"]) as other:
        closed.close()
        alive = other.poll() is None
        other.kill()
    assert alive
    assert not closed._known


def test_a_system_without_access_to_other_processes_is_no_verdict(rng, monkeypatch):
    def copy(*_):
        ctypes.set_errno(errno.ENOSYS)
        return -1

    monkeypatch.setattr(sandbox, "_copier", lambda _: copy)
    with pytest.raises(ado.Unavailable, match="which this system lacks; remedy: isolated=False"):
        ado.check(lambda a: a.T.copy(), ado.transpose, rng.random((3, 4)), timed=False)


def test_a_system_that_does_not_adopt_orphans_is_no_verdict(monkeypatch):
    monkeypatch.setattr(sandbox, "_PR_GET_CHILD_SUBREAPER", -1)
    with pytest.raises(ado.Unavailable, match=r"needs prctl\(PR_SET_CHILD_SUBREAPER\)"):
        sandbox.Sandbox(1.0, 1e9, on_device="")


CTYPES = """
import ctypes
import numpy as np
TYPE = {}
def mine(a):
    assert TYPE
    return a.T.copy()
"""


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("ctypes.POINTER(ctypes.c_double)", True),
        ("ctypes.POINTER(2 * ctypes.c_int)", True),
        ("ctypes.CFUNCTYPE(ctypes.c_int)", False),
    ],
)
def test_types_of_ctypes_are_sent_or_rejected(kind, sent, tmp_path, rng, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "of_ctypes.py").write_text(CTYPES.format(kind))
    monkeypatch.delitem(sys.modules, "of_ctypes", raising=False)
    mine = importlib.import_module("of_ctypes").mine
    how = {"timed": False, "isolated": True}
    if sent:
        assert ado.check(mine, ado.transpose, rng.random((3, 4)), **how)
    else:
        with pytest.raises(TypeError, match="use isolated=False"):
            ado.check(mine, ado.transpose, rng.random((3, 4)), **how)


def test_objects_that_cannot_be_sent_are_rejected(rng):
    lock = threading.Lock()

    def mine(a):
        with lock:
            return a.T.copy()

    with pytest.raises(TypeError, match=r"transpose\[mine\] must be .* use isolated=False"):
        ado.check(mine, ado.transpose, rng.random((3, 4)), timed=False)
    assert ado.check(mine, ado.transpose, rng.random((3, 4)), timed=False, isolated=False)


def test_a_closure_runs_in_another_process(tmp_path, rng):
    path, offset = tmp_path / "pids", rng.random()

    def mine(a, out):
        with path.open("a") as file:
            file.write(f"{os.getpid()} ")
        out[...] = a + offset

    ladder = ado.ladder("shifted", reference=lambda a: a + offset)
    assert ado.check(mine, ladder, rng.random((3, 4)), timed=False)
    (pid,) = set(path.read_text().split())
    assert int(pid) != os.getpid()


def test_functions_of_the_same_name_have_a_process_each(rng):
    a, skipped = rng.random((30, 40)), []
    how = {"variants": ["mine"], "device": "cpu", "seconds": 0.01, "ceilings": False}
    with Isolation(60) as isolation:
        for function in (lambda a: a.T.copy(), lambda a: a.copy()):
            mine = ado.variant(function, name="mine")
            found = ado.sweep(ado.transpose, a, extra=[mine], isolated=isolation, **how)
            skipped.append("mine" in found.skipped)
    assert skipped == [False, True]


@pytest.mark.parametrize("kind", ["padded", "reversed", "broadcast", "empty", "structured"])
def test_operands_have_the_layout_of_the_caller(kind, rng):
    whole = rng.random((64, 96), dtype=np.float32)
    given = {
        "padded": whole[:40, 3:50],
        "reversed": whole[::-1, ::-2],
        "broadcast": np.broadcast_to(whole[0], (30, 96)),
        "empty": whole[:0],
        "structured": np.zeros((5, 6), np.dtype([("x", "i4"), ("y", "i4")])),
    }[kind]
    strides = given.strides

    def mine(a):
        assert a.size < 2 or a.shape[0] in (1, 300) or a.shape != shape or a.strides == strides
        return np.array(a.T, order="C")

    shape = given.shape
    assert ado.check(mine, ado.transpose, given, timed=False), kind


def test_refused_problems_are_counted_and_shown(rng):
    mine = ado.variant(
        lambda a: a.T.copy(), name="mine", refuses=lambda a: "odd" if len(a) % 2 else None
    )
    found = ado.check(mine, ado.transpose, rng.random((4, 6)), timed=False)
    assert found
    assert len(found.refused) >= 5
    assert "It was not checked on" in repr(found)
    assert "a: (31, 33) float64: odd" in repr(found)
    assert ado.records.CheckResult.from_dict(found.to_dict()) == found


def test_renewed_values_keep_sparsity_and_types(rng):
    for kind in ("f2", "f4", "f8", "c8", "c16", "i1", "u2", "i4", "u8", "?", "V3"):
        array = np.frombuffer(rng.bytes(24 * np.dtype(kind).itemsize), kind).copy()
        if kind[0] in "fc":
            array = np.where(rng.random(24) < 0.5, 0, 1).astype(kind)
        found = Renewal.drawn(array, rng, False).of(array)
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
        assert kind[0] not in "fc" or np.count_nonzero(found) == np.count_nonzero(array)
    assert Renewal(2, 0.5, 0).of(np.array([1.0, 0, 4, 8])).tolist() == [2, 4, 0.5, 0]
    assert Renewal(1, 0.5, 7).of(np.array([1, 0, 4], "u1")).tolist() == [7, 3, 6]


@pytest.mark.parametrize("name", routines)
def test_shipped_variants_are_accepted_beside_isolated_ones(name, request, monkeypatch):
    """The isolated variant is the reference, if it does not import this package."""
    monkeypatch.setattr(sysconfig, "get_path", lambda _: "none")  # its code is sent, not its name
    if name not in ("transpose", "gaussian_blur") and not request.config.getoption("exhaustive"):
        pytest.skip("needs --exhaustive")
    quick = {"seconds": 0.01, "cache": "warm", "ceilings": False, "progress": False}
    task = routines[name].task
    mine = ado.variant(task.expected, name="mine")
    operands = task.random_operands(task.sanitizer.shapes[0])
    found = ado.sweep(routines[name], *operands, extra=[mine], device="cpu", isolated=True, **quick)
    why = found.skipped.pop("mine", "")
    assert not found.skipped
    if name != "transpose" and why.startswith("it fails with ModuleNotFoundError"):
        return
    assert not why or why.startswith("it claims"), why  # on a busy machine, its time may be refused


def test_a_process_frees_the_memory_of_problems_that_have_ended(rng):
    def mine(a):
        return a.T.copy()

    a, sizes = rng.random((2000, 3000)), []
    with Isolation(60) as isolation:
        ladder = isolation.ladder(ado.transpose.with_variants(mine))
        for _ in range(5):
            call = ladder.problem(a, device="cpu").prepare("mine")
            call.run()
            sizes.append(sandbox._resident_bytes(call._process._pid))
    assert sizes[-1] < sizes[1] + a.nbytes


def test_processes_are_stopped_between_calls(rng, monkeypatch):
    """A process that is resumed must not start others."""

    def mine(a):
        import os
        import threading
        import time

        def start():
            while True:
                time.sleep(0.01)
                if os.fork() == 0:
                    time.sleep(60)

        threading.Thread(target=start, daemon=True).start()
        return a.T.copy()

    monkeypatch.setattr(sandbox, "_STOPPED_NANOSECONDS", 10**9)
    with Isolation(60) as isolation:
        ladder = isolation.ladder(ado.transpose.with_variants(mine))
        call = ladder.problem(rng.random((3, 4)), device="cpu").prepare("mine")
        call.run()
        process, pid = call._process, call._process._pid
        assert sandbox._states(pid) <= set("tT")
        os.kill(pid, signal.SIGCONT)
        assert comes_true(lambda: set(process._descendants()) - set(process._known))
        os.kill(pid, signal.SIGSTOP)
        assert comes_true(lambda: sandbox._states(pid) <= set("tT"))
        with pytest.raises(sandbox.Broken, match="its processes started others"):
            call.run()
    assert not Path(f"/proc/{pid}").exists()


def test_a_process_may_run_twice_between_calls(rng):
    def mine(a):
        import threading

        def work():
            while True:
                pass

        if threading.active_count() == 1:
            threading.Thread(target=work, daemon=True).start()
        return a.T.copy()

    with Isolation(60) as isolation:
        ladder = isolation.ladder(ado.transpose.with_variants(mine))
        call = ladder.problem(rng.random((3, 4)), device="cpu").prepare("mine")
        call.run()
        process = call._process
        for last in (False, False, True):
            enough = process._processor_times()[process._pid] + 10**6
            os.kill(process._pid, signal.SIGCONT)
            assert comes_true(lambda: process._processor_times()[process._pid] > enough)  # noqa: B023
            process._halt()
            if not last:
                call.run()
        with pytest.raises(sandbox.Broken, match="its processes ran 3 times"):
            call.run()


@pytest.mark.parametrize("cache_bytes", [50e6, 2e9])
def test_times_below_the_floor_are_impossible(cache_bytes):
    """The data sheet limits bytes that no cache holds; otherwise the fastest level does."""
    fields = {"routine": "copy", "variant": "mine", "device": "cuda", "flops": 0, "bytes": 1e9}
    fields |= {"executed_flops": 0, "requested_bytes": 1e9}
    fields["context"] = {"cache_bytes": {"L2": cache_bytes}}
    of_dram = max(c.theoretical or 0 for c in H200.of_kind("bandwidth") if c.level == "DRAM")
    fastest = max(c.measured for c in H200.of_kind("bandwidth"))
    limit = of_dram if cache_bytes < 1e9 else fastest
    assert 0 < of_dram < fastest
    assert not _impossible(Lab().measure(1e9 / limit / 1.15, **fields), H200)
    assert "take at least" in _impossible(Lab().measure(1e9 / limit / 1.25, **fields), H200)
