// The generalised plasmon-pole model on the GPU: its operands and the evaluation of the formulas.
//
// The formulas are in routines/gpp.hpp. Two of their differences suffer from cancellation.
// Therefore they are computed in another way:
//
//   x^2 - w^2     has lost digits where x is near w or -w. (x - w)(x + w) keeps them, and its real
//                 part (x - Re w)(x + Re w) + (Im w)^2 costs no more than the two squares; see
//                 difference_of_squares.
//   delw + 1/2    is (x + w) / (2 (x - w)), and cancels where x is near -w. With it, the second
//                 branch  -I w^2 delw / (4 w^2 (delw + 1/2))  becomes  -I w^2 / (2 w (x + w)).
#pragma once

#include "common/grid.cuh"
#include "core/compensated.hpp"
#include "routines/gpp.hpp"

namespace ado::cuda::gpp {

// Complex numbers in double precision.

// A complex number, aligned so that one access loads or stores both parts.
struct alignas(16) Complex {
  double re, im;

  friend ADO_ANYWHERE Complex operator-(Complex x) { return {-x.re, -x.im}; }
  friend ADO_ANYWHERE Complex operator+(Complex x, Complex y) { return {x.re + y.re, x.im + y.im}; }
  friend ADO_ANYWHERE Complex operator+(double x, Complex y) { return {x + y.re, y.im}; }
  friend ADO_ANYWHERE Complex operator-(double x, Complex y) { return {x - y.re, -y.im}; }
  friend ADO_ANYWHERE Complex operator*(double s, Complex x) { return {s * x.re, s * x.im}; }
  friend ADO_ANYWHERE Complex operator*(Complex x, Complex y) {
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
  }
  ADO_ANYWHERE Complex& operator+=(Complex x) { return *this = *this + x; }

  friend ADO_ANYWHERE Complex conj(Complex x) { return {x.re, -x.im}; }
  friend ADO_ANYWHERE double norm(Complex x) { return x.re * x.re + x.im * x.im; }
};

inline std::int64_t pairs_of(const Gpp& p) { return p.rows() * p.columns(); }
inline std::int64_t triples_of(const Gpp& p) { return p.bands() * pairs_of(p); }

#ifdef __CUDACC__

__device__ inline double abs(Complex x) { return sqrt(norm(x)); }

// Divides by two real divisions with the same divisor.
__device__ inline Complex operator/(Complex x, Complex y) {
  const Complex product = x * conj(y);
  const double scale = norm(y);
  return {product.re / scale, product.im / scale};
}

// Computes x^2 - w^2 as (x - w)(x + w). The error is a few u times the modulus, also if x is near w
// or -w.
__device__ inline Complex difference_of_squares(double x, Complex w) {
  return {fma(x - w.re, x + w.re, w.im * w.im), -2 * w.re * w.im};
}

// The operands of a problem as kernel parameters.
struct Inputs {
  const Complex *wtilde, *i_eps, *aqsn, *aqsm;
  const double *wx, *vcoul, *occ;
  std::int64_t bands, rows, columns, frequencies;  // rows: igp; columns: ig
  double limit_one, limit_two, sexcut;
};

inline Inputs inputs_of(const Gpp& p) {
  return {.wtilde = p.wtilde.as<const Complex>(),
          .i_eps = p.i_eps.as<const Complex>(),
          .aqsn = p.aqsn.as<const Complex>(),
          .aqsm = p.aqsm.as<const Complex>(),
          .wx = p.wx.as<const double>(),
          .vcoul = p.vcoul.as<const double>(),
          .occ = p.occ.as<const double>(),
          .bands = p.bands(),
          .rows = p.rows(),
          .columns = p.columns(),
          .frequencies = p.frequencies(),
          .limit_one = p.limit_one(),
          .limit_two = p.limit_two(),
          .sexcut = p.sexcut};
}

#endif

}  // namespace ado::cuda::gpp
