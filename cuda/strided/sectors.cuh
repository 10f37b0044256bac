// The ceiling `sectors`: reads all sectors that contain selected elements, and writes the result
// without selecting elements, both with 16-byte accesses.
#pragma once

#include "strided/selection.cuh"

namespace ado::cuda {

inline constexpr int kSectorThreads = 256;
inline constexpr int kSectorLoads = 4;  // in flight per thread

// The number of 16-byte vectors to read per 16-byte vector of the result. Both vectors of a sector
// are read, so the elements of a result vector occupy min(step, sector) / element size vectors.
inline int vectors_per_result(const Array& view) {
  const auto step =
      static_cast<int>(view.stride[0] < kSectorBytes ? view.stride[0] : std::int64_t{kSectorBytes});
  return step / view.type.size;
}

inline std::int64_t whole_vectors(const Array& a) { return a.bytes() / kVectorBytes; }

// One vector of the result per thread.
inline Extent grid_of_sectors(const Array& out) {
  return grid_of(ceil_div(out.bytes(), kVectorBytes * kSectorThreads), 1);
}

#ifdef __CUDACC__

// Vector `v` to read is half of the sector that contains element v / 2. If elements are less than a
// sector apart, it is the vector at v * 16 bytes from the first sector.
static __global__ void __launch_bounds__(kSectorThreads)
    copy_sectors(const std::byte* from, std::int64_t step, uint4* out, std::int64_t vectors,
                 const std::byte* end, int reads) {
  const std::int64_t first = block_x() * kSectorThreads;
  const bool dense = step < kSectorBytes;
  const std::byte* const sector = from - reinterpret_cast<std::uintptr_t>(from) % kSectorBytes;
  uint4 sum = {};
  for (int read = 0; read < reads; read += kSectorLoads) {
    uint4 vector[kSectorLoads] = {};
#pragma unroll
    for (int i = 0; i < kSectorLoads; ++i) {
      const std::int64_t v = first * reads + (read + i) * kSectorThreads + threadIdx.x;
      const std::int64_t within =
          (reinterpret_cast<std::uintptr_t>(from) % kSectorBytes + v / 2 * step) / kSectorBytes *
          kSectorBytes;
      const std::byte* const at =
          sector + (dense ? v * kVectorBytes : within + v % 2 * kVectorBytes);
      if (read + i < reads && at + kVectorBytes <= end)
        vector[i] = *reinterpret_cast<const uint4*>(at);
    }
#pragma unroll
    for (int i = 0; i < kSectorLoads; ++i) {
      sum.x ^= vector[i].x;
      sum.y ^= vector[i].y;
      sum.z ^= vector[i].z;
      sum.w ^= vector[i].w;
    }
  }
  const std::int64_t to = first + threadIdx.x;
  if (to < vectors) out[to] = sum;
}

#endif

}  // namespace ado::cuda
