// Not a computation: what the machine can do. Its rows are the ceilings that ado.machine measures,
// with the same timer and the same accounting as any ladder.
#pragma once

#include "core/array.hpp"
#include "core/operand.hpp"

namespace ado {

struct Ceilings {
  static constexpr const char* kName = "ceilings";
  static constexpr const char* kSummary = "Measure a ceiling of the machine.";
  static constexpr const char* kSource = "Empirical Roofline Toolkit (LBNL).";

  Array src, dst;
  std::int64_t passes = 1;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"src", "n", kAnyElement, "What is read."}, src);
    visit.output(Operand{"dst", "n", same_as("src"), "What is written."}, dst);
    visit.option(Option{"passes", "How often the work is repeated within one call."}, passes);
  }

  double flops() const { return 0; }
};

}  // namespace ado
