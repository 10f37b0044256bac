// structure_of_arrays: the components of neighbouring points are contiguous, so a component is
// copied like any contiguous array.
#pragma once

#include "strided/selection.cuh"

namespace ado::cuda {

#ifdef __CUDACC__

// One 16-byte vector of the result per thread. If the component or the result is not aligned, the
// thread loads or stores single elements.
template <class T>
__global__ void component_contiguous(Selection<T> s) {
  using Wide = WideVector<T>;
  constexpr int kLength = kVectorLength<T>;
  const std::int64_t first = thread_x() * kLength;
  const T* const from = s.from + first;
  T* const to = s.out + first;
  const auto count = static_cast<int>(min(s.count - first, std::int64_t{kLength}));
  if (count == kLength && reinterpret_cast<std::uintptr_t>(from) % kVectorBytes == 0 &&
      reinterpret_cast<std::uintptr_t>(to) % kVectorBytes == 0) {
    *reinterpret_cast<Wide*>(to) = *reinterpret_cast<const Wide*>(from);
  } else {
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }
}

#endif

}  // namespace ado::cuda
