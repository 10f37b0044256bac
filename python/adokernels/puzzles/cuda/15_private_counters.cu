// Private counters
//
// Each of 32 threads counts how often the digits 0 to 7 occur in its own row of `a`, without
// atomics: it has eight counters in shared memory. Arrange the counters without bank conflicts.
//
// hint: In one instruction, the lanes access counters of different digits. Only the thread is
//   fixed.
// hint: A bank is the index of a word modulo 32. Give each thread its own bank.
// hint: Counter d of thread t is at 32 * d + t.
// signature: (32,m)->(8,32)
// reference: lambda a: np.array([(a == d).sum(1) for d in range(8)], "i4")
// problems: [(rng.integers(0, 8, (32, m), "i4"),) for m in (40, 1)]
// launch: {"block": 32, "grid": 1}
// done: conflicts <= 0
__global__ void digits(const int* a, int* out, int m) {
  __shared__ int counters[8 * 32];
  const int t = threadIdx.x;
  // --- your code
  auto place = [=](int digit) { return 8 * t + digit; };
  // --- solution
  auto place = [=](int digit) { return 32 * digit + t; };
  // --- end
  for (int d = 0; d < 8; ++d) counters[place(d)] = 0;
  for (int k = 0; k < m; ++k) counters[place(a[t * m + k])] += 1;
  for (int d = 0; d < 8; ++d) out[32 * d + t] = counters[place(d)];
}
