// Matrix product in FP32, in the order of "How to Optimize a CUDA Matmul Kernel for cuBLAS-like
// Performance" (Boehm 2022). Sizes are multiples of 128 (m, n) and 32 (k).
constexpr int kTile = 32;

__global__ void matmul_naive(const float* a, const float* b, float* c, int m, int k, int n) {
  const int row = blockIdx.x * kTile + threadIdx.x, col = blockIdx.y * kTile + threadIdx.y;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
  c[row * n + col] = sum;
}

__global__ void matmul_coalesced(const float* a, const float* b, float* c, int m, int k, int n) {
  const int row = blockIdx.y * kTile + threadIdx.y, col = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
  c[row * n + col] = sum;
}

__global__ void matmul_shared(const float* a, const float* b, float* c, int m, int k, int n) {
  __shared__ float tile_a[kTile][kTile], tile_b[kTile][kTile];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * kTile + ty, col = blockIdx.x * kTile + tx;
  float sum = 0;
  for (int first = 0; first < k; first += kTile) {
    tile_a[ty][tx] = a[row * k + first + tx];
    tile_b[ty][tx] = b[(first + ty) * n + col];
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += tile_a[ty][i] * tile_b[i][tx];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

// 64 x 64 results per block, eight rows of one column per thread.
__global__ void matmul_column(const float* a, const float* b, float* c, int m, int k, int n) {
  constexpr int kRows = 64, kCols = 64, kDepth = 8, kEach = 8;
  __shared__ float tile_a[kRows][kDepth], tile_b[kDepth][kCols];
  const int t = threadIdx.x, col = t % kCols, row = t / kCols * kEach;
  a += blockIdx.y * kRows * k;
  b += blockIdx.x * kCols;
  c += blockIdx.y * kRows * n + blockIdx.x * kCols;
  float sums[kEach] = {};
  for (int first = 0; first < k; first += kDepth) {
    tile_a[t / kDepth][t % kDepth] = a[t / kDepth * k + first + t % kDepth];
    tile_b[t / kCols][t % kCols] = b[(first + t / kCols) * n + t % kCols];
    __syncthreads();
    for (int i = 0; i < kDepth; ++i) {
      const float of_b = tile_b[i][col];
      for (int r = 0; r < kEach; ++r) sums[r] += tile_a[row + r][i] * of_b;
    }
    __syncthreads();
  }
  for (int r = 0; r < kEach; ++r) c[(row + r) * n + col] = sums[r];
}

// 128 x 128 results per block of 256 threads, 8 x 8 per thread.
constexpr int kBlock = 128, kDepth = 8, kEach = 8;

__global__ void __launch_bounds__(256)
    matmul_square(const float* a, const float* b, float* c, int m, int k, int n) {
  __shared__ float tile_a[kBlock][kDepth], tile_b[kDepth][kBlock];
  const int t = threadIdx.x, col = t % 16 * kEach, row = t / 16 * kEach;
  a += blockIdx.y * kBlock * k;
  b += blockIdx.x * kBlock;
  c += blockIdx.y * kBlock * n + blockIdx.x * kBlock;
  float sums[kEach][kEach] = {};
  for (int first = 0; first < k; first += kDepth) {
    for (int r = t / kDepth; r < kBlock; r += 256 / kDepth)
      tile_a[r][t % kDepth] = a[r * k + first + t % kDepth];
    for (int r = t / kBlock; r < kDepth; r += 256 / kBlock)
      tile_b[r][t % kBlock] = b[(first + r) * n + t % kBlock];
    __syncthreads();
    for (int i = 0; i < kDepth; ++i) {
      float of_a[kEach], of_b[kEach];
      for (int r = 0; r < kEach; ++r) of_a[r] = tile_a[row + r][i];
      for (int s = 0; s < kEach; ++s) of_b[s] = tile_b[i][col + s];
      for (int r = 0; r < kEach; ++r)
        for (int s = 0; s < kEach; ++s) sums[r][s] += of_a[r] * of_b[s];
    }
    __syncthreads();
  }
  for (int r = 0; r < kEach; ++r)
    for (int s = 0; s < kEach; ++s) c[(row + r) * n + col + s] = sums[r][s];
}

__device__ float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ void store4(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }

using TileA = float[kDepth][kBlock];

// Stores a vector along k as a column, so that a thread later reads a vector along m.
__device__ void store_transposed(TileA& tile, int row, int col, float4 v) {
  tile[col][row] = v.x;
  tile[col + 1][row] = v.y;
  tile[col + 2][row] = v.z;
  tile[col + 3][row] = v.w;
}

__device__ void multiply(const TileA& tile_a, const TileA& tile_b, int row, int col,
                         float (&sums)[kEach][kEach]) {
#pragma unroll
  for (int i = 0; i < kDepth; ++i) {
    float of_a[kEach], of_b[kEach];
    store4(of_a, load4(&tile_a[i][row]));
    store4(of_a + 4, load4(&tile_a[i][row + 4]));
    store4(of_b, load4(&tile_b[i][col]));
    store4(of_b + 4, load4(&tile_b[i][col + 4]));
#pragma unroll
    for (int r = 0; r < kEach; ++r)
#pragma unroll
      for (int s = 0; s < kEach; ++s) sums[r][s] += of_a[r] * of_b[s];
  }
}

__device__ void store_square(float* c, int n, int row, int col, float (&sums)[kEach][kEach]) {
  for (int r = 0; r < kEach; ++r) {
    store4(&c[(row + r) * n + col], load4(&sums[r][0]));
    store4(&c[(row + r) * n + col + 4], load4(&sums[r][4]));
  }
}

__global__ void __launch_bounds__(256)
    matmul_vectors(const float* a, const float* b, float* c, int m, int k, int n) {
  __shared__ __align__(16) TileA tile_a, tile_b;
  const int t = threadIdx.x, col = t % 16 * kEach, row = t / 16 * kEach;
  a += blockIdx.y * kBlock * k + t / 2 * k + t % 2 * 4;
  b += blockIdx.x * kBlock + t / 32 * n + t % 32 * 4;
  c += blockIdx.y * kBlock * n + blockIdx.x * kBlock;
  __align__(16) float sums[kEach][kEach] = {};
  for (int first = 0; first < k; first += kDepth) {
    store_transposed(tile_a, t / 2, t % 2 * 4, load4(a + first));
    store4(&tile_b[t / 32][t % 32 * 4], load4(b + first * n));
    __syncthreads();
    multiply(tile_a, tile_b, row, col, sums);
    __syncthreads();
  }
  store_square(c, n, row, col, sums);
}

// The next tiles are loaded into registers while the current ones are multiplied.
__global__ void __launch_bounds__(256)
    matmul_double_buffer(const float* a, const float* b, float* c, int m, int k, int n) {
  __shared__ __align__(16) TileA tiles_a[2], tiles_b[2];
  const int t = threadIdx.x, col = t % 16 * kEach, row = t / 16 * kEach;
  a += blockIdx.y * kBlock * k + t / 2 * k + t % 2 * 4;
  b += blockIdx.x * kBlock + t / 32 * n + t % 32 * 4;
  c += blockIdx.y * kBlock * n + blockIdx.x * kBlock;
  __align__(16) float sums[kEach][kEach] = {};
  store_transposed(tiles_a[0], t / 2, t % 2 * 4, load4(a));
  store4(&tiles_b[0][t / 32][t % 32 * 4], load4(b));
  __syncthreads();
  for (int first = 0, now = 0; first < k; first += kDepth, now = 1 - now) {
    const bool more = first + kDepth < k;
    float4 next_a, next_b;
    if (more) {
      next_a = load4(a + first + kDepth);
      next_b = load4(b + (first + kDepth) * n);
    }
    multiply(tiles_a[now], tiles_b[now], row, col, sums);
    if (more) {
      store_transposed(tiles_a[1 - now], t / 2, t % 2 * 4, next_a);
      store4(&tiles_b[1 - now][t / 32][t % 32 * 4], next_b);
    }
    __syncthreads();
  }
  store_square(c, n, row, col, sums);
}
