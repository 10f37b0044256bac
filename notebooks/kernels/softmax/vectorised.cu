// One block per row. Threads access 16 bytes at a time, so cols must be a multiple of 4.
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

template <int kUnroll>
__global__ void softmax(const float4* __restrict__ x, float4* __restrict__ y, int rows, int cols) {
  const int vectors = cols / 4;
  x += static_cast<long long>(blockIdx.x) * vectors;
  y += static_cast<long long>(blockIdx.x) * vectors;

  // The sum is relative to the largest value so far. A new largest value rescales it.
  float largest_so_far = -FLT_MAX, sum = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    const float4 v = x[i];
    const float larger = fmaxf(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)), largest_so_far);
    const float4 e = exponentials(v, larger);
    sum = sum * __expf(largest_so_far - larger) + ((e.x + e.y) + (e.z + e.w));
    largest_so_far = larger;
  }
  const float largest = reduce_block(largest_so_far, [](float a, float b) { return fmaxf(a, b); });
  sum *= __expf(largest_so_far - largest);
  sum = reduce_block(sum, [](float a, float b) { return a + b; });

  const float scale = 1 / sum;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    const float4 e = exponentials(x[i], largest);
    y[i] = {e.x * scale, e.y * scale, e.z * scale, e.w * scale};
  }
}
