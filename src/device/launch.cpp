// Launches kernels and stream-ordered copies, or records kernels in a dry run. Queries registers,
// memory and occupancy of compiled kernels.
#include "common/launch.cuh"

#ifdef ADO_WITH_CUDA

#include <algorithm>

#include "core/error.hpp"
#include "device/internal.cuh"

namespace ado::cuda {
namespace {

// Kernels must opt in to more than 48 KiB of shared memory. At most 24 KiB are static.
void allow_shared(const void* kernel, std::size_t bytes) {
  constexpr std::size_t kWithoutOptIn = 24 << 10;
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

int attribute(cudaDeviceAttr which) {
  int value = 0;
  ADO_CUDA(cudaDeviceGetAttribute(&value, which, current_device()));
  return value;
}

namespace {

constexpr int kWarp = 32;

constexpr int ceil_to(int value, int unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

// Follows the rules of the CUDA occupancy calculator, with the largest shared-memory carve-out.
Kernel resources_from(Kernel k) {
  constexpr int kRegisterUnit = 256, kSubPartitions = 4;
  const int shared_unit = properties().compute < 80 ? 256 : 128;
  const int warps = ceil_to(static_cast<int>(k.block.volume()), kWarp) / kWarp;
  const int registers = std::max(ceil_to(k.registers * kWarp, kRegisterUnit), kRegisterUnit);
  const int warps_by_registers = attribute(cudaDevAttrMaxRegistersPerMultiprocessor) /
                                 kSubPartitions / registers * kSubPartitions;
  const int shared = ceil_to(static_cast<int>(k.static_shared_bytes + k.dynamic_shared_bytes) +
                                 attribute(cudaDevAttrReservedSharedMemoryPerBlock),
                             shared_unit);
  k.max_warps = attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / kWarp;
  k.blocks_by_warps = k.max_warps / warps;
  k.blocks_by_slots = attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
  k.blocks_by_registers = warps_by_registers / warps;
  k.blocks_by_shared = shared == 0
                           ? k.blocks_by_slots
                           : attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / shared;
  k.resident_warps = warps * std::min({k.blocks_by_warps, k.blocks_by_slots, k.blocks_by_registers,
                                       k.blocks_by_shared});
  return k;
}

Kernel resources_of(const void* kernel, const Launch& go) {
  cudaFuncAttributes code;
  ADO_CUDA(cudaFuncGetAttributes(&code, kernel));
  const char* mangled = nullptr;
  ADO_CUDA(cudaFuncGetName(&mangled, kernel));
  Kernel k = resources_from({.name = short_name(mangled),
                             .grid = go.grid,
                             .block = go.block,
                             .registers = code.numRegs,
                             .local_bytes = code.localSizeBytes,
                             .static_shared_bytes = code.sharedSizeBytes,
                             .dynamic_shared_bytes = go.shared_bytes});
  const int threads = static_cast<int>(go.block.volume());
  int blocks = 0;
  ADO_CUDA(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, go.shared_bytes));
  k.resident_warps = blocks * ceil_to(threads, kWarp) / kWarp;
  return k;
}

}  // namespace ado::cuda

#endif
