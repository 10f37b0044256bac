// gpu_version4 of the series, with plain sums: the products of a row are added by shuffles in two
// stages, first within each warp, then within the first warp. `length` is at most kThreads.
constexpr int kThreads = 1024, kWarpSize = 32;

// Returns the sum over a warp in lane 0.
template <class T>
__device__ T sum_over_warp(T sum) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
    sum += __shfl_down_sync(0xffffffff, sum, distance);
  return sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    warp_shuffle(const T* __restrict__ vectors, const T* __restrict__ matrix, T* __restrict__ out,
                 int sets, int length, int samples) {
  __shared__ T averages[kThreads], warp_sums[kThreads / kWarpSize];
  const int lane = threadIdx.x, warp = threadIdx.y, set = blockIdx.x;
  const int thread = warp * kWarpSize + lane;
  for (int element = warp; element < length; element += blockDim.y) {  // block-stride loop
    const T* const values = vectors + (1LL * set * length + element) * samples;
    T sum = 0;
    for (int sample = lane; sample < samples; sample += kWarpSize) {  // warp-stride loop
      sum += values[sample];
    }
    sum = sum_over_warp(sum);
    if (lane == 0) averages[element] = sum / samples;
  }
  __syncthreads();
  const T average = thread < length ? averages[thread] : T(0);
  for (int row = 0; row < length; ++row) {
    const T sum = sum_over_warp(thread < length ? average * matrix[row * length + thread] : T(0));
    if (lane == 0) warp_sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
      const T total = sum_over_warp(warp_sums[lane]);
      if (lane == 0) out[1LL * row * sets + set] = total;
    }
    __syncthreads();  // the first warp has read the sums (the series lacks this barrier: a race)
  }
}
