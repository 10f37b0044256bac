// Finds and loads CUPTI, and lists launched kernels with its activity records.
#include "device/cupti.cuh"

#include "core/error.hpp"

#ifdef ADO_WITH_CUPTI

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "device/internal.cuh"

namespace ado::cupti {
namespace {

constexpr const char* kFile = "libcupti.so.13";
constexpr const char* kRemedy =
    "install the wheel nvidia-cuda-cupti, or add the lib64 folder of a CUDA 13 toolkit to "
    "LD_LIBRARY_PATH";

// Folders to search, with a slash at the end: the wheel next to this package, the toolkit, and the
// search path of the loader.
std::vector<std::string> folders() {
  std::vector<std::string> list;
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&why_missing), &info) != 0 &&
      info.dli_fname != nullptr) {
    const std::string own_file = info.dli_fname;
    if (const auto slash = own_file.rfind('/'); slash != std::string::npos)
      list.push_back(own_file.substr(0, slash + 1) + "../nvidia/cu13/lib/");
  }
  list.insert(list.end(), {"/usr/local/cuda/lib64/", "/usr/local/cuda/extras/CUPTI/lib64/", ""});
  return list;
}

// CUPTI opens these libraries by name. This succeeds if they are already loaded.
void load_companions(const std::string& folder) {
  for (const char* file : {"libnvperf_target.so", "libnvperf_host.so"})
    dlopen((folder + file).c_str(), RTLD_NOW | RTLD_GLOBAL);
}

void* open() {
  if (void* const loaded = dlopen(kFile, RTLD_NOW | RTLD_NOLOAD)) return loaded;
  for (const std::string& folder : folders()) {
    load_companions(folder);
    if (void* const handle = dlopen((folder + kFile).c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

struct Found {
  Library functions;
  std::string reason;
};

const Found& found() {
  static const Found result = [] {
    Found f;
    void* const handle = open();
    if (handle == nullptr) {
      f.reason = std::string(kFile) + " was not found; " + kRemedy;
      return f;
    }
#define ADO_CUPTI_FIND(name)                                                                     \
  f.functions.name = reinterpret_cast<decltype(f.functions.name)>(dlsym(handle, "cupti" #name)); \
  if (f.functions.name == nullptr)                                                               \
    f.reason = std::string(kFile) + " has no cupti" #name ", so it is too old; " + kRemedy;
    ADO_CUPTI_FUNCTIONS(ADO_CUPTI_FIND)
#undef ADO_CUPTI_FIND
    return f;
  }();
  return result;
}

// The remedy for failures that are properties of the machine, not of the call; else nullptr.
const char* remedy_for(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "this user may not read the counters; run as root, or let an administrator set the "
             "option NVreg_RestrictProfilingToAdminUsers=0 of the kernel module nvidia";
    case CUPTI_ERROR_HARDWARE_BUSY:
      return "another profiler uses the counters; close it";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "another profiler observes this process; close it";
    case CUPTI_ERROR_NOT_SUPPORTED:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
    case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
      return "this device has no counters in this configuration; use another machine";
    default:
      return nullptr;
  }
}

}  // namespace

const std::string& why_missing() { return found().reason; }

const Library& library() {
  if (!why_missing().empty()) throw Unavailable(why_missing());
  return found().functions;
}

void check(CUptiResult result, const char* call, const char* file, int line) {
  if (result == CUPTI_SUCCESS) return;
  const char *name = "CUPTI error", *text = "";
  library().GetResultString(result, &name);
  library().GetErrorMessage(result, &text);
  if (const char* remedy = remedy_for(result))
    throw Unavailable(std::string(remedy) + " (" + name + ")");
  throw CudaError(call, file, line, name, text);
}

CUcontext current_context() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status;
  ADO_CUDA(cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &function, 4000, cudaEnableDefault,
                                            &status));
  CUcontext context = nullptr;
  reinterpret_cast<CUresult (*)(CUcontext*)>(function)(&context);
  return context;
}

namespace {

using Record = CUpti_ActivityKernel10;
constexpr std::size_t kBufferBytes = 1 << 20, kAlignment = 8;

struct Started {
  std::uint32_t launch;  // increases with every call of CUDA
  std::string name;
  Extent grid, block;
  int registers;
  std::size_t local_bytes, static_shared_bytes, dynamic_shared_bytes;
};

// The callbacks of CUPTI have no argument for user data.
std::mutex turn;
std::vector<Started> launched;

void CUPTIAPI provide_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // fills the buffer
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
    launched.push_back({.launch = r.correlationId,
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
  launched.clear();
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
  // Kernels in several streams can start in another order.
  std::stable_sort(launched.begin(), launched.end(),
                   [](const Started& a, const Started& b) { return a.launch < b.launch; });
  std::vector<cuda::Kernel> kernels;
  for (const Started& started : launched) kernels.push_back(kernel_of(started));
  return kernels;
}

}  // namespace ado::cupti

#else

namespace ado::cupti {

const std::string& why_missing() {
#ifdef ADO_WITH_CUDA
  static const std::string reason = "built with a CUDA toolkit that has no headers of CUPTI 13";
#else
  static const std::string reason = "built without CUDA";
#endif
  return reason;
}

}  // namespace ado::cupti

#endif
