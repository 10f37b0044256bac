// A double-buffered pipeline
//
// A block adds the chunks of 128 elements of its row. While it adds one chunk, the next is copied
// asynchronously into the other buffer. Write the pipeline.
//
// hint: fetch(k) starts the copy of chunk k into buffer k % 2. Start chunk 0 before the loop, and
//   chunk k + 1 in iteration k, before you use chunk k.
// hint: __pipeline_wait_prior(1) waits for all copies but the last one. In the last iteration,
//   there is no later copy: wait for all with 0. A thread sees only its own copies: then a barrier.
// hint: A second barrier at the end of the iteration: the buffer is free only if all have read it.
// signature: (b,m)->(b,128)
// reference: lambda a: sum(a.reshape(len(a), -1, 128)[:, :, ::-1].transpose(1, 0, 2)).astype("i4")
// problems: [(rng.integers(0, 99, (b, 128 * k), "i4"),) for b, k in ((2, 5), (1, 1), (1, 2))]
// launch: {"block": 128, "grid": lambda a, **_: len(a)}
// done: copies >= 40, loads <= 40, barriers <= 80, copies_in_flight >= 1
#include <cuda_pipeline.h>

__global__ void add_chunks(const int* a, int* out, int rows, int m) {
  __shared__ int buffer[2][128];
  const int t = threadIdx.x, chunks = m / 128;
  auto fetch = [&](int k) {
    __pipeline_memcpy_async(&buffer[k % 2][t], a + blockIdx.x * m + k * 128 + t, 4);
    __pipeline_commit();
  };
  int sum = 0;
  // --- your code
  for (int k = 0; k < chunks; ++k) {
    sum += a[blockIdx.x * m + k * 128 + 127 - t];
  }
  // --- solution
  fetch(0);
  for (int k = 0; k < chunks; ++k) {
    if (k + 1 < chunks) {
      fetch(k + 1);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    sum += buffer[k % 2][127 - t];
    __syncthreads();
  }
  // --- end
  out[blockIdx.x * 128 + t] = sum;
}
