// A coalesced copy
//
// Each thread copies four elements. The result is correct, but a request of a warp touches 16
// sectors of 32 bytes, and its 32 floats fit in four. Let a block copy the same 512 elements with
// coalesced accesses.
//
// hint: Thread t copies the elements 4 t to 4 t + 3. Its neighbour is 16 bytes away.
// hint: In each iteration, neighbouring threads must copy neighbouring elements.
// hint: The distance between two elements of one thread is blockDim.x.
// signature: (n)->(n)
// reference: lambda a: a.copy()
// problems: [(rng.random(n, "f4"),) for n in (2048, 5, 700)]
// launch: {"block": 128, "grid": lambda a, **_: -(-a.size // 512)}
// done: loads <= 64, load_sectors <= 4, store_sectors <= 4
__global__ void copy(const float* a, float* out, int n) {
  const int start = 4 * blockIdx.x * blockDim.x;
  for (int k = 0; k < 4; ++k) {
    // --- your code
    const int i = start + 4 * threadIdx.x + k;
    // --- solution
    const int i = start + k * blockDim.x + threadIdx.x;
    // --- end
    if (i < n) out[i] = a[i];
  }
}
