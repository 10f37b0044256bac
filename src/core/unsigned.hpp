// Unsigned integer type of kSize bytes, for code that only moves elements.
#pragma once

#include <cstdint>

namespace ado {

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

}  // namespace ado
