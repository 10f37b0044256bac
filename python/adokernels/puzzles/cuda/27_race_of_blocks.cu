// A race of blocks
//
// Each block writes 64 differences out[i] = a[i + 1] - a[i] in place of `a`, which is copied to
// `out` by the same kernel. Blocks run in any order, and __syncthreads() does not wait for another
// block: a block must not read what another block writes. Compute the same without the copy.
//
// hint: Which element does the last thread of a block read, and who has written it?
// hint: All values that you need are in `a`, which no block changes.
// hint: One line is enough. Its right side does not contain `out`.
// signature: (n)->(n)
// reference: lambda a: np.append(a[1:], 0).astype("i4") - a
// problems: [(rng.integers(0, 99, n, "i4"),) for n in (256, 1, 100)]
// launch: {"block": 64}
// done: load_sectors <= 5
__global__ void differences(const int* a, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  // --- your code
  if (i < n) out[i] = a[i];
  __syncthreads();
  const int next = i + 1 < n ? out[i + 1] : 0;
  __syncthreads();
  if (i < n) out[i] = next - out[i];
  // --- solution
  if (i < n) out[i] = (i + 1 < n ? a[i + 1] : 0) - a[i];
  // --- end
}
