// staged: a block loads a contiguous range of bytes with 16-byte loads, and selects elements from
// shared memory.
//
// With one element per thread and load, a request uses part of each sector. Other lanes or warps
// request the other elements of the sector again, or nothing requests them. Here, every vector is
// requested once. A warp requests 512 bytes per load for any element size.
#pragma once

#include "strided/selection.cuh"

namespace ado::cuda {

inline constexpr int kStagedThreads = 256;
inline constexpr int kStagedVectors = 4;  // in flight per thread
inline constexpr int kStagedBytes = kStagedThreads * kStagedVectors * kVectorBytes;

// With fewer results, the barrier per tile costs more than the saved requests: on an H200, up to 9
// % of the time of a kernel with one load per element. With more results, staged takes 0.96 to 1.02
// times the time of that kernel.
inline constexpr std::int64_t kFewestStagedResults = std::int64_t{4} << 20;

// Elements per block. Their bytes fit the tile at any alignment. The number is a multiple of 32, so
// that each block stores whole sectors of an aligned result. 0: the elements are too far apart.
inline int staged_elements(std::int64_t step_bytes) {
  return static_cast<int>((kStagedBytes - kVectorBytes) / step_bytes / 32 * 32);
}

#ifdef __CUDACC__

// `begin` and `end`: the whole array, which contains the selected elements. The tile begins at the
// vector that contains the first element of the block. If a vector extends beyond the array, the
// block loads single elements instead.
template <class T>
static __global__ void __launch_bounds__(kStagedThreads)
    select_staged(Selection<T> s, const T* begin, const T* end, int elements) {
  using Wide = WideVector<T>;
  constexpr int kLength = kVectorLength<T>;
  __shared__ Wide tile[kStagedBytes / kVectorBytes];
  T* const staged = reinterpret_cast<T*>(tile);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first = block_x() * elements;
  const int count = static_cast<int>(min(s.count - first, std::int64_t{elements}));
  const int step = static_cast<int>(s.step);
  const T* const from = s.from + first * s.step;
  const int before = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % kVectorBytes /
                                      static_cast<int>(sizeof(T)));
  const T* const start = from - before;
  const int loaded = before + (count - 1) * step + 1;
  const int vectors = (loaded + kLength - 1) / kLength;
  if (start >= begin && start + vectors * kLength <= end) {
    Wide vector[kStagedVectors];
#pragma unroll
    for (int i = 0; i < kStagedVectors; ++i)
      if (thread + i * kStagedThreads < vectors)
        vector[i] = reinterpret_cast<const Wide*>(start)[thread + i * kStagedThreads];
#pragma unroll
    for (int i = 0; i < kStagedVectors; ++i)
      if (thread + i * kStagedThreads < vectors) tile[thread + i * kStagedThreads] = vector[i];
  } else {
    for (int i = before + thread; i < loaded; i += kStagedThreads) staged[i] = start[i];
  }
  __syncthreads();
  for (int i = thread; i < count; i += kStagedThreads) s.out[first + i] = staged[before + i * step];
}

#endif

}  // namespace ado::cuda
