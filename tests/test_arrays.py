"""Arrays of other libraries in host memory, and tests of device arrays without a GPU."""

import ctypes
import gc
import importlib
import sys

import numpy as np
import producers
import pytest
from producers import CUDA, Capsuled, OldProducer, Producer, layouts

import adokernels as ado
from adokernels import _core

A = np.arange(12, dtype=np.float32).reshape(3, 4)
KINDS = {"versioned": Producer, "plain": lambda a, **k: Producer(a, versioned=False, **k)}
KINDS["old"] = OldProducer


@pytest.fixture(autouse=True)
def on_cpu(device_restored):
    ado.settings.device = "cpu"


def assert_released(*tensors):
    gc.collect()
    for tensor in tensors:
        assert tensor.exported == 1
        assert tensor.deleted == 1


# --- Operands and results of producers with DLPack ------------------------------------------------


@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("kind", KINDS)
def test_operands(kind, layout):
    array = layouts()[layout]
    operand = KINDS[kind](array)
    result = ado.transpose(operand)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, array.T)
    assert_released(operand)


@pytest.mark.parametrize("layout", [name for name in layouts() if name != "broadcast"])
@pytest.mark.parametrize("kind", KINDS)
def test_results(kind, layout):
    array = layouts()[layout]
    target = np.zeros_like(array, subok=False)
    target = np.lib.stride_tricks.as_strided(
        np.zeros(200, np.float32)[100:], array.shape, array.strides
    )
    out = KINDS[kind](target)
    source = np.random.default_rng(0).random(array.shape[::-1], np.float32)
    assert ado.transpose(source, out=out) is out
    np.testing.assert_array_equal(target, source.T)
    assert_released(out)


def test_several_operands_and_results():
    big, small = Producer(np.ones((3, 5))), OldProducer(np.arange(3.0))
    out = Producer(np.zeros(5))
    assert ado.max_plus(big, small, out=out) is out
    np.testing.assert_array_equal(out.array, np.full(5, 3.0))
    assert_released(big, small, out)


def test_overlap_is_exact():
    square = np.arange(16, dtype=np.float32).reshape(4, 4)
    expected = square[::2].T.copy()
    out = Producer(square[1::2].reshape(2, 4))  # interleaved with the operand
    ado.transpose(Producer(square[::2, :2]), out=Producer(square[1::2, :2]))
    np.testing.assert_array_equal(square[1::2, :2], expected[:2])
    with pytest.raises(ValueError, match="out overlaps a"):
        ado.transpose(Producer(square[:2]), out=Producer(square[1:].reshape(4, 3)[:, :2]))
    both = Producer(square), Producer(square)
    before = square.copy()
    ado.transpose(both[0], out=both[1])
    np.testing.assert_array_equal(square, before.T)
    assert out.exported == 0


def test_strides_may_be_missing():
    operand = Producer(A, strides=None)
    np.testing.assert_array_equal(ado.transpose(operand), A.T)
    assert_released(operand)


def with_strides(array, strides):
    """Return a producer whose tensor has these strides, in elements."""
    strides = (ctypes.c_int64 * len(strides))(*strides)
    operand = Producer(array, strides=ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)))
    operand.strides = strides  # keeps the memory alive
    return operand


