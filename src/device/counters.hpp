// Hardware counters of the kernels that a function launches. counters.cpp implements it with the
// Range Profiler of CUPTI, which is loaded at run time.
#pragma once

#include "device/device.hpp"

namespace ado::counters {

// Empty if the counters of the current device can be read, else the reason and the remedy.
std::string why_unavailable();

// The version of the loaded library, for example "CUPTI 13.0.1". Throws Unavailable.
std::string version();

// The chip of the current device, for example "GH100". Throws Unavailable.
std::string chip();

// The given metrics that exist on a chip, in the same order. Needs the library, but no device.
std::vector<std::string> existing(const std::vector<std::string>& metrics, const std::string& chip);

// One launched kernel with one value per metric.
struct Counted {
  cuda::Kernel kernel;
  std::vector<double> values;
};

// Runs `work` once without counters to list its kernels, then once per pass. Each run must launch
// the same kernels. If `cold`, L2 is overwritten before each run, as for a cold sample; otherwise,
// the previous run has warmed the caches. Only one thread profiles at a time, and `work` must not
// profile itself. Without metrics, no counters are collected, and the result only lists the
// kernels.
//
// Each kernel is a separate range: a range around several launches would contain the time between
// them, which lowers every percentage of the elapsed time.
//
// Throws Unavailable if the counters cannot be read, ValueError for an unknown metric and if `work`
// does not launch the same kernels in each run.
std::vector<Counted> count(const std::function<void()>& work,
                           const std::vector<std::string>& metrics, bool cold);

}  // namespace ado::counters
