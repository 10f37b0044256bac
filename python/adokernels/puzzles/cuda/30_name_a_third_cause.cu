// Name a third cause
//
// This kernel adds the elements of a row that are equal: out[row][v] is the sum of all v. Its loads
// and stores are coalesced. Look at its heat map and at its what-if table (adokernels puzzles
// heatmap name_a_third_cause), and write down the experiment that helps most and the line of the
// accesses that it changes.
//
// hint: How many different addresses do the 32 lanes of a warp update in one instruction?
// hint: Updates of one address happen one after another. Which experiment separates them?
// hint: Write the line of the atomic operation, not the line of the loop.
// signature: (r,m)->(r,32)
// reference: lambda a: np.array([np.bincount(r, r, 32) for r in a]).astype("i4")
// problems: [(rng.integers(0, 3, (2, 512), "i4"),)]
// launch: {"block": 128, "grid": lambda a, **_: len(a)}
// done: cause
__global__ void signs(const int* a, int* out, int rows, int m) {
  __shared__ int sums[32];
  if (threadIdx.x < 32) sums[threadIdx.x] = 0;
  __syncthreads();
  for (int k = threadIdx.x; k < m; k += blockDim.x) {
    const int value = a[blockIdx.x * m + k];
    atomicAdd(&sums[value], value);
  }
  __syncthreads();
  if (threadIdx.x < 32) out[32 * blockIdx.x + threadIdx.x] = sums[threadIdx.x];
}
// --- your code
// experiment: ?
// line: ?
// --- solution
// experiment: atomics spread
// line: 15
// --- end
