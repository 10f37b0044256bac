// gpu_version3 of the series, with plain sums: one block per set, and one warp per element of a
// vector. Neighbouring lanes read neighbouring samples. `length` is at most kThreads.
constexpr int kThreads = 1024, kWarpSize = 32;

template <class T>
__global__ void __launch_bounds__(kThreads)
    warp_average(const T* __restrict__ vectors, const T* __restrict__ matrix, T* __restrict__ out,
                 int sets, int length, int samples) {
  __shared__ T averages[kThreads], products[kThreads];
  const int lane = threadIdx.x, warp = threadIdx.y, set = blockIdx.x;
  const int thread = warp * kWarpSize + lane;
  for (int element = warp; element < length; element += blockDim.y) {  // block-stride loop
    const T* const values = vectors + (1LL * set * length + element) * samples;
    T sum = 0;
    for (int sample = lane; sample < samples; sample += kWarpSize) {  // warp-stride loop
      sum += values[sample];
    }
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
      sum += __shfl_down_sync(0xffffffff, sum, distance);
    if (lane == 0) averages[element] = sum / samples;
  }
  __syncthreads();
  const T average = thread < length ? averages[thread] : T(0);
  for (int row = 0; row < length; ++row) {
    __syncthreads();  // the sum of the previous row has been read
    products[thread] = thread < length ? average * matrix[row * length + thread] : T(0);
    for (int half = kThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (thread < half) products[thread] += products[thread + half];
    }
    if (thread == 0) out[1LL * row * sets + set] = products[0];
  }
}
