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

  // Returns true if all rows of a matrix start at multiples of `bytes`.
  static bool rows_aligned(const Array& m, std::int64_t bytes) {
    return reinterpret_cast<std::uintptr_t>(m.data) % bytes == 0 && m.stride[0] % bytes == 0;
  }

  // Returns why a variant that does not swap elements cannot solve the problem, or nullptr.
  static const char* why_not_out_of_place(const Transpose& p) {
    return p.in_place() ? "out is a, so blocks would overwrite elements that other blocks have not "
                          "read yet; use `in_place`"
                        : nullptr;
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
