// Inclusive scan of each row of 1024 integers, in the order of GPU Gems 3, chapter 39, and of the
// later scans with warp shuffles (CUDA sample shfl_scan, Merrill and Garland).
constexpr int kCols = 1024;
constexpr unsigned kAll = 0xffffffff;

__global__ void scan_naive(const int* x, int* y, int rows, int cols) {
  __shared__ int sums[2][kCols];
  const int t = threadIdx.x;
  const size_t at = static_cast<size_t>(blockIdx.x) * kCols + t;
  int now = 0;
  sums[now][t] = x[at];
  __syncthreads();
  for (int distance = 1; distance < kCols; distance *= 2) {
    sums[1 - now][t] = sums[now][t] + (t >= distance ? sums[now][t - distance] : 0);
    now = 1 - now;
    __syncthreads();
  }
  y[at] = sums[now][t];
}

// One place of padding per 32 elements, or none.
template <bool kPadded>
__device__ int place(int i) {
  return kPadded ? i + i / 32 : i;
}

// Sums up a tree and down again (Blelloch); each thread has two elements.
template <bool kPadded>
__device__ void scan_tree(int* sums) {
  const int t = threadIdx.x;
  int offset = 1;
  for (int active = kCols / 2; active > 0; active /= 2, offset *= 2) {
    __syncthreads();
    if (t < active) {
      const int left = place<kPadded>(offset * (2 * t + 1) - 1);
      sums[place<kPadded>(offset * (2 * t + 2) - 1)] += sums[left];
    }
  }
  __syncthreads();
  if (t == 0) sums[place<kPadded>(kCols - 1)] = 0;
  for (int active = 1; active < kCols; active *= 2) {
    offset /= 2;
    __syncthreads();
    if (t < active) {
      const int left = place<kPadded>(offset * (2 * t + 1) - 1);
      const int right = place<kPadded>(offset * (2 * t + 2) - 1);
      const int sum = sums[left];
      sums[left] = sums[right];
      sums[right] += sum;
    }
  }
  __syncthreads();
}

__global__ void scan_work_efficient(const int* x, int* y, int rows, int cols) {
  __shared__ int sums[kCols];
  const int i = 2 * threadIdx.x;
  x += static_cast<size_t>(blockIdx.x) * kCols;
  y += static_cast<size_t>(blockIdx.x) * kCols;
  const int first = x[i], second = x[i + 1];
  sums[i] = first;
  sums[i + 1] = second;
  scan_tree<false>(sums);
  y[i] = sums[i] + first;
  y[i + 1] = sums[i + 1] + second;
}

__global__ void scan_conflict_free(const int* x, int* y, int rows, int cols) {
  __shared__ int sums[kCols + kCols / 32];
  const int i = threadIdx.x, j = i + kCols / 2;
  x += static_cast<size_t>(blockIdx.x) * kCols;
  y += static_cast<size_t>(blockIdx.x) * kCols;
  const int first = x[i], second = x[j];
  sums[place<true>(i)] = first;
  sums[place<true>(j)] = second;
  scan_tree<true>(sums);
  y[i] = sums[place<true>(i)] + first;
  y[j] = sums[place<true>(j)] + second;
}

__device__ int scan_warp(int value) {
  const int lane = threadIdx.x % 32;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(kAll, value, distance);
    if (lane >= distance) value += other;
  }
  return value;
}

// The sum of the values of earlier warps, for a block of kWarps warps.
template <int kWarps>
__device__ int sum_of_earlier_warps(int value_of_last_lane) {
  __shared__ int sums[kWarps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 31) sums[warp] = value_of_last_lane;
  __syncthreads();
  if (warp == 0) {
    const int sum = scan_warp(lane < kWarps ? sums[lane] : 0);
    if (lane < kWarps) sums[lane] = sum;
  }
  __syncthreads();
  return warp ? sums[warp - 1] : 0;
}

__global__ void scan_shuffle(const int* x, int* y, int rows, int cols) {
  const size_t at = static_cast<size_t>(blockIdx.x) * kCols + threadIdx.x;
  const int value = scan_warp(x[at]);
  y[at] = value + sum_of_earlier_warps<32>(value);
}

__global__ void scan_four_per_thread(const int4* x, int4* y, int rows, int cols) {
  const size_t at = static_cast<size_t>(blockIdx.x) * kCols / 4 + threadIdx.x;
  int4 v = x[at];
  v.y += v.x;
  v.z += v.y;
  v.w += v.z;
  const int inclusive = scan_warp(v.w);
  const int before = inclusive - v.w + sum_of_earlier_warps<8>(inclusive);
  y[at] = {v.x + before, v.y + before, v.z + before, v.w + before};
}

__global__ void scan_warp_per_row(const int4* x, int4* y, int rows, int cols) {
  const int lane = threadIdx.x % 32;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  x += static_cast<size_t>(row) * kCols / 4;
  y += static_cast<size_t>(row) * kCols / 4;
  int4 loaded[kCols / 128];
#pragma unroll
  for (int part = 0; part < kCols / 128; ++part) loaded[part] = x[32 * part + lane];
  int carry = 0;
#pragma unroll
  for (int part = 0; part < kCols / 128; ++part) {
    int4 v = loaded[part];
    v.y += v.x;
    v.z += v.y;
    v.w += v.z;
    const int inclusive = scan_warp(v.w);
    const int before = carry + inclusive - v.w;
    carry += __shfl_sync(kAll, inclusive, 31);
    y[32 * part + lane] = {v.x + before, v.y + before, v.z + before, v.w + before};
  }
}
