// Solution: have several loads in flight per thread.
constexpr int kInFlight = 8;

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
    int k = 0;
#pragma unroll 1
    for (; k + kInFlight <= K; k += kInFlight) {
      T loaded[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) loaded[i] = big[static_cast<long long>(k + i) * P + p];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) best = larger(best, loaded[i] + small[k + i]);
    }
#pragma unroll 1
    for (; k < K; ++k) best = larger(best, big[static_cast<long long>(k) * P + p] + small[k]);
    out[p] = best;
  }
}
