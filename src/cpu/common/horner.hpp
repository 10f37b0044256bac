// Horner's rule for several numbers or vectors at a time.
#pragma once

#include "core/isa.hpp"

namespace ado::ADO_ISA {
namespace {

// The coefficients 1 - k step, for k < kCount.
template <class T, int kCount>
struct Coefficients {
  T at[kCount] = {};
  constexpr explicit Coefficients(double step) {
    for (int k = 0; k < kCount; ++k) at[k] = static_cast<T>(1 - k * step);
  }
};

// Replaces each y by y x^kCount + a_(kCount-1) x^(kCount-1) + ... + a_0. The kChains chains are
// independent of each other, so that their FMAs overlap.
template <class V, int kChains, class T, int kCount>
ADO_INLINE void horner(const Coefficients<T, kCount>& a, const V (&x)[kChains], V (&y)[kChains]) {
  for (int k = kCount - 1; k >= 0; --k) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) y[c] = y[c] * x[c] + a.at[k];
  }
}

}  // namespace
}  // namespace ado::ADO_ISA
