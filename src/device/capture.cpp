// Observes launches with callbacks of CUPTI before and after the driver's functions.
#include "device/capture.hpp"

#include "core/error.hpp"
#include "device/cupti.cuh"

#ifdef ADO_WITH_CUPTI

#include <cupti_driver_cbid.h>

#include <cstring>
#include <exception>
#include <mutex>
#include <set>

#include "core/scope_exit.hpp"
#include "device/internal.cuh"

namespace ado::capture {
namespace {

// Functions of the driver. Functions of the runtime could wait for the observed launch.
struct Driver {
#define ADO_DRIVER(name, version) \
  decltype(&::cu##name) name = cuda::driver_function<decltype(::cu##name)>("cu" #name, version)
  ADO_DRIVER(CtxSynchronize, 4000);
  ADO_DRIVER(StreamIsCapturing, 10000);
  ADO_DRIVER(FuncGetParamInfo, 12040);
  ADO_DRIVER(KernelGetFunction, 12000);
  ADO_DRIVER(PointerGetAttribute, 4000);
  ADO_DRIVER(Memcpy, 4000);
  ADO_DRIVER(MemsetD8, 4000);
  ADO_DRIVER(EventCreate, 4000);
  ADO_DRIVER(EventDestroy, 4000);
  ADO_DRIVER(EventRecord, 4000);
  ADO_DRIVER(EventElapsedTime, 4000);
#undef ADO_DRIVER
};

void require(CUresult status, const char* call, int line) {
  cuda::check_driver(static_cast<int>(status), call, __FILE__, line);
}
#define ADO_CAPTURE(function, ...) require(driver.function(__VA_ARGS__), "cu" #function, __LINE__)

// The parameters of the driver's functions, as in generated_cuda_meta.h, which needs other versions
// of cuda.h. cuLaunchCooperativeKernel has no `extra`.
struct LaunchParams {
  CUfunction f;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  void **kernelParams, **extra;
};
struct LaunchExParams {
  const CUlaunchConfig* config;
  CUfunction f;
  void **kernelParams, **extra;
};

// The parts of a launch, except its shape.
struct Call {
  CUfunction function;
  CUstream stream;
  void **parameters, **extra;
  std::string lacks;
};

Call call_of(CUpti_CallbackId id, const void* data, Launch& launch) {
  if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx ||
      id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz) {
    const auto& p = *static_cast<const LaunchExParams*>(data);
    const CUlaunchConfig& c = *p.config;
    launch.grid = {c.gridDimX, c.gridDimY, c.gridDimZ};
    launch.block = {c.blockDimX, c.blockDimY, c.blockDimZ};
    launch.shared_bytes = c.sharedMemBytes;
    Call call{p.f, c.hStream, p.kernelParams, p.extra, ""};
    for (unsigned i = 0; i < c.numAttrs; ++i) {
      const CUlaunchAttribute& a = c.attrs[i];
      const auto& cluster = a.value.clusterDim;
      if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && cluster.x * cluster.y * cluster.z > 1)
        call.lacks = "it was launched with clusters of blocks";
      if (a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a.value.cooperative != 0)
        call.lacks = "it was launched as a cooperative grid";
    }
    return call;
  }
  const auto& p = *static_cast<const LaunchParams*>(data);
  launch.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  launch.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
  launch.shared_bytes = p.sharedMemBytes;
  if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel ||
      id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz)
    return {p.f, p.hStream, p.kernelParams, p.extra, ""};
  return {p.f, p.hStream, p.kernelParams, nullptr, "it was launched as a cooperative grid"};
}

constexpr CUpti_CallbackId kLaunches[] = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                          CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
                                          CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                                          CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
                                          CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
                                          CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz};
constexpr CUpti_CallbackId kGraphs[] = {CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
                                        CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz};

CUdeviceptr address_of(std::string& bytes) { return reinterpret_cast<CUdeviceptr>(bytes.data()); }

