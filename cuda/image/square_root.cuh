// The special function unit's approximate square root, made exact for truncated results.
#pragma once

#ifdef __CUDACC__

namespace ado::cuda {

// sqrt(x^2 + y^2) of integers x and y. Its integer part equals that of the exact root wherever that
// is below 256. `half` is 0.5 or, if x and y are in units of u, 0.5 u^2.
//
// The approximation is off by up to 2^-23 of its value (PTX ISA, sqrt.approx), so without `half` it
// might be just below the root of a square. Adding half a unit under the root prevents that at no
// cost: q = x^2 + y^2 is an integer, so no integer lies between sqrt(q) and sqrt(q + 0.5), and
// sqrt(n^2 - 0.5) and sqrt(n^2 + 0.5) are both more than 2^-10 away from n for all n up to 255,
// where the error is less than 2^-15. From 255^2 on, the result is at least 255. With x and y up to
// 1020, q is less than 2^21, so a float represents q + 0.5 exactly; a unit that is a power of two
// changes exponents only. An H200 gave the right result for every q from 0 to 2 * 1020^2 with a
// unit of 1, even without `half`.
__device__ inline float approximate_length(float x, float y, float half) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaf(x, x, fmaf(y, y, half))));
  return root;
}

}  // namespace ado::cuda

#endif
