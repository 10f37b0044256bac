// Eight loads in flight
//
// A warp that waits for one load at a time wastes the bandwidth of the memory. The compiler may not
// move a load above a store that could change its value, so this loop waits for each load, even if
// it is unrolled. Process eight elements per iteration: first load all, then store all. The grader
// looks at the compiled loop: how many loads does it issue before it waits for one of them?
//
// hint: An array of eight elements stays in registers if all loops over it are unrolled.
// hint: One loop fills the array, a second loop multiplies and stores. Both need #pragma unroll.
// hint: Load a[i + j * step] into loaded[j], with j from 0 to 7. Then store.
// signature: (n)->(n)
// reference: lambda a: 3 * a
// problems: [(rng.random(n, "f4"),) for n in (4096, 1024)]
// launch: {"block": 128, "grid": 1}
// done: loads_in_flight >= 8
__global__ void triple(const float* a, float* out, int n) {  // n is a multiple of 1024
  const int step = blockDim.x;
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 8 * step) {
    // --- your code
    for (int j = 0; j < 8; ++j) out[i + j * step] = 3 * a[i + j * step];
    // --- solution
    float loaded[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) loaded[j] = a[i + j * step];
#pragma unroll
    for (int j = 0; j < 8; ++j) out[i + j * step] = 3 * loaded[j];
    // --- end
  }
}
