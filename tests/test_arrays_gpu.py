"""Arrays of other libraries in the memory of a GPU: no copies, streams, several GPUs, staging."""

import gc
import importlib.util
import threading

import numpy as np
import producers
import pytest
from conftest import cuda_variants, on_gpus, run_python, tuple_of
from producers import Capsuled, Producer

import adokernels as ado
from adokernels import _core
from adokernels.model.compiler import why_no_compiler

pytestmark = pytest.mark.gpu

#: About two seconds: much longer than any delay of the host that other processes cause.
SPIN_CYCLES = 4_000_000_000


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"{name} is not installed")


class Cupy:
    """Functions to make and read arrays of a library, and to use its streams.

    `overwrite` allocates memory, which may be freed memory of the library, and fills it with ones.
    """

    has_steps = has_negative_steps = can_write = True

    def __init__(self):
        self.library = cupy = module("cupy")
        spin = cupy.RawKernel(
            """extern "C" __global__ void spin(long long cycles) {
                 long long start = clock64();
                 while (clock64() - start < cycles) {}
               }""",
            "spin",
        )
        self.array, self.host, self.taken = cupy.asarray, cupy.asnumpy, cupy.from_dlpack
        self.pointer = lambda array: array.data.ptr
        self.streams = {
            "default": lambda: cupy.cuda.Stream.null,
            "per-thread": lambda: cupy.cuda.Stream.ptds,
            "non-blocking": lambda: cupy.cuda.Stream(non_blocking=True),
        }
        self.using = lambda stream: stream
        self.sleep = lambda: spin((1,), (1,), (np.int64(SPIN_CYCLES),))
        self.idle = lambda stream: stream.done
        self.overwrite = lambda shape, dtype: [cupy.ones(shape, dtype) for _ in range(8)]

    def stream(self, kind):
        return self.streams[kind]()


class Torch(Cupy):
    has_negative_steps = False

    def __init__(self):
        self.library = torch = module("torch")
        if not torch.cuda.is_available():
            pytest.skip("torch sees no GPU")
        self.array = lambda host: torch.from_numpy(np.array(host)).cuda()
        self.host = lambda array: array.cpu().numpy()
        self.pointer, self.taken = torch.Tensor.data_ptr, torch.from_dlpack
        self.streams = {
            "default": torch.cuda.default_stream,
            "per-thread": lambda: torch.cuda.ExternalStream(2),
            "non-blocking": torch.cuda.Stream,
        }
        self.using, self.idle = torch.cuda.stream, torch.cuda.Stream.query
        self.sleep = lambda: torch.cuda._sleep(SPIN_CYCLES)

    def overwrite(self, shape, dtype):
        dtype = getattr(self.library, np.dtype(dtype).name)
        return [self.library.ones(shape, dtype=dtype, device="cuda") for _ in range(8)]


class Jax:
    has_steps = has_negative_steps = can_write = False

    def __init__(self):
        jax = module("jax")
        try:
            device = jax.devices("gpu")[0]
        except RuntimeError:
            pytest.skip("JAX sees no GPU")
        self.array = lambda host: jax.device_put(np.ascontiguousarray(host), device)
        self.host, self.taken = np.asarray, jax.dlpack.from_dlpack
        self.pointer = lambda array: array.unsafe_buffer_pointer()


class Numba:
    has_steps = can_write = True
    has_negative_steps = False

    def __init__(self):
        cuda = module("numba.cuda")
        self.array = lambda host: cuda.to_device(np.ascontiguousarray(host))
        self.host = lambda array: array.copy_to_host()
        self.pointer = lambda array: array.__cuda_array_interface__["data"][0]
        self.taken = cuda.as_cuda_array


LIBRARIES = {"cupy": Cupy, "torch": Torch, "jax": Jax, "numba": Numba}
_made = {}


def library_named(name):
    if name not in _made:
        _made[name] = LIBRARIES[name]()
    return _made[name]


