// A tile with a halo
//
// out[i] = a[i - 1] + a[i] + a[i + 1], with 0 outside of the vector. The block keeps its 128
// elements and one neighbour on each side in shared memory, so that each element is loaded once
// from global memory.
//
// hint: tile[t + 1] belongs to thread t. tile[0] and tile[129] are the neighbours: the halo.
// hint: Two threads load one more element each. Elements outside of the vector are 0.
// hint: The first thread loads a[i - 1], the last thread a[i + 1]. Then wait for all loads.
// signature: (n)->(n)
// reference: lambda a: np.convolve(a, [1, 1, 1], "same").astype("i4")
// problems: [(rng.integers(0, 99, n, "i4"),) for n in (1024, 3, 129, 300)]
// launch: {"block": 128}
// done: loads <= 46
__global__ void sum_of_three(const int* a, int* out, int n) {
  __shared__ int tile[130];
  const int i = blockIdx.x * 128 + threadIdx.x, t = threadIdx.x;
  // --- your code
  tile[t + 1] = i < n ? a[i] : 0;
  // --- solution
  tile[t + 1] = i < n ? a[i] : 0;
  if (t == 0) tile[0] = i > 0 ? a[i - 1] : 0;
  if (t == 127) tile[129] = i + 1 < n ? a[i + 1] : 0;
  __syncthreads();
  // --- end
  if (i < n) out[i] = tile[t] + tile[t + 1] + tile[t + 2];
}
