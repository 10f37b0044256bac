// Queries registers, memory and occupancy of compiled kernels.
#include "device/internal.cuh"

#include "common/launch.cuh"
#include "device/device.hpp"

#ifdef __CUDACC__

#include <algorithm>

namespace ado::cuda {

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
