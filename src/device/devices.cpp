// The GPUs of the machine, their availability and properties, and the current device of a thread.
#include "core/error.hpp"
#include "device/emulated.hpp"
#include "device/emulated_gpus.hpp"
#include "device/internal.cuh"

#ifdef ADO_WITH_CUDA

#include <cuda.h>

#include <cctype>
#include <cstdio>
#include <optional>
#include <type_traits>

namespace ado::cuda {

void* driver_function(const char* name, int version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 13000
  ADO_CUDA(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found));
#else
  static_cast<void>(version);
  ADO_CUDA(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
  if (found != cudaDriverEntryPointSuccess || function == nullptr)
    throw Unavailable(std::string("the CUDA driver has no function ") + name);
  return function;
}

void check_driver(int status, const char* call, const char* file, int line) {
  if (status != 0)
    throw CudaError(call, file, line, ("driver error " + std::to_string(status)).c_str(), "");
}

namespace {

struct Driver {
  CUresult (*get_device)(CUdevice*, int) = driver_function<CUresult(CUdevice*, int)>("cuDeviceGet",
                                                                                     2000);
  CUresult (*retain)(CUcontext*, CUdevice) =
      driver_function<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain", 7000);
  CUresult (*push)(CUcontext) = driver_function<CUresult(CUcontext)>("cuCtxPushCurrent", 4000);
  CUresult (*pop)(CUcontext*) = driver_function<CUresult(CUcontext*)>("cuCtxPopCurrent", 4000);
  CUresult (*exchange_mode)(CUstreamCaptureMode*) =
      driver_function<CUresult(CUstreamCaptureMode*)>("cuThreadExchangeStreamCaptureMode", 10010);
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

#define ADO_DRIVER(call) check_driver(driver().call, #call, __FILE__, __LINE__)

// Returns the context that the CUDA runtime uses for a device. It is never released.
CUcontext primary_context(int ordinal) {
  constexpr std::size_t kMaxDevices = 256;
  static std::mutex mutex;
  static std::array<CUcontext, kMaxDevices> contexts{};
  const std::lock_guard lock(mutex);
  CUcontext& context = contexts.at(static_cast<std::size_t>(ordinal));
  if (context == nullptr) {
    CUdevice device;
    ADO_DRIVER(get_device(&device, ordinal));
    ADO_DRIVER(retain(&context, device));
  }
  return context;
}

}  // namespace

int device_count() {
  if (!why_unavailable().empty()) return 0;
  int count = 0;
  ADO_CUDA(cudaGetDeviceCount(&count));
  return count;
}

int current_device() {
  int device = 0;
  ADO_CUDA(cudaGetDevice(&device));
  return device;
}

int device_of(const void* address) {
  cudaPointerAttributes attributes;
  ADO_CUDA(cudaPointerGetAttributes(&attributes, address));
  // devicePointer is also null for memory of a device that the current device cannot access.
  const bool unmapped =
      attributes.type == cudaMemoryTypeHost && attributes.devicePointer == nullptr;
  if (attributes.type == cudaMemoryTypeUnregistered || unmapped)
    throw ValueError("the address is not in memory that a GPU can access");
  return attributes.device;
}

// cudaSetDevice is not used. If it restored the previous device, it would create a context there,
// which needs 0.2 s and several hundred megabytes.
DeviceScope::DeviceScope(int device)
    : emulated_before_(emulated::exchange_current(device == kEmulatedGpu)) {
  if (device == kEmulatedGpu || device == current_device()) return;
  ADO_DRIVER(push(primary_context(device)));
  pushed_ = true;
}

DeviceScope::~DeviceScope() {
  CUcontext popped;
  if (pushed_) driver().pop(&popped);
  emulated::exchange_current(emulated_before_);
}

// cudaThreadExchangeStreamCaptureMode would first initialise the runtime's state of the device, in
// the previous mode. The status is not checked: a thread without a context captures nothing.
RelaxedCapture::RelaxedCapture() {
  if (emulated::current()) return;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (driver().exchange_mode(&mode) == CUDA_SUCCESS) previous_ = mode;
}

RelaxedCapture::~RelaxedCapture() {
  if (emulated::current()) return;
  auto mode = static_cast<CUstreamCaptureMode>(previous_);
  driver().exchange_mode(&mode);
}

namespace {

#if CUDART_VERSION >= 12050

// The driver's functions that find the multiprocessors of a context.
struct ContextQueries {
  decltype(&cuCtxGetCurrent) current;
  decltype(&cuCtxGetId) id_of_context;
  decltype(&cuStreamGetId) id_of_stream;
  decltype(&cuStreamGetCtx_v2) context_of;
  decltype(&cuCtxGetDevResource) of_context;
  decltype(&cuGreenCtxGetDevResource) of_green_context;
};

// Empty if the driver is too old.
const std::optional<ContextQueries>& context_queries() {
  static const auto found = []() -> std::optional<ContextQueries> {
    if (properties().driver_version < 12050) return std::nullopt;
    ContextQueries q;
    const auto find = [](auto& function, const char* name, int version) {
      function =
          driver_function<std::remove_pointer_t<std::decay_t<decltype(function)>>>(name, version);
    };
    find(q.current, "cuCtxGetCurrent", 4000);
    find(q.id_of_context, "cuCtxGetId", 12000);
    find(q.id_of_stream, "cuStreamGetId", 12000);
    find(q.context_of, "cuStreamGetCtx", 12050);
    find(q.of_context, "cuCtxGetDevResource", 12040);
    find(q.of_green_context, "cuGreenCtxGetDevResource", 12040);
    return q;
  }();
  return found;
}

// `stream`: empty for a captured stream. CUDA ends the capture if it is queried, so it counts as a
// stream of the current context.
int query_multiprocessors(const ContextQueries& driver, std::optional<CUstream> stream,
                          CUcontext current) {
  CUcontext context = nullptr;
  CUgreenCtx green_context = nullptr;
  CUdevResource resource{};
  // Fails for the per-thread stream while a green context is current.
  if (!stream || driver.context_of(*stream, &context, &green_context) != CUDA_SUCCESS)
    context = current;
  const CUresult status =
      green_context != nullptr
          ? driver.of_green_context(green_context, &resource, CU_DEV_RESOURCE_TYPE_SM)
          : driver.of_context(context, &resource, CU_DEV_RESOURCE_TYPE_SM);
  return status == CUDA_SUCCESS ? static_cast<int>(resource.sm.smCount) : 0;
}

// Returns the number of multiprocessors that the context of a stream owns, or 0 if the driver does
// not report it. To save queries in short calls, each thread keeps the last answer
// and the driver's identifiers of its context and stream, which the driver does not reuse.
int multiprocessors_of(void* handle) {
  const auto& driver = context_queries();
  CUcontext current = nullptr;
  if (!driver || driver->current(&current) != CUDA_SUCCESS || current == nullptr) return 0;
  std::optional<CUstream> stream;
  if (!is_captured(stream_of(current_device(), reinterpret_cast<std::uintptr_t>(handle))))
    stream = static_cast<CUstream>(handle);
  const bool of_current = !stream || *stream == nullptr || *stream == CU_STREAM_LEGACY ||
                          *stream == CU_STREAM_PER_THREAD;  // belongs to the current context
  unsigned long long context_id = 0, stream_id = 0;
  driver->id_of_context(current, &context_id);
  if (!of_current) driver->id_of_stream(*stream, &stream_id);
  struct Answer {
    unsigned long long context_id = 0, stream_id = 0;
    int multiprocessors = 0;
  };
  thread_local Answer last;
  if (last.multiprocessors == 0 || last.context_id != context_id || last.stream_id != stream_id)
    last = {context_id, stream_id, query_multiprocessors(*driver, stream, current)};
  return last.multiprocessors;
}

#else

int multiprocessors_of(void*) { return 0; }

#endif

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
  char bus_id[32];
  ADO_CUDA(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, current_device()));
  p.pci_bus_id = bus_id;
  for (char& letter : p.pci_bus_id) letter = static_cast<char>(std::tolower(letter));
  p.compute = 10 * prop.major + prop.minor;
  p.multiprocessors = prop.multiProcessorCount;
  p.core_hertz = 1e3 * attribute(cudaDevAttrClockRate);
  p.memory_hertz = 1e3 * attribute(cudaDevAttrMemoryClockRate);
  p.memory_bus_bits = prop.memoryBusWidth;
  p.memory_bytes = static_cast<std::int64_t>(prop.totalGlobalMem);
  p.l2_bytes = prop.l2CacheSize;
  p.shared_bytes_per_multiprocessor = static_cast<std::int64_t>(prop.sharedMemPerMultiprocessor);
  p.threads_per_multiprocessor = prop.maxThreadsPerMultiProcessor;
  p.shared_bytes_per_block = static_cast<std::int64_t>(prop.sharedMemPerBlockOptin);
  ADO_CUDA(cudaDriverGetVersion(&p.driver_version));
  ADO_CUDA(cudaRuntimeGetVersion(&p.runtime_version));
  return p;
}

}  // namespace

