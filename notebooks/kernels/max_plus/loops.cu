// The original loop of the tuning post for any number of blocks, with its launch bounds as template
// arguments: out[p] = max(0, max over k of big[k][p] + small[k]) for K terms and P points.
using Length = long long;

template <class T>
__device__ T larger(T best, T sum) {
  return sum > best || sum != sum ? sum : best;  // a NaN stays
}

// The original loop: one point per thread and iteration. If kConstant, the stride is computed from
// the block size that the compiler knows (BLOCKDIMX in the post), otherwise from blockDim.
template <class T, int kThreads, int kMinimumBlocks, bool kConstant = false>
__global__ void __launch_bounds__(kThreads, kMinimumBlocks)
    scalar(const T* __restrict__ big, const T* __restrict__ small, T* __restrict__ out, Length K,
           Length P) {
  const Length threads = kConstant ? kThreads : blockDim.x;
  for (Length p = blockIdx.x * threads + threadIdx.x; p < P; p += gridDim.x * threads) {
    T best = 0;
#pragma unroll 8
    for (Length k = 0; k < K; ++k) best = larger(best, big[k * P + p] + small[k]);
    out[p] = best;
  }
}

// A fixed number of loads in flight per thread: kLoads values are loaded before the first is used.
// K is a multiple of kLoads.
template <class T, int kThreads, int kLoads>
__global__ void __launch_bounds__(kThreads, 1)
    in_flight(const T* __restrict__ big, const T* __restrict__ small, T* __restrict__ out, Length K,
              Length P) {
  for (Length p = blockIdx.x * kThreads + threadIdx.x; p < P; p += gridDim.x * kThreads) {
    T best = 0;
#pragma unroll 1
    for (Length k = 0; k < K; k += kLoads) {
      T loaded[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) loaded[i] = big[(k + i) * P + p];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) best = larger(best, loaded[i] + small[k + i]);
    }
    out[p] = best;
  }
}
