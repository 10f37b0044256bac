// Resource usage of compiled kernels.
#pragma once

#include "runtime/device.hpp"

namespace ado::cuda {

// Returns the resource usage of `kernel` with the grid, block and shared memory of `go`, on the
// current device.
Kernel resources_of(const void* kernel, const Launch& go);

}  // namespace ado::cuda
