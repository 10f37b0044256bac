// A non-owning view of a strided array, and its element type.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ado {

inline constexpr int kMaxRank = 8;

// NumPy's kind and itemsize: {'f', 4} is float32. `swapped`: the byte order is not this machine's.
struct ElementType {
  char kind = 0;
  int size = 0;
  bool swapped = false;
  friend constexpr bool operator==(ElementType, ElementType) = default;
};

inline constexpr ElementType kUint8{'u', 1};
inline constexpr ElementType kFloat32{'f', 4};
inline constexpr ElementType kFloat64{'f', 8};
inline constexpr ElementType kComplex128{'c', 16};

// Shape in elements, strides in bytes, both slowest dimension first.
struct Array {
  std::byte* data = nullptr;
  ElementType type;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  std::int64_t stride[kMaxRank] = {};

  constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (int d = 0; d < rank; ++d) product *= shape[d];
    return product;
  }
  constexpr std::int64_t bytes() const { return elements() * type.size; }
  // The bytes of elements at distinct addresses: a broadcast dimension counts once.
  constexpr double distinct_bytes() const {
    double product = type.size;
    for (int d = 0; d < rank; ++d)
      if (stride[d] != 0 || shape[d] == 0) product *= static_cast<double>(shape[d]);
    return product;
  }

  // A batch is an array of slices. Each slice has the `last` trailing dimensions. slices() returns
  // the number of slices, slice() the address of the i-th one.
  constexpr std::int64_t slices(int last) const {
    std::int64_t product = 1;
    for (int d = 0; d < rank - last; ++d) product *= shape[d];
    return product;
  }
  constexpr std::byte* slice(int last, std::int64_t i) const {
    std::byte* at = data;
    for (int d = rank - last; d-- > 0; i /= shape[d]) at += i % shape[d] * stride[d];
    return at;
  }

  // Returns true if the dimensions from `first` on are packed, so that their elements are
  // contiguous.
  constexpr bool packed_from(int first) const {
    std::int64_t expected = type.size;
    for (int d = rank - 1; d >= first; --d) {
      if (shape[d] != 1 && stride[d] != expected) return false;
      expected *= shape[d];
    }
    return true;
  }
  constexpr bool packed() const { return elements() == 0 || packed_from(0); }

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

// A view with the shape and type of `a`, packed in row-major order at `data`.
constexpr Array packed_like(const Array& a, std::byte* data) {
  Array p = a;
  p.data = data;
  std::int64_t stride = a.type.size;
  for (int d = a.rank - 1; d >= 0; --d) {
    p.stride[d] = stride;
    stride *= a.shape[d];
  }
  return p;
}

}  // namespace ado
