// Sums of the columns of a matrix (the gradient of a bias), in the order of llm.c
// (dev/cuda/matmul_backward_bias.cu).
constexpr int kMostCols = 8192;
constexpr unsigned kAll = 0xffffffff;

__device__ float totals[kMostCols];
__device__ unsigned finished[kMostCols];

__device__ float sum_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kAll, value, distance);
  return value;
}

__global__ void column_sum_block(const float* x, float* out, int rows, int cols) {
  __shared__ float sums[256];
  const int t = threadIdx.x;
  float sum = 0;
  for (int row = t; row < rows; row += 256) sum += x[static_cast<size_t>(row) * cols + blockIdx.x];
  sums[t] = sum;
  __syncthreads();
  for (int distance = 128; distance > 0; distance /= 2) {
    if (t < distance) sums[t] += sums[t + distance];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = sums[0];
}

__global__ void column_sum_warp(const float* x, float* out, int rows, int cols) {
  const int col = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (col >= cols) return;
  float sum = 0;
  for (int row = lane; row < rows; row += 32) sum += x[static_cast<size_t>(row) * cols + col];
  sum = sum_warp(sum);
  if (lane == 0) out[col] = sum;
}

// Adds the sums of the warps of a block. All warps have the same 32 columns.
template <int kWarps>
__device__ float sum_over_warps(float sum) {
  __shared__ float sums[kWarps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp) return 0;
  for (int other = 1; other < kWarps; ++other) sum += sums[other][lane];
  return sum;
}

// Neighbouring lanes sum neighbouring columns. Each of the 32 warps sums every 32nd row.
__global__ void column_sum_coalesced(const float* x, float* out, int rows, int cols) {
  constexpr int kWarps = 32;
  const int col = blockIdx.x * 32 + threadIdx.x % 32;
  float sum = 0;
  if (col < cols)
    for (int row = threadIdx.x / 32; row < rows; row += kWarps)
      sum += x[static_cast<size_t>(row) * cols + col];
  sum = sum_over_warps<kWarps>(sum);
  if (threadIdx.x < 32 && col < cols) out[col] = sum;
}

// The block that finishes last in a group of columns writes their sums and resets the state for
// the next launch.
__device__ bool is_last_of_group() {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicAdd(&finished[blockIdx.x], 1u) == gridDim.y - 1;
    if (is_last) finished[blockIdx.x] = 0;
  }
  __syncthreads();
  return is_last;
}

// Several blocks share a group of columns, and add their sums by atomic operations.
__global__ void column_sum_split(const float* x, float* out, int rows, int cols) {
  constexpr int kWarps = 8;
  const int col = blockIdx.x * 32 + threadIdx.x % 32;
  float sum = 0;
  if (col < cols)
    for (int row = blockIdx.y * kWarps + threadIdx.x / 32; row < rows; row += gridDim.y * kWarps)
      sum += x[static_cast<size_t>(row) * cols + col];
  sum = sum_over_warps<kWarps>(sum);
  const bool has_column = threadIdx.x < 32 && col < cols;
  if (has_column) atomicAdd(&totals[col], sum);
  if (is_last_of_group() && has_column) out[col] = atomicExch(&totals[col], 0.0f);
}

__device__ void add(float4& sum, float4 v) {
  sum.x += v.x;
  sum.y += v.y;
  sum.z += v.z;
  sum.w += v.w;
}

// Four columns per lane; cols is a multiple of 4. Each thread loads kRows rows before it adds them.
template <int kRows>
__device__ void sum_vectors(const float4* x, float* out, int rows, int cols) {
  constexpr int kWarps = 8;
  __shared__ float4 sums[kWarps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, vectors = cols / 4;
  const int at = blockIdx.x * 32 + lane, step = gridDim.y * kWarps;
  float4 sum = {};
  if (at < vectors)
    for (int first = blockIdx.y * kWarps + warp; first < rows; first += kRows * step) {
      float4 loaded[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int row = first + r * step;
        loaded[r] = row < rows ? x[static_cast<size_t>(row) * vectors + at] : float4{};
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) add(sum, loaded[r]);
    }
  sums[warp][lane] = sum;
  __syncthreads();
  const float* scalars = &sums[0][0].x;
  const int col = blockIdx.x * 128 + threadIdx.x;
  const bool has_column = threadIdx.x < 128 && col < cols;
  if (has_column) {
    float total = 0;
    for (int other = 0; other < kWarps; ++other) total += scalars[other * 128 + threadIdx.x];
    atomicAdd(&totals[col], total);
  }
  if (is_last_of_group() && has_column) out[col] = atomicExch(&totals[col], 0.0f);
}

__global__ void column_sum_vectors(const float4* x, float* out, int rows, int cols) {
  sum_vectors<1>(x, out, rows, cols);
}

__global__ void column_sum_unrolled(const float4* x, float* out, int rows, int cols) {
  sum_vectors<8>(x, out, rows, cols);
}
