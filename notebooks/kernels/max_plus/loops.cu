// The loops of the tuning post for any number of blocks, with their launch bounds as template
// arguments: out[p] = max(0, max over k of big[k][p] + small[k]) for K terms and P points.
template <class T>
__device__ T larger(T best, T sum) {
  return sum > best || sum != sum ? sum : best;  // a NaN stays
}

template <class T>
struct __align__(16) Vector {
  T at[16 / sizeof(T)];
};

// The original loop: one point per thread and iteration. If kConstant, the stride is computed from
// the block size that the compiler knows (BLOCKDIMX in the post), otherwise from blockDim.
template <class T, int kThreads, int kMinimumBlocks, bool kConstant = false>
__global__ void __launch_bounds__(kThreads, kMinimumBlocks)
    scalar(const T* __restrict__ big, const T* __restrict__ small, T* __restrict__ out, int K,
           int P) {
  const int threads = kConstant ? kThreads : blockDim.x;
  for (int p = blockIdx.x * threads + threadIdx.x; p < P; p += gridDim.x * threads) {
    T best = 0;
#pragma unroll 8
    for (int k = 0; k < K; ++k)
      best = larger(best, big[static_cast<long long>(k) * P + p] + small[k]);
    out[p] = best;
  }
}

// Wide loads of small: one 16-byte load for several terms. K is a multiple of these terms.
template <class T, int kThreads, int kMinimumBlocks>
__global__ void __launch_bounds__(kThreads, kMinimumBlocks)
    wide_small(const T* __restrict__ big, const T* __restrict__ small, T* __restrict__ out, int K,
               int P) {
  constexpr int kTerms = 16 / sizeof(T);
  for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < P; p += gridDim.x * blockDim.x) {
    T best = 0;
#pragma unroll(8 / kTerms)
    for (int k = 0; k < K; k += kTerms) {
      const auto terms = *reinterpret_cast<const Vector<T>*>(small + k);
#pragma unroll
      for (int i = 0; i < kTerms; ++i)
        best = larger(best, big[static_cast<long long>(k + i) * P + p] + terms.at[i]);
    }
    out[p] = best;
  }
}

// Wide loads of both arrays: a thread computes neighbouring points. P and K are multiples of them.
template <class T, int kThreads, int kMinimumBlocks>
__global__ void __launch_bounds__(kThreads, kMinimumBlocks)
    wide_both(const T* __restrict__ big, const T* __restrict__ small, T* __restrict__ out, int K,
              int P) {
  constexpr int kPoints = 16 / sizeof(T);
  const int vectors = P / kPoints;
  const auto* const rows = reinterpret_cast<const Vector<T>*>(big);
  for (int v = blockIdx.x * blockDim.x + threadIdx.x; v < vectors; v += gridDim.x * blockDim.x) {
    Vector<T> best = {};
#pragma unroll(8 / kPoints)
    for (int k = 0; k < K; k += kPoints) {
      const auto terms = *reinterpret_cast<const Vector<T>*>(small + k);
#pragma unroll
      for (int i = 0; i < kPoints; ++i) {
        const Vector<T> values = rows[static_cast<long long>(k + i) * vectors + v];
#pragma unroll
        for (int j = 0; j < kPoints; ++j)
          best.at[j] = larger(best.at[j], values.at[j] + terms.at[i]);
      }
    }
    reinterpret_cast<Vector<T>*>(out)[v] = best;
  }
}

// A fixed number of loads in flight per thread: kLoads values are loaded before the first is used.
// K is a multiple of kLoads.
template <class T, int kThreads, int kLoads>
__global__ void __launch_bounds__(kThreads, 1)
    in_flight(const T* __restrict__ big, const T* __restrict__ small, T* __restrict__ out, int K,
              int P) {
  for (int p = blockIdx.x * kThreads + threadIdx.x; p < P; p += gridDim.x * kThreads) {
    T best = 0;
#pragma unroll 1
    for (int k = 0; k < K; k += kLoads) {
      T loaded[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) loaded[i] = big[static_cast<long long>(k + i) * P + p];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) best = larger(best, loaded[i] + small[k + i]);
    }
    out[p] = best;
  }
}
