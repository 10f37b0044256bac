// One atomic per warp
//
// Count the positive elements of a vector of at most 1024 elements. Updates of one address happen
// one after another, so each warp should update the counter once.
//
// hint: Find the number of positive elements of a warp first, without atomics.
// hint: __popc(__ballot_sync(0xffffffff, positive)) is this number, in all lanes.
// hint: Then lane 0 alone calls atomicAdd(out, number).
// signature: (n)->(1)
// reference: lambda a: np.array([(a > 0).sum()], "i4")
// problems: [(rng.integers(-9, 9, n, "i4"),) for n in (1024, 1, 300)]
// launch: {"block": 1024, "grid": 1}
// done: updates <= 32
__global__ void count(const int* a, int* out, int n) {
  const int t = threadIdx.x;
  const bool positive = t < n && a[t] > 0;
  if (t == 0) *out = 0;
  __syncthreads();
  // --- your code
  if (positive) atomicAdd(out, 1);
  // --- solution
  const int number = __popc(__ballot_sync(0xffffffff, positive));
  if (t % 32 == 0) atomicAdd(out, number);
  // --- end
}
