"""The stream of measured functions is the current stream of torch or CuPy."""

import contextlib
import sys
from types import SimpleNamespace

import pytest

import adokernels as ado
from adokernels import _core
from adokernels.measuring.functions import stream_handle


def torch_on(handle, *, initialized=True):
    stream = SimpleNamespace(cuda_stream=handle)
    cuda = SimpleNamespace(is_initialized=lambda: initialized, current_stream=lambda _: stream)
    return SimpleNamespace(cuda=cuda)


def cupy_on(handle):
    stream = SimpleNamespace(ptr=handle)
    return SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda _: stream))


@pytest.fixture
def loaded(monkeypatch):
    """Return a function that replaces the loaded libraries."""
    monkeypatch.setattr(_core, "resolve_device", lambda _: "cuda:0")

    def replace(**libraries):
        for name in ("torch", "cupy"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        for name, library in libraries.items():
            monkeypatch.setitem(sys.modules, name, library)

    return replace


@pytest.mark.parametrize(
    ("libraries", "handle"),
    [
        ({}, 0),
        ({"torch": torch_on(64)}, 64),
        ({"cupy": cupy_on(64)}, 64),
        ({"torch": torch_on(64), "cupy": cupy_on(64)}, 64),
        ({"torch": torch_on(0, initialized=False), "cupy": cupy_on(64)}, 64),
    ],
)
def test_the_current_stream(loaded, libraries, handle):
    loaded(**libraries)
    assert stream_handle(None) == handle


@pytest.mark.parametrize("handles", [(0, 64), (64, 0), (64, 128)])
def test_different_current_streams_are_rejected(loaded, handles):
    """Reject them because either library could launch the work."""
    loaded(torch=torch_on(handles[0]), cupy=cupy_on(handles[1]))
    with pytest.raises(ValueError, match="different current streams; choose one with stream="):
        stream_handle(None)
    assert stream_handle(128) == 128


@contextlib.contextmanager
def current(stream):
    """Make a stream current in CuPy, and in torch if another test has used torch on a GPU.

    Otherwise, the two libraries would have different current streams.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(stream)
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)))
        yield


@pytest.mark.gpu
def test_measurements_on_the_current_stream():
    cupy = pytest.importorskip("cupy")
    x = cupy.ones((4096, 4096), dtype="f4")
    nbytes = 2 * x.nbytes
    default = ado.measure(x.copy, device="cuda", bytes=nbytes, seconds=0.3)
    stream = cupy.cuda.Stream(non_blocking=True)
    with current(stream):
        on_current = ado.measure(x.copy, device="cuda", bytes=nbytes, seconds=0.3)
        named = ado.measure(x.copy, device="cuda", bytes=nbytes, stream=stream, seconds=0.3)
    # On a wrong stream, no work would be timed: it would seem many times as fast as memory.
    for m in (default, on_current, named):
        assert m.bytes_per_second < 5 * ado.machine("cuda").roof
