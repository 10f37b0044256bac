// The square root of the special function unit, made exact for what is truncated.
#pragma once

#ifdef __CUDACC__

namespace ado::cuda {

// sqrt(x^2 + y^2) of integers x and y, so near that it truncates as the exact root does wherever
// that is below 256. `half` is 0.5; or, where x and y come in units of u, 0.5 u^2.
//
// That root is off by up to 2^-23 of its value (PTX ISA, sqrt.approx) and so might fall short of
// the root of a square. Half a unit more under the root makes up for it and costs nothing: q = x^2
// + y^2 is an integer, so no integer lies between sqrt(q) and sqrt(q + 0.5), and sqrt(n^2 - 0.5)
// and sqrt(n^2 + 0.5) are both more than 2^-10 away from n for all n up to 255, while the error
// there is less than 2^-15. From 255^2 on, the result is 255 or more in any case. With x and y up
// to 1020, q is less than 2^21, so a float holds q + 0.5; a unit that is a power of two changes
// exponents only. An H200 was also asked for every q from 0 to 2 * 1020^2, with a unit of 1: all
// are right (there, even without the half).
__device__ inline float approximate_length(float x, float y, float half) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaf(x, x, fmaf(y, y, half))));
  return root;
}

}  // namespace ado::cuda

#endif
