// A product in tiles
//
// A block of 16 x 16 threads computes a tile of c = a b, and needs each element of a and b only
// once per tile: it loads tiles of 16 x 16 into shared memory. The matrices are square, and n is a
// multiple of 16.
//
// hint: Each thread loads one element of `left` and one of `right`. Neighbours in x load
//   neighbours.
// hint: Between the loads and the sum, all threads wait. What if a fast warp loads the next tile?
// hint: left[y][x] = a[row * n + k + x]; right[y][x] = b[(k + y) * n + col]; sum left[y][j] *
//   right[j][x] between two barriers.
// signature: (n,n),(n,n)->(n,n)
// reference: lambda a, b: (a @ b).astype("i4")
// problems: [tuple(rng.integers(0, 9, (2, n, n), "i4")) for n in (48, 16)]
// launch: {"block": (16, 16)}
// done: loads <= 432, conflicts <= 0
__global__ void multiply(const int* a, const int* b, int* c, int n) {
  __shared__ int left[16][16], right[16][16];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
  int sum = 0;
  for (int k = 0; k < n; k += 16) {
    // --- your code
    for (int j = 0; j < 16; ++j) sum += a[row * n + k + j] * b[(k + j) * n + col];
    // --- solution
    left[y][x] = a[row * n + k + x];
    right[y][x] = b[(k + y) * n + col];
    __syncthreads();
    for (int j = 0; j < 16; ++j) sum += left[y][j] * right[j][x];
    __syncthreads();
    // --- end
  }
  c[row * n + col] = sum;
}
