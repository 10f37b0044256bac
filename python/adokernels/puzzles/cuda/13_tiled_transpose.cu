// Transpose through a tile
//
// A block of 32 x 8 threads has loaded a tile of 32 x 32 elements along the rows of `a`. Store it
// so that neighbouring threads write neighbouring elements of `out`, which has cols rows and rows
// columns. Reading a column of the tile must not have bank conflicts.
//
// hint: Threads read elements that other threads have loaded. What must happen before?
// hint: The tile (by, bx) of a becomes the tile (bx, by) of out: exchange the block indices only.
// hint: The 32 elements of a column are 32 words apart, all in one bank. A row of 33 spreads them.
// signature: (r,c)->(c,r)
// reference: lambda a: a.T.copy()
// problems: [(rng.random(shape, "f4"),) for shape in ((64, 96), (1, 1), (33, 70))]
// launch: {"block": (32, 8), "grid": lambda a, **_: (-(-a.shape[1] // 32), -(-a.shape[0] // 32))}
// done: load_sectors <= 4, store_sectors <= 4, conflicts <= 0
__global__ void transpose(const float* a, float* out, int rows, int cols) {
  // --- your code
  __shared__ float tile[32][32];
  const int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (row + k < rows && col < cols)
      tile[threadIdx.y + k][threadIdx.x] = a[(row + k) * cols + col];
  // --- solution
  __shared__ float tile[32][33];
  const int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (row + k < rows && col < cols)
      tile[threadIdx.y + k][threadIdx.x] = a[(row + k) * cols + col];
  __syncthreads();
  const int out_col = blockIdx.y * 32 + threadIdx.x, out_row = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (out_row + k < cols && out_col < rows)
      out[(out_row + k) * rows + out_col] = tile[threadIdx.x][threadIdx.y + k];
  // --- end
}
