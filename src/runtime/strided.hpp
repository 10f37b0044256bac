// Copies between strided arrays and packed bytes in host memory.
#pragma once

#include <cstddef>

#include "core/array.hpp"

namespace ado {

// Copy `bytes` bytes of the elements of `array` in row-major order, from byte `first` on. Both
// numbers must be multiples of the element size. All available CPU threads take part.
void pack_bytes(std::byte* to, const Array& array, std::size_t first, std::size_t bytes);
void unpack_bytes(const Array& array, const std::byte* from, std::size_t first, std::size_t bytes);

}  // namespace ado
