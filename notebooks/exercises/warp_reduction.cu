// Exercise: add the values of the 32 lanes of a warp without shared memory.
//
// A block computes one set: first the averages of its vectors, then the product with the matrix.
// Each sum is computed by one warp, whose lanes read neighbouring numbers. The sums of the lanes
// are not added yet, so the result is wrong.

template <class T>
__device__ T warp_sum(T value) {
  // TODO: return the sum of the values of all lanes of the warp, with five steps of
  // __shfl_xor_sync(0xffffffff, value, distance). It returns the value of the lane whose index
  // differs in the bit `distance`.
  return value;
}

// N sets of M vectors of length L, with the M samples of an element next to each other. Column n of
// out is the product of the matrix with the average vector of set n.
template <class T>
__global__ void average_matvec(const T* vectors, const T* matrix, T* out, int N, int L, int M) {
  extern __shared__ __align__(16) unsigned char shared[];
  T* const average = reinterpret_cast<T*>(shared);  // L elements
  const int lane = threadIdx.x, warp = threadIdx.y, warps = blockDim.y, set = blockIdx.x;

  for (int element = warp; element < L; element += warps) {
    const T* const samples = vectors + (static_cast<long long>(set) * L + element) * M;
    T sum = 0;
    for (int m = lane; m < M; m += 32) sum += samples[m];
    sum = warp_sum(sum);
    if (lane == 0) average[element] = sum / static_cast<T>(M);
  }
  __syncthreads();

  for (int row = warp; row < L; row += warps) {
    T sum = 0;
    for (int j = lane; j < L; j += 32)
      sum += matrix[static_cast<long long>(row) * L + j] * average[j];
    sum = warp_sum(sum);
    if (lane == 0) out[static_cast<long long>(row) * N + set] = sum;
  }
}
