// Element types of kernels that only move elements: they are compiled per element size, not per
// type.
#pragma once

#include <type_traits>

#include "common/launch.cuh"
#include "core/unsigned.hpp"

namespace ado::cuda {

// Calls `visit` with an element size of 1, 2, 4, 8 or 16 bytes as a constant.
template <class Visit>
auto with_size(int bytes, Visit visit) {
  switch (bytes) {
    case 1:
      return visit(std::integral_constant<int, 1>{});
    case 2:
      return visit(std::integral_constant<int, 2>{});
    case 4:
      return visit(std::integral_constant<int, 4>{});
    case 8:
      return visit(std::integral_constant<int, 8>{});
    default:
      return visit(std::integral_constant<int, 16>{});
  }
}

#ifdef __CUDACC__

template <int kSize>
struct ElementOf : UnsignedOf<kSize> {};
template <>
struct ElementOf<16> {
  using Type = uint4;
};
template <int kSize>
using Element = typename ElementOf<kSize>::Type;

#endif

}  // namespace ado::cuda
