// CUPTI, the CUDA Profiling Tools Interface, loaded at run time.
//
// It is not linked, because the module must also work if CUPTI is not installed. Other packages,
// for example torch, load their own copy. Two copies in one process would compete for the counters,
// so an already loaded copy is used.
#pragma once

#include "common/launch.cuh"
#include "device/device.hpp"

#if defined(ADO_WITH_CUDA) && __has_include(<cupti_range_profiler.h>)
#define ADO_WITH_CUPTI

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_pcsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_result.h>
#include <cupti_target.h>
#include <cupti_version.h>

namespace ado::cupti {

// The functions that this library calls, by their names without "cupti".
// clang-format off
#define ADO_CUPTI_FUNCTIONS(X)                                                                     \
  X(GetVersion) X(GetResultString) X(GetErrorMessage) X(DeviceGetChipName)                         \
  X(ActivityRegisterCallbacks) X(ActivityEnable) X(ActivityDisable) X(ActivityFlushAll)            \
  X(ActivityGetNextRecord)                                                                         \
  X(ProfilerInitialize) X(ProfilerDeviceSupported) X(ProfilerGetCounterAvailability)               \
  X(ProfilerHostInitialize) X(ProfilerHostDeinitialize) X(ProfilerHostGetMetricProperties)         \
  X(ProfilerHostConfigAddMetrics) X(ProfilerHostGetConfigImageSize) X(ProfilerHostGetConfigImage)  \
  X(ProfilerHostEvaluateToGpuValues)                                                               \
  X(RangeProfilerEnable) X(RangeProfilerDisable) X(RangeProfilerSetConfig) X(RangeProfilerStart)   \
  X(RangeProfilerStop) X(RangeProfilerPushRange) X(RangeProfilerPopRange)                          \
  X(RangeProfilerDecodeData) X(RangeProfilerGetCounterDataSize)                                    \
  X(RangeProfilerCounterDataImageInitialize) X(RangeProfilerGetCounterDataInfo)                    \
  X(Subscribe) X(Unsubscribe) X(EnableCallback)                                                    \
  X(PCSamplingEnable) X(PCSamplingDisable) X(PCSamplingStart) X(PCSamplingStop)                    \
  X(PCSamplingGetData) X(PCSamplingSetConfigurationAttribute)                                      \
  X(PCSamplingGetNumStallReasons) X(PCSamplingGetStallReasons)                                     \
  X(GetCubinCrc) X(GetSassToSourceCorrelation)
// clang-format on

struct Library {
#define ADO_CUPTI_MEMBER(name) decltype(&::cupti##name) name = nullptr;
  ADO_CUPTI_FUNCTIONS(ADO_CUPTI_MEMBER)
#undef ADO_CUPTI_MEMBER
};

// Throws Unavailable if the library was not found.
const Library& library();

// Throws Unavailable with the cause and the remedy if the counters cannot be used on this machine,
// and CudaError for any other failure.
void check(CUptiResult result, const char* call, const char* file, int line);

#define ADO_CUPTI(function, ...)                                                                  \
  ::ado::cupti::check(::ado::cupti::library().function(__VA_ARGS__), "cupti" #function, __FILE__, \
                      __LINE__)

// The CUDA context of the calling thread.
CUcontext current_context();

// A parameter structure of CUPTI with its size, all other members zero. CUPTI reads the size to
// determine which members exist.
#define ADO_CUPTI_PARAMS(type, name) \
  type name = {};                    \
  name.structSize = type##_STRUCT_SIZE

// Runs `work` once and returns the kernels that the device executed, in order of their start,
// including kernels of other libraries.
std::vector<cuda::Kernel> launches_of(const std::function<void()>& work);

}  // namespace ado::cupti

#endif

namespace ado::cupti {

// Empty if the library was found, else the reason and the remedy.
const std::string& why_missing();

}  // namespace ado::cupti
