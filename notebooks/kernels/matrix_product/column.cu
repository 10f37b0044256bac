// Each thread computes 8 results of one column, in registers. 512 threads compute 64 x 64 results.
constexpr int kRows = 64, kCols = 64, kDepth = 8, kEach = 8;

__global__ void __launch_bounds__(512)
    matrix_product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                   int m, int k, int n) {
  __shared__ float tile_a[kRows][kDepth], tile_b[kDepth][kCols];
  const int thread = threadIdx.x;
  const int first_row = thread / kCols * kEach, own_col = thread % kCols;
  const long long top = blockIdx.y * kRows, left = blockIdx.x * kCols;

  float sums[kEach] = {};
  for (long long first = 0; first < k; first += kDepth) {
    {
      const int row = thread / kDepth, i = thread % kDepth;
      tile_a[row][i] = top + row < m && first + i < k ? a[(top + row) * k + first + i] : 0;
    }
    {
      const int i = thread / kCols, col = thread % kCols;
      tile_b[i][col] = first + i < k && left + col < n ? b[(first + i) * n + left + col] : 0;
    }
    __syncthreads();
    for (int i = 0; i < kDepth; ++i) {
      const float of_b = tile_b[i][own_col];
#pragma unroll
      for (int r = 0; r < kEach; ++r) sums[r] += tile_a[first_row + r][i] * of_b;
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
    const long long row = top + first_row + r, col = left + own_col;
    if (row < m && col < n) c[row * n + col] = sums[r];
  }
}
