// A swizzled tile
//
// A transpose whose tile has no room for padding: it has exactly 32 x 32 words. Store
// the element (row, col) of the tile in another column, so that neither rows nor columns of the
// tile have bank conflicts.
//
// hint: Within a row, any permutation of the columns keeps the 32 words in 32 banks.
// hint: The permutation must differ from row to row, so that a column meets all banks.
// hint: col ^ row, for both the store and the load.
// signature: (r,c)->(c,r)
// reference: lambda a: a.T.copy()
// problems: [(rng.random(shape, "f4"),) for shape in ((64, 96), (32, 32))]
// launch: {"block": (32, 8), "grid": lambda a, **_: (a.shape[1] // 32, a.shape[0] // 32)}
// done: load_sectors <= 4, store_sectors <= 4, conflicts <= 0
__device__ int place(int row, int col) {
  // --- your code
  return 32 * row + col;
  // --- solution
  return 32 * row + (col ^ row);
  // --- end
}

__global__ void transpose(const float* a, float* out, int rows, int cols) {
  __shared__ float tile[32 * 32];
  const int x = threadIdx.x, y = threadIdx.y, left = blockIdx.x * 32, top = blockIdx.y * 32;
  for (int k = y; k < 32; k += 8) tile[place(k, x)] = a[(top + k) * cols + left + x];
  __syncthreads();
  for (int k = y; k < 32; k += 8) out[(left + k) * rows + top + x] = tile[place(x, k)];
}
