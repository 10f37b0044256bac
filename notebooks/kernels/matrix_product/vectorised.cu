// As in square.cu, with accesses of 16 bytes to both matrices and both tiles.
constexpr int kSize = 128, kDepth = 16, kThreads = 256, kRows = 8, kHalves = 2;

// Copies 4 elements of a row to shared memory. Elements beyond the matrix are 0.
__device__ void copy_vector(float* to, const float* from, long long row, long long col, int rows,
                            int cols) {
  from += row * cols + col;
  if (row < rows && col < cols && cols % 4 == 0) {
    *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
  } else {
    for (int i = 0; i < 4; ++i) to[i] = row < rows && col + i < cols ? from[i] : 0;
  }
}

__global__ void __launch_bounds__(kThreads)
    matrix_product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                   int m, int k, int n) {
  __shared__ alignas(16) float tile_a[kSize][kDepth], tile_b[kDepth][kSize];
  // Rows y + 16 r and columns 4 x + 64 h + s, so that accesses have no bank conflicts.
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  const long long top = blockIdx.y * kSize, left = blockIdx.x * kSize;

  float sums[kRows][kHalves][4] = {};
  for (long long first = 0; first < k; first += kDepth) {
    for (int e = 4 * threadIdx.x; e < kSize * kDepth; e += 4 * kThreads) {
      const int row = e / kDepth, i = e % kDepth;
      copy_vector(&tile_a[row][i], a, top + row, first + i, m, k);
    }
    for (int e = 4 * threadIdx.x; e < kDepth * kSize; e += 4 * kThreads) {
      const int i = e / kSize, col = e % kSize;
      copy_vector(&tile_b[i][col], b, first + i, left + col, k, n);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; i += 4) {
      float4 of_a[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        of_a[r] = *reinterpret_cast<const float4*>(&tile_a[y + 16 * r][i]);
#pragma unroll
      for (int h = 0; h < kHalves; ++h)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float4 of_b = *reinterpret_cast<const float4*>(&tile_b[i + j][4 * x + 64 * h]);
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            const float each = reinterpret_cast<const float(&)[4]>(of_a[r])[j];
            sums[r][h][0] += each * of_b.x;
            sums[r][h][1] += each * of_b.y;
            sums[r][h][2] += each * of_b.z;
            sums[r][h][3] += each * of_b.w;
          }
        }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int h = 0; h < kHalves; ++h)
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        const long long row = top + y + 16 * r, col = left + 4 * x + 64 * h + s;
        if (row < m && col < n) c[row * n + col] = sums[r][h][s];
      }
}
