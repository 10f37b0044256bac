// out[p] = max(0, max_k(big[k, p] + small[k])): a matrix-vector product of the tropical semiring.
#pragma once

#include "core/operand.hpp"

namespace ado {

struct MaxPlus {
  static constexpr const char* kName = "max_plus";
  static constexpr const char* kSummary =
      "The largest sum in each column, at least 0, "
      "``numpy.maximum(0, (big + small[:, None]).max(axis=0))``; a NaN propagates.";
  static constexpr const char* kSource =
      "Boosting Application Performance with GPU Memory Access Tuning (NVIDIA, 2022), and the post "
      "on memory prefetching before it.";

  Array big, small, out;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"big", "K P", kRealElements, "K terms for each of P points."}, big);
    visit.input(Operand{"small", "K", same_as("big"), "The number added to each row."}, small);
    visit.output(Operand{"out", "P", same_as("big"),
                         "The largest sum of each point, or 0 if none is positive."},
                 out);
  }

  std::int64_t terms() const { return big.shape[0]; }
  std::int64_t points() const { return big.shape[1]; }

  // One addition per element; comparisons do not count as FLOPs.
  double flops() const { return static_cast<double>(terms()) * static_cast<double>(points()); }
};

}  // namespace ado
