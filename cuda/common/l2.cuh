// Control of the L2 cache.
#pragma once

#include "common/launch.cuh"

#ifdef __CUDACC__

namespace ado::cuda {

// Resets persisting lines to normal, so that overwriting L2 evicts them, too. Otherwise a function
// with an access policy window could keep its operands in L2 between cold samples.
inline void reset_persisting_l2() {
  const cudaError_t status = cudaCtxResetPersistingL2Cache();
  if (status == cudaErrorNotSupported) {  // the device has no persisting lines
    cudaGetLastError();
    return;
  }
  ADO_CUDA(status);
}

}  // namespace ado::cuda

#endif
