// One block per row. Warps reduce with shuffles.
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

__global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  x += static_cast<long long>(blockIdx.x) * cols;
  y += static_cast<long long>(blockIdx.x) * cols;

  float largest = -FLT_MAX;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) largest = fmaxf(largest, x[col]);
  largest = reduce_block(largest, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) sum += __expf(x[col] - largest);
  sum = reduce_block(sum, [](float a, float b) { return a + b; });

  for (int col = threadIdx.x; col < cols; col += blockDim.x)
    y[col] = __expf(x[col] - largest) / sum;
}
