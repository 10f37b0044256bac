// One thread per row. The threads of a warp access different rows.
#include <cfloat>

__global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += static_cast<long long>(row) * cols;
  y += static_cast<long long>(row) * cols;

  float largest = -FLT_MAX;
  for (int col = 0; col < cols; ++col) largest = fmaxf(largest, x[col]);

  float sum = 0;
  for (int col = 0; col < cols; ++col) sum += __expf(x[col] - largest);

  for (int col = 0; col < cols; ++col) y[col] = __expf(x[col] - largest) / sum;
}