class Observer {
 public:
  explicit Observer(std::size_t max_bytes) : max_bytes_(max_bytes) {
    for (CUevent* event : {&begin_, &end_}) ADO_CAPTURE(EventCreate, event, CU_EVENT_DEFAULT);
    ADO_CUPTI(Subscribe, &subscriber_, &Observer::on_callback, this);
    try {
      enable(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED);
      for (const CUpti_CallbackId id : kLaunches) enable(CUPTI_CB_DOMAIN_DRIVER_API, id);
      for (const CUpti_CallbackId id : kGraphs) enable(CUPTI_CB_DOMAIN_DRIVER_API, id);
    } catch (...) {
      cupti::library().Unsubscribe(subscriber_);
      throw;
    }
  }
  ~Observer() {
    cupti::library().Unsubscribe(subscriber_);
    for (CUevent event : {begin_, end_}) driver.EventDestroy(event);
  }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  void record() { recording_ = true; }
  Captured result() {
    const std::lock_guard lock(turn_);
    recording_ = false;
    if (failure_) std::rethrow_exception(failure_);
    return std::move(found_);
  }

 private:
  void enable(CUpti_CallbackDomain domain, CUpti_CallbackId id) {
    ADO_CUPTI(EnableCallback, 1, subscriber_, domain, id);
  }

  // An exception must not pass through the driver.
  static void CUPTIAPI on_callback(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                   const void* data) {
    auto& observer = *static_cast<Observer*>(self);
    const std::lock_guard lock(observer.turn_);  // an observed launch can load a module
    try {
      if (domain == CUPTI_CB_DOMAIN_RESOURCE)
        observer.on_module(*static_cast<const CUpti_ResourceData*>(data));
      else
        observer.on_launch(id, *static_cast<const CUpti_CallbackData*>(data));
    } catch (...) {
      if (!observer.failure_) observer.failure_ = std::current_exception();
    }
  }

  void on_module(const CUpti_ResourceData& resource) {
    const auto& module = *static_cast<const CUpti_ModuleResourceData*>(resource.resourceDescriptor);
    found_.cubins.emplace_back(module.pCubin, module.cubinSize);
  }

  void on_launch(CUpti_CallbackId id, const CUpti_CallbackData& data) {
    const bool enters = data.callbackSite == CUPTI_API_ENTER;
    if (id == kGraphs[0] || id == kGraphs[1]) {
      if (enters && recording_) ++found_.graphs;
      return;
    }
    Launch launch;
    Call call = call_of(id, data.functionParams, launch);
    launch.function = reinterpret_cast<std::uint64_t>(call.function);
    // CUPTI keeps this number for the callback after the launch; 0: the launch is not recorded.
    std::uint64_t& number = *data.correlationData;
    if (enters) number = 0;
    if (!enters) {
      first_modules_.try_emplace(call.function, found_.cubins.size());
      if (number != 0) after(call, found_.launches.at(number - 1));
      return;
    }
    if (!recording_) return;
    launch.symbol = data.symbolName == nullptr ? "" : data.symbolName;
    launch.modules = found_.cubins.size();
    const bool runs = before(call, launch);
    found_.launches.push_back(std::move(launch));
    if (runs) number = found_.launches.size();
  }

