"""Tests of ado.out_of_core: the blocks of large arrays, and the order of their copies."""

import errno
import math
import os
import re
import subprocess
import sys

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import adokernels as ado
from adokernels.large import stream as streaming
from adokernels.large.stream import SLOTS, image_plan, transpose_plan

FILTERS = ("grayscale", "gaussian_blur", "sobel", "edge_detect")
BORDERS = ("constant", "replicate", "reflect101")


def image(name, rng, images, rows, cols):
    tail = (4,) if name in ("grayscale", "edge_detect") else ()
    return rng.integers(0, 256, (*images, rows, cols, *tail), dtype=np.uint8)


class CopyOnHost:
    """A replacement for PendingCopy that copies as late as possible."""

    def __init__(self, copies, name, to, source):
        self.copies, self.name, self.to, self.source = copies, name, to, source
        copies.log.append(f"begin {name}")
        copies.pending.append(self)

    def wait(self):
        assert self is next(c for c in self.copies.pending if c.name == self.name)
        self.copies.pending.remove(self)
        self.copies.log.append(f"end {self.name}")
        self.to[...] = self.source.reshape(self.to.shape)


class CopiesOnHost:
    """A replacement for BlockCopies that uses NumPy arrays and records the copies."""

    stream = None

    def __init__(self):
        self.log, self.pending, self.bytes, self.closed = [], [], 0, False

    def empty(self, shape, dtype):
        self.bytes += math.prod(shape) * np.dtype(dtype).itemsize
        return np.full(shape, 205).astype(dtype)

    def upload(self, to, source):
        return CopyOnHost(self, "upload", to, source)

    def download(self, sink, from_, first):
        return CopyOnHost(self, "download", sink, from_.reshape(-1)[first : first + sink.size])

    def close(self):
        self.closed = True


@pytest.mark.parametrize("name", FILTERS)
@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(
    images=st.lists(st.integers(1, 3), max_size=2),
    rows=st.integers(1, 40),
    cols=st.integers(1, 12),
    share=st.floats(0.02, 1.2),
    border=st.sampled_from(BORDERS),
    seed=st.integers(0, 2**32 - 1),
    overlapped=st.booleans(),
)
def test_blocks_of_images_have_the_bits_of_one_call(
    name, images, rows, cols, share, border, seed, overlapped
):
    source = image(name, np.random.default_rng(seed), images, rows, cols)
    options = {"border": border} if name == "gaussian_blur" else {}
    if name in ("gaussian_blur", "sobel") and cols in (3, 4):
        options["batch"] = True
    routine = ado.routines[name]
    expected = routine(source, device="cpu", **options)
    smallest = min(rows, 2 * routine.halo + 1) * (source.nbytes + expected.nbytes)
    smallest //= rows * int(np.prod(images))
    memory = SLOTS * max(smallest, int(share * (source.nbytes + expected.nbytes)))
    if not overlapped:
        result = ado.out_of_core(routine, source, memory=memory, device="cpu", **options)
    else:
        plan = streaming._plan(routine, source, memory)
        copies = CopiesOnHost()
        result = np.zeros_like(expected)

        def call(a, **keywords):
            return routine(a, device="cpu", **keywords)

        streaming._overlapped(call, copies, plan, source, result, options)
        assert copies.bytes <= memory
    np.testing.assert_array_equal(result, expected)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    rows=st.integers(1, 300),
    cols=st.integers(1, 300),
    elements=st.integers(1, 100_000),
    dtype=st.sampled_from(["u1", "<f4", ">f8", "c16", "V2"]),
)
def test_tiles_of_matrices_have_the_bits_of_one_call(rows, cols, elements, dtype):
    size = rows * cols * np.dtype(dtype).itemsize
    source = (np.arange(size) % 251).astype(np.uint8).view(dtype).reshape(rows, cols)
    elements = max(elements, min(rows, 64) * min(cols, 64))
    memory = SLOTS * 2 * elements * source.itemsize
    result = ado.out_of_core("transpose", source, memory=memory, device="cpu")
    assert result.tobytes() == source.T.tobytes()


