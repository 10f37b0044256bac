// Launches kernels and stream-ordered copies, or records kernels in a dry run.
#include "common/launch.cuh"

#ifdef __CUDACC__

#include "core/error.hpp"
#include "device/internal.cuh"

namespace ado::cuda {
namespace {

// Kernels must opt in to more than 48 KiB of dynamic shared memory.
void allow_shared(const void* kernel, std::size_t bytes) {
  constexpr std::size_t kWithoutOptIn = 48 << 10;
  if (bytes > kWithoutOptIn)
    ADO_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)));
}

}  // namespace

void throw_error(cudaError_t status, const char* call, const char* file, int line) {
  cudaGetLastError();  // clears the error, so that the next valid call works
  throw CudaError(call, file, line, cudaGetErrorName(status), cudaGetErrorString(status));
}

void launch_kernel(const void* kernel, const Launch& go, void** args) {
  if (go.grid.volume() == 0) return;  // an empty problem
  allow_shared(kernel, go.shared_bytes);
  if (go.recorder != nullptr) return go.recorder->kernels.push_back(resources_of(kernel, go));
  const auto dim = [](Extent e) { return dim3(e.x, e.y, e.z); };
  ADO_CUDA(cudaLaunchKernel(kernel, dim(go.grid), dim(go.block), args, go.shared_bytes,
                            static_cast<cudaStream_t>(go.stream)));
}

void copy(const Launch& go, std::byte* to, const Array& from) {
  if (go.recorder != nullptr) return;
  ADO_CUDA(cudaMemcpyAsync(to, from.data, static_cast<std::size_t>(from.bytes()),
                           cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(go.stream)));
}

void clear(const Launch& go, void* memory, std::size_t bytes) {
  if (go.recorder != nullptr) return;
  ADO_CUDA(cudaMemsetAsync(memory, 0, bytes, static_cast<cudaStream_t>(go.stream)));
}

}  // namespace ado::cuda

#endif