@pytest.mark.parametrize("dtype", ["i1", "i2", "f4", "f8", "c16"])
def test_negative_strides_after_an_unsigned_division(dtype):
    """CuPy exports negative strides in this form."""
    array = np.arange(12).reshape(3, 4).astype(dtype)[::-1, ::-2]
    strides = [stride % 2**64 // array.itemsize for stride in array.strides]
    np.testing.assert_array_equal(ado.transpose(with_strides(array, strides)), array.T)
    out = np.zeros((3, 4), dtype)[::-1, ::-2]
    ado.transpose(np.ascontiguousarray(array.T), out=with_strides(out, strides))
    np.testing.assert_array_equal(out, array)


@pytest.mark.parametrize("stride", [2**61, 2**62, -(2**62), 2**62 - 2**60])
def test_impossible_strides(stride):
    operand = with_strides(A, (stride, 1))
    with pytest.raises(ValueError, match=f"invalid stride: {stride} elements in dimension 0"):
        ado.transpose(operand)
    assert_released(operand)


def test_byte_offset():
    operand = Producer(A, data=A.ctypes.data - 24, byte_offset=24)
    np.testing.assert_array_equal(ado.transpose(operand), A.T)


def test_no_deleter():
    operand = Producer(A)
    operand.has_deleter = False
    np.testing.assert_array_equal(ado.transpose(operand), A.T)


def test_host_arguments_keep_the_memory_alive():
    operand = Producer(A)
    problem = ado.transpose.problem(operand, device="cpu")
    host = problem.host_arguments[0]
    del problem
    assert operand.deleted == 0
    np.testing.assert_array_equal(host, A)
    assert not host.flags.writeable
    del host
    assert_released(operand)


def test_arguments_of_dlpack():
    operand, old = Producer(A), OldProducer(A)
    ado.transpose(operand)
    ado.transpose(old)
    assert operand.requests == [{"max_version": (1, 3)}]
    assert old.requests == [{"stream": None}]


# --- Element types --------------------------------------------------------------------------------

BFLOAT16, FLOAT8 = (producers.BFLOAT, 16, 1), (producers.FLOAT8_E4M3FN, 8, 1)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "f2", "i4", "f4", "u8", "f8", "c8", "c16"])
def test_types_of_numpy(dtype):
    array = np.frombuffer(bytes(range(96)), np.uint8)[: 6 * np.dtype(dtype).itemsize]
    array = (array % 2 if dtype == "?" else array).view(dtype).reshape(2, 3)
    result = ado.transpose(Producer(array))
    assert result.dtype == array.dtype
    assert result.tobytes() == array.T.tobytes()


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT8, (producers.COMPLEX, 32, 1)], ids=str)
def test_types_that_numpy_lacks(dtype):
    array = np.arange(6, dtype=f"u{dtype[1] // 8}").reshape(2, 3)
    out = Producer(np.zeros_like(array.T), dtype=dtype)
    ado.transpose(Producer(array, dtype=dtype), out=out)
    np.testing.assert_array_equal(out.array, array.T)
    with pytest.raises(TypeError, match=r"out must have the type of a, .*, got uint"):
        ado.transpose(Producer(array, dtype=dtype), out=np.zeros_like(array.T))


def test_results_of_types_that_numpy_lacks():
    operand = Producer(np.arange(6, dtype=np.uint16).reshape(2, 3), dtype=BFLOAT16)
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(TypeError, match="no type bfloat16 for the result; pass out="):
            ado.transpose(operand)
        return
    result = ado.transpose(operand)
    assert result.dtype == ml_dtypes.bfloat16
    assert result.tobytes() == operand.array.T.tobytes()


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ((producers.INT, 4, 1), "int4"),
        ((producers.FLOAT, 32, 4), "float32x4"),
        ((producers.HANDLE, 64, 1), "handle64"),
        ((17, 4, 1), "float4_e2m1fn"),
        ((17, 8, 1), "float4_e2m1fn"),  # DLPack has 4 bits
        ((15, 8, 1), "float6_e2m3fn"),  # DLPack has 6 bits
        ((producers.FLOAT8_E4M3FN, 16, 1), "float8_e4m3fn"),
        ((99, 12, 1), "type 99"),
    ],
)
def test_unsupported_types(dtype, name):
    operand = Producer(A, dtype=dtype)
    with pytest.raises(TypeError, match=rf"a must have scalar numbers .* got {name}$"):
        ado.transpose(operand)
    assert_released(operand)


def test_types_that_the_routine_rejects():
    operand = Producer(np.zeros((3, 4), np.float32), dtype=(producers.BFLOAT, 32, 1))
    with pytest.raises(TypeError, match="gray must have elements of type uint8, got bfloat32"):
        ado.sobel(operand)
    assert_released(operand)


# --- Errors ---------------------------------------------------------------------------------------


def test_read_only():
    operand = Producer(A, flags=producers.READ_ONLY)
    np.testing.assert_array_equal(ado.transpose(operand), A.T)
    out = Producer(np.zeros((4, 3), np.float32), flags=producers.READ_ONLY)
    with pytest.raises(ValueError, match="out must be writable, got a read-only array"):
        ado.transpose(A, out=out)
    assert_released(operand, out)


