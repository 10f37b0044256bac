// Resource usage of compiled kernels, and attributes of the device.
#pragma once

#include "common/launch.cuh"
#include "runtime/device.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

// Returns an attribute of the current device.
int attribute(cudaDeviceAttr which);

// Completes the resource usage of a kernel: warps and blocks per multiprocessor, from its launch
// configuration, registers and shared memory.
Kernel resources_from(Kernel kernel);

// Returns the resource usage of `kernel` with the grid, block and shared memory of `go`, on the
// current device.
Kernel resources_of(const void* kernel, const Launch& go);

}  // namespace ado::cuda

#endif