@pytest.mark.parametrize("name", ["gaussian_blur", "sobel", "edge_detect"])
def test_a_smaller_halo_gives_another_result(name, rng):
    routine = ado.routines[name]
    source = image(name, rng, (), 64, 40)
    channels = 4 if name == "edge_detect" else None
    result = np.empty((64, 40), np.uint8)
    for halo in (routine.halo, routine.halo - 1):
        plan = image_plan((), (64, 40), channels, halo, SLOTS * 16 * 40 * ((channels or 1) + 1))
        assert len(plan.blocks) > 3
        streaming._in_turn(routine, plan, source, result, {})
        equal = np.array_equal(result, routine(source, device="cpu"))
        assert equal == (halo == routine.halo)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_copies_overlap(count):
    copies = CopiesOnHost()
    source = np.arange(64 * count * 10, dtype=np.float32).reshape(64 * count, 10)
    plan = transpose_plan(source.shape, 4, SLOTS * 2 * 4 * 640)
    assert len(plan.blocks) == count
    sink = np.empty(source.T.shape, np.float32)

    def call(a, out, stream):
        assert stream is copies.stream
        out[...] = a.T
        copies.log.append("call")

    streaming._overlapped(call, copies, plan, source, sink, {})
    np.testing.assert_array_equal(sink, source.T)
    assert copies.closed
    assert not copies.pending
    log = copies.log
    for name in ("begin upload", "end upload", "call", "begin download", "end download"):
        assert log.count(name) == count
    # Before the host waits for a copy, the next copy in the same direction has begun.
    for at, event in enumerate(log):
        before = log[:at]
        if event == "end upload" and before.count("begin upload") < count:
            assert before.count("begin upload") == before.count("end upload") + 2
        if event == "end download" and before.count("begin download") < count:
            assert before.count("begin download") == before.count("end download") + 2


def test_failed_calls_close_the_copies():
    copies = CopiesOnHost()
    source = np.zeros((640, 10), np.float32)
    plan = transpose_plan(source.shape, 4, SLOTS * 2 * 4 * 640)

    def call(a, out, stream):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        streaming._overlapped(call, copies, plan, source, source.T.copy(), {})
    assert copies.closed


@pytest.mark.parametrize("memory", [41_000, 75_000, 500_000, 5_000_000, 50_000_000])
def test_blocks_keep_within_the_memory(memory):
    shape = (2, 3, 700, 300, 4)
    plan = image_plan((2, 3), (700, 300), 4, 4, memory)
    used = math.prod(plan.source_shape) + math.prod(plan.result_shape)
    assert SLOTS * used <= memory
    most = min(memory, 6 * 700 * 300 * 5 * SLOTS)
    assert used > most / SLOTS / 4  # and use most of it
    for block in plan.blocks:
        assert np.empty(shape, "V0")[block.source].shape == plan.source_shape


@pytest.mark.parametrize("memory", [100_000, 500_000, 50_000_000])
def test_tiles_keep_within_the_memory_and_are_about_square(memory):
    plan = transpose_plan((700, 1300), 4, memory)
    assert SLOTS * 2 * 4 * math.prod(plan.source_shape) <= memory
    rows, cols = plan.source_shape
    assert (rows, cols) == (700, 1300) or (rows % 64 == cols % 64 == 0 and rows <= cols <= 3 * rows)


@pytest.mark.parametrize("name", ["sobel", "transpose"])
def test_the_smallest_memory_that_an_error_names_is_sufficient(name, rng):
    source = image("sobel", rng, (), 200, 300)
    with pytest.raises(ValueError, match=r"^out_of_core: memory must be at least") as error:
        ado.out_of_core(name, source, memory=1, device="cpu")
    memory = int(re.search(r"at least (\d+) bytes", str(error.value))[1])
    result = ado.out_of_core(name, source, memory=memory, device="cpu")
    np.testing.assert_array_equal(result, ado.routines[name](source, device="cpu"))
    with pytest.raises(ValueError, match="at least"):
        ado.out_of_core(name, source, memory=memory - 1, device="cpu")


def test_memory_mapped_files(tmp_path, rng):
    source = np.lib.format.open_memmap(
        tmp_path / "in.npy", mode="w+", dtype=np.uint8, shape=(500, 300, 4)
    )
    source[...] = rng.integers(0, 256, source.shape, dtype=np.uint8)
    source.flush()
    sink = np.lib.format.open_memmap(
        tmp_path / "out.npy", mode="w+", dtype=np.uint8, shape=(500, 300)
    )
    source = np.load(tmp_path / "in.npy", mmap_mode="r")
    assert ado.out_of_core(ado.edge_detect, source, sink, memory="200 KiB", device="cpu") is sink
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), ado.edge_detect(np.array(source)))


FULL_DISK = """
import sys, numpy as np, adokernels as ado
source = np.ones((2000, 1000), np.uint8)
sink = np.memmap(sys.argv[1] + "/sink", np.uint8, "w+", 0, (1000, 2000))
try:
    ado.out_of_core("transpose", source, np.asarray(sink)[:, :], device="cpu")
except OSError as error:
    print(error.errno, error)
small = np.memmap(sys.argv[1] + "/small", np.uint8, "w+", 4096, (500, 1000))
ado.out_of_core("transpose", source[:1000, :500], small, device="cpu")
print((small == 1).all())
"""


