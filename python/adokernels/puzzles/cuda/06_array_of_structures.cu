// An array of structures
//
// Pixels have three floats: red, green, blue. out[i] is their sum. If a thread loads its own pixel,
// a request touches 12 sectors. Load the floats of the block with coalesced requests into shared
// memory first.
//
// hint: The block needs 384 floats. In each of three steps, thread t loads the float t of 128.
// hint: Another thread has loaded the floats of your pixel. Wait for it before you read them.
// hint: pixels[k * 128 + threadIdx.x] in the loads, pixels[3 * threadIdx.x + k] in the sum.
// signature: (n,3)->(n)
// reference: lambda a: a.sum(1, dtype="f4")
// problems: [(rng.integers(0, 99, (n, 3)).astype("f4"),) for n in (512, 1, 200)]
// launch: {"block": 128}
// done: loads <= 48, load_sectors <= 4, conflicts <= 0
__global__ void brightness(const float* a, float* out, int n) {
  __shared__ float pixels[384];
  const int i = blockIdx.x * 128 + threadIdx.x;
  // --- your code
  for (int k = 0; k < 3; ++k)
    if (i < n) pixels[3 * threadIdx.x + k] = a[3 * i + k];
  // --- solution
  for (int k = 0; k < 3; ++k) {
    const int j = k * 128 + threadIdx.x;
    if (blockIdx.x * 384 + j < 3 * n) pixels[j] = a[blockIdx.x * 384 + j];
  }
  __syncthreads();
  // --- end
  const float* const mine = pixels + 3 * threadIdx.x;
  if (i < n) out[i] = mine[0] + mine[1] + mine[2];
}
