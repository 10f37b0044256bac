// One index per load: naive and batched.
//
// The load of an element cannot start before its index has arrived, so a thread waits for memory
// twice. A warp with random indices touches 32 sectors of 32 bytes, and uses one element per
// sector.
#pragma once

#include "gather/operands.cuh"

namespace ado::cuda {

// Elements per thread of `batched`.
inline constexpr int kGatherBatch = 4;

#ifdef __CUDACC__

template <class T, class Index>
__global__ void gather_naive(GatherOperands<T, Index> p) {
  const std::int64_t i = thread_x();
  if (i < p.count) p.out[i] = *p.at(p.index[i]);
}

// All indices of a thread are loaded before its first element, and all elements before its first
// store. The elements of a thread are one block apart, so that loads of indices and stores are
// coalesced.
template <class T, class Index>
__global__ void gather_batched(GatherOperands<T, Index> p) {
  const int threads = static_cast<int>(blockDim.x);
  const std::int64_t first = block_x() * (threads * kGatherBatch) + threadIdx.x;
  if (first + (kGatherBatch - 1) * threads < p.count) {
    Index index[kGatherBatch];
    T element[kGatherBatch];
#pragma unroll
    for (int i = 0; i < kGatherBatch; ++i) index[i] = p.index[first + i * threads];
#pragma unroll
    for (int i = 0; i < kGatherBatch; ++i) element[i] = *p.at(index[i]);
#pragma unroll
    for (int i = 0; i < kGatherBatch; ++i) p.out[first + i * threads] = element[i];
  } else {
    for (int i = 0; i < kGatherBatch; ++i)
      if (first + i * threads < p.count)
        p.out[first + i * threads] = *p.at(p.index[first + i * threads]);
  }
}

#endif

}  // namespace ado::cuda
