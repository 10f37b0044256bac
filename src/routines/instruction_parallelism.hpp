// out[i] = a polynomial of degree 256 of x[i], by Horner's rule: a long chain of dependent FMAs per
// element, to compare ways of hiding the latency of arithmetic.
#pragma once

#include "core/operand.hpp"

namespace ado {

// out = sum over k = 0 ... 256 of a_k x^k with a_k = 1 - (k mod 64) / 128. The coefficients repeat
// with a period of 64, so a loop over periods has them as constants and loads no coefficients. They
// are exact in float32. Without x^256, the polynomial is the product of sum over k < 64 of a_k x^k
// and 1 + x^64 + x^128 + x^192. Both are positive for |x| <= 1, so results do not cancel there.
//
// Every variant satisfies the error bound of the classical rounding analysis of Horner's rule, for
// each element: |error| <= u sum_k (2 k + 2) a_k |x|^k, with u = 2^-24 in float32 and 2^-53 in
// float64. FMAs may or may not be fused.
struct InstructionParallelism {
  static constexpr const char* kName = "instruction_parallelism";
  static constexpr const char* kSummary =
      "Evaluate a polynomial of degree 256 for each element by Horner's rule: "
      "``sum((1 - k % 64 / 128) * x**k for k in range(257))``.";
  static constexpr const char* kSource = "Better Performance at Lower Occupancy (V. Volkov, 2010).";

  static constexpr int kPeriod = 64, kPeriods = 4;
  static constexpr double kStep = 1.0 / 128;
  static constexpr double kInstructions = kPeriods * kPeriod, kFlops = 2 * kInstructions;

  Array x, out;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"x", "... n", kRealElements, "The numbers."}, x);
    visit.output(
        Operand{"out", "... n", same_as("x"), "The value of the polynomial for each number."}, out);
  }

  double flops() const { return static_cast<double>(x.elements()) * kFlops; }
};

}  // namespace ado