def test_out_that_is_exported_as_a_copy():
    out = Producer(np.zeros((4, 3), np.float32), flags=producers.COPIED)
    with pytest.raises(ValueError, match="out must be exported without a copy"):
        ado.transpose(A, out=out)
    assert_released(out)


def test_deleters_are_called_after_errors():
    for bad, error, message in [
        (Producer(np.zeros((3, 4), np.float32)), ValueError, "out"),  # not the shape of a.T
        (Producer(np.zeros((4, 3))), TypeError, "out must have the type of a, float32"),
        (Producer(np.zeros((4, 3, 1), np.float32)), ValueError, "out"),
        (Producer(A, version=(2, 0)), TypeError, r"DLPack 1\.x, got DLPack 2\.0"),
    ]:
        good = Producer(A)
        with pytest.raises(error, match=message):
            ado.transpose(good, out=bad)
        assert_released(good, bad)


def test_malformed_shapes():
    lengths = (ctypes.c_int64 * 2)(2**40, 2**40)
    huge = Producer(A, shape=ctypes.cast(lengths, ctypes.POINTER(ctypes.c_int64)))
    with pytest.raises(ValueError, match="a has an invalid shape: dimension 1"):
        ado.transpose(huge)
    many = Producer(np.zeros((1,) * 9))
    with pytest.raises(ValueError, match="a has 9 dimensions, more than 8"):
        ado.transpose(many)
    assert_released(huge, many)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": None}, "a has elements, but its address is null"),
        ({"shape": None}, "a has 2 dimensions without a shape"),
        ({"ndim": -1}, "a has -1 dimensions"),
        ({"ndim": -(2**31)}, "a has -2147483648 dimensions"),
        ({"byte_offset": 2**63}, "a begins outside of memory, at the offset 9223372036854775808"),
        ({"byte_offset": 2**46}, "a begins outside of memory, at the offset"),
        ({"byte_offset": 2**64 - 2**40}, "a begins outside of memory, at the offset"),
    ],
)
def test_malformed_tensors_are_refused_before_their_memory_is_read(changes, message):
    producer = Producer(A, **changes)
    with pytest.raises(ValueError, match=message):
        ado.transpose(producer)
    assert_released(producer)


def test_empty_tensors_need_no_address():
    empty = Producer(np.zeros((0, 3), np.float32), data=None)
    assert ado.transpose(empty).shape == (3, 0)
    assert_released(empty)


def test_capsules():
    producer = Producer(A)
    capsule = producer.capsule()
    np.testing.assert_array_equal(ado.transpose(Capsuled(capsule)), A.T)
    with pytest.raises(
        TypeError, match="must return an unused capsule with a tensor, got <capsule"
    ):
        ado.transpose(Capsuled(capsule))
    with pytest.raises(TypeError, match="must return an unused capsule with a tensor, got 7"):
        ado.transpose(Capsuled(7))
    assert_released(producer)


def test_devices():
    with pytest.raises(TypeError, match=r"a must be in host memory or on a CUDA device, got .* 8"):
        ado.transpose(Capsuled(None, device=(8, 0)))
    pinned = Producer(A)
    pinned.device = (3, 0)
    np.testing.assert_array_equal(ado.transpose(pinned), A.T)


def test_mixed_devices():
    small = Producer(np.zeros(3))
    small.device = (2, 1)
    with pytest.raises(ValueError, match=r"one device, but small is on cuda:1 and .* are on cpu"):
        ado.max_plus(np.zeros((3, 4)), small)
    assert small.exported == 0


class Refusing:
    """An object that cannot be exported with DLPack, but can be converted to a NumPy array."""

    def __init__(self, error):
        self.error = error

    def __dlpack_device__(self):
        return producers.CPU

    def __dlpack__(self, **keywords):
        raise self.error

    def __array__(self, dtype=None, copy=None):
        return A


def test_errors_of_producers():
    np.testing.assert_array_equal(ado.transpose(Refusing(BufferError("no"))), A.T)
    with pytest.raises(BufferError, match="no"):
        ado.transpose(A, out=Refusing(BufferError("no")))
    with pytest.raises(RuntimeError, match="broken"):
        ado.transpose(Refusing(RuntimeError("broken")))


