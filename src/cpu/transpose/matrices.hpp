// The matrices of a transpose, and functions that move single elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/isa.hpp"
#include "cpu/transpose/registers.hpp"
#include "routines/transpose.hpp"

namespace ado::ADO_ISA {
namespace {

// out[col][row] = a[row][col], with strides in bytes: out_row is the distance between rows of out.
struct Matrices {
  int64_t rows, cols;
  const std::byte* a;
  int64_t a_row, a_col;
  std::byte* out;
  int64_t out_row, out_col;
  bool in_place;

  // Return the addresses of element (row, col) of a, in a and in out.
  const std::byte* from(int64_t row, int64_t col) const { return a + row * a_row + col * a_col; }
  std::byte* to(int64_t row, int64_t col) const { return out + col * out_row + row * out_col; }
};

Matrices matrices_of(const Transpose& p) {
  Matrices m{p.rows(),   p.cols(),        p.a.data,        p.a.stride[0], p.a.stride[1],
             p.out.data, p.out.stride[0], p.out.stride[1], p.in_place()};
  // Swapping the roles of rows and columns in both matrices gives the same result. Choose the roles
  // that give one column rather than one row, and the shorter stride along the rows of out.
  const auto length = [](int64_t stride) { return stride < 0 ? -stride : stride; };
  if (m.rows == 1 || (m.cols != 1 && length(m.out_col) > length(m.out_row))) {
    std::swap(m.rows, m.cols);
    std::swap(m.a_row, m.a_col);
    std::swap(m.out_row, m.out_col);
  }
  return m;
}

template <int kSize>
ADO_INLINE void swap_elements(std::byte* x, std::byte* y) {
  std::byte old_x[kSize];
  copy_element<kSize>(old_x, x);
  copy_element<kSize>(x, y);
  copy_element<kSize>(y, old_x);
}

}  // namespace
}  // namespace ado::ADO_ISA
