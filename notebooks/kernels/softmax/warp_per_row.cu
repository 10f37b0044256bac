// One warp per row.
#include <cfloat>

template <class Combine>
__device__ float reduce_warp(float value, Combine combine) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffff, value, distance));
  return value;
}

__global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += static_cast<long long>(row) * cols;
  y += static_cast<long long>(row) * cols;

  float largest = -FLT_MAX;
  for (int col = lane; col < cols; col += 32) largest = fmaxf(largest, x[col]);
  largest = reduce_warp(largest, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0;
  for (int col = lane; col < cols; col += 32) sum += __expf(x[col] - largest);
  sum = reduce_warp(sum, [](float a, float b) { return a + b; });

  for (int col = lane; col < cols; col += 32) y[col] = __expf(x[col] - largest) / sum;
}
