// Single precision
//
// All arrays are float, but the kernel computes in double precision, which takes 2 to 64 times as
// long. Find out why, and keep the formula.
//
// hint: Which type has the literal 0.5 in C++?
// hint: An operation of a float and a double is an operation of doubles.
// hint: 0.5f is a float, and so is 1.0f. There are three places.
// signature: (n)->(n)
// reference: lambda a: np.float32(0.5) * a * a + np.float32(0.25) * a + np.float32(1)
// problems: [(rng.random(n, "f4"),) for n in (256, 1)]
// launch: {"block": 128}
// done: fp64 <= 0
__global__ void polynomial(const float* a, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  // --- your code
  if (i < n) out[i] = 0.5 * a[i] * a[i] + 0.25 * a[i] + 1.0;
  // --- solution
  if (i < n) out[i] = 0.5f * a[i] * a[i] + 0.25f * a[i] + 1.0f;
  // --- end
}
