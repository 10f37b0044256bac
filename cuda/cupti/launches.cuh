// The kernels that a function launches, including those of other libraries.
#pragma once

#include <functional>
#include <vector>

#include "cupti/library.cuh"
#include "runtime/device.hpp"

#ifdef ADO_WITH_CUPTI

namespace ado::cupti {

// Runs `work` once and returns the kernels that the device executed, in order of their start.
std::vector<cuda::Kernel> launches_of(const std::function<void()>& work);

}  // namespace ado::cupti

#endif
