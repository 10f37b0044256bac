// Transpose: the ceiling (a copy of the same number of bytes), and as_copy, which transposes a
// single row or column by copying it.
#pragma once

#include "transpose/matrix.cuh"
#include "transpose/registers.cuh"

namespace ado::cuda {
namespace {

#ifdef __CUDACC__

// One 16-byte vector per thread is the fastest of the versions tried: 4.28 TB/s for 2 GiB on an
// H200, where cudaMemcpy reaches 4.27 TB/s. The resident blocks then span the least memory, so DRAM
// pages stay open. Slower versions: 2, 4 or 8 vectors per thread (3 to 6 %), the bulk copy engine
// (0.5 to 4 %, in a persistent ring 8 %), and loads that bypass L1 (3 %). Prefetch and evict-first
// hints made no difference.
__global__ void transpose_copy(const std::byte* a, std::byte* out, std::int64_t bytes) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kVectorBytes;
  if (first + kVectorBytes <= bytes) {
    *reinterpret_cast<uint4*>(out + first) = *reinterpret_cast<const uint4*>(a + first);
  } else {
    for (std::int64_t i = first; i < bytes; ++i) out[i] = a[i];
  }
}

// Transposes a matrix with one row or one column, whose elements stay in order. Each thread stores
// one aligned vector. If a and out are aligned differently, the thread loads two aligned vectors of
// a and realigns them.
__global__ void transpose_as_copy(const std::byte* a, std::byte* out, std::int64_t bytes) {
  const std::int64_t first = thread_x() * kVectorBytes - offset_within(out, kVectorBytes);
  const int offset = offset_within(a + first, kVectorBytes);
  const std::int64_t aligned = first - offset, end = first + kVectorBytes;
  if (first >= 0 && end <= bytes && offset == 0) {
    *reinterpret_cast<uint4*>(out + first) = *reinterpret_cast<const uint4*>(a + first);
  } else if (aligned >= 0 && aligned + 2 * kVectorBytes <= bytes) {
    const auto* vector = reinterpret_cast<const Vector<unsigned, 4>*>(a + aligned);
    *reinterpret_cast<Vector<unsigned, 4>*>(out + first) = realign(vector[0], vector[1], offset);
  } else {  // all bytes are loaded before the first one is stored
    std::byte byte[kVectorBytes];
#pragma unroll
    for (int i = 0; i < kVectorBytes; ++i)
      if (first + i >= 0 && first + i < bytes) byte[i] = a[first + i];
#pragma unroll
    for (int i = 0; i < kVectorBytes; ++i)
      if (first + i >= 0 && first + i < bytes) out[first + i] = byte[i];
  }
}

#endif

// One vector per thread. There is room for one more vector, because the first vector of out may be
// incomplete.
Extent grid_of_copy(const Transpose& p, Extent block) {
  if (p.a.bytes() == 0) return {};
  return grid_of(ceil_div(p.a.bytes() + kVectorBytes - 1, kVectorBytes * block.x), 1);
}

// Returns true if a and out start at the same offset within a vector.
bool same_alignment(const Transpose& p) {
  const auto offset = [](const Array& m) {
    return reinterpret_cast<std::uintptr_t>(m.data) % kVectorBytes;
  };
  return offset(p.a) == offset(p.out);
}

}  // namespace
}  // namespace ado::cuda