  // Returns false if the kernel does not run now.
  bool before(const Call& call, Launch& launch) {
    read_arguments(call, launch);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    ADO_CAPTURE(StreamIsCapturing, call.stream, &status);
    if (status != CU_STREAM_CAPTURE_STATUS_NONE) {
      launch.lacks = "it was added to a CUDA graph, which runs later";
      return false;
    }
    launch.lacks = call.lacks;
    ADO_CAPTURE(CtxSynchronize);
    std::set<std::uint64_t> known;
    for (const std::string& argument : launch.arguments)
      for (std::size_t at = 0; at + 8 <= argument.size(); at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, argument.data() + at, 8);
        const auto [address, size] = allocation_of(word);
        if (size == 0 || !known.insert(address).second) continue;
        launch.allocations.push_back({address, copy_of(address, size, launch), nullptr});
      }
    ADO_CAPTURE(EventRecord, begin_, call.stream);
    return true;
  }

  void after(const Call& call, Launch& launch) {
    launch.modules = first_modules_.at(call.function);
    ADO_CAPTURE(EventRecord, end_, call.stream);
    ADO_CAPTURE(CtxSynchronize);
    float milliseconds = 0;
    ADO_CAPTURE(EventElapsedTime, &milliseconds, begin_, end_);
    launch.seconds = milliseconds / 1e3;
    for (Allocation& a : launch.allocations)
      if (a.before) a.after = copy_of(a.address, a.before->size(), launch);
  }

  void read_arguments(const Call& call, Launch& launch) {
    std::size_t offset = 0, bytes = 0;
    CUfunction function = call.function;
    if (driver.FuncGetParamInfo(function, 0, &offset, &bytes) == CUDA_ERROR_INVALID_HANDLE)
      ADO_CAPTURE(KernelGetFunction, &function, reinterpret_cast<CUkernel>(function));
    const char* packed = nullptr;
    for (void** each = call.extra; each != nullptr && *each != CU_LAUNCH_PARAM_END; each += 2)
      if (*each == CU_LAUNCH_PARAM_BUFFER_POINTER) packed = static_cast<const char*>(each[1]);
    for (std::size_t i = 0; driver.FuncGetParamInfo(function, i, &offset, &bytes) == CUDA_SUCCESS;
         ++i)
      launch.arguments.emplace_back(
          packed ? packed + offset : static_cast<const char*>(call.parameters[i]), bytes);
  }

  // The address and the size of the allocation that contains an address; (0, 0) for a number.
  std::pair<std::uint64_t, std::size_t> allocation_of(std::uint64_t word) const {
    unsigned kind = 0;
    CUdeviceptr start = 0;
    std::size_t size = 0;
    const auto is_known = [&](void* value, CUpointer_attribute attribute) {
      return driver.PointerGetAttribute(value, attribute, word) == CUDA_SUCCESS;
    };
    if (word == 0 || !is_known(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) || kind == 0 ||
        !is_known(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) ||
        !is_known(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE))
      return {0, 0};
    return {start, size};
  }

  Bytes copy_of(std::uint64_t address, std::size_t size, Launch& launch) {
    if (used_bytes_ + size > max_bytes_) {
      if (launch.lacks.empty())
        launch.lacks = "its memory, with " + std::to_string(size) +
                       " bytes in one allocation, exceeds the rest of max_bytes";
      return nullptr;
    }
    std::string content(size, '\0');
    ADO_CAPTURE(Memcpy, address_of(content), address, size);
    Bytes& last = last_[address];
    if (last && *last == content) return last;
    used_bytes_ += size;
    return last = std::make_shared<const std::string>(std::move(content));
  }

  const Driver driver;
  std::size_t max_bytes_, used_bytes_ = 0;
  CUevent begin_ = nullptr, end_ = nullptr;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::recursive_mutex turn_;
  bool recording_ = false;
  std::map<CUfunction, std::size_t> first_modules_;
  std::map<std::uint64_t, Bytes> last_;  // the last content of each allocation
  Captured found_;
  std::exception_ptr failure_;
};

}  // namespace

Captured capture(const std::function<void()>& work, const std::vector<Range>& operands,
                 const std::function<std::vector<Range>()>& free_memory, std::size_t max_bytes) {
  constexpr unsigned char kOverwritten = 0xa5;
  cuda::require();
  cupti::library();             // throws before the device is used
  ADO_CUDA(cudaFree(nullptr));  // creates the context
  const Driver driver;
  Observer observer(max_bytes);
  ADO_CAPTURE(CtxSynchronize);
  std::vector<std::string> contents;
  for (const auto& [address, bytes] : operands) {
    contents.emplace_back(bytes, '\0');
    ADO_CAPTURE(Memcpy, address_of(contents.back()), address, bytes);
  }
  work();
  ADO_CAPTURE(CtxSynchronize);
  for (std::size_t i = 0; i < operands.size(); ++i)
    ADO_CAPTURE(Memcpy, operands[i].address, address_of(contents[i]), operands[i].bytes);
  for (const auto& [address, bytes] : free_memory())
    ADO_CAPTURE(MemsetD8, address, kOverwritten, bytes);
  ADO_CAPTURE(CtxSynchronize);
  observer.record();
  work();
  ADO_CAPTURE(CtxSynchronize);
  return observer.result();
}

}  // namespace ado::capture

#else

namespace ado::capture {

Captured capture(const std::function<void()>&, const std::vector<Range>&,
                 const std::function<std::vector<Range>()>&, std::size_t) {
  throw Unavailable(cupti::why_missing());
}

}  // namespace ado::capture

#endif
