// Collects hardware counters with CUPTI's Range Profiler, and evaluates metrics with its Profiler
// Host.
#include "device/counters.hpp"

#include "core/error.hpp"
#include "device/cupti.cuh"

#ifdef ADO_WITH_CUPTI

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "core/scope_exit.hpp"
#include "device/internal.cuh"

namespace ado::counters {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Names = std::vector<const char*>;

Names pointers_to(const std::vector<std::string>& metrics) {
  Names names;
  for (const std::string& metric : metrics) names.push_back(metric.c_str());
  return names;
}

// Evaluates metrics of one chip, and schedules the counters that they need in passes.
class Host {
 public:
  explicit Host(std::string chip, Bytes availability = {})
      : chip_(std::move(chip)), availability_(std::move(availability)) {
    ADO_CUPTI_PARAMS(CUpti_Profiler_Host_Initialize_Params, params);
    params.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    params.pChipName = chip_.c_str();
    params.pCounterAvailabilityImage = availability_.empty() ? nullptr : availability_.data();
    ADO_CUPTI(ProfilerHostInitialize, &params);
    object_ = params.pHostObject;
  }
  ~Host() {
    ADO_CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize_Params, params);
    params.pHostObject = object_;
    cupti::library().ProfilerHostDeinitialize(&params);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  bool knows(const std::string& metric) const {
    ADO_CUPTI_PARAMS(CUpti_Profiler_Host_GetMetricProperties_Params, params);
    params.pHostObject = object_;
    params.pMetricName = metric.c_str();
    return cupti::library().ProfilerHostGetMetricProperties(&params) == CUPTI_SUCCESS;
  }

  // The image with the schedule that collects these metrics.
  Bytes configuration(Names& metrics) const {
    ADO_CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, add);
    add.pHostObject = object_;
    add.ppMetricNames = metrics.data();
    add.numMetrics = metrics.size();
    ADO_CUPTI(ProfilerHostConfigAddMetrics, &add);
    ADO_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
    size.pHostObject = object_;
    ADO_CUPTI(ProfilerHostGetConfigImageSize, &size);
    Bytes image(size.configImageSize);
    ADO_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, get);
    get.pHostObject = object_;
    get.configImageSize = image.size();
    get.pConfigImage = image.data();
    ADO_CUPTI(ProfilerHostGetConfigImage, &get);
    return image;
  }

  std::vector<double> evaluate(const Bytes& data, std::size_t range, Names& metrics) const {
    std::vector<double> values(metrics.size());
    ADO_CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, params);
    params.pHostObject = object_;
    params.pCounterDataImage = data.data();
    params.counterDataImageSize = data.size();
    params.rangeIndex = range;
    params.ppMetricNames = metrics.data();
    params.numMetrics = metrics.size();
    params.pMetricValues = values.data();
    ADO_CUPTI(ProfilerHostEvaluateToGpuValues, &params);
    return values;
  }

 private:
  std::string chip_;  // CUPTI keeps pointers to both
  Bytes availability_;
  CUpti_Profiler_Host_Object* object_ = nullptr;
};

void initialize() {
  cuda::require();
  ADO_CUDA(cudaFree(nullptr));  // creates the context
  static const bool once = [] {
    ADO_CUPTI_PARAMS(CUpti_Profiler_Initialize_Params, params);
    ADO_CUPTI(ProfilerInitialize, &params);
    return true;
  }();
  static_cast<void>(once);
}

// Returns the counters that are available to this device, driver and user.
Bytes availability() {
  ADO_CUPTI_PARAMS(CUpti_Profiler_GetCounterAvailability_Params, params);
  ADO_CUPTI(ProfilerGetCounterAvailability, &params);
  Bytes image(params.counterAvailabilityImageSize);
  params.pCounterAvailabilityImage = image.data();
  ADO_CUPTI(ProfilerGetCounterAvailability, &params);
  return image;
}

