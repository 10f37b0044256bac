// out[i] = a polynomial of x[i] if i is even, a nested series if i is odd: two formulas of equal
// cost and different structure, to compare implementations of a branch.
#pragma once

#include "core/operand.hpp"

namespace ado {

// i is the flat index, in row-major order.
//
//   even i: sum over k = 0 ... 128 of a_k x^k with a_k = 1 - k / 256, by Horner's rule
//   odd i:  1 + r_1 x (1 + r_2 x (1 + ... r_64 x)) with r_k = 1 - k / 128
//
// Each formula takes 128 floating-point instructions: 128 dependent FMAs, or 64 dependent FMAs and
// 64 multiplications. The coefficients are exact in float32. They are positive and the coefficients
// of x^k decrease, so neither formula has a zero within the unit circle (Enestroem and Kakeya):
// both are well-conditioned there.
//
// Every variant satisfies the error bound of the classical rounding analysis, for each element:
// |error| <= u sum_k (2 k + 2) a_k |x|^k, or u sum_k (3 k + 2) |x|^k (r_1 ... r_k), with u = 2^-24
// in float32 and 2^-53 in float64. FMAs may or may not be fused.
struct Branch {
  static constexpr const char* kName = "branch";
  static constexpr const char* kSummary =
      "Evaluate a polynomial for elements with even flat index and a nested series for elements "
      "with odd flat index: ``sum((1 - k / 256) * x**k for k in range(129))`` or "
      "``1 + r(1)*x * (1 + r(2)*x * (... (1 + r(64)*x)))`` with ``r(k) = 1 - k / 128``.";
  static constexpr const char* kSource =
      "Control divergence, as in introductory courses on CUDA performance.";

  static constexpr int kEvenTerms = 128, kOddTerms = 64;
  static constexpr double kEvenStep = 1.0 / 256, kOddStep = 1.0 / 128;

  // Per element. An FMA is two FLOPs and one instruction.
  static constexpr double kEvenFlops = 2.0 * kEvenTerms, kOddFlops = 3.0 * kOddTerms;
  static constexpr double kEvenInstructions = kEvenTerms, kOddInstructions = 2.0 * kOddTerms;

  Array x, out;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"x", "... n", kRealElements, "The numbers."}, x);
    visit.output(Operand{"out", "... n", same_as("x"), "The value of the formula for each number."},
                 out);
  }

  double even_elements() const { return static_cast<double>((x.elements() + 1) / 2); }
  double odd_elements() const { return static_cast<double>(x.elements() / 2); }

  double flops() const { return even_elements() * kEvenFlops + odd_elements() * kOddFlops; }
};

}  // namespace ado
