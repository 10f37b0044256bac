"""The cache of ceilings: whose files are read, which are removed, and where they are."""

import json
import os
import stat
import warnings

import pytest
from charting import make_transpose
from conftest import run_python

import adokernels as ado
from adokernels import cache
from adokernels.measuring import machine as machines
from adokernels.measuring import paying_off

MOST = 1 << 20


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for the cache that does not exist yet, in a process that has not warned."""
    monkeypatch.setattr(cache, "_warned", [])
    monkeypatch.setenv("ADOKERNELS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def fast_ceilings(monkeypatch):
    """Ceilings are 1 GB/s or 1 GFLOP/s, without a measurement."""

    def measure(device, case):
        return ado.records.Ceiling(
            kind=case.kind, level=case.level, operation=case.operation, measured=1e9
        )

    monkeypatch.setattr(machines, "_measure", measure)


def write_and_read():
    cache.write("a.json", b"ours")
    return cache.read("a.json", MOST)


def unused(text, action=write_and_read):
    """Whether nothing is stored and read by an action, with one warning that contains a text."""
    with pytest.warns(UserWarning, match=text) as caught:
        found = action()
    (warning,) = caught
    assert warning.filename == __file__
    return found is None


def test_a_file_is_stored_in_a_private_folder(folder):
    before = os.umask(0)
    try:
        cache.write("a.json", b"ours")
    finally:
        os.umask(before)
    assert cache.read("a.json", MOST) == b"ours"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "a.json").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["a.json"]
    assert cache.read("a.json", 3) is None
    assert cache.read("b.json", MOST) is None


def test_reading_creates_no_folder_and_does_not_warn(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.read("a.json", MOST) is None
    assert not folder.exists()


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    folder.mkdir(0o700)
    (folder / "a.json").write_bytes(b"planted")
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert unused(rf"must belong to this user, got a folder of user {other - 1}")
    assert (folder / "a.json").read_bytes() == b"planted"


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_folder_that_others_can_write_is_not_used(mode, folder):
    folder.mkdir()
    folder.chmod(mode)
    assert unused(rf"must not be writable by others, got mode {mode:o}")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("kind", ["link", "dangling", "file", "fifo"])
def test_the_folder_must_be_a_folder(kind, folder):
    victim = folder.with_name("victim")
    victim.mkdir(0o700)
    if kind == "file":
        folder.write_bytes(b"")
    elif kind == "fifo":
        os.mkfifo(folder)
    else:
        folder.symlink_to(victim if kind == "link" else "missing")
    assert unused("must be a folder, not a link or a file")
    assert not list(victim.iterdir())


def test_links_in_the_folder_are_not_followed(folder):
    folder.mkdir(0o700)
    victim = folder.with_name("victim")
    victim.write_bytes(b"precious")
    (folder / "a.json").symlink_to(victim)
    assert cache.read("a.json", MOST) is None
    cache.write("a.json", b"ours")
    assert victim.read_bytes() == b"precious"
    assert not (folder / "a.json").is_symlink()
    assert cache.read("a.json", MOST) == b"ours"


def test_a_fifo_does_not_block(folder):
    folder.mkdir(0o700)
    os.mkfifo(folder / "a.json")
    assert cache.read("a.json", MOST) is None  # opening it waited for ever
    cache.write("a.json", b"ours")
    assert cache.read("a.json", MOST) == b"ours"


def planted(path, **stats):
    """A function like os.fstat that reports other values for the files of a folder."""
    real, inode = os.fstat, path.stat().st_ino

    def fstat(descriptor):
        found = real(descriptor)
        if found.st_ino != inode:
            return found
        values = {n: getattr(found, n) for n in ("st_mode", "st_uid", "st_ino")}
        return type("Stat", (), values | stats)()

    return fstat


@pytest.mark.parametrize("how", ["owner", "mode"])
def test_planted_ceilings_are_measured_again(how, folder, fast_ceilings, monkeypatch):
    ado.machine("cpu")
    (path,) = folder.iterdir()
    record = json.loads(path.read_text())
    for ceiling in record["ceilings"]:
        ceiling["measured"] *= 1000
    path.write_text(json.dumps(record))
    assert ado.machine("cpu").roof == 1e12
    if how == "mode":
        path.chmod(0o666)
    else:
        monkeypatch.setattr(os, "fstat", planted(path, st_uid=os.geteuid() + 1))
    assert ado.machine("cpu").roof == 1e9


def test_without_a_home_directory_nothing_is_stored(folder, fast_ceilings, monkeypatch):
    monkeypatch.delenv("ADOKERNELS_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)

    def measure_twice():
        assert ado.machine("cpu").roof == 1e9
        assert ado.machine("cpu").roof == 1e9

    assert unused(r"the user has no home directory\. Set ADOKERNELS_CACHE", measure_twice)


@pytest.mark.parametrize("name", ["ADOKERNELS_CACHE", "XDG_CACHE_HOME"])
def test_variables_suffice_without_a_home_directory(name, folder, monkeypatch):
    def fail(path):
        raise AssertionError("expanduser must not be called")

    monkeypatch.delenv("ADOKERNELS_CACHE")
    monkeypatch.setenv(name, str(folder))
    monkeypatch.setattr(os.path, "expanduser", fail)
    cache.write("a.json", b"ours")
    found = folder if name == "ADOKERNELS_CACHE" else folder / "adokernels"
    assert (found / "a.json").read_bytes() == b"ours"


def test_the_default_folder(folder, monkeypatch):
    monkeypatch.delenv("ADOKERNELS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(folder))
    assert cache.cache_folder() == folder / ".cache" / "adokernels"
    monkeypatch.setenv("ADOKERNELS_CACHE", "~/x")
    assert cache.cache_folder() == folder / "x"


def test_a_full_disk_is_no_error(folder, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert unused("No space left")
    assert not list(folder.iterdir())


def test_all_caches_are_in_one_folder(folder, monkeypatch):
    monkeypatch.setattr(paying_off, "device_name", lambda _: "NVIDIA H200")
    paying_off.store(ado.records.Scan(routine="transpose", sweeps=(make_transpose(),)), "cuda:0")
    (path,) = folder.iterdir()
    assert path.name.startswith("scan-transpose-")
    path.write_bytes(b"{}")
    assert paying_off._stored_break_even("transpose", "cuda:0") is None


def test_the_warning_is_shown_at_the_line_of_the_user(folder):
    folder.write_bytes(b"")
    code = "import adokernels as ado\nado.machine('cpu')\nado.machine('cpu')\n"
    small = (
        "from dataclasses import replace; from adokernels.measuring import machine; "
        "first = next(machine._cases('cpu')); machine._SAMPLES = 3; "
        "machine._cases = lambda device: [replace(first, bytes=8 << 20)]"
    )
    code = (
        f"import sys, io; {small}\nsys.stderr = io.StringIO()\n{code}print(sys.stderr.getvalue())"
    )
    shown = run_python(code, ADOKERNELS_CACHE=str(folder))
    assert shown.startswith("<string>:4: UserWarning: adokernels stores no ceilings")
    assert shown.count("UserWarning") == 1
