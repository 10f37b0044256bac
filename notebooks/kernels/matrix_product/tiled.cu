// A block keeps a tile of each matrix in shared memory. Each thread computes one result.
constexpr int kTile = 32;

__global__ void matrix_product(const float* __restrict__ a, const float* __restrict__ b,
                               float* __restrict__ c, int m, int k, int n) {
  __shared__ float tile_a[kTile][kTile], tile_b[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const long long row = blockIdx.y * kTile + y, col = blockIdx.x * kTile + x;

  float sum = 0;
  for (long long first = 0; first < k; first += kTile) {
    tile_a[y][x] = row < m && first + x < k ? a[row * k + first + x] : 0;
    tile_b[y][x] = first + y < k && col < n ? b[(first + y) * n + col] : 0;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}
