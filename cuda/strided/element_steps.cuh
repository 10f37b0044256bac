// One load and one store per element: naive and batched.
//
// A warp stores 32 neighbouring elements, so stores are coalesced. Its load accesses 32 elements
// that are `step` apart: it touches at least the sectors of 32 neighbouring elements, and at most
// 32 sectors of 32 bytes, with one used element per sector. DRAM and L2 transfer whole sectors, so
// no kernel can read less. The variants differ in the number of sectors in flight.
#pragma once

#include "strided/selection.cuh"

namespace ado::cuda {

// Loads per thread of `batched` before its first store.
inline constexpr int kBatch = 4;

#ifdef __CUDACC__

template <class T>
static __global__ void select_naive(Selection<T> s) {
  const std::int64_t i = thread_x();
  if (i < s.count) s.out[i] = s.from[i * s.step];
}

// The loads of a thread are one block apart, so that the stores of a warp are coalesced.
template <class T>
static __global__ void select_batched(Selection<T> s) {
  const int threads = static_cast<int>(blockDim.x);
  const std::int64_t first = block_x() * (threads * kBatch) + threadIdx.x;
  const T* const from = s.from + first * s.step;
  const std::int64_t distance = threads * s.step;
  T element[kBatch];
  if (first + (kBatch - 1) * threads < s.count) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) element[i] = from[i * distance];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) s.out[first + i * threads] = element[i];
  } else {
    for (int i = 0; i < kBatch; ++i)
      if (first + i * threads < s.count) s.out[first + i * threads] = from[i * distance];
  }
}

#endif

}  // namespace ado::cuda
