// The state of the L2 cache.
#pragma once

#include "common/launch.cuh"

#ifdef __CUDACC__

namespace ado::cuda {

// Makes persisting lines normal ones, so that an overwrite of L2 evicts them too. Otherwise a
// function could keep its operands in an access policy window from one cold sample to the next.
inline void reset_persisting_l2() {
  const cudaError_t status = cudaCtxResetPersistingL2Cache();
  if (status == cudaErrorNotSupported) {  // a device without persisting lines
    cudaGetLastError();
    return;
  }
  ADO_CUDA(status);
}

}  // namespace ado::cuda

#endif
