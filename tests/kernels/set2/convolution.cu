// Two-dimensional convolution with 7 x 7 taps that separate into rows and columns, in the order of
// "Programming Massively Parallel Processors", chapter 7, and of the CUDA sample
// convolutionSeparable. Pixels outside the image are 0.
constexpr int kRadius = 3, kTaps = 2 * kRadius + 1;

__device__ float pixel(const float* a, int row, int col, int rows, int cols) {
  return row >= 0 && col >= 0 && row < rows && col < cols ? a[row * cols + col] : 0;
}

__device__ void convolve(const float* a, const float* taps, float* out, int rows, int cols, int row,
                         int col) {
  if (row >= rows || col >= cols) return;
  float sum = 0;
  for (int i = 0; i < kTaps; ++i)
    for (int j = 0; j < kTaps; ++j)
      sum += taps[i] * taps[j] * pixel(a, row + i - kRadius, col + j - kRadius, rows, cols);
  out[row * cols + col] = sum;
}

// Neighbouring threads compute neighbouring rows.
__global__ void convolution_naive(const float* a, const float* taps, float* out, int rows,
                                  int cols) {
  convolve(a, taps, out, rows, cols, blockIdx.x * blockDim.x + threadIdx.x,
           blockIdx.y * blockDim.y + threadIdx.y);
}

__global__ void convolution_coalesced(const float* a, const float* taps, float* out, int rows,
                                      int cols) {
  convolve(a, taps, out, rows, cols, blockIdx.y * blockDim.y + threadIdx.y,
           blockIdx.x * blockDim.x + threadIdx.x);
}

// Tiles of 32 x 32 results with their halo.
constexpr int kTile = 32, kHaloed = kTile + 2 * kRadius, kThreadRows = 8;

__device__ void load_tile(float (&tile)[kHaloed][kHaloed], const float* a, int rows, int cols) {
  const int first_row = blockIdx.y * kTile - kRadius, first_col = blockIdx.x * kTile - kRadius;
  for (int r = threadIdx.y; r < kHaloed; r += kThreadRows)
    for (int c = threadIdx.x; c < kHaloed; c += kTile)
      tile[r][c] = pixel(a, first_row + r, first_col + c, rows, cols);
  __syncthreads();
}

__global__ void convolution_shared(const float* a, const float* taps, float* out, int rows,
                                   int cols) {
  __shared__ float tile[kHaloed][kHaloed];
  load_tile(tile, a, rows, cols);
  const int col = blockIdx.x * kTile + threadIdx.x;
  for (int r = threadIdx.y; r < kTile; r += kThreadRows) {
    const int row = blockIdx.y * kTile + r;
    if (row >= rows || col >= cols) continue;
    float sum = 0;
    for (int i = 0; i < kTaps; ++i)
      for (int j = 0; j < kTaps; ++j) sum += taps[i] * taps[j] * tile[r + i][threadIdx.x + j];
    out[row * cols + col] = sum;
  }
}

// First the seven taps along the rows, then along the columns.
__global__ void convolution_separable(const float* a, const float* taps, float* out, int rows,
                                      int cols) {
  __shared__ float tile[kHaloed][kHaloed], sums[kHaloed][kTile];
  load_tile(tile, a, rows, cols);
  for (int r = threadIdx.y; r < kHaloed; r += kThreadRows) {
    float sum = 0;
    for (int j = 0; j < kTaps; ++j) sum += taps[j] * tile[r][threadIdx.x + j];
    sums[r][threadIdx.x] = sum;
  }
  __syncthreads();
  const int col = blockIdx.x * kTile + threadIdx.x;
  for (int r = threadIdx.y; r < kTile; r += kThreadRows) {
    const int row = blockIdx.y * kTile + r;
    if (row >= rows || col >= cols) continue;
    float sum = 0;
    for (int i = 0; i < kTaps; ++i) sum += taps[i] * sums[r + i][threadIdx.x];
    out[row * cols + col] = sum;
  }
}

// Each thread walks down a column and keeps the last seven sums along the rows in registers.
constexpr int kWalk = 32;

__device__ float sum_row(const float* a, const float (&w)[kTaps], int row, int col, int rows,
                         int cols) {
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kTaps; ++j) sum += w[j] * pixel(a, row, col + j - kRadius, rows, cols);
  return sum;
}

__global__ void convolution_window(const float* a, const float* taps, float* out, int rows,
                                   int cols) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * kWalk;
  if (col >= cols) return;
  float w[kTaps], window[kTaps];
#pragma unroll
  for (int j = 0; j < kTaps; ++j) w[j] = taps[j];
#pragma unroll
  for (int i = 0; i < kTaps - 1; ++i)
    window[i + 1] = sum_row(a, w, first + i - kRadius, col, rows, cols);
  for (int row = first; row < min(first + kWalk, rows); ++row) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kTaps - 1; ++i) window[i] = window[i + 1];
    window[kTaps - 1] = sum_row(a, w, row + kRadius, col, rows, cols);
#pragma unroll
    for (int i = 0; i < kTaps; ++i) sum += w[i] * window[i];
    out[row * cols + col] = sum;
  }
}

// As before, with four neighbouring columns per thread in vectors; cols is a multiple of 4.
__device__ float4 vector_at(const float* a, int row, int col, int rows, int cols) {
  if (row < 0 || row >= rows || col < 0 || col >= cols) return {0, 0, 0, 0};
  return *reinterpret_cast<const float4*>(a + row * cols + col);
}

__device__ float4 sum_rows(const float* a, const float (&w)[kTaps], int row, int col, int rows,
                           int cols) {
  const float4 l = vector_at(a, row, col - 4, rows, cols), m = vector_at(a, row, col, rows, cols),
               r = vector_at(a, row, col + 4, rows, cols);
  const float values[12] = {l.x, l.y, l.z, l.w, m.x, m.y, m.z, m.w, r.x, r.y, r.z, r.w};
  float sums[4] = {};
#pragma unroll
  for (int c = 0; c < 4; ++c)
#pragma unroll
    for (int j = 0; j < kTaps; ++j) sums[c] += w[j] * values[c + j + 1];
  return {sums[0], sums[1], sums[2], sums[3]};
}

__global__ void convolution_vectors(const float* a, const float* taps, float* out, int rows,
                                    int cols) {
  const int col = 4 * (blockIdx.x * blockDim.x + threadIdx.x), first = blockIdx.y * kWalk;
  if (col >= cols) return;
  float w[kTaps];
  float4 window[kTaps];
#pragma unroll
  for (int j = 0; j < kTaps; ++j) w[j] = taps[j];
#pragma unroll
  for (int i = 0; i < kTaps - 1; ++i)
    window[i + 1] = sum_rows(a, w, first + i - kRadius, col, rows, cols);
  for (int row = first; row < min(first + kWalk, rows); ++row) {
    float4 sum = {};
#pragma unroll
    for (int i = 0; i < kTaps - 1; ++i) window[i] = window[i + 1];
    window[kTaps - 1] = sum_rows(a, w, row + kRadius, col, rows, cols);
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      sum.x += w[i] * window[i].x;
      sum.y += w[i] * window[i].y;
      sum.z += w[i] * window[i].z;
      sum.w += w[i] * window[i].w;
    }
    *reinterpret_cast<float4*>(out + row * cols + col) = sum;
  }
}
