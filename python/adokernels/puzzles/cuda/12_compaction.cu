// Compact a warp
//
// Each warp moves its positive elements to the front of its 32 places, in order, and fills the rest
// with 0. No loop is needed.
//
// hint: A ballot tells every lane which lanes have a positive element.
// hint: The place of an element is the number of positive elements in lower lanes.
// hint: (1u << lane) - 1 has a bit for each lower lane. Lane l also writes 0, if l >= the total.
// signature: (w,32)->(w,32)
// reference: lambda a: np.array([[*row[row > 0], *row[row <= 0] * 0] for row in a], "i4")
// problems: [(rng.integers(-9, 9, (w, 32), "i4"),) for w in (8, 4)]
// launch: {"block": 128, "grid": lambda a, **_: len(a) // 4}
// done: shared <= 0, stores <= 16
__global__ void compact(const int* a, int* out, int warps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  const int value = a[i];
  int* const mine = out + (i - lane);  // the 32 places of this warp
  // --- your code
  mine[lane] = value;
  // --- solution
  const unsigned positive = __ballot_sync(0xffffffff, value > 0);
  if (value > 0) mine[__popc(positive & ((1u << lane) - 1))] = value;
  if (lane >= __popc(positive)) mine[lane] = 0;
  // --- end
}
