// The approximate square root of the special function unit, corrected so that truncated results are
// exact.
#pragma once

namespace ado::cuda {

// FLOPs of approximate_length(). The square root of the special function unit is not counted.
inline constexpr double kFlopsOfLength = 2 * 2;  // FMAs

#ifdef __CUDACC__

// Returns sqrt(x^2 + y^2) of integers x and y. If the exact root is below 256, the integer part of
// the result equals that of the exact root. `half` is 0.5 or, if x and y are in units of u, 0.5
// u^2.
//
// The relative error of the approximation is up to 2^-23 (PTX ISA, sqrt.approx), so without `half`
// the result for a square might be just below the integer root. Adding half a unit under the root
// prevents that at no cost. q = x^2 + y^2 is an integer, so there is no integer between sqrt(q) and
// sqrt(q + 0.5). For all n up to 255, sqrt(n^2 - 0.5) and sqrt(n^2 + 0.5) are both more than 2^-10
// away from n, and the error is less than 2^-15. From 255^2 on, the result is at least 255. With x
// and y up to 1020, q is less than 2^21, so a float represents q + 0.5 exactly. A unit that is a
// power of two changes only exponents. On an H200, the result was correct for every q from 0 to 2 *
// 1020^2 with a unit of 1, even without `half`.
__device__ inline float approximate_length(float x, float y, float half) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaf(x, x, fmaf(y, y, half))));
  return root;
}

#endif

}  // namespace ado::cuda
