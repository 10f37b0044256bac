// Gathers runs of elements with any stride (in bytes) into packed memory, and scatters packed runs.
#pragma once

#include "core/streaming.hpp"
#include "cpu/common/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

template <class T>
ADO_INLINE void gather(const std::byte* from, int64_t stride, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = load<T>(from + i * stride);
}

// `streaming` uses non-temporal stores if the elements of `to` are packed.
template <class T>
ADO_INLINE void scatter(const T* from, int64_t count, std::byte* to, int64_t stride,
                        bool streaming) {
  if (stride != sizeof(T)) {
    for (int64_t i = 0; i < count; ++i) store_vector(to + i * stride, from[i]);
  } else if (streaming) {
    stream(to, reinterpret_cast<const std::byte*>(from), count * sizeof(T));
  } else {
    std::memcpy(to, from, count * sizeof(T));
  }
}

}  // namespace
}  // namespace ado::ADO_ISA