@pytest.fixture(params=LIBRARIES)
def library(request):
    return library_named(request.param)


@pytest.fixture(params=["cupy", "torch"])
def streaming(request):
    return library_named(request.param)


@pytest.fixture(autouse=True)
def first_gpu_is_current():
    """JAX leaves the last GPU current when it starts."""
    if importlib.util.find_spec("torch"):
        torch = module("torch")
        if torch.cuda.device_count() > 1:
            torch.cuda.set_device(0)


@pytest.fixture(autouse=True)
def finished(first_gpu_is_current):
    yield
    ado.synchronize()
    gc.collect()


LAYOUTS = {
    "contiguous": lambda a: a,
    "rows": lambda a: a[:, 3:40],
    "sliced": lambda a: a[::2, 1::3],
    "transposed": lambda a: a.T,
    "offset": lambda a: a.reshape(-1)[3 : 3 + 40 * 60].reshape(40, 60),
    "empty": lambda a: a[:0],
    "one column": lambda a: a[:, 5:6],
    "negative": lambda a: a[::-1, ::-2],
}


def view(library, layout):
    """Return an array of the library, and its values."""
    if layout != "contiguous" and not library.has_steps:
        pytest.skip("the arrays of this library are packed")
    if layout == "negative" and not library.has_negative_steps:
        pytest.skip("this library has no negative strides")
    if layout == "transposed" and isinstance(library, Numba) and not hasattr(np, "row_stack"):
        pytest.skip("numba-cuda transposes with a kernel, whose compiler needs numpy.row_stack")
    base = np.arange(50 * 60, dtype=np.float32).reshape(50, 60)
    return LAYOUTS[layout](library.array(base)), LAYOUTS[layout](base)


# --- Operands and results -------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands(library, layout):
    array, values = view(library, layout)
    result = ado.transpose(array)
    assert type(result) is ado.DeviceArray
    assert result.device == "cuda:0"
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result.numpy(), values.T)
    np.testing.assert_array_equal(library.host(array), values)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results(library, layout):
    out, values = view(library, layout)
    source = np.random.default_rng(0).random(values.shape[::-1], np.float32)
    if not library.can_write:
        with pytest.raises(ValueError, match=r"out must be writable, got a (read-only|JAX) array"):
            ado.transpose(ado.to_device(source), out=out)
        return
    pointer = library.pointer(out)
    assert ado.transpose(ado.to_device(source), out=out) is out
    assert library.pointer(out) == pointer
    ado.synchronize()
    np.testing.assert_array_equal(library.host(out), source.T)


