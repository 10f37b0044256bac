// Index a vector
//
// Each thread computes one element: out[i] = 2 * a[i]. The grid has at least n threads.
//
// hint: A thread finds its element from blockIdx.x, blockDim.x and threadIdx.x.
// hint: The last block has threads that have no element. They must not load or store.
// hint: The index is blockIdx.x * blockDim.x + threadIdx.x. Compare it with n.
// signature: (n)->(n)
// reference: lambda a: 2 * a
// problems: [(rng.random(n, "f4"),) for n in (1000, 1, 128)]
// launch: {"block": 128}
// done: loads <= 32, load_sectors <= 4, store_sectors <= 4
__global__ void twice(const float* a, float* out, int n) {
  // --- your code
  // --- solution
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * a[i];
  // --- end
}