# --- Export ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 9), (2, 0)])
@pytest.mark.parametrize("layout", layouts())
def test_numpy_reads_exported_arrays(layout, max_version):
    array = layouts()[layout].copy()[:, ::-1]
    capsule = _core.host_capsule(array, max_version)
    assert ("versioned" in repr(capsule)) == (max_version is not None and max_version[0] >= 1)
    before = sys.getrefcount(array)
    taken = np.from_dlpack(Capsuled(capsule))
    np.testing.assert_array_equal(taken, array)
    if array.size:
        assert taken.ctypes.data == array.ctypes.data
    del taken, capsule
    assert sys.getrefcount(array) == before - 1


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_unused_capsules_release_the_array(max_version):
    array = A.copy()
    before = sys.getrefcount(array)
    capsule = _core.host_capsule(array, max_version)
    assert sys.getrefcount(array) == before + 1
    del capsule
    assert sys.getrefcount(array) == before


def test_own_capsules_are_operands():
    array = A.copy()
    for max_version in (None, (1, 0)):
        capsule = _core.host_capsule(array, max_version)
        np.testing.assert_array_equal(ado.transpose(Capsuled(capsule)), A.T)
    with pytest.raises(ValueError, match="out must be exported without a copy"):
        ado.transpose(A.T, out=Capsuled(_core.host_capsule(array, (1, 0), copied=True)))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_types_of_ml_dtypes_are_exported(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.ones((2, 3), getattr(ml_dtypes, name))
    result = ado.transpose(Capsuled(_core.host_capsule(array)))
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result, array.T)


@pytest.mark.parametrize("dtype", ["M8[s]", ">f4", "S4", "V4", "f4,i4", "g"])
def test_types_that_dlpack_lacks(dtype):
    with pytest.raises(BufferError, match="DLPack has no type for elements of"):
        _core.host_capsule(np.zeros((2, 2), dtype))


def test_fields_of_records_are_not_exported():
    field = np.zeros((2, 3), [("a", "u1"), ("b", "f4")])["b"]
    with pytest.raises(BufferError, match="whole elements, got a stride of 15 bytes"):
        _core.host_capsule(field)
    np.testing.assert_array_equal(ado.transpose(Capsuled(_core.host_capsule(field[:1, :1]))), 0)


# --- Libraries ------------------------------------------------------------------------------------


class TestTorch:
    @pytest.fixture(autouse=True)
    def torch(self):
        self.torch = pytest.importorskip("torch")

    def test_operands_and_results(self):
        a = self.torch.arange(6).reshape(2, 3).to(self.torch.bfloat16)
        out = self.torch.zeros(3, 2).to(self.torch.bfloat16)
        assert ado.transpose(a, out=out) is out
        assert self.torch.equal(out, a.T)

    def test_lazy_tensors_are_rejected(self):
        a = self.torch.ones(2, 3, dtype=self.torch.complex64) * 1j
        with pytest.raises(BufferError, match="conjugate"):
            ado.transpose(a.conj())
        with pytest.raises(TypeError, match="a is conjugated or negated lazily"):
            ado.transpose(a.conj().imag)
        with pytest.raises(BufferError, match="require gradient"):
            ado.transpose(self.torch.ones(2, 3, requires_grad=True))
        np.testing.assert_array_equal(ado.transpose(a.imag), np.ones((3, 2)))


class TestJax:
    @pytest.fixture(autouse=True)
    def jax(self):
        self.jnp = pytest.importorskip("jax.numpy")
        jax = importlib.import_module("jax")
        self.on_host = jax.device_put(A, jax.devices("cpu")[0])

    def test_operands(self):
        np.testing.assert_array_equal(ado.transpose(self.on_host), A.T)
        a = self.on_host.astype(self.jnp.bfloat16)
        assert ado.transpose(a).dtype == a.dtype

    def test_out_is_rejected(self):
        with pytest.raises(ValueError, match="out must be writable, got a JAX array"):
            ado.transpose(A, out=self.jnp.zeros((4, 3)))


# --- Streams and devices --------------------------------------------------------------------------


class WithProtocol:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


class WithProperty:
    __cuda_stream__ = (0, 77)