@pytest.mark.parametrize(("routine", "variant"), on_gpus(cuda_variants()))
def test_every_variant_writes_only_its_result(routine, variant):
    """Results between guards in device memory, at an aligned address and one element later."""
    cupy = library_named("cupy").library
    from adokernels.model.tasks import TASKS

    guard, sentinel = 512, 0xA5
    for lengths in TASKS[routine.name].sanitizer.shapes:
        operands = [cupy.asarray(a) for a in routine.task.random_operands(lengths)]
        if routine.problem(*operands, variant=variant).why_not(variant):
            continue
        expected = [result.numpy() for result in tuple_of(routine(*operands, variant=variant))]
        for shift in (0, 1):
            memory = [cupy.full(2 * guard + e.nbytes, sentinel, np.uint8) for e in expected]
            firsts = [guard + shift * e.itemsize for e in expected]
            places = [slice(i, i + e.nbytes) for i, e in zip(firsts, expected, strict=True)]
            outs = tuple(
                whole[place].view(e.dtype).reshape(e.shape)
                for whole, place, e in zip(memory, places, expected, strict=True)
            )
            declined = ""
            try:
                routine(*operands, variant=variant, out=outs if len(outs) > 1 else outs[0])
            except ValueError as error:  # why_not() above does not examine out
                declined = str(error)
            if declined:
                assert declined.startswith(f"{routine.name}[{variant}]: ")
                continue
            for out, whole, place, e in zip(outs, memory, places, expected, strict=True):
                np.testing.assert_allclose(cupy.asnumpy(out), e, rtol=1e-5, atol=1e-4)
                found = cupy.asnumpy(whole)
                found[place] = sentinel
                assert (found == sentinel).all(), f"{lengths}: memory around the result was written"


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "f2", "i4", "f4", "u8", "f8", "c8", "c16"])
def test_types(library, dtype):
    if isinstance(library, Jax) and np.dtype(dtype).itemsize >= 8 and dtype != "c8":
        pytest.skip("JAX has no 64-bit types by default")
    values = np.arange(12).reshape(3, 4).astype(dtype)
    result = ado.transpose(library.array(values))
    assert result.dtype == values.dtype
    np.testing.assert_array_equal(result.numpy(), values.T)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_that_numpy_lacks(dtype):
    torch = library_named("torch").library
    a = torch.arange(12, device="cuda").reshape(3, 4).to(getattr(torch, dtype))
    result = ado.transpose(a)
    assert dtype in repr(result)
    taken = torch.from_dlpack(result)
    assert taken.dtype == a.dtype
    assert torch.equal(taken.view(torch.uint8), a.T.contiguous().view(torch.uint8))
    out = torch.empty_like(taken)
    assert ado.transpose(a, out=out) is out
    assert torch.equal(out.view(torch.uint8), taken.view(torch.uint8))
    with pytest.raises(TypeError, match=rf"out must have the type of a, .*{dtype}, got"):
        ado.transpose(a, out=torch.empty(4, 3, dtype=torch.int16, device="cuda"))


def test_sweep_and_check_of_device_operands(streaming):
    array, values = view(streaming, "sliced")
    sweep = ado.sweep(ado.transpose, array, seconds=0.01, ceilings=False, progress=False)
    names = [m.variant for m in sweep]
    assert {"naive", "tiled"} <= set(names)
    problem = ado.transpose.problem(array)
    assert (problem.device, problem.device_id) == ("cuda", "cuda:0")
    np.testing.assert_array_equal(problem.host_arguments[0], values)


def test_values_of_strided_operands_are_checked():
    cupy = library_named("cupy").library

    operands = [cupy.asarray(a) for a in ado.gpp.task.random_operands((8, 12, 16, 2))]
    names = [p.name for p in ado.gpp.parameters if p.role == "input"]
    occ = names.index("occ")
    wide = cupy.zeros((operands[occ].size, 3))
    operands[occ] = wide[:, 1]
    ado.gpp(*operands)
    wide[2, 1] = 2.0
    with pytest.raises(ValueError, match=r"gpp: occ\[2\] must be from 0 to 1, got 2"):
        ado.gpp(*operands)


# --- Results for other libraries ------------------------------------------------------------------


def test_libraries_read_results(library):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    result = ado.transpose(ado.to_device(values))
    taken = library.taken(result)
    assert library.pointer(taken) == result.__cuda_array_interface__["data"][0]
    np.testing.assert_array_equal(library.host(taken), values.T)
    del result
    gc.collect()
    np.testing.assert_array_equal(library.host(taken), values.T)


