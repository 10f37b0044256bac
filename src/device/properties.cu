// Availability and properties of the device.
#include "common/launch.cuh"
#include "device/device.hpp"
#include "device/internal.cuh"

#ifdef __CUDACC__

#include <cstdio>

namespace ado::cuda {
namespace {

// Used to test whether this build contains code for the device.
__global__ void any_kernel() {}

Properties query_properties() {
  cudaDeviceProp prop;
  ADO_CUDA(cudaGetDeviceProperties(&prop, current_device()));
  Properties p;
  p.name = prop.name;
  for (const char byte : prop.uuid.bytes) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(byte) & 0xffU);
    p.uuid += hex;
  }
  p.compute = 10 * prop.major + prop.minor;
  p.multiprocessors = prop.multiProcessorCount;
  p.core_hertz = 1e3 * attribute(cudaDevAttrClockRate);
  p.memory_hertz = 1e3 * attribute(cudaDevAttrMemoryClockRate);
  p.memory_bus_bits = prop.memoryBusWidth;
  p.memory_bytes = static_cast<std::int64_t>(prop.totalGlobalMem);
  p.l2_bytes = prop.l2CacheSize;
  p.shared_bytes_per_multiprocessor = static_cast<std::int64_t>(prop.sharedMemPerMultiprocessor);
  p.shared_bytes_per_block = static_cast<std::int64_t>(prop.sharedMemPerBlockOptin);
  ADO_CUDA(cudaDriverGetVersion(&p.driver_version));
  ADO_CUDA(cudaRuntimeGetVersion(&p.runtime_version));
  return p;
}

}  // namespace

const std::string& why_unavailable() {
  static const std::string reason = [] {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    cudaGetLastError();
    if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
        (status == cudaSuccess && count == 0)) {
      int driver = 0;
      cudaDriverGetVersion(&driver);
      if (driver != 0 && status == cudaErrorInsufficientDriver)
        return std::string("the CUDA driver is older than the CUDA runtime of this build");
      return std::string("no CUDA device");
    }
    if (status != cudaSuccess) return std::string("no CUDA device: ") + cudaGetErrorString(status);
    cudaFuncAttributes attributes;
    if (cudaFuncGetAttributes(&attributes, any_kernel) == cudaErrorNoKernelImageForDevice) {
      cudaGetLastError();
      return std::string("built for other GPUs; set ADOKERNELS_CUDA_ARCHITECTURES for this one");
    }
    return std::string();
  }();
  return reason;
}

const Properties& properties() {
  static PerDevice<Properties> cached;
  require();
  return cached.current(query_properties);
}

}  // namespace ado::cuda

#endif
