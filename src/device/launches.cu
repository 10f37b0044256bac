// Lists launched kernels with CUPTI's activity records.
#include "device/cupti.cuh"

#ifdef ADO_WITH_CUPTI

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>

#include "device/device.hpp"
#include "device/internal.cuh"

namespace ado::cupti {
namespace {

using Record = CUpti_ActivityKernel10;
constexpr std::size_t kBufferBytes = 1 << 20, kAlignment = 8;

struct Started {
  std::uint64_t nanoseconds;
  std::string name;
  Extent grid, block;
  int registers;
  std::size_t local_bytes, static_shared_bytes, dynamic_shared_bytes;
};

// The callbacks of CUPTI have no argument for user data.
std::mutex turn;
std::vector<Started> found;

void CUPTIAPI provide_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

Extent extent(std::int32_t x, std::int32_t y, std::int32_t z) {
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

// Only copies values: a callback of CUPTI must not call CUDA.
void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  CUpti_Activity* activity = nullptr;
  while (library().ActivityGetNextRecord(buffer, valid, &activity) == CUPTI_SUCCESS) {
    if (activity->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& r = *reinterpret_cast<const Record*>(activity);
    found.push_back({.nanoseconds = r.start,
                     .name = r.name,
                     .grid = extent(r.gridX, r.gridY, r.gridZ),
                     .block = extent(r.blockX, r.blockY, r.blockZ),
                     .registers = r.registersPerThread,
                     .local_bytes = r.localMemoryPerThread,
                     .static_shared_bytes = static_cast<std::size_t>(r.staticSharedMemory),
                     .dynamic_shared_bytes = static_cast<std::size_t>(r.dynamicSharedMemory)});
  }
  std::free(buffer);
}

cuda::Kernel kernel_of(const Started& s) {
  return cuda::resources_from({.name = short_name(s.name.c_str()),
                               .grid = s.grid,
                               .block = s.block,
                               .registers = s.registers,
                               .local_bytes = s.local_bytes,
                               .static_shared_bytes = s.static_shared_bytes,
                               .dynamic_shared_bytes = s.dynamic_shared_bytes});
}

}  // namespace

std::vector<cuda::Kernel> launches_of(const std::function<void()>& work) {
  const std::lock_guard lock(turn);
  found.clear();
  ADO_CUPTI(ActivityRegisterCallbacks, provide_buffer, take_buffer);
  ADO_CUPTI(ActivityEnable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  std::exception_ptr failure;
  try {
    work();
    ADO_CUDA(cudaDeviceSynchronize());
  } catch (...) {
    failure = std::current_exception();
  }
  ADO_CUPTI(ActivityDisable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  ADO_CUPTI(ActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (failure) std::rethrow_exception(failure);
  std::stable_sort(found.begin(), found.end(), [](const Started& a, const Started& b) {
    return a.nanoseconds < b.nanoseconds;
  });
  std::vector<cuda::Kernel> kernels;
  for (const Started& started : found) kernels.push_back(kernel_of(started));
  return kernels;
}

}  // namespace ado::cupti

#endif