def test_dlpack_of_device_arrays():
    values = np.arange(12.0).reshape(3, 4)
    array = ado.to_device(values)
    assert array.__dlpack_device__() == producers.CUDA
    on_host = np.from_dlpack(Capsuled(array.__dlpack__(dl_device=(1, 0), max_version=(1, 0))))
    np.testing.assert_array_equal(on_host, values)
    for capsule, name in [
        (array.__dlpack__(), '"dltensor"'),
        (array.__dlpack__(max_version=(0, 8), stream=-1), '"dltensor"'),
        (array.__dlpack__(max_version=(1, 1), stream=2), '"dltensor_versioned"'),
        (array.__dlpack__(max_version=(1, 0), copy=False), '"dltensor_versioned"'),
    ]:
        assert name in repr(capsule)
        result = ado.transpose(Capsuled(capsule, device=producers.CUDA))
        np.testing.assert_array_equal(result.numpy(), values.T)
    copied = Capsuled(array.__dlpack__(copy=True, max_version=(1, 0)), device=producers.CUDA)
    np.testing.assert_array_equal(ado.transpose(copied).numpy(), values.T)
    for keywords, error in [
        *[({"stream": 0}, ValueError), ({"stream": -2}, ValueError), ({"stream": "1"}, TypeError)],
        *[({"dl_device": (2, 99)}, BufferError), ({"dl_device": (8, 0)}, BufferError)],
        ({"dl_device": (1, 0), "copy": False}, BufferError),
    ]:
        with pytest.raises(error):
            array.__dlpack__(**keywords)
    with pytest.raises(BufferError, match="DLPack has no type"):
        ado.to_device(np.zeros(3, "M8[s]")).__dlpack__()


# --- Deleters -------------------------------------------------------------------------------------


def on_gpu(array, **keywords):
    """Return a producer with the memory of a DeviceArray."""
    memory = ado.to_device(array)
    producer = Producer(array, data=memory.__cuda_array_interface__["data"][0], **keywords)
    producer.device = producers.CUDA
    producer.memory = memory
    return producer


@pytest.mark.parametrize("versioned", [True, False])
def test_deleters(versioned):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    operand = on_gpu(values, versioned=versioned)
    out = on_gpu(np.zeros((4, 3), np.float32), versioned=versioned)
    assert ado.transpose(operand, out=out) is out
    assert operand.requests[0]["stream"] == 1
    ado.synchronize()
    gc.collect()
    assert (operand.deleted, out.deleted) == (1, 1)
    np.testing.assert_array_equal(out.memory.numpy(), values.T)
    wrong = on_gpu(np.zeros((3, 4), np.float32))
    with pytest.raises(ValueError, match="out"):
        ado.transpose(operand, out=wrong)
    gc.collect()
    assert (operand.deleted, wrong.deleted) == (2, 1)


def test_producers_are_kept_until_the_work_has_finished(streaming):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    operand = on_gpu(values)
    stream = streaming.stream("non-blocking")
    with streaming.using(stream):
        streaming.sleep()
        result = ado.transpose(operand, stream=stream)
    assert operand.deleted == 0
    assert not streaming.idle(stream)
    np.testing.assert_array_equal(result.numpy(), values.T)
    ado.synchronize()
    assert operand.deleted == 1


def test_read_only():
    values = ado.to_device(np.ones((3, 4), np.float32))
    memory = ado.to_device(np.zeros((4, 3), np.float32))
    interface = memory.__cuda_array_interface__
    for read_only in (True, False):
        changed = {**interface, "data": (interface["data"][0], read_only)}
        out = type("Interface", (), {"__cuda_array_interface__": changed})()
        if read_only:
            with pytest.raises(ValueError, match="out must be writable, got a read-only array"):
                ado.transpose(values, out=out)
    assert ado.transpose(values, out=out) is out
    ado.synchronize()
    np.testing.assert_array_equal(memory.numpy(), np.ones((4, 3)))


# --- Streams --------------------------------------------------------------------------------------

STREAMS = ("default", "non-blocking", "per-thread")


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("explicit", [False, True])
def test_work_follows_the_callers_stream(streaming, kind, explicit):
    """The operand is written after a long kernel on the stream, and the host does not wait."""
    stream = streaming.stream(kind)
    values = np.random.default_rng(2).random((300, 200), np.float32)
    base = streaming.array(values)
    with streaming.using(stream):
        ado.transpose(base + 1)  # loads the kernels, which may take longer than the sleep
    ado.synchronize()
    with streaming.using(stream):
        streaming.sleep()
        operand = base + 1
        result = ado.transpose(operand, **({"stream": stream} if explicit else {}))
        assert not streaming.idle(stream)
        taken = streaming.taken(result)
        assert not streaming.idle(stream)
        doubled = taken * 2
        del operand, result, taken
        scratch = streaming.overwrite((200, 300), np.float32)
    ado.synchronize()
    np.testing.assert_array_equal(streaming.host(doubled), (values.T + np.float32(1)) * 2)
    del scratch


