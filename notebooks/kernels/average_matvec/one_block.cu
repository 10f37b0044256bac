// gpu_version1 of the series, with plain sums: one block computes all sets, with one thread per
// element of a vector. `length` is at most kThreads.
constexpr int kThreads = 1024;

template <class T>
__global__ void __launch_bounds__(kThreads)
    one_block(const T* __restrict__ vectors, const T* __restrict__ matrix, T* __restrict__ out,
              int sets, int length, int samples) {
  __shared__ T products[kThreads];
  const int element = threadIdx.x;
  for (int set = 0; set < sets; ++set) {
    T average = 0;
    if (element < length) {
      const T* const values = vectors + (1LL * set * length + element) * samples;
      for (int sample = 0; sample < samples; ++sample) {
        average += values[sample];
      }
      average /= samples;
    }
    for (int row = 0; row < length; ++row) {
      __syncthreads();  // the sum of the previous row has been read
      products[element] = element < length ? average * matrix[row * length + element] : T(0);
      for (int half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (element < half) products[element] += products[element + half];
      }
      if (element == 0) out[1LL * row * sets + set] = products[0];
    }
  }
}
