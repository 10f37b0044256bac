// Keep an array in registers
//
// A thread keeps its last four values in an array and replaces the oldest. Registers have no
// addresses, so an array that is indexed at run time is in local memory, which is memory of the
// GPU. Use the array without such an index: out[i] is the sum of a[i], a[i - 1], a[i - 2] and a[i -
// 3].
//
// hint: i % 4 is known only at run time. Which index is known at compile time?
// hint: Shift the array by one place in each iteration, in a loop of constant length.
// hint: for (int j = 3; j > 0; --j) last[j] = last[j - 1]; last[0] = a[...]; the compiler unrolls
//   short loops and renames registers, so the copies cost little.
// signature: (n,64)->(n,64)
// reference: lambda a: sum(np.roll(np.pad(a, ((3, 0), (0, 0))), j, 0)[3:] for j in range(4))
// problems: [(rng.integers(0, 99, (n, 64), "i4"),) for n in (20, 1, 5)]
// launch: {"block": 64, "grid": 1}
// done: local_sectors <= 0
__global__ void sum_of_four(const int* a, int* out, int n) {
  int last[4] = {};
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    // --- your code
    last[i % 4] = a[64 * i + threadIdx.x];
    // --- solution
    for (int j = 3; j > 0; --j) last[j] = last[j - 1];
    last[0] = a[64 * i + threadIdx.x];
    // --- end
    out[64 * i + threadIdx.x] = last[0] + last[1] + last[2] + last[3];
  }
}