const std::string& why_unavailable() {
  static const std::string nothing;
  if (emulated::current()) return nothing;
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
    const RelaxedCapture relaxed;  // initialises the runtime and loads the kernel
    if (!has_code_for_device())
      return std::string("built for other GPUs; set ADOKERNELS_CUDA_ARCHITECTURES for this one");
    return std::string();
  }();
  return reason;
}

const Properties& properties() {
  if (emulated::current()) return emulated::gpu_model().properties;
  static PerDevice<Properties> cached;
  require();
  return cached.current(query_properties);
}

Hardware hardware(void* stream) {
  constexpr double kTransfersPerCycle = 2, kBitsPerByte = 8;
  const Properties& p = properties();
  const int owned = emulated::current() ? 0 : multiprocessors_of(stream);
  return {
      .compute = p.compute,
      .multiprocessors = owned > 0 ? owned : p.multiprocessors,
      .threads_per_multiprocessor = p.threads_per_multiprocessor,
      .l2_bytes = p.l2_bytes,
      .shared_bytes = p.shared_bytes_per_block,
      .shared_bytes_per_multiprocessor = p.shared_bytes_per_multiprocessor,
      .core_hertz = p.core_hertz,
      .memory_bandwidth = kTransfersPerCycle * p.memory_hertz * p.memory_bus_bits / kBitsPerByte};
}

}  // namespace ado::cuda

#endif
