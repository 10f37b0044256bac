// Elements with a constant stride in memory: the operand of strided_copy and component.
#pragma once

#include "common/element.cuh"
#include "common/grid.cuh"
#include "common/vector.cuh"
#include "core/array.hpp"

namespace ado::cuda {

// `count` elements that are `step` elements apart, and the packed result.
template <class T>
struct Selection {
  const T* from;
  std::int64_t step;
  T* out;
  std::int64_t count;
};

template <class T>
Selection<T> selection_of(const Array& view, const Array& out) {
  return {view.as<const T>(), view.stride[0] / static_cast<std::int64_t>(sizeof(T)), out.as<T>(),
          view.shape[0]};
}

// Bytes of the sectors that contain the elements, for an array that begins at a sector. Elements
// that are at most one sector apart touch every sector between the first and the last one.
inline double sector_bytes(const Array& view, const std::byte* begin) {
  const std::int64_t count = view.shape[0], step = view.stride[0];
  if (count == 0) return 0;
  if (step > kSectorBytes) return static_cast<double>(count) * kSectorBytes;
  const std::int64_t first = view.data - begin;
  const std::int64_t last = first + (count - 1) * step + view.type.size - 1;
  return static_cast<double>((last / kSectorBytes - first / kSectorBytes + 1) * kSectorBytes);
}

}  // namespace ado::cuda
