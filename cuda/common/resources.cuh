// Resource usage of compiled kernels.
#pragma once

#include "runtime/device.hpp"

namespace ado::cuda {

// The usage of `kernel` with the block and shared memory of a launch, on the current device.
Kernel resources_of(const void* kernel, const Launch& go);

}  // namespace ado::cuda
