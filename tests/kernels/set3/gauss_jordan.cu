// Inverses of a batch of 16 x 16 matrices by Gauss-Jordan elimination, in the order of Anzt et al.
// (2017). The kernels add 16 to the diagonals, which then dominate, so that no pivoting is needed.
constexpr int kOrder = 16, kElements = kOrder * kOrder;
constexpr unsigned kAll = 0xffffffff;

// The element of row i and column j, plus 16 on the diagonal.
__device__ float shifted(float element, int i, int j) { return i == j ? element + 16 : element; }

// One matrix per thread, inverted in place in global memory.
__global__ void gauss_jordan_global(const float* a, float* out, int count, int order) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= count) return;
  a += static_cast<size_t>(index) * kElements;
  float* m = out + static_cast<size_t>(index) * kElements;
  for (int i = 0; i < kElements; ++i) m[i] = shifted(a[i], i / kOrder, i % kOrder);
  for (int k = 0; k < kOrder; ++k) {
    const float pivot = m[k * kOrder + k];
    m[k * kOrder + k] = 1;
    for (int j = 0; j < kOrder; ++j) m[k * kOrder + j] /= pivot;
    for (int i = 0; i < kOrder; ++i) {
      if (i == k) continue;
      const float factor = m[i * kOrder + k];
      m[i * kOrder + k] = 0;
      for (int j = 0; j < kOrder; ++j) m[i * kOrder + j] -= factor * m[k * kOrder + j];
    }
  }
}

// All loops are unrolled, so that the compiler can keep the matrix in registers.
__global__ void __launch_bounds__(128)
    gauss_jordan_private(const float* a, float* out, int count, int order) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= count) return;
  a += static_cast<size_t>(index) * kElements;
  out += static_cast<size_t>(index) * kElements;
  float m[kOrder][kOrder];
#pragma unroll
  for (int i = 0; i < kElements; ++i)
    m[i / kOrder][i % kOrder] = shifted(a[i], i / kOrder, i % kOrder);
#pragma unroll
  for (int k = 0; k < kOrder; ++k) {
    const float pivot = m[k][k];
    m[k][k] = 1;
#pragma unroll
    for (int j = 0; j < kOrder; ++j) m[k][j] /= pivot;
#pragma unroll
    for (int i = 0; i < kOrder; ++i) {
      if (i == k) continue;
      const float factor = m[i][k];
      m[i][k] = 0;
#pragma unroll
      for (int j = 0; j < kOrder; ++j) m[i][j] -= factor * m[k][j];
    }
  }
#pragma unroll
  for (int i = 0; i < kElements; ++i) out[i] = m[i / kOrder][i % kOrder];
}

// Returns an element after the elimination of column k. The arguments are values before it: the
// element, the factor of its row, and the element of the pivot row in the same column.
__device__ float eliminated(float own, float factor, float of_pivot_row, float pivot, bool in_row,
                            bool in_col) {
  if (in_row) return (in_col ? 1 : own) / pivot;
  return (in_col ? 0 : own) - factor * ((in_col ? 1 : of_pivot_row) / pivot);
}

// One block per matrix and one thread per element.
__global__ void gauss_jordan_block(const float* a, float* out, int count, int order) {
  __shared__ float m[kOrder][kOrder];
  const size_t at = static_cast<size_t>(blockIdx.x) * kElements + threadIdx.x;
  const int i = threadIdx.x / kOrder, j = threadIdx.x % kOrder;
  m[i][j] = shifted(a[at], i, j);
  for (int k = 0; k < kOrder; ++k) {
    __syncthreads();
    const float value = eliminated(m[i][j], m[i][k], m[k][j], m[k][k], i == k, j == k);
    __syncthreads();
    m[i][j] = value;
  }
  out[at] = m[i][j];
}

// One warp per matrix, in rows of kStride elements: two lanes per row, with eight columns each.
template <int kStride>
__device__ void invert_by_warp(const float* a, float* out, int count) {
  constexpr int kWarps = 8, kEach = 8;
  __shared__ float matrices[kWarps][kOrder * kStride];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, index = blockIdx.x * kWarps + warp;
  if (index >= count) return;
  a += static_cast<size_t>(index) * kElements;
  out += static_cast<size_t>(index) * kElements;
  float* m = matrices[warp];
  for (int e = lane; e < kElements; e += 32)
    m[e / kOrder * kStride + e % kOrder] = shifted(a[e], e / kOrder, e % kOrder);
  const int i = lane % kOrder, first = lane / kOrder * kEach;
  float* own = m + i * kStride;
  for (int k = 0; k < kOrder; ++k) {
    __syncwarp();
    const float pivot = m[k * kStride + k], factor = (i == k ? -1 : own[k]) / pivot;
    float values[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int j = first + e;
      const float kept = i == k || j == k ? 0 : own[j];
      values[e] = kept - factor * (j == k ? 1 : m[k * kStride + j]);
    }
    __syncwarp();
#pragma unroll
    for (int e = 0; e < kEach; ++e) own[first + e] = values[e];
  }
  __syncwarp();
  for (int e = lane; e < kElements; e += 32) out[e] = m[e / kOrder * kStride + e % kOrder];
}

__global__ void gauss_jordan_warp(const float* a, float* out, int count, int order) {
  invert_by_warp<kOrder>(a, out, count);
}

__global__ void gauss_jordan_padded(const float* a, float* out, int count, int order) {
  invert_by_warp<kOrder + 1>(a, out, count);
}

// Half a warp per matrix. A lane keeps a column in registers, and the lane of column k broadcasts
// the factors of the rows.
template <bool kFast>
__device__ void invert_by_columns(const float* a, float* out, int count) {
  const int index = (blockIdx.x * blockDim.x + threadIdx.x) / kOrder, j = threadIdx.x % kOrder;
  const bool is_valid = index < count;
  const size_t at = static_cast<size_t>(index) * kElements + j;
  float column[kOrder];
#pragma unroll
  for (int i = 0; i < kOrder; ++i)
    column[i] = is_valid ? shifted(a[at + i * kOrder], i, j) : i == j;
#pragma unroll
  for (int k = 0; k < kOrder; ++k) {
    const float pivot = __shfl_sync(kAll, column[k], k, kOrder), value = j == k ? 1 : column[k];
    const float scaled = kFast ? __fdividef(value, pivot) : value / pivot;
#pragma unroll
    for (int i = 0; i < kOrder; ++i) {
      if (i == k) continue;
      const float factor = __shfl_sync(kAll, column[i], k, kOrder);
      column[i] = (j == k ? 0 : column[i]) - factor * scaled;
    }
    column[k] = scaled;
  }
  if (!is_valid) return;
#pragma unroll
  for (int i = 0; i < kOrder; ++i) out[at + i * kOrder] = column[i];
}

__global__ void gauss_jordan_registers(const float* a, float* out, int count, int order) {
  invert_by_columns<false>(a, out, count);
}

__global__ void gauss_jordan_intrinsics(const float* a, float* out, int count, int order) {
  invert_by_columns<true>(a, out, count);
}
