"""Two memory maps of one file share memory at different addresses."""

import mmap
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import pytest

import adokernels as ado

VALUES = np.arange(512 * 600, dtype=np.float32).reshape(512, 600)


@pytest.fixture
def path(tmp_path):
    VALUES.tofile(tmp_path / "values")
    return tmp_path / "values"


def mapped(path, mode="r+", first=0, rows=512):
    return np.memmap(path, np.float32, mode, 4 * 600 * first, (rows, 600))


def plain_map(path):
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


VIEWS = {
    "memmap": mapped,
    "asarray": lambda path: np.asarray(mapped(path)),
    "slice": lambda path: np.asarray(mapped(path)[:, ::-1])[::-1],
    "reshaped": lambda path: mapped(path).reshape(-1)[:].reshape(512, 600).view(np.ndarray),
    "frombuffer": lambda path: np.frombuffer(plain_map(path), np.float32).reshape(512, 600),
    "memoryview": lambda path: np.asarray(memoryview(plain_map(path)).cast("f")).reshape(512, 600),
}


@pytest.mark.parametrize("view", VIEWS)
def test_an_operand_and_out_that_map_one_file(path, view):
    for operand, out in ((VIEWS[view](path), mapped(path)), (mapped(path), VIEWS[view](path))):
        with pytest.raises(ValueError, match="transpose: out must not map the same part of a file"):
            ado.transpose(operand, out=out.T)
    np.testing.assert_array_equal(np.fromfile(path, np.float32), VALUES.reshape(-1))


@pytest.mark.parametrize("first", [0, 1, 100, 127])
def test_parts_of_files_that_overlap(path, first):
    """Maps begin at pages, so parts that only share a page are separate."""
    operand = mapped(path, first=0, rows=128)
    with pytest.raises(ValueError, match="the same part of a file"):
        ado.transpose(operand, out=mapped(path, first=first, rows=128).T)
    out = mapped(path, first=128, rows=128).T
    np.testing.assert_array_equal(ado.transpose(operand, out=out), VALUES[:128].T)


def test_private_maps(path):
    """Writes to a private map do not reach the file; a private operand reads what reaches it."""
    out = mapped(path, "c").T
    np.testing.assert_array_equal(ado.transpose(mapped(path), out=out), VALUES.T)
    np.testing.assert_array_equal(mapped(path), VALUES)
    with pytest.raises(ValueError, match="the same part of a file"):
        ado.transpose(mapped(path, "c"), out=mapped(path).T)


def test_maps_of_other_files_and_of_no_file(path, tmp_path):
    VALUES.tofile(tmp_path / "other")
    for out in (
        mapped(tmp_path / "other").T,
        np.frombuffer(mmap.mmap(-1, VALUES.nbytes), np.float32).reshape(600, 512),
    ):
        np.testing.assert_array_equal(ado.transpose(mapped(path), out=out), VALUES.T)
    hard_link = tmp_path / "link"
    hard_link.hardlink_to(path)
    with pytest.raises(ValueError, match="the same part of a file"):
        ado.transpose(mapped(path), out=mapped(hard_link).T)


def test_one_map_in_place(path):
    square = np.memmap(path, np.float32, "r+", 0, (512, 512))
    expected = square.T.copy()
    np.testing.assert_array_equal(ado.transpose(square, out=square), expected)


def test_shared_memory_attached_twice():
    first = SharedMemory(create=True, size=VALUES.nbytes)
    try:
        second = SharedMemory(first.name)
        operand = np.ndarray((512, 600), np.float32, first.buf)
        out = np.ndarray((600, 512), np.float32, second.buf)
        with pytest.raises(ValueError, match="the same part of a file"):
            ado.transpose(operand, out=out)
        del operand, out
        second.close()
    finally:
        first.close()
        first.unlink()


def test_out_of_core_refuses_two_maps_of_one_file(path):
    with pytest.raises(ValueError, match="sink must not share memory with source"):
        ado.out_of_core("transpose", mapped(path), mapped(path).T, device="cpu")
