// Histogram of bytes in 256 bins, in the order of "Programming Massively Parallel Processors",
// chapter 9, and of the CUDA sample histogram.
constexpr int kBins = 256;

__device__ unsigned total[kBins];
__device__ unsigned finished;

// The block that finishes last writes the result and resets the state for the next launch.
__device__ void publish(unsigned* out) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&finished, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last) return;
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x)
    out[bin] = atomicExch(&total[bin], 0u);
  if (threadIdx.x == 0) finished = 0;
}

__device__ void clear(unsigned* counts, int size) {
  for (int i = threadIdx.x; i < size; i += blockDim.x) counts[i] = 0;
  __syncthreads();
}

// Adds the counts of a block to the total. A block may have several copies of its counts.
__device__ void commit(const unsigned* counts, int copies) {
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    unsigned count = 0;
    for (int copy = 0; copy < copies; ++copy) count += counts[copy * kBins + bin];
    if (count) atomicAdd(&total[bin], count);
  }
}

__global__ void histogram_global(const unsigned char* x, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&total[x[i]], 1u);
  publish(out);
}

__global__ void histogram_private(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned counts[kBins];
  clear(counts, kBins);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&counts[x[i]], 1u);
  commit(counts, 1);
  publish(out);
}

__global__ void histogram_contiguous(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned counts[kBins];
  clear(counts, kBins);
  const int threads = gridDim.x * blockDim.x, each = (n + threads - 1) / threads;
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * each;
  for (int i = first; i < min(first + each, n); ++i) atomicAdd(&counts[x[i]], 1u);
  commit(counts, 1);
  publish(out);
}

__global__ void histogram_interleaved(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned counts[kBins];
  clear(counts, kBins);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&counts[x[i]], 1u);
  commit(counts, 1);
  publish(out);
}

__global__ void histogram_aggregated(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned counts[kBins];
  clear(counts, kBins);
  int bin = -1;
  unsigned run = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const int next = x[i];
    if (next != bin) {
      if (run) atomicAdd(&counts[bin], run);
      bin = next;
      run = 0;
    }
    ++run;
  }
  if (run) atomicAdd(&counts[bin], run);
  commit(counts, 1);
  publish(out);
}

__device__ void count_word(unsigned* counts, unsigned word) {
  atomicAdd(&counts[word & 255], 1u);
  atomicAdd(&counts[word >> 8 & 255], 1u);
  atomicAdd(&counts[word >> 16 & 255], 1u);
  atomicAdd(&counts[word >> 24], 1u);
}

__device__ void count_vectors(unsigned* counts, const unsigned char* x, int n) {
  const uint4* vectors = reinterpret_cast<const uint4*>(x);
  const int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  for (int i = first; i < n / 16; i += step) {
    const uint4 v = vectors[i];
    count_word(counts, v.x);
    count_word(counts, v.y);
    count_word(counts, v.z);
    count_word(counts, v.w);
  }
  for (int i = n / 16 * 16 + first; i < n; i += step) atomicAdd(&counts[x[i]], 1u);
}

__global__ void histogram_vectors(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned counts[kBins];
  clear(counts, kBins);
  count_vectors(counts, x, n);
  commit(counts, 1);
  publish(out);
}

__global__ void histogram_per_warp(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned counts[8 * kBins];
  clear(counts, 8 * kBins);
  count_vectors(counts + threadIdx.x / 32 * kBins, x, n);
  commit(counts, 8);
  publish(out);
}
