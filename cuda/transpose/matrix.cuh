// Transpose: the operands as kernel parameters, and the alignment tests of the variants.
#pragma once

#include "common/grid.cuh"
#include "common/vector.cuh"
#include "routines/transpose.hpp"

namespace ado::cuda {
namespace {

// Returns true if all rows start at multiples of `bytes`.
bool rows_aligned(const Array& m, int bytes) {
  return starts_at_vector(m.data, bytes) && m.stride[0] % bytes == 0;
}

// Calls `visit` with the element size in bytes as a constant.
template <class Visit>
auto with_size(const Transpose& p, Visit visit) {
  return ado::with_size(p.a.type.size, visit);
}

#ifdef __CUDACC__

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

ConstBytes input_bytes(const Transpose& p) {
  return {p.a.data, p.rows(), p.cols() * p.a.type.size, p.a.stride[0]};
}

Bytes output_bytes(const Transpose& p) {
  return {p.out.data, p.cols(), p.rows() * p.out.type.size, p.out.stride[0]};
}

__device__ int offset_within(const std::byte* address, int bytes) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % bytes);
}

#endif

}  // namespace
}  // namespace ado::cuda
