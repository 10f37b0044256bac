// A loop over the grid
//
// Two blocks of 128 threads process a vector of any length: out[i] = a[i] + 1. A thread processes
// several elements, and neighbouring threads process neighbouring elements.
//
// hint: The first element of a thread is its index in the grid.
// hint: The step of the loop is the number of threads of the whole grid.
// hint: for (int i = first; i < n; i += gridDim.x * blockDim.x)
// signature: (n)->(n)
// reference: lambda a: a + 1
// problems: [(rng.integers(0, 99, n, "i4"),) for n in (1500, 3, 256, 257)]
// launch: {"block": 128, "grid": 2}
// done: loads <= 48, load_sectors <= 4, store_sectors <= 4
__global__ void increment(const int* a, int* out, int n) {
  const int first = blockIdx.x * blockDim.x + threadIdx.x;
  // --- your code
  if (first < n) out[first] = a[first] + 1;
  // --- solution
  for (int i = first; i < n; i += gridDim.x * blockDim.x) out[i] = a[i] + 1;
  // --- end
}