def test_every_library_waits_for_the_call():
    """The call runs on the stream of torch, and CuPy reads the result on its own stream."""
    torch, cupy = library_named("torch"), library_named("cupy")
    values = np.random.default_rng(7).random((300, 200), np.float32)
    operand, out = torch.array(values), cupy.array(np.zeros((200, 300), np.float32))
    stream = torch.stream("non-blocking")
    ado.synchronize()
    with torch.using(stream):
        torch.sleep()
        assert ado.transpose(operand, out=out) is out
    assert not torch.idle(stream)
    np.testing.assert_array_equal(cupy.host(out), values.T)


def test_calls_do_not_wait_for_other_streams(streaming):
    """A call and its result do not wait for a long kernel on another stream."""
    busy, own = streaming.stream("non-blocking"), streaming.stream("non-blocking")
    values = np.random.default_rng(3).random((300, 200), np.float32)
    base = streaming.array(values)
    arrays = [base, base[::2, ::2]]  # the second array needs memory for its packed copy
    # Loading the kernels of adokernels and of the library may take longer than the sleep.
    expected = [streaming.host(array).T for array in arrays]
    for array in arrays:
        ado.transpose(array)
    ado.synchronize()
    with streaming.using(busy):
        streaming.sleep()
    with streaming.using(own):
        for array, transposed in zip(arrays, expected, strict=True):
            result = ado.transpose(array)
            np.testing.assert_array_equal(result.numpy(), transposed)
            del result
    assert not streaming.idle(busy)


def test_device_arrays_on_several_streams(streaming):
    first, second = streaming.stream("non-blocking"), streaming.stream("non-blocking")
    values = np.random.default_rng(4).random((300, 200), np.float32)
    base = streaming.array(values)
    ado.transpose(base + 1)  # loads the kernels: loading waits for kernels that are running
    ado.synchronize()
    with streaming.using(first):
        streaming.sleep()
        made = ado.transpose(base + 1)
    again = ado.transpose(made, stream=second)
    assert not streaming.idle(first)
    assert not streaming.idle(second)
    np.testing.assert_array_equal(again.numpy(), values + np.float32(1))
    # A result that overwrites an array waits for earlier reads on other streams.
    with streaming.using(second):
        streaming.sleep()
        copy = ado.transpose(made, stream=second)
    zeros = ado.to_device(np.zeros((300, 200), np.float32))
    ado.transpose(zeros, out=made, stream=first)
    np.testing.assert_array_equal(copy.numpy(), values + np.float32(1))
    np.testing.assert_array_equal(made.numpy(), np.zeros((200, 300)))


def test_device_arrays_keep_their_stream(streaming):
    stream = streaming.stream("non-blocking")
    array = ado.transpose(ado.to_device(np.ones((3, 4))), stream=stream)
    handle = array.__cuda_array_interface__["stream"]
    assert handle == _core.stream_handle(stream)
    assert ado.transpose(array).__cuda_array_interface__["stream"] == handle
    assert ado.to_device(np.ones(3)).__cuda_array_interface__["stream"] == 1


def test_streams_are_kept_alive():
    cupy = library_named("cupy")
    arrays = []
    for _ in range(50):
        stream = cupy.stream("non-blocking")
        with cupy.using(stream):
            arrays.append(ado.transpose(cupy.library.ones((64, 64))))
        del stream
        gc.collect()
    for array in arrays:
        np.testing.assert_array_equal(array.numpy(), np.ones((64, 64)))
    arrays.clear()
    gc.collect()
    ado.synchronize()


