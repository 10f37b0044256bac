// Gather: the operands as kernel parameters, and the dispatch on their types.
#pragma once

#include "common/element.cuh"
#include "common/grid.cuh"
#include "common/vector.cuh"
#include "routines/gather.hpp"

namespace ado::cuda {

// Calls `visit` with the element size in bytes as a constant, and a zero of the index type.
template <class Visit>
void with_types(const Gather& p, Visit visit) {
  with_size(p.x.type.size, [&](auto size) {
    if (p.index.type.size == 4)
      visit(size, std::int32_t{});
    else
      visit(size, std::int64_t{});
  });
}

#ifdef __CUDACC__

template <class T, class Index>
struct GatherOperands {
  const T* x;
  std::int64_t length;
  const Index* index;
  T* out;
  std::int64_t count;

  // The element that an index selects. Indices outside x select the first or the last element.
  __device__ const T* at(Index wanted) const {
    return x + min(max(static_cast<std::int64_t>(wanted), std::int64_t{0}), length - 1);
  }
};

template <class T, class Index>
GatherOperands<T, Index> operands_of(const Gather& p) {
  return {p.x.as<const T>(), p.length(), p.index.as<const Index>(), p.out.as<T>(), p.count()};
}

#endif

}  // namespace ado::cuda
