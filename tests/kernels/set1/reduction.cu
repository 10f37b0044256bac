// Sum of integers with atomic operations, in the order of "Optimizing Parallel Reduction in CUDA"
// (Harris 2007) and "Faster Parallel Reductions on Kepler" (Luitjens 2014).
constexpr int kThreads = 256;
constexpr unsigned kAll = 0xffffffff;

__device__ int total;
__device__ unsigned finished;

// The block that finishes last writes the result and resets the state for the next launch.
__device__ void publish(int* out) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&finished, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  out[0] = atomicExch(&total, 0);
  finished = 0;
}

__device__ int element(const int* x, int i, int n) { return i < n ? x[i] : 0; }

__global__ void reduce_atomics(const int* x, int* out, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i < n) atomicAdd(&total, x[i]);
  publish(out);
}

__global__ void reduce_interleaved(const int* x, int* out, int n) {
  __shared__ int sums[kThreads];
  const int t = threadIdx.x;
  sums[t] = element(x, blockIdx.x * kThreads + t, n);
  __syncthreads();
  for (int distance = 1; distance < kThreads; distance *= 2) {
    if (t % (2 * distance) == 0) sums[t] += sums[t + distance];
    __syncthreads();
  }
  if (t == 0) atomicAdd(&total, sums[0]);
  publish(out);
}

__global__ void reduce_strided(const int* x, int* out, int n) {
  __shared__ int sums[kThreads];
  const int t = threadIdx.x;
  sums[t] = element(x, blockIdx.x * kThreads + t, n);
  __syncthreads();
  for (int distance = 1; distance < kThreads; distance *= 2) {
    const int i = 2 * distance * t;
    if (i < kThreads) sums[i] += sums[i + distance];
    __syncthreads();
  }
  if (t == 0) atomicAdd(&total, sums[0]);
  publish(out);
}

__device__ void add_up(int* sums, int value, int* out) {
  const int t = threadIdx.x;
  sums[t] = value;
  __syncthreads();
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    if (t < distance) sums[t] += sums[t + distance];
    __syncthreads();
  }
  if (t == 0) atomicAdd(&total, sums[0]);
  publish(out);
}

__global__ void reduce_sequential(const int* x, int* out, int n) {
  __shared__ int sums[kThreads];
  add_up(sums, element(x, blockIdx.x * kThreads + threadIdx.x, n), out);
}

__global__ void reduce_first_add(const int* x, int* out, int n) {
  __shared__ int sums[kThreads];
  const int i = blockIdx.x * 2 * kThreads + threadIdx.x;
  add_up(sums, element(x, i, n) + element(x, i + kThreads, n), out);
}

__device__ int sum_warp(int value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_down_sync(kAll, value, distance);
  return value;
}

__device__ void add_warps(int value, int* out) {
  __shared__ int sums[kThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  value = sum_warp(value);
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  if (warp == 0) {
    value = sum_warp(lane < kThreads / 32 ? sums[lane] : 0);
    if (lane == 0) atomicAdd(&total, value);
  }
  publish(out);
}

__global__ void reduce_shuffle(const int* x, int* out, int n) {
  const int i = blockIdx.x * 2 * kThreads + threadIdx.x;
  add_warps(element(x, i, n) + element(x, i + kThreads, n), out);
}

__global__ void reduce_many(const int* x, int* out, int n) {
  int sum = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) sum += x[i];
  add_warps(sum, out);
}

__global__ void reduce_vectors(const int* x, int* out, int n) {
  const int first = blockIdx.x * kThreads + threadIdx.x, step = gridDim.x * kThreads;
  int sum = 0;
  for (int i = first; i < n / 4; i += step) {
    const int4 v = reinterpret_cast<const int4*>(x)[i];
    sum += (v.x + v.y) + (v.z + v.w);
  }
  for (int i = n / 4 * 4 + first; i < n; i += step) sum += x[i];
  add_warps(sum, out);
}