def test_exported_copies_do_not_belong_to_the_consumers_stream():
    cupy = library_named("cupy")
    array = ado.to_device(np.ones((64, 64)))
    taken = []
    for _ in range(50):
        stream = cupy.stream("non-blocking")
        capsule = array.__dlpack__(stream=stream.ptr, copy=True, max_version=(1, 0))
        taken.append(cupy.library.from_dlpack(Capsuled(capsule, device=producers.CUDA)))
        stream.synchronize()
        del stream, capsule
        gc.collect()
    for copy in taken:
        np.testing.assert_array_equal(cupy.host(copy), np.ones((64, 64)))
    taken.clear()
    gc.collect()
    ado.synchronize()


def test_operands_on_explicit_streams_are_kept_alive():
    """The operand is deleted while it is read on a stream that is unknown to its library."""
    torch = library_named("torch")
    stream = torch.stream("non-blocking")
    values = np.random.default_rng(5).random((300, 200), np.float32)
    operand = torch.array(values)
    ado.synchronize()
    with torch.using(stream):
        torch.sleep()
    result = ado.transpose(operand, stream=stream)
    del operand
    scratch = torch.overwrite((300, 200), np.float32)
    torch.library.cuda.default_stream().synchronize()
    np.testing.assert_array_equal(result.numpy(), values.T)
    del scratch


def test_memory_is_released(streaming):
    """The results of all calls together do not fit into device memory."""
    stream = streaming.stream("non-blocking")
    memory = _core.cuda_properties()["memory_bytes"]
    side = 8192
    array = streaming.array(np.zeros((side, side), np.float32))
    with streaming.using(stream):
        for _ in range(int(1.5 * memory / (4 * side * side))):
            ado.transpose(array)


def test_threads(streaming):
    values = [np.random.default_rng(i).random((301, 203), np.float32) for i in range(8)]
    failures = []

    def work(i):
        try:
            stream = streaming.stream(STREAMS[i % 3])
            with streaming.using(stream):
                array = streaming.array(values[i])
                for _ in range(50):
                    result = ado.transpose(ado.transpose(array))
                np.testing.assert_array_equal(result.numpy(), values[i])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_arrays_of_finished_threads():
    made = []

    def work():
        made.append(ado.transpose(ado.to_device(np.ones((64, 32))), stream=2))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    np.testing.assert_array_equal(ado.transpose(made[0]).numpy(), np.ones((64, 32)))
    np.testing.assert_array_equal(made.pop().numpy(), np.ones((32, 64)))


# --- Staging --------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [1000, 1024, 3001, 9001])
def test_large_host_operands(side, rng):
    values = rng.random((side, side + 3), np.float32)
    result = ado.transpose(values, device="cuda")
    np.testing.assert_array_equal(result, values.T)
    strided = values[::-1, ::2]
    out = np.zeros((strided.shape[1], 2 * strided.shape[0]), np.float32)[:, ::2]
    assert ado.transpose(strided, device="cuda", out=out) is out
    np.testing.assert_array_equal(out, strided.T)
    np.testing.assert_array_equal(ado.to_device(strided).numpy(), strided)


def test_large_host_operands_on_a_stream(streaming, rng):
    values = rng.random((3001, 3003), np.float32)
    stream = streaming.stream("non-blocking")
    busy = streaming.stream("non-blocking")
    # The first call loads kernels and pins memory. For both, the driver may wait for the device.
    ado.transpose(values, device="cuda", stream=stream)
    with streaming.using(busy):
        streaming.sleep()
    result = ado.transpose(values, device="cuda", stream=stream)
    assert not streaming.idle(busy)  # before the comparison, which takes longer than the kernels
    np.testing.assert_array_equal(result, values.T)


def test_threads_share_pinned_memory(rng):
    values = rng.random((2001, 2003), np.float32)
    results = [None] * 4

    def work(i):
        results[i] = ado.transpose(values + i, device="cuda")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, (values + i).T)


def test_elements_larger_than_a_chunk(rng):
    values = np.frombuffer(rng.bytes(3 << 24), "V16777216")
    assert ado.to_device(values).numpy().tobytes() == values.tobytes()