def test_a_sink_on_a_full_disk(tmp_path):
    """A file system of 1 MiB and a sparse file of 2 MB: an error instead of SIGBUS."""
    script = f"mount -t tmpfs -o size=1m tmpfs {tmp_path} && exec {sys.executable} - {tmp_path}"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script]
    done = subprocess.run(command, input=FULL_DISK, capture_output=True, text=True, check=False)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip("file systems cannot be mounted here")
    assert done.returncode == 0, done.stderr
    error, correct = done.stdout.splitlines()
    assert error.startswith(f"{errno.ENOSPC} ")
    assert re.search(r"got 2000000 bytes to reserve and \d+ bytes free: No space", error)
    assert correct == "True"


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_that_cannot_reserve(number, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(number, "no")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    sink = np.memmap(tmp_path / "sink", np.uint8, "w+", 0, (30, 20))
    ado.out_of_core("transpose", np.ones((20, 30), np.uint8), sink, device="cpu")
    assert (sink == 1).all()


def test_a_sink_whose_name_belongs_to_another_file(tmp_path):
    sink = np.memmap(tmp_path / "sink", np.uint8, "w+", 0, (300, 200))
    (tmp_path / "sink").unlink()
    (tmp_path / "sink").write_bytes(b"other")
    ado.out_of_core("transpose", np.ones((200, 300), np.uint8), sink, device="cpu")
    assert (sink == 1).all()
    assert (tmp_path / "sink").read_bytes() == b"other"


def test_a_variant_computes_the_blocks(rng):
    a = rng.random((70, 90))
    for variant in ado.transpose.variants:
        if variant.device == "cpu" and not variant.ceiling:
            np.testing.assert_array_equal(ado.out_of_core(variant, a, memory=210_000), a.T)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_empty_arrays(shape):
    assert ado.out_of_core("transpose", np.empty(shape), device="cpu").shape == shape[::-1]


GRAY = np.zeros((40, 30), np.uint8)
OVERLAPPING = np.lib.stride_tricks.as_strided(np.zeros(30, np.uint8), GRAY.shape, (0, 1))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        (("max_plus", GRAY), {}, TypeError, "image filter or transpose, got max_plus"),
        (("sobel", GRAY.tolist()), {}, TypeError, "source must be a NumPy array, got list"),
        (("sobel", GRAY, GRAY.tolist()), {}, TypeError, "sink must be a NumPy array"),
        (("sobel", GRAY, GRAY), {}, ValueError, "must not share memory"),
        (("sobel", GRAY, OVERLAPPING), {}, ValueError, "internal overlap"),
        (("sobel", GRAY, np.ma.masked_array(GRAY)), {}, TypeError, "sink must not be a masked"),
        (("sobel", GRAY), {"device": 3}, TypeError, "device must be a string, got int"),
        (("sobel", GRAY), {"device": "xyz"}, ValueError, "xyz"),
        (("edge_detect", np.zeros((40, 50, 5), np.uint8)), {}, ValueError, "(40, 50, 5)"),
        (("sobel", GRAY, GRAY.astype(int)), {}, ValueError, "sink must have shape"),
        (("sobel", GRAY), {"memory": "8 apples"}, ValueError, "8 apples"),
        (("sobel", GRAY), {"memory": "100 B"}, ValueError, "memory must be at least"),
        (("transpose", GRAY), {"memory": 1}, ValueError, "memory must be at least"),
        (("sobel", GRAY), {"memory": 1.5}, TypeError, "integer or a string"),
        (("sobel", GRAY), {"out": GRAY}, TypeError, "out= is not supported"),
        (("sobel", GRAY.astype(float)), {}, TypeError, "uint8"),
        (("sobel", np.zeros((5, 5, 3), np.uint8)), {}, ValueError, "batch=True"),
        (("gaussian_blur", GRAY), {"border": "mirror"}, ValueError, "mirror"),
        (("sobe", GRAY), {}, KeyError, "sobel"),
    ],
)
def test_errors(arguments, options, error, text):
    with pytest.raises(error, match=re.escape(text)):
        ado.out_of_core(*arguments, **{"device": "cpu", **options})


def test_read_only_sink():
    sink = np.empty_like(GRAY)
    sink.flags.writeable = False
    with pytest.raises(ValueError, match="out_of_core: sink must be writeable"):
        ado.out_of_core("sobel", GRAY, sink, device="cpu")
