// Layer normalisation of rows of 768 numbers, in the order of llm.c
// (dev/cuda/layernorm_forward.cu).
constexpr int kCols = 768;
constexpr float kEps = 1e-5f;
constexpr unsigned kAll = 0xffffffff;

__device__ float sum_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kAll, value, distance);
  return value;
}

__global__ void layernorm_row(const float* x, const float* weight, const float* bias, float* out,
                              int rows, int cols) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += static_cast<size_t>(row) * kCols;
  out += static_cast<size_t>(row) * kCols;
  float sum = 0, squares = 0;
  for (int i = 0; i < kCols; ++i) sum += x[i];
  const float mean = sum / kCols;
  for (int i = 0; i < kCols; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float scale = 1.0f / sqrtf(squares / kCols + kEps);
  for (int i = 0; i < kCols; ++i) out[i] = scale * (x[i] - mean) * weight[i] + bias[i];
}

__global__ void layernorm_warp(const float* x, const float* weight, const float* bias, float* out,
                               int rows, int cols) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += static_cast<size_t>(row) * kCols;
  out += static_cast<size_t>(row) * kCols;
  float sum = 0, squares = 0;
  for (int i = lane; i < kCols; i += 32) sum += x[i];
  const float mean = sum_warp(sum) / kCols;
  for (int i = lane; i < kCols; i += 32) squares += (x[i] - mean) * (x[i] - mean);
  const float scale = rsqrtf(sum_warp(squares) / kCols + kEps);
  for (int i = lane; i < kCols; i += 32)
    __stcs(out + i, scale * (__ldcs(x + i) - mean) * weight[i] + bias[i]);
}

__global__ void layernorm_one_pass(const float* x, const float* weight, const float* bias,
                                   float* out, int rows, int cols) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += static_cast<size_t>(row) * kCols;
  out += static_cast<size_t>(row) * kCols;
  float sum = 0, squares = 0;
  for (int i = lane; i < kCols; i += 32) {
    const float value = x[i];
    sum += value;
    squares += value * value;
  }
  const float mean = sum_warp(sum) / kCols;
  const float scale = rsqrtf(sum_warp(squares) / kCols - mean * mean + kEps);
  for (int i = lane; i < kCols; i += 32)
    __stcs(out + i, scale * (__ldcs(x + i) - mean) * weight[i] + bias[i]);
}

__device__ float sum_block(float value) {
  __shared__ float sums[32];
  value = sum_warp(value);
  __syncthreads();  // the sums of an earlier call may still be read
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  return sum_warp(lane < blockDim.x / 32 ? sums[lane] : 0);
}

__global__ void layernorm_block(const float* x, const float* weight, const float* bias, float* out,
                                int rows, int cols) {
  x += static_cast<size_t>(blockIdx.x) * kCols;
  out += static_cast<size_t>(blockIdx.x) * kCols;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < kCols; i += blockDim.x) {
    const float value = x[i];
    sum += value;
    squares += value * value;
  }
  const float mean = sum_block(sum) / kCols;
  const float scale = rsqrtf(sum_block(squares) / kCols - mean * mean + kEps);
  for (int i = threadIdx.x; i < kCols; i += blockDim.x)
    __stcs(out + i, scale * (__ldcs(x + i) - mean) * weight[i] + bias[i]);
}

// One warp per row; the row, the weights and the biases are staged in shared memory as vectors.
__global__ void layernorm_shared(const float4* x, const float4* weight, const float4* bias,
                                 float4* out, int rows, int cols) {
  constexpr int kVectors = kCols / 4, kWarps = 8;
  __shared__ float4 weights[kVectors], biases[kVectors], staged[kWarps][kVectors];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = blockIdx.x * kWarps + warp;
  for (int i = threadIdx.x; i < kVectors; i += blockDim.x) {
    weights[i] = weight[i];
    biases[i] = bias[i];
  }
  __syncthreads();
  if (row >= rows) return;
  x += static_cast<size_t>(row) * kVectors;
  out += static_cast<size_t>(row) * kVectors;
  float sum = 0, squares = 0;
  for (int i = lane; i < kVectors; i += 32) {
    const float4 v = __ldcs(x + i);
    sum += (v.x + v.y) + (v.z + v.w);
    staged[warp][i] = v;
  }
  const float mean = sum_warp(sum) / kCols;
  for (int i = lane; i < kVectors; i += 32) {
    const float4 v = staged[warp][i];
    squares += (v.x - mean) * (v.x - mean) + (v.y - mean) * (v.y - mean) +
               (v.z - mean) * (v.z - mean) + (v.w - mean) * (v.w - mean);
  }
  const float scale = rsqrtf(sum_warp(squares) / kCols + kEps);
  for (int i = lane; i < kVectors; i += 32) {
    const float4 v = staged[warp][i], w = weights[i], b = biases[i];
    __stcs(out + i, float4{scale * (v.x - mean) * w.x + b.x, scale * (v.y - mean) * w.y + b.y,
                           scale * (v.z - mean) * w.z + b.z, scale * (v.w - mean) * w.w + b.w});
  }
}

// As before, with the row in registers.
__global__ void layernorm_registers(const float4* x, const float4* weight, const float4* bias,
                                    float4* out, int rows, int cols) {
  constexpr int kEach = kCols / 128;
  const int lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  x += static_cast<size_t>(row) * kCols / 4;
  out += static_cast<size_t>(row) * kCols / 4;
  float4 kept[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) kept[i] = __ldcs(x + 32 * i + lane);
  float sum = 0, squares = 0;
#pragma unroll
  for (float4 v : kept) sum += (v.x + v.y) + (v.z + v.w);
  const float mean = sum_warp(sum) / kCols;
#pragma unroll
  for (float4 v : kept)
    squares += (v.x - mean) * (v.x - mean) + (v.y - mean) * (v.y - mean) +
               (v.z - mean) * (v.z - mean) + (v.w - mean) * (v.w - mean);
  const float scale = rsqrtf(sum_warp(squares) / kCols + kEps);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float4 v = kept[i], w = weight[32 * i + lane], b = bias[32 * i + lane];
    __stcs(out + 32 * i + lane,
           float4{scale * (v.x - mean) * w.x + b.x, scale * (v.y - mean) * w.y + b.y,
                  scale * (v.z - mean) * w.z + b.z, scale * (v.w - mean) * w.w + b.w});
  }
}
