// Transpose: the operands as kernel parameters, and the alignment tests of the variants.
#pragma once

#include <type_traits>

#include "common/grid.cuh"
#include "common/vector.cuh"
#include "core/unsigned.hpp"
#include "routines/transpose.hpp"

namespace ado::cuda {
namespace {

constexpr int kSectorBytes = 32;  // the smallest transfer of DRAM and L2

// Returns true if all rows start at multiples of `bytes`.
bool rows_aligned(const Array& m, int bytes) {
  return starts_at_vector(m.data, bytes) && m.stride[0] % bytes == 0;
}

// Calls `visit` with the element size in bytes as a constant.
template <class Visit>
auto with_size(const Transpose& p, Visit visit) {
  switch (p.a.type.size) {
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

// Elements are only moved, so kernels are compiled per element size, not per type.
template <int kSize>
struct ElementOf : UnsignedOf<kSize> {};
template <>
struct ElementOf<16> {
  using Type = uint4;
};
template <int kSize>
using Element = typename ElementOf<kSize>::Type;

template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, cols;
  std::int64_t stride;  // distance between rows, in units of T

  __device__ T& operator()(std::int64_t row, std::int64_t col) const {
    return data[row * stride + col];
  }
  __device__ bool contains(std::int64_t row, std::int64_t col) const {
    return row < rows && col < cols;
  }
};

template <class T>
Matrix<T> matrix(const Array& m) {
  return {reinterpret_cast<T*>(m.data), m.shape[0], m.shape[1],
          m.stride[0] / static_cast<std::int64_t>(sizeof(T))};
}

// A matrix whose columns are indexed in bytes.
using Bytes = Matrix<std::byte>;
using ConstBytes = Matrix<const std::byte>;

__device__ int offset_within(const std::byte* address, int bytes) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % bytes);
}

#endif

}  // namespace
}  // namespace ado::cuda
