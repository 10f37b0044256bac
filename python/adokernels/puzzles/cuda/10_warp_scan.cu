// Scan a warp
//
// out[i] is the sum of the elements of the warp up to and including element i.
//
// hint: __shfl_up_sync(0xffffffff, value, d) returns the value of the lane d places below.
// hint: With d = 1, 2, 4, 8 and 16, each step doubles the number of elements in the sum.
// hint: The first d lanes have no such neighbour. They call the shuffle, but must not add.
// signature: (w,32)->(w,32)
// reference: lambda a: a.cumsum(1, dtype="i4")
// problems: [(rng.integers(0, 99, (w, 32), "i4"),) for w in (8, 4)]
// launch: {"block": 128, "grid": lambda a, **_: len(a) // 4}
// done: barriers <= 0, shared <= 0
__global__ void scan(const int* a, int* out, int warps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  int value = a[i];
  // --- your code
  // --- solution
  for (int d = 1; d < 32; d *= 2) {
    const int below = __shfl_up_sync(0xffffffff, value, d);
    if (lane >= d) value += below;
  }
  // --- end
  out[i] = value;
}
