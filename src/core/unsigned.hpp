// Code that only moves elements is compiled per element size, not per type.
#pragma once

#include <type_traits>

#include "core/isa.hpp"

namespace ado {

// Unsigned integer type of kSize bytes.
template <int kSize>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using Type = std::uint8_t;
};
template <>
struct UnsignedOf<2> {
  using Type = std::uint16_t;
};
template <>
struct UnsignedOf<4> {
  using Type = std::uint32_t;
};
template <>
struct UnsignedOf<8> {
  using Type = std::uint64_t;
};

// Calls `visit` with an element size of 1, 2, 4, 8 or 16 bytes as a constant.
template <class Visit>
ADO_INLINE auto with_size(int bytes, Visit visit) {
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

}  // namespace ado
