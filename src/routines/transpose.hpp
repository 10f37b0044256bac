// out[col][row] = a[row][col]
#pragma once

#include "core/operand.hpp"

namespace ado {

struct Transpose {
  static constexpr const char* kName = "transpose";
  static constexpr const char* kSummary = "Transpose a matrix: ``out[col, row] = a[row, col]``.";
  static constexpr const char* kSource =
      "JSC GPU course, Performance Optimization: \"Matrix Transpose\"; "
      "M. Harris, An Efficient Matrix Transpose in CUDA C/C++ (NVIDIA, 2013).";

  Array a, out;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"a", "rows cols", kAnyElement, "The matrix, with any strides."}, a);
    visit.output(Operand{"out", "cols rows", same_as("a"),
                         "The transpose. ``out=a`` transposes a square matrix in place."},
                 out);
  }

  std::int64_t rows() const { return a.shape[0]; }
  std::int64_t cols() const { return a.shape[1]; }
  bool in_place() const { return a.elements() != 0 && a.data == out.data; }

  double flops() const { return 0; }

  // The CUDA variants support rows with a pitch of at least the row length.
  static bool takes_layout(const Array& m) {
    return m.stride[1] == m.type.size && m.stride[0] % m.type.size == 0 &&
           m.stride[0] >= m.shape[1] * m.type.size;
  }

  // out may be the array a itself if a is square. Otherwise, out must not overlap a.
  const char* why_not_overlap() const {
    if (a.data != out.data || a.stride[0] != out.stride[0] || a.stride[1] != out.stride[1])
      return "out overlaps a without being the same array";
    if (rows() != cols()) return "only a square matrix can be transposed in place";
    return nullptr;
  }
};

}  // namespace ado
