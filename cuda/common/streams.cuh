// Streams as CUDA's type.
#pragma once

#include "common/launch.cuh"
#include "runtime/stream.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

// The handle of a stream for calls of the runtime. Its device must be the current one.
inline cudaStream_t raw(const Stream& stream) {
  return static_cast<cudaStream_t>(nameable(stream).handle);
}

}  // namespace ado::cuda

#endif