// Counts every kernel that the current context launches between start() and stop().
class Profiler {
 public:
  Profiler(Names& metrics, std::size_t capacity) {
    ADO_CUPTI_PARAMS(CUpti_RangeProfiler_Enable_Params, params);
    params.ctx = cupti::current_context();
    ADO_CUPTI(RangeProfilerEnable, &params);
    object_ = params.pRangeProfilerObject;
    try {
      ADO_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
      size.pRangeProfilerObject = object_;
      size.pMetricNames = metrics.data();
      size.numMetrics = metrics.size();
      size.maxNumOfRanges = capacity;
      size.maxNumRangeTreeNodes = static_cast<std::uint32_t>(capacity);
      ADO_CUPTI(RangeProfilerGetCounterDataSize, &size);
      data_.resize(size.counterDataSize);
      ADO_CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, clear);
      clear.pRangeProfilerObject = object_;
      clear.counterDataSize = data_.size();
      clear.pCounterData = data_.data();
      ADO_CUPTI(RangeProfilerCounterDataImageInitialize, &clear);
    } catch (...) {
      disable();
      throw;
    }
  }
  ~Profiler() { disable(); }
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void configure(const Bytes& configuration, std::size_t capacity) {
    ADO_CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig_Params, params);
    params.pRangeProfilerObject = object_;
    params.configSize = configuration.size();
    params.pConfig = configuration.data();
    params.counterDataImageSize = data_.size();
    params.pCounterDataImage = data_.data();
    params.range = CUPTI_AutoRange;
    params.replayMode = CUPTI_UserReplay;
    params.maxRangesPerPass = capacity;
    params.numNestingLevels = 1;
    params.minNestingLevel = 1;
    params.passIndex = 0;
    params.targetNestingLevel = 1;
    ADO_CUPTI(RangeProfilerSetConfig, &params);
  }

  void start() {
    ADO_CUPTI_PARAMS(CUpti_RangeProfiler_Start_Params, params);
    params.pRangeProfilerObject = object_;
    ADO_CUPTI(RangeProfilerStart, &params);
  }

  // Returns true if this was the last pass.
  bool stop() {
    ADO_CUPTI_PARAMS(CUpti_RangeProfiler_Stop_Params, params);
    params.pRangeProfilerObject = object_;
    ADO_CUPTI(RangeProfilerStop, &params);
    return params.isAllPassSubmitted != 0;
  }

  // Returns the number of ranges that did not fit.
  std::size_t decode() {
    ADO_CUPTI_PARAMS(CUpti_RangeProfiler_DecodeData_Params, params);
    params.pRangeProfilerObject = object_;
    ADO_CUPTI(RangeProfilerDecodeData, &params);
    return params.numOfRangeDropped;
  }

  std::size_t ranges() const {
    ADO_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params, params);
    params.pCounterDataImage = data_.data();
    params.counterDataImageSize = data_.size();
    ADO_CUPTI(RangeProfilerGetCounterDataInfo, &params);
    return params.numTotalRanges;
  }

  const Bytes& data() const { return data_; }

 private:
  void disable() {
    ADO_CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params, params);
    params.pRangeProfilerObject = object_;
    cupti::library().RangeProfilerDisable(&params);
  }

  CUpti_RangeProfiler_Object* object_ = nullptr;
  Bytes data_;
};

// Overwrites L2 as the timer does, so that counters and times refer to the same cache state.
void overwrite_l2() {
  const std::size_t bytes = 2 * static_cast<std::size_t>(cuda::properties().l2_bytes);
  static cuda::PerDevice<std::unique_ptr<cuda::Buffer>> buffers;
  const auto& buffer = buffers.current([&] { return std::make_unique<cuda::Buffer>(bytes); });
  cuda::reset_persisting_l2();
  cuda::fill(buffer->data(), 0, bytes);
  cuda::synchronize();
}