def test_signal_handlers_can_copy():
    """A handler runs on the thread whose copy it interrupts, so it must not wait for that copy."""
    program = """
import signal
import numpy as np
import adokernels as ado

begun, copies = [], []
def handler(*_):
    if not begun:  # a slow copy is interrupted again
        begun.append(True)
        copies.append(ado.to_device(np.ones((2048, 2048), np.float32)).numpy())

signal.signal(signal.SIGALRM, handler)
values = np.ones((16001, 16003), np.float32)[:, ::2]
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
for _ in range(2):
    ado.transpose(values, device="cuda")
signal.setitimer(signal.ITIMER_REAL, 0)
assert copies[0].all()
"""
    # With one thread, a copy takes longer than the interval at which signals are handled. Its time
    # then hardly depends on tests in other processes, whose threads would delay every chunk.
    run_python(program, ADOKERNELS_NUM_THREADS="1", ADOKERNELS_DEVICE="")


# --- Several GPUs ---------------------------------------------------------------------------------


class TestSeveralGpus:
    @pytest.fixture(autouse=True)
    def torch(self, two_gpus):
        self.torch = library_named("torch").library
        self.values = np.random.default_rng(6).random((300, 200), np.float32)

    def test_calls_run_where_their_operands_are(self):
        for name in ("cuda:1", "cuda:0", "cuda:1"):
            array = ado.to_device(self.values, device=name)
            result = ado.transpose(array)
            assert (array.device, result.device) == (name, name)
            np.testing.assert_array_equal(result.numpy(), self.values.T)
            assert self.torch.cuda.current_device() == 0
            assert result.__dlpack_device__() == (2, int(name[-1]))
            assert self.torch.from_dlpack(result).device == self.torch.device(name)
            tensor = self.torch.from_numpy(self.values).to(name)
            assert ado.transpose(tensor).device == name
            assert ado.transpose(tensor, device="cuda").device == name

    @pytest.mark.parametrize(("routine", "variant"), on_gpus(cuda_variants()))
    def test_every_variant(self, routine, variant):

        lengths = {"gpp": (8, 12, 16, 2), "average_matvec": (3, 20, 40), "max_plus": (9, 70)}
        lengths["strided_copy"] = (6300,)
        operands = routine.task.random_operands(lengths.get(routine.name, (70, 90)))
        if routine.problem(*operands, variant=variant).why_not(variant):
            pytest.skip("declines the problem")
        expected = tuple_of(routine(*operands, variant=variant, device="cuda:0"))
        for result, right in zip(
            tuple_of(routine(*operands, variant=variant, device="cuda:1")), expected, strict=True
        ):
            np.testing.assert_array_equal(result, right)
        assert self.torch.cuda.current_device() == 0

    def test_mixed_devices_are_rejected(self):
        first, second = (ado.to_device(self.values, device=f"cuda:{i}") for i in range(2))
        with pytest.raises(ValueError, match=r"one device, but out is on cuda:1 and .* on cuda:0"):
            ado.transpose(first, out=second)
        with pytest.raises(ValueError, match="device must be 'cuda:1', the device of the operands"):
            ado.transpose(second, device="cuda:0")
        with pytest.raises(ValueError, match=r"is on cpu and .* are on cuda:1"):
            ado.transpose(second, out=np.zeros((200, 300), np.float32))

    def test_calls_do_not_depend_on_the_current_device(self):
        with self.torch.cuda.device(1):
            array = ado.to_device(self.values, device="cuda:0")
            np.testing.assert_array_equal(ado.transpose(array).numpy(), self.values.T)
            assert self.torch.cuda.current_device() == 1
            assert ado.to_device(self.values).device == "cuda:1"
            tensor = self.torch.ones(3, 4, device="cuda:0")
            assert ado.transpose(tensor).device == "cuda:0"

    def test_the_default_device(self, device_restored):
        ado.settings.device = "cuda:1"
        assert _core.device() == "cuda:1"
        assert ado.to_device(self.values).device == "cuda:1"
        assert ado.transpose.problem(self.values).device_id == "cuda:1"
        np.testing.assert_array_equal(ado.transpose(self.values), self.values.T)

    def test_custom_ladders_run_on_the_default_device(self, device_restored):
        if reason := why_no_compiler():
            pytest.skip(reason)
        ado.settings.device = "cuda:1"
        ladder = ado.ladder("doubled", reference=lambda x: 2 * x)
        ladder.cuda_variant(
            "mine", block=256,
            source="__global__ void twice(const float* x, float* out, int n) {"
            "  const int i = blockIdx.x * blockDim.x + threadIdx.x;"
            "  if (i < n) out[i] = 2 * x[i]; }",
            kernel="twice",
        )  # fmt: skip
        ladder.variant(lambda x: 2 * x, name="numpy")
        x = self.values.ravel()
        assert ladder.problem(x).device == "cuda"
        np.testing.assert_array_equal(ladder(x, variant="mine"), 2 * x)
        with _core.BlockedStream() as blocked:
            assert blocked.still_blocked
        assert self.torch.cuda.current_device() == 0

    def test_streams_of_the_other_gpu(self):
        """The call does not wait for work on a stream of the other GPU.

        Loading kernels may wait for the device, and other processes may delay this one for longer
        than the sleep. A call that waited would do so every time.
        """
        tensor = self.torch.from_numpy(self.values).to("cuda:1")
        with self.torch.cuda.device(1):
            stream = self.torch.cuda.Stream()

        def returns_early():
            self.torch.cuda.synchronize(1)
            with self.torch.cuda.device(1), self.torch.cuda.stream(stream):
                self.torch.cuda._sleep(SPIN_CYCLES)
                operand = tensor + 1
            result = ado.transpose(operand, stream=stream)
            early = not stream.query()
            np.testing.assert_array_equal(result.numpy(), self.values.T + np.float32(1))
            return early

        returns_early()  # loads the kernels
        assert any(returns_early() for _ in range(5))

    def test_measurements_name_the_device(self):
        sweep = ado.sweep(
            ado.transpose, self.values, device="cuda:1", seconds=0.01, ceilings=False,
            progress=False,
        )  # fmt: skip
        uuids = [_core.cuda_properties(f"cuda:{i}")["uuid"] for i in range(2)]
        assert uuids[0] != uuids[1]
        for m in sweep:
            assert (m.device, m.context["device"]) == ("cuda", "cuda:1")
            assert m.context["cuda"]["uuid"] == uuids[1]
        assert ado.machine("cuda:1").context["cuda"]["uuid"] == uuids[1]
        assert ado.machine("cuda:0").context["cuda"]["uuid"] == uuids[0]


EARLY = r"""
extern "C" __global__ void copy_late(const float* from, float* to, int n, long long cycles) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}
"""


def test_dependent_kernels_wait_for_kernels_of_other_libraries():
    """A kernel before the call allows its successor to start, and writes the operands later."""
    cupy = library_named("cupy").library
    kernel = cupy.RawKernel(EARLY, "copy_late")
    for samples in (1, 3):  # with one sample, no kernel of the call computes averages
        operands = ado.average_matvec.task.random_operands((4, 512, samples), np.float32)
        vectors, matrix = map(cupy.asarray, operands)
        expected = ado.average_matvec(*operands, device="cpu")
        for variant in ado.average_matvec:
            if variant.device == "cpu" or variant.ceiling or not variant.available:
                continue
            late = cupy.zeros_like(matrix)
            if ado.average_matvec.problem(vectors, late).why_not(variant.name):
                continue
            cupy.cuda.Device().synchronize()
            with cupy.cuda.Stream(non_blocking=True):
                kernel((1,), (256,), (matrix, late, np.int32(matrix.size), np.int64(2_000_000)))
                found = cupy.asnumpy(cupy.asarray(variant(vectors, late)))
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=variant.name)
