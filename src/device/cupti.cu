// Finds and loads CUPTI.
#include "device/cupti.cuh"

#include "core/error.hpp"

#ifdef ADO_WITH_CUPTI

#include <dlfcn.h>

#include <vector>

namespace ado::cupti {
namespace {

constexpr const char* kFile = "libcupti.so.13";
constexpr const char* kRemedy =
    "install the wheel nvidia-cuda-cupti, or add the lib64 folder of a CUDA 13 toolkit to "
    "LD_LIBRARY_PATH";

// Folders to search, with a slash at the end: the wheel beside this package, the toolkit, and the
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

}  // namespace ado::cupti

#else

namespace ado::cupti {

const std::string& why_missing() {
#ifdef __CUDACC__
  static const std::string reason = "built with a CUDA toolkit that has no headers of CUPTI 13";
#else
  static const std::string reason = "built without CUDA";
#endif
  return reason;
}

}  // namespace ado::cupti

#endif
