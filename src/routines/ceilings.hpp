// The ceilings of the machine: bandwidth per memory level and floating-point throughput. The
// variants compute no useful result. ado.machine measures them with the same timer and the same
// cost accounting as all other variants.
#pragma once

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
    visit.input(Operand{"src", "n", kAnyElement, "The array to read."}, src);
    visit.output(Operand{"dst", "n", same_as("src"), "The array to write."}, dst);
    visit.option(Option{"passes", "Repetitions of the work within one call."}, passes);
  }

  double flops() const { return 0; }
};

}  // namespace ado
