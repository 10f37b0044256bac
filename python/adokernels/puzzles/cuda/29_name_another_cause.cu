// Name another cause
//
// The loads and stores of this kernel are coalesced, and it is still slow. Look at its heat map and
// at its what-if table (adokernels puzzles heatmap name_another_cause), and write down the
// experiment that helps most and the line of the accesses that it changes.
//
// hint: The heat map shows the transfers of each line, and how many would suffice.
// hint: An experiment is refused if there is nothing that it could improve. Which ones are left?
// hint: One line transfers more than needed: the other lines have nothing to gain.
// signature: (r,32)->(r,32)
// reference: lambda a: np.array([block.T for block in a.reshape(-1, 32, 32)]).reshape(-1, 32)
// problems: [(rng.random((64, 32), "f4"),)]
// launch: {"block": (32, 8), "grid": lambda a, **_: (1, a.shape[0] // 32)}
// done: cause
__global__ void transpose_blocks(const float* a, float* out, int rows) {
  __shared__ float tile[32][32];
  const int x = threadIdx.x, top = blockIdx.y * 32;
  for (int y = threadIdx.y; y < 32; y += 8) tile[y][x] = a[(top + y) * 32 + x];
  __syncthreads();
  for (int y = threadIdx.y; y < 32; y += 8) {
    const float value = tile[x][y];
    out[(top + y) * 32 + x] = value;
  }
}
// --- your code
// experiment: ?
// line: ?
// --- solution
// experiment: no bank conflicts
// line: 14
// --- end
