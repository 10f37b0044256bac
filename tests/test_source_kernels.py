"""Kernels that were compiled at run time: loading, launching, and blocked streams."""

import gc
import struct

import numpy as np
import pytest
from conftest import NO_CUDA

import adokernels as ado
from adokernels import _core
from adokernels.model.compiler import compile_cuda, why_no_compiler

NO_COMPILER = why_no_compiler()
needs_compiler = pytest.mark.skipif(bool(NO_COMPILER), reason=NO_COMPILER)
on_gpu = [pytest.mark.gpu, needs_compiler]

SOURCE = """
template <class T>
__global__ void saxpy(T a, const T* x, const T* y, T* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}
__global__ void nothing() {}
__global__ void __launch_bounds__(64) bounded(float* out) { out[threadIdx.x] = 1; }
__global__ void reversed(const float* in, float* out) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
__global__ void late(float* out) {
  for (int i = 0; i < 50000; ++i) __nanosleep(1000);
  out[0] = 1;
}
"""


def kernel_named(name):
    compiled = compile_cuda(SOURCE, name)
    return _core.CudaModule(compiled.code).kernel(compiled.symbol)


def address(array):
    return struct.pack("P", array.__cuda_array_interface__["data"][0])


@pytest.mark.skipif(not NO_CUDA, reason="there is a GPU")
def test_without_a_gpu_the_error_contains_the_reason():
    with pytest.raises(ado.Unavailable, match=NO_CUDA):
        _core.CudaModule(b"")
    with pytest.raises(ado.Unavailable, match=NO_CUDA):
        _core.BlockedStream()


class TestOnGpu:
    pytestmark = on_gpu

    def test_a_kernel_computes(self, rng):
        kernel = kernel_named("saxpy<double>")
        assert kernel.name == "saxpy<double>"
        assert kernel.parameters == [8, 8, 8, 8, 4]
        x, y = rng.random(1000), rng.random(1000)
        x_device, y_device = ado.to_device(x), ado.to_device(y)
        out = ado.to_device(np.zeros(1000))
        arguments = [struct.pack("d", 2.5), *map(address, (x_device, y_device, out))]
        launch = kernel.launch((4,), (256,), 0, [*arguments, struct.pack("i", 1000)])
        launch.run()
        np.testing.assert_allclose(out.numpy(), 2.5 * x + y)
        info = launch.info()
        assert info.name == "saxpy<double>"
        assert (info.grid, info.block) == ([4], [256])
        assert 0 < info.registers < 64
        assert 0 < info.resident_warps <= info.max_warps

    def test_a_running_kernel_survives_its_objects(self):
        out = ado.to_device(np.zeros(1, np.float32))
        kernel_named("late").launch((1,), (1,), 0, [address(out)]).run()
        gc.collect()
        _core.synchronize()
        assert out.numpy()[0] == 1

    @pytest.mark.parametrize("threads", [32, 1024])
    def test_shared_memory_beyond_48_kib(self, threads):
        kernel = kernel_named("reversed")
        source = ado.to_device(np.arange(threads, dtype=np.float32))
        out = ado.to_device(np.zeros(threads, np.float32))
        arguments = [address(source), address(out)]
        launch = kernel.launch((1,), (threads,), 60 << 10, arguments)
        launch.run()
        np.testing.assert_array_equal(out.numpy(), np.arange(threads)[::-1])
        assert launch.info().dynamic_shared_bytes == 60 << 10

    @pytest.mark.parametrize(
        ("grid", "block", "shared_bytes", "message"),
        [
            ((1,), (1025,), 0, "block.x must be between 1 and 1024, got"),
            ((1,), (64, 64), 0, "block must have at most 1024 threads, got 4096"),
            ((1,), (65,), 0, "block must have at most 64 threads for bounded"),
            ((1,), (0,), 0, "block.x must be between 1"),
            ((1,), (), 0, "block must have 1 to 3 lengths"),
            ((1, 1, 1, 1), (1,), 0, "grid must have 1 to 3 lengths"),
            ((1, 65536), (1,), 0, "grid.y must be between 0 and 65535"),
            ((-1,), (1,), 0, "grid.x must be between 0"),
            ((1,), (1,), -1, "shared_bytes must be between 0 and"),
            ((1,), (1,), 1 << 20, "shared_bytes must be between 0 and"),
        ],
    )
    def test_unsupported_launches_are_value_errors(self, grid, block, shared_bytes, message):
        with pytest.raises(ValueError, match=message):
            kernel_named("bounded").launch(grid, block, shared_bytes, [bytes(8)])

    def test_wrong_arguments_are_type_errors(self):
        kernel = kernel_named("saxpy<float>")
        with pytest.raises(TypeError, match="saxpy<float> must have 5 arguments, got 1"):
            kernel.launch((1,), (1,), 0, [bytes(4)])
        arguments = [bytes(4), bytes(8), bytes(4), bytes(8), bytes(4)]
        with pytest.raises(TypeError, match="argument 2 of saxpy<float> must have 8 bytes, got 4"):
            kernel.launch((1,), (1,), 0, arguments)

    def test_wrong_code_and_symbols_are_value_errors(self):
        with pytest.raises(ValueError, match="code must be a cubin, got 3 bytes"):
            _core.CudaModule(b"abc")
        compiled = compile_cuda(SOURCE, "nothing")
        with pytest.raises(ValueError, match="symbol must be the mangled name"):
            _core.CudaModule(compiled.code).kernel("nix")
        old = compile_cuda(SOURCE, "nothing", arch="sm_75" if compiled.arch != "sm_75" else "sm_80")
        message = f"code must be a cubin for this GPU .{compiled.arch}"
        with pytest.raises(ValueError, match=message):
            _core.CudaModule(old.code).kernel(old.symbol)
        kernel_named("nothing").launch((1,), (1,), 0, []).run()  # the next valid call works


class TestBlockedStream:
    pytestmark = on_gpu

    @pytest.fixture
    def out(self):
        return ado.to_device(np.zeros(64, np.float32))

    @pytest.fixture
    def launch(self, out):
        return kernel_named("bounded").launch((1,), (64,), 0, [address(out)])

    def test_work_on_the_stream_waits(self, out, launch):
        pointer = out.__cuda_array_interface__["data"][0]
        with _core.BlockedStream() as blocked:
            launch.run()
            assert not any(blocked.copy(pointer, 256))
            assert blocked.still_blocked
        assert not blocked.still_blocked
        assert (out.numpy() == 1).all()

    def test_work_on_another_stream_does_not_wait(self, out, launch):
        from cuda.core import Device

        device = Device()
        device.set_current()
        other = device.create_stream()  # non-blocking
        pointer = out.__cuda_array_interface__["data"][0]
        with _core.BlockedStream() as blocked:
            launch.run(int(other.handle))
            other.sync()
            ones = np.frombuffer(blocked.copy(pointer, 256), np.float32)
            assert blocked.still_blocked
        assert (ones == 1).all()

    def test_it_stops_waiting_after_250_ms(self):
        with _core.BlockedStream() as blocked:
            _core.synchronize()
            assert not blocked.still_blocked
