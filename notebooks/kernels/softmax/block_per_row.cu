// One block per row. The threads of a warp access neighbouring columns.
#include <cfloat>

// Each instantiation has its own array, so two reductions need no barrier in between.
template <class Combine>
__device__ float reduce_block(float value, Combine combine) {
  __shared__ float partial[1024];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int distance = blockDim.x / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance)
      partial[threadIdx.x] = combine(partial[threadIdx.x], partial[threadIdx.x + distance]);
    __syncthreads();
  }
  return partial[0];
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
