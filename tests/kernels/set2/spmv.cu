// Sparse matrix times vector in CSR format, in the order of Bell and Garland (2008) and of later
// work on vectors of lanes (Steinberger 2017).
constexpr unsigned kAll = 0xffffffff;
// No row has more elements. The checks exchange offsets, which would otherwise make rows of
// millions.
constexpr int kMost = 64;

__device__ int end_of(const int* offsets, int row) {
  return min(offsets[row + 1], offsets[row] + kMost);
}

__global__ void spmv_scalar(const float* values, const int* columns, const int* offsets,
                            const float* x, float* y, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const int end = end_of(offsets, row);
  float sum = 0;
  for (int i = offsets[row]; i < end; ++i) sum += values[i] * x[columns[i]];
  y[row] = sum;
}

template <int kLanes>
__device__ float sum_lanes(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kAll, value, distance);
  return value;
}

template <int kLanes>
__device__ void multiply(const float* values, const int* columns, const int* offsets,
                         const float* x, float* y, int rows) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes, lane = threadIdx.x % kLanes;
  float sum = 0;
  if (row < rows) {
    const int end = end_of(offsets, row);
    for (int i = offsets[row] + lane; i < end; i += kLanes) sum += values[i] * x[columns[i]];
  }
  sum = sum_lanes<kLanes>(sum);
  if (row < rows && lane == 0) y[row] = sum;
}

// As Bell and Garland: the lanes of a warp add up in shared memory.
__global__ void spmv_vector(const float* values, const int* columns, const int* offsets,
                            const float* x, float* y, int rows) {
  __shared__ float sums[256];
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, t = threadIdx.x, lane = t % 32;
  float sum = 0;
  if (row < rows) {
    const int end = end_of(offsets, row);
    for (int i = offsets[row] + lane; i < end; i += 32) sum += values[i] * x[columns[i]];
  }
  sums[t] = sum;
  __syncwarp();
  for (int distance = 16; distance > 0; distance /= 2) {
    if (lane < distance) sums[t] += sums[t + distance];
    __syncwarp();
  }
  if (row < rows && lane == 0) y[row] = sums[t];
}

__global__ void spmv_shuffle(const float* values, const int* columns, const int* offsets,
                             const float* x, float* y, int rows) {
  multiply<32>(values, columns, offsets, x, y, rows);
}

__global__ void spmv_eight_lanes(const float* values, const int* columns, const int* offsets,
                                 const float* x, float* y, int rows) {
  multiply<8>(values, columns, offsets, x, y, rows);
}

// Each lane issues the loads of four elements before it adds them up.
__global__ void spmv_unrolled(const float* values, const int* columns, const int* offsets,
                              const float* x, float* y, int rows) {
  constexpr int kLanes = 8, kEach = 4;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes, lane = threadIdx.x % kLanes;
  float sum = 0;
  if (row < rows) {
    const int end = end_of(offsets, row);
    for (int first = offsets[row] + lane; first < end; first += kLanes * kEach) {
      float of_matrix[kEach], of_x[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int i = first + e * kLanes;
        of_matrix[e] = i < end ? __ldcs(values + i) : 0;
        of_x[e] = i < end ? x[__ldcs(columns + i)] : 0;
      }
#pragma unroll
      for (int e = 0; e < kEach; ++e) sum += of_matrix[e] * of_x[e];
    }
  }
  sum = sum_lanes<kLanes>(sum);
  if (row < rows && lane == 0) y[row] = sum;
}
