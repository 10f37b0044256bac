// Copies between strided arrays and packed bytes in host memory.
#pragma once

#include <cstddef>

#include "core/array.hpp"

namespace ado {

// The kind of stores that write an array. Non-temporal stores bypass the cache. They are faster if
// the array is larger than the caches.
enum class Stores { kOrdinary, kNonTemporal };

// Copy bytes first, ..., first + bytes - 1 of the elements of `array` in row-major order, on the
// calling thread. `first` and `bytes` must be multiples of the element size.
void pack_bytes(std::byte* to, const Array& array, std::size_t first, std::size_t bytes);
void unpack_bytes(const Array& array, const std::byte* from, std::size_t first, std::size_t bytes,
                  Stores stores);

// Copy all elements of `array` in row-major order. All available CPU threads take part.
void pack_all(std::byte* to, const Array& array);
void unpack_all(const Array& array, const std::byte* from);

}  // namespace ado
