// Complex numbers in double precision.
#pragma once

#include "core/compensated.hpp"

namespace ado::cuda::gpp {

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

#endif

}  // namespace ado::cuda::gpp
