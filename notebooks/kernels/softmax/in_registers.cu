// One block per row, which is kept in registers: cols is at most 4 * kVectors * blockDim.x.
#include <cfloat>

template <class Combine>
__device__ float reduce_warp(float value, int lanes, Combine combine) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffff, value, distance));
  return value;
}

// Each instantiation has its own array, so two reductions need no barrier in between.
template <class Combine>
__device__ float reduce_block(float value, Combine combine) {
  __shared__ float partial[32];
  const int warps = blockDim.x / 32;
  value = reduce_warp(value, 32, combine);
  partial[threadIdx.x / 32] = value;
  __syncthreads();
  return reduce_warp(partial[threadIdx.x % warps], warps, combine);
}

__device__ float4 exponentials(float4 v, float largest) {
  return {__expf(v.x - largest), __expf(v.y - largest), __expf(v.z - largest),
          __expf(v.w - largest)};
}

template <int kVectors>
__global__ void __launch_bounds__(1024)
    softmax(const float4* __restrict__ x, float4* __restrict__ y, int rows, int cols) {
  const int vectors = cols / 4;
  x += static_cast<long long>(blockIdx.x) * vectors;
  y += static_cast<long long>(blockIdx.x) * vectors;

  float4 kept[kVectors];  // vectors beyond the end of the row do not change the results
  float largest = -FLT_MAX;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    kept[k] = i < vectors ? x[i] : float4{-FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX};
  }
#pragma unroll
  for (float4 v : kept) largest = fmaxf(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)), largest);
  largest = reduce_block(largest, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0;
#pragma unroll
  for (float4& v : kept) {
    v = exponentials(v, largest);
    sum += (v.x + v.y) + (v.z + v.w);
  }
  sum = reduce_block(sum, [](float a, float b) { return a + b; });

  const float scale = 1 / sum;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    const float4 e = kept[k];
    if (i < vectors) y[i] = {e.x * scale, e.y * scale, e.z * scale, e.w * scale};
  }
}
