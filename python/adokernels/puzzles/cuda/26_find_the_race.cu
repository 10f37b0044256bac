// Find the race
//
// A block reverses the rows of 128 elements, one after another. Most runs have a correct result.
// Where do two threads access the same word without a barrier in between? Repair the loop.
//
// hint: Follow one fast warp and one slow warp through the end of an iteration.
// hint: The fast warp stores the next row while the slow warp still reads this row.
// hint: Put a barrier after the last read of an iteration, for all threads.
// signature: (r,128)->(r,128)
// reference: lambda a: a[:, ::-1].copy()
// problems: [(rng.integers(0, 99, (r, 128), "i4"),) for r in (4, 1)]
// launch: {"block": 128, "grid": 1}
// done: barriers <= 32
__global__ void reverse(const int* a, int* out, int rows) {
  __shared__ int row[128];
  const int t = threadIdx.x;
  for (int r = 0; r < rows; ++r) {
    // --- your code
    row[t] = a[128 * r + t];
    __syncthreads();
    out[128 * r + t] = row[127 - t];
    // --- solution
    row[t] = a[128 * r + t];
    __syncthreads();
    out[128 * r + t] = row[127 - t];
    __syncthreads();
    // --- end
  }
}
