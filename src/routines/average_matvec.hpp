// out[i, n] = sum_j matrix[i, j] * mean_m vectors[n, j, m]: a matrix times the average vector of
// each set.
#pragma once

#include "core/operand.hpp"

namespace ado {

// Every variant keeps |error| <= (32 + L) u (|matrix| mean|vectors|), element by element, with u =
// 2^-24 in float32 and 2^-53 in float64. The bound contains L roundings for a product of length L,
// and the error of an average, which does not grow with M. Plain sums of M = 10^6 numbers would
// lose half of the digits of float32, so partial sums are compensated (core/compensated.hpp). The
// bound does not hold if a sum overflows or an average underflows. NumPy's sums overflow, too.
struct AverageMatvec {
  static constexpr const char* kName = "average_matvec";
  static constexpr const char* kSummary =
      "The average of each set of vectors times a matrix, "
      "``matrix @ vectors.mean(axis=2).T``.";
  static constexpr const char* kSource =
      "Analysis-Driven Optimization with NVIDIA Nsight Compute, parts 1 to 3 (R. Crovella, 2021).";

  Array vectors, matrix, out;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"vectors", "N L M", kRealElements,
                        "N sets of M vectors of length L, with the M samples along the last axis."},
                vectors);
    visit.input(Operand{"matrix", "L L", same_as("vectors"), "The matrix."}, matrix);
    visit.output(Operand{"out", "L N", same_as("vectors"),
                         "Column n is the product of the matrix with the average of set n."},
                 out);
  }

  std::int64_t sets() const { return vectors.shape[0]; }
  std::int64_t length() const { return vectors.shape[1]; }
  std::int64_t samples() const { return vectors.shape[2]; }

  const char* why_not() const {
    return samples() == 0 ? "M must be at least 1: the average of zero vectors is undefined"
                          : nullptr;
  }

  double flops() const {
    const auto n = static_cast<double>(sets()), l = static_cast<double>(length());
    return n * l * (static_cast<double>(samples()) + 2 * l);
  }
};

}  // namespace ado
