"""The cache of ceilings: its location, the choice of its folder, and failures."""

import os
import stat
import warnings

import pytest
from charting import H200

from adokernels import cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for the cache that does not exist yet, in a process that has not warned."""
    cache._warn.cache_clear()
    monkeypatch.setenv("ADOKERNELS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def unused(text):
    """Whether nothing is stored and read, with one warning that contains a text."""
    with pytest.warns(UserWarning, match=text) as caught:
        found = stored_and_loaded()
    assert len(caught) == 1
    return found is None


def stored_and_loaded():
    cache.store("a.json", H200)
    return cache.load("a.json")


def test_a_record_is_stored_in_a_private_folder(folder):
    before = os.umask(0)
    try:
        assert stored_and_loaded() == H200
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["a.json"]
    assert cache.load("b.json") is None


def test_reading_creates_no_folder_and_does_not_warn(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.load("a.json") is None
    assert not folder.exists()


@pytest.mark.parametrize("content", ["", "{}", "[" * 100_000])
def test_a_damaged_file_is_not_read(content, folder):
    folder.mkdir()
    (folder / "a.json").write_text(content)
    assert cache.load("a.json") is None


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    cache.store("a.json", H200)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert unused(rf"must belong to this user, got a folder of user {other - 1}")


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_folder_that_others_can_write_is_not_used(mode, folder):
    folder.mkdir()
    folder.chmod(mode)
    assert unused(rf"must not be writable by others, got mode {mode:o}")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("kind", ["link", "dangling", "file"])
def test_the_folder_must_be_a_folder(kind, folder):
    victim = folder.with_name("victim")
    victim.mkdir(0o700)
    if kind == "file":
        folder.write_bytes(b"")
    else:
        folder.symlink_to(victim if kind == "link" else "missing")
    assert unused("must be a folder, not a link or a file")
    assert not list(victim.iterdir())


def test_the_default_folder(folder, monkeypatch):
    monkeypatch.setenv("ADOKERNELS_CACHE", "~/x")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.cache_folder() == folder / "x"
    monkeypatch.delenv("ADOKERNELS_CACHE")
    assert cache.cache_folder() == folder / ".cache" / "adokernels"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert str(cache.cache_folder()) == "/xdg/adokernels"


def test_without_a_home_directory_nothing_is_stored(folder, monkeypatch):
    monkeypatch.delenv("ADOKERNELS_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert unused(r"home directory.*Set ADOKERNELS_CACHE")


def test_a_full_disk_is_no_error(folder, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert unused("No space left")
    assert not list(folder.iterdir())