// One pass: the counters of one group, for every kernel that `work` launches.
bool collect_pass(Profiler& profiler, const std::function<void()>& work, bool cold) {
  if (cold) overwrite_l2();
  profiler.start();
  std::exception_ptr failure;
  try {
    work();
    ADO_CUDA(cudaDeviceSynchronize());
  } catch (...) {
    failure = std::current_exception();
  }
  const bool last = profiler.stop();
  if (failure) std::rethrow_exception(failure);
  return last;
}

}  // namespace

std::string version() {
  std::uint32_t number = 0;
  ADO_CUPTI(GetVersion, &number);
  return "CUPTI " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) +
         "." + std::to_string(number % 100);
}

std::string chip() {
  initialize();
  ADO_CUPTI_PARAMS(CUpti_Device_GetChipName_Params, params);
  params.deviceIndex = static_cast<std::size_t>(cuda::current_device());
  ADO_CUPTI(DeviceGetChipName, &params);
  return params.pChipName;
}

std::string why_unavailable() {
  if (!cuda::why_unavailable().empty()) return cuda::why_unavailable();
  if (!cupti::why_missing().empty()) return cupti::why_missing();
  // Only success is cached: a failure may be due to another profiler, which may end.
  struct Available {};
  static cuda::PerDevice<Available> available;
  try {
    available.current([] {
      initialize();
      availability();
      return Available();
    });
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::vector<std::string> existing(const std::vector<std::string>& metrics,
                                  const std::string& chip) {
  const Host host(chip);
  std::vector<std::string> known;
  std::copy_if(metrics.begin(), metrics.end(), std::back_inserter(known),
               [&](const std::string& metric) { return host.knows(metric); });
  return known;
}

std::vector<Counted> count(const std::function<void()>& work,
                           const std::vector<std::string>& metrics, bool cold) {
  cuda::require();
  cupti::library();  // throws before the device is used
  if (const std::string reason = metrics.empty() ? "" : why_unavailable(); !reason.empty())
    throw Unavailable(reason);
  static std::mutex turn;
  thread_local bool profiling = false;
  if (profiling) throw ValueError("the profiled work must not profile itself");
  const std::lock_guard lock(turn);
  profiling = true;
  const ScopeExit done([] { profiling = false; });

  work();  // loads modules and tunes libraries, so that the next runs launch the same kernels
  std::vector<cuda::Kernel> kernels = cupti::launches_of(work);
  std::vector<Counted> result;
  if (metrics.empty()) {
    for (cuda::Kernel& kernel : kernels) result.push_back({std::move(kernel), {}});
    return result;
  }
  if (kernels.empty()) return {};
  const Host host(chip(), availability());
  for (const std::string& metric : metrics)
    if (!host.knows(metric))
      throw ValueError("metrics must exist on " + chip() + ", got '" + metric + "'");
  Names names = pointers_to(metrics);
  const Bytes configuration = host.configuration(names);
  const std::size_t capacity = kernels.size() + 1;  // one more, to notice additional kernels
  Profiler profiler(names, capacity);
  profiler.configure(configuration, capacity);
  while (!collect_pass(profiler, work, cold)) {
  }
  const std::size_t dropped = profiler.decode();
  if (dropped != 0 || profiler.ranges() != kernels.size())
    throw ValueError("the function must launch the same kernels in each run, got " +
                     std::to_string(kernels.size()) + " and then " +
                     std::to_string(profiler.ranges() + dropped));
  for (std::size_t i = 0; i < kernels.size(); ++i)
    result.push_back({std::move(kernels[i]), host.evaluate(profiler.data(), i, names)});
  return result;
}

}  // namespace ado::counters

#else

namespace ado::counters {
namespace {

[[noreturn]] void missing() { throw Unavailable(cupti::why_missing()); }

}  // namespace

std::string why_unavailable() { return cupti::why_missing(); }
std::string version() { missing(); }
std::string chip() { missing(); }
std::vector<std::string> existing(const std::vector<std::string>&, const std::string&) {
  missing();
}
std::vector<Counted> count(const std::function<void()>&, const std::vector<std::string>&, bool) {
  missing();
}

}  // namespace ado::counters

#endif
