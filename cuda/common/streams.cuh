// Conversion of streams to CUDA's type.
#pragma once

#include "common/launch.cuh"
#include "runtime/stream.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

// Returns the handle of a stream for the CUDA runtime. The device of the stream must be current.
inline cudaStream_t raw(const Stream& stream) {
  return static_cast<cudaStream_t>(nameable(stream).handle);
}

}  // namespace ado::cuda

#endif
