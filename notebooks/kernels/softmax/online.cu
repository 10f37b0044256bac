// One block per row. Maximum and sum are computed in the same pass.
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

  // The sum is relative to the largest value so far. A new largest value rescales it.
  float largest_so_far = -FLT_MAX, sum = 0;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    const float larger = fmaxf(largest_so_far, x[col]);
    sum = sum * __expf(largest_so_far - larger) + __expf(x[col] - larger);
    largest_so_far = larger;
  }
  const float largest = reduce_block(largest_so_far, [](float a, float b) { return fmaxf(a, b); });
  sum *= __expf(largest_so_far - largest);
  sum = reduce_block(sum, [](float a, float b) { return a + b; });

  for (int col = threadIdx.x; col < cols; col += blockDim.x)
    y[col] = __expf(x[col] - largest) / sum;
}
