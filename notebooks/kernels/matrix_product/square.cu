// Each thread computes 8 x 8 results in registers. 256 threads compute 128 x 128 results.
constexpr int kSize = 128, kDepth = 8, kEach = 8, kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    matrix_product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                   int m, int k, int n) {
  __shared__ float tile_a[kSize][kDepth], tile_b[kDepth][kSize];
  const int thread = threadIdx.x;
  const int first_row = thread / 16 * kEach, first_col = thread % 16 * kEach;
  const long long top = blockIdx.y * kSize, left = blockIdx.x * kSize;

  float sums[kEach][kEach] = {};
  for (long long first = 0; first < k; first += kDepth) {
    for (int e = thread; e < kSize * kDepth; e += kThreads) {
      const int row = e / kDepth, i = e % kDepth;
      tile_a[row][i] = top + row < m && first + i < k ? a[(top + row) * k + first + i] : 0;
    }
    for (int e = thread; e < kDepth * kSize; e += kThreads) {
      const int i = e / kSize, col = e % kSize;
      tile_b[i][col] = first + i < k && left + col < n ? b[(first + i) * n + left + col] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      float of_a[kEach], of_b[kEach];
#pragma unroll
      for (int r = 0; r < kEach; ++r) of_a[r] = tile_a[first_row + r][i];
#pragma unroll
      for (int s = 0; s < kEach; ++s) of_b[s] = tile_b[i][first_col + s];
#pragma unroll
      for (int r = 0; r < kEach; ++r)
#pragma unroll
        for (int s = 0; s < kEach; ++s) sums[r][s] += of_a[r] * of_b[s];
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kEach; ++r)
#pragma unroll
    for (int s = 0; s < kEach; ++s) {
      const long long row = top + first_row + r, col = left + first_col + s;
      if (row < m && col < n) c[row * n + col] = sums[r][s];
    }
}