def with_attribute(name, value):
    return type("Stream", (), {name: value})()


class Pointer:
    def __init__(self, value):
        self.value = value


def test_handles_of_streams():
    for stream, handle in [
        *[(0, 0), (1, 1), (2**63, 2**63), (WithProtocol(9), 9), (WithProperty(), 77)],
        *[(with_attribute("cuda_stream", 11), 11), (with_attribute("ptr", 12), 12)],
        (with_attribute("handle", Pointer(13)), 13),
        (with_attribute("handle", Pointer(None)), 0),
    ]:
        assert _core.stream_handle(stream) == handle
    for stream in (True, 1.5, "1", object(), A):
        with pytest.raises(TypeError, match="stream must be a handle or a stream object, got"):
            _core.stream_handle(stream)
    with pytest.raises(ValueError, match="stream must be a stream handle, got -1"):
        _core.stream_handle(-1)


def test_calls_on_the_cpu_reject_streams():
    with pytest.raises(ValueError, match="transpose: stream must be None for a call on the CPU"):
        ado.transpose(A, stream=0)
    with pytest.raises(TypeError, match="stream must be a handle"):
        ado.transpose(A, stream="fast")
    np.testing.assert_array_equal(ado.transpose(A, stream=None), A.T)


@pytest.mark.parametrize(
    "name", ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1.5", "cuda:+1", "CPU"]
)
def test_names_of_devices(name):
    message = rf"device must be 'cpu', 'cuda', 'cuda:N' or 'emulator', got '{name}'".replace(
        "+", r"\+"
    )
    for call in (
        lambda: ado.transpose(A, device=name),
        lambda: setattr(ado.settings, "device", name),
        lambda: ado.machine(name),
        lambda: ado.to_device(A, device=name),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.skipif(not _core.why_no_cuda(), reason="there is a CUDA device")
def test_arrays_on_a_device_without_a_gpu():
    on_device = Producer(A)
    on_device.device = CUDA
    interface = {"shape": (3, 4), "typestr": "<f4", "data": (4096, False), "version": 3}
    for operand in (on_device, with_attribute("__cuda_array_interface__", interface)):
        with pytest.raises(ado.Unavailable, match=_core.why_no_cuda()):
            ado.transpose(operand)
    assert on_device.exported == 0


def test_malformed_cuda_array_interfaces():
    def refused(error, match, **changes):
        interface = {"shape": (3, 4), "typestr": "<f4", "data": (4096, False), "version": 3}
        interface = {k: v for k, v in (interface | changes).items() if v is not ...}
        with pytest.raises(error, match=match):
            ado.transpose(with_attribute("__cuda_array_interface__", interface))

    refused(TypeError, "must have the entry 'typestr'", typestr=...)
    refused(TypeError, "must have the entry 'data'", data=...)
    refused(TypeError, "integers in 'shape', got", shape=("a",))
    refused(TypeError, "lengths of at least 0, got -3", shape=(-3, 4))
    refused(TypeError, "one stride per dimension", strides=(4,))
    refused(ValueError, "shape: dimension 1 has", shape=(2**40, 2**40), strides=(0, 0))
    refused(ValueError, "stride: .* bytes in dimension 0", strides=(2**62, 4))
    refused(ValueError, "stride: .* bytes in dimension 1", strides=(2**61, 2**61))
    refused(TypeError, "masked array", mask=A)
    refused(TypeError, "references to Python objects", typestr="|O8")
    refused(ValueError, "9 dimensions, more than 8", shape=(1,) * 9)
    with pytest.raises(TypeError, match="must have the type dict, got int"):
        ado.transpose(with_attribute("__cuda_array_interface__", 5))
    refused(TypeError, "an address and a bool in 'data', got 5", data=5)
    refused(TypeError, "an address and a bool in 'data', got .'4096', False", data=("4096", False))
    refused(TypeError, "integers in 'shape', got int", shape=5)


@pytest.mark.parametrize("device", [None, 5, ("cpu", 0), (1,)])
def test_malformed_dlpack_devices(device):
    producer = Producer(A)
    producer.device = device
    with pytest.raises(TypeError, match="a: __dlpack_device__ must return two integers, got "):
        ado.transpose(producer)
