// Sorts rows of 1024 numbers by the bitonic network, in the order of the CUDA sample
// sortingNetworks, then with warp shuffles and in registers.
constexpr int kCols = 1024;
constexpr unsigned kAll = 0xffffffff;

__device__ void order(int& low, int& high, bool ascending) {
  if ((low > high) == ascending) {
    const int other = low;
    low = high;
    high = other;
  }
}

// Each thread compares one pair of elements per step.
__device__ void sort(int* row) {
  const int t = threadIdx.x;
  for (int size = 2; size <= kCols; size *= 2)
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const int i = 2 * t - t % distance;
      order(row[i], row[i + distance], (i & size) == 0);
    }
  __syncthreads();
}

__global__ void bitonic_global(const int* x, int* y, int rows, int cols) {
  x += static_cast<size_t>(blockIdx.x) * kCols;
  y += static_cast<size_t>(blockIdx.x) * kCols;
  for (int i = threadIdx.x; i < kCols; i += blockDim.x) y[i] = x[i];
  sort(y);
}

__global__ void bitonic_shared(const int* x, int* y, int rows, int cols) {
  __shared__ int row[kCols];
  x += static_cast<size_t>(blockIdx.x) * kCols;
  y += static_cast<size_t>(blockIdx.x) * kCols;
  for (int i = threadIdx.x; i < kCols; i += blockDim.x) row[i] = x[i];
  sort(row);
  for (int i = threadIdx.x; i < kCols; i += blockDim.x) y[i] = row[i];
}

__device__ int exchanged(int value, int i, int distance, int size) {
  const int other = __shfl_xor_sync(kAll, value, distance);
  const bool ascending = (i & size) == 0, is_low = (i & distance) == 0;
  return ascending == is_low ? min(value, other) : max(value, other);
}

// One element per thread; pairs within a warp are exchanged by shuffles, without a barrier.
__global__ void bitonic_shuffle(const int* x, int* y, int rows, int cols) {
  __shared__ int row[kCols];
  const int i = threadIdx.x;
  const size_t at = static_cast<size_t>(blockIdx.x) * kCols + i;
  int value = x[at];
  for (int size = 2; size <= kCols; size *= 2) {
    for (int distance = size / 2; distance >= 32; distance /= 2) {
      __syncthreads();
      row[i] = value;
      __syncthreads();
      const int other = row[i ^ distance];
      const bool ascending = (i & size) == 0, is_low = (i & distance) == 0;
      value = ascending == is_low ? min(value, other) : max(value, other);
    }
    for (int distance = min(size / 2, 16); distance > 0; distance /= 2)
      value = exchanged(value, i, distance, size);
  }
  y[at] = value;
}

// Element 32 * e + lane of a row is element e of a lane, so a warp sorts a row in registers. Pairs
// in different registers of a lane need neither shuffles nor shared memory.
__global__ void __launch_bounds__(128) bitonic_registers(const int* x, int* y, int rows, int cols) {
  constexpr int kEach = kCols / 32;
  const int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= rows) return;
  x += static_cast<size_t>(row) * kCols;
  y += static_cast<size_t>(row) * kCols;
  int kept[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) kept[e] = x[32 * e + lane];
#pragma unroll
  for (int size = 2; size <= kCols; size *= 2) {
#pragma unroll
    for (int distance = size / 2; distance >= 32; distance /= 2) {
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        if ((e & distance / 32) == 0) order(kept[e], kept[e + distance / 32], (32 * e & size) == 0);
    }
#pragma unroll
    for (int distance = (size < 32 ? size : 32) / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int e = 0; e < kEach; ++e) kept[e] = exchanged(kept[e], 32 * e + lane, distance, size);
    }
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) y[32 * e + lane] = kept[e];
}

// Eight elements per thread of a block of 128: registers, then shuffles, then shared memory.
__global__ void bitonic_hybrid(const int* x, int* y, int rows, int cols) {
  constexpr int kEach = 8, kThreads = kCols / kEach;
  __shared__ int row[kEach][kThreads];
  const int t = threadIdx.x;
  const int4* vectors = reinterpret_cast<const int4*>(x + static_cast<size_t>(blockIdx.x) * kCols);
  const int4 low = vectors[2 * t], high = vectors[2 * t + 1];
  int kept[kEach] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  const int first = kEach * t;
  for (int size = 2; size <= kCols; size *= 2) {
    for (int distance = size / 2; distance >= 32 * kEach; distance /= 2) {
      __syncthreads();
#pragma unroll
      for (int e = 0; e < kEach; ++e) row[e][t] = kept[e];
      __syncthreads();
      const bool ascending = (first & size) == 0, is_low = (first & distance) == 0;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int other = row[e][t ^ distance / kEach];
        kept[e] = ascending == is_low ? min(kept[e], other) : max(kept[e], other);
      }
    }
    for (int distance = min(size / 2, 16 * kEach); distance >= kEach; distance /= 2) {
      const bool ascending = (first & size) == 0, is_low = (first & distance) == 0;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int other = __shfl_xor_sync(kAll, kept[e], distance / kEach);
        kept[e] = ascending == is_low ? min(kept[e], other) : max(kept[e], other);
      }
    }
#pragma unroll
    for (int distance = kEach / 2; distance > 0; distance /= 2)
      if (distance < size) {
#pragma unroll
        for (int e = 0; e < kEach; ++e)
          if ((e & distance) == 0) order(kept[e], kept[e + distance], ((first + e) & size) == 0);
      }
  }
  int4* results = reinterpret_cast<int4*>(y + static_cast<size_t>(blockIdx.x) * kCols);
  results[2 * t] = {kept[0], kept[1], kept[2], kept[3]};
  results[2 * t + 1] = {kept[4], kept[5], kept[6], kept[7]};
}
