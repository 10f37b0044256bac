// Vectors: neighbouring elements that one memory access moves.
#pragma once

#include <cstdint>

namespace ado::cuda {

// The widest access of a thread in bytes, and how many elements it moves.
inline constexpr int kVectorBytes = 16;
template <class T>
inline constexpr int kVectorLength = kVectorBytes / static_cast<int>(sizeof(T));

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T at[kCount];
};

template <class T>
using WideVector = Vector<T, kVectorLength<T>>;

inline bool starts_at_vector(const void* address, int bytes = kVectorBytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

}  // namespace ado::cuda
