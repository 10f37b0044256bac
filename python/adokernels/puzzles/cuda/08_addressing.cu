// Which threads add?
//
// A block adds a row as a tree, and threads add neighbours: active lanes are spread over all warps,
// and their accesses have bank conflicts. Choose other pairs. The result stays the same.
//
// hint: In the last step, thread 0 works and 31 lanes of its warp idle. In the first, half do.
// hint: The active threads should be 0, 1, 2 ... without gaps, and so should their elements.
// hint: Let the distance of a pair fall from 128 to 1, and let thread t < distance add.
// signature: (b,256)->(b)
// reference: lambda a: a.sum(1, dtype="i4")
// problems: [(rng.integers(0, 99, (b, 256), "i4"),) for b in (4, 1)]
// launch: {"block": 256, "grid": lambda a, **_: len(a)}
// done: conflicts <= 0, lanes >= 29.5
__global__ void sum(const int* a, int* out, int blocks) {
  __shared__ int part[256];
  const int t = threadIdx.x;
  part[t] = a[blockIdx.x * 256 + t];
  __syncthreads();
  // --- your code
  for (int distance = 1; distance < 256; distance *= 2) {
    const int i = 2 * distance * t;
    if (i < 256) part[i] += part[i + distance];
    __syncthreads();
  }
  // --- solution
  for (int distance = 128; distance > 0; distance /= 2) {
    if (t < distance) part[t] += part[t + distance];
    __syncthreads();
  }
  // --- end
  if (t == 0) out[blockIdx.x] = part[0];
}
