// Name the cause
//
// This kernel is correct but slow. Look at its heat map and its what-if table (adokernels puzzles
// heatmap name_the_cause), and write down the experiment that helps most and the line of the
// accesses that it changes. Do not guess: what is the evidence?
//
// hint: The heat map shows the transfers of each line, and how many would suffice.
// hint: An experiment is refused if there is nothing that it could improve. Which ones are left?
// hint: Compare "it changes" in these rows. An experiment that removes all stores is no repair.
// signature: (r,32)->(32,r)
// reference: lambda a: a.T.copy()
// problems: [(rng.random((64, 32), "f4"),)]
// launch: {"block": (32, 8), "grid": lambda a, **_: (1, a.shape[0] // 32)}
// done: cause
__global__ void transpose(const float* a, float* out, int rows) {
  __shared__ float tile[32][33];
  const int x = threadIdx.x, top = blockIdx.y * 32;
  for (int y = threadIdx.y; y < 32; y += 8) tile[y][x] = a[(top + y) * 32 + x];
  __syncthreads();
  for (int y = threadIdx.y; y < 32; y += 8) {
    const float value = tile[y][x];
    out[x * rows + top + y] = value;
  }
}
// --- your code
// experiment: ?
// line: ?
// --- solution
// experiment: stores coalesced
// line: 15
// --- end
