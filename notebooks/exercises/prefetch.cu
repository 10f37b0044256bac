// Exercise: have several loads in flight per thread.
//
// One block computes all points, so few warps are resident on the GPU, and they cannot hide the
// latency of the loads. The result is correct, but the kernel is slow: each iteration of the inner
// loop waits for its own load.

template <class T>
__device__ T larger(T best, T value) {
  return value > best || value != value ? value : best;  // a NaN stays
}

// K terms for each of P points: out[p] = max(0, max over k of big[k][p] + small[k]).
template <class T>
__global__ void __launch_bounds__(1024, 1)
    max_plus(const T* __restrict__ big, const T* __restrict__ small, T* __restrict__ out, int K,
             int P) {
  for (int p = threadIdx.x; p < P; p += blockDim.x) {
    T best = 0;
    // TODO: process eight terms per iteration. First load their eight elements of big into a local
    // array, then use them. Loops over the array must be unrolled (#pragma unroll), so that it is
    // kept in registers. Then process the remaining terms.
#pragma unroll 1
    for (int k = 0; k < K; ++k)
      best = larger(best, big[static_cast<long long>(k) * P + p] + small[k]);
    out[p] = best;
  }
}
