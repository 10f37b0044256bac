// Copies an array through shared memory, to compare the counters of L1 and L2 for three ways to
// load 16-byte vectors: loads to registers, asynchronous copies through L1 (cp.async.ca), and
// asynchronous copies that bypass L1 (cp.async.cg), as in the variants tiled and two_rows of gpp.
//
// A block copies chunks of kVectors vectors. Each thread reads back only its own vectors, so no
// barrier is needed.

enum Method { kLoad, kThroughL1, kBypass };

template <int kMethod, int kVectors>
__global__ void staging(const double* x, double* out, long long n) {
  __shared__ double2 staged[kVectors];
  const long long vectors = n / 2;
  for (long long first = blockIdx.x * static_cast<long long>(kVectors); first < vectors;
       first += gridDim.x * static_cast<long long>(kVectors)) {
    for (int i = threadIdx.x; i < kVectors && first + i < vectors; i += blockDim.x) {
      const double2* from = reinterpret_cast<const double2*>(x) + first + i;
      const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(staged + i));
      if (kMethod == kLoad) staged[i] = *from;
      if (kMethod == kThroughL1)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
      if (kMethod == kBypass)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    for (int i = threadIdx.x; i < kVectors && first + i < vectors; i += blockDim.x)
      reinterpret_cast<double2*>(out)[first + i] = staged[i];
  }
}
