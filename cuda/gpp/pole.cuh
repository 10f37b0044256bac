// The model with everything that depends on (igp, ig) alone taken out of the loop over bands: only
// real numbers stay in the loop.
//
// With w = a + ib, d = a - x, q = a + x, u = 1 / (d^2 + b^2) and v = 1 / (q^2 + b^2):
//
//   far from the pole    sch / (I w) = -d u + ib u
//                        ssx / (I w / 2) = -2a (d q + b^2) u v + ib (u + v)
//   near the pole        ssx / (I w / 2) = -q v + ib v
//
// Far from the pole is the first branch of the formulas, near it the second.
//
// Far from it ssx / (I w / 2) = 2w / (x^2 - w^2) = 1 / (x - w) - 1 / (x + w). Near it ssx is
// -2w delw / (4 w (delw + 1/2)) times I w / 2, with delw inserted. So with m = conj(aqsm) aqsn it
// is enough to sum four real coefficients times m; w, I and ib enter at the end. The two tests of
// the first branch become one, 1/u > limit. The cut-off |ssx| > sexcut |I| compares 1 / (u v) with
// |w|^4 far from the pole, and 1/v with |w|^2 / 4 near it.
#pragma once

#include "gpp/passes.cuh"

namespace ado::cuda::gpp {

#ifdef __CUDACC__

// The numbers that the loop over bands needs from w.
struct Pole {
  double a, b2;         // b2: b^2
  double limit;         // x is far from the pole if d^2 + b^2 is above this
  double half_inverse;  // 1 / 2a
};

// a, or if it is about 0, a number so small that it makes no difference beside ib.
__device__ inline double not_zero(double a) { return fabs(a) > 1e-200 ? a : 1e-200; }

__device__ inline double squared_modulus(const Pole& w) { return fma(w.a, w.a, w.b2); }

__device__ inline Pole pole_of(const Inputs& p, Complex w) {
  Pole pole = {.a = w.re, .b2 = w.im * w.im};
  pole.limit = fmax(p.limit_two, squared_modulus(pole) / p.limit_one);
  pole.half_inverse = 0.5 / not_zero(w.re);
  return pole;
}

// The coefficients of m in the four sums: sch = d u and sch_b = u; ssx = (d q + b^2) u v, or
// q v / 2a near the pole, and ssx_b = u + v, or v. The sums with _b are multiplied by ib in the
// end.
struct Coefficients {
  double sch, sch_b, ssx, ssx_b;
};

// sum += c * m
__device__ inline void multiply_add(Complex& sum, double c, Complex m) {
  sum = {fma(c, m.re, sum.re), fma(c, m.im, sum.im)};
}

// The sums over bands of a pair (igp, ig), for kF frequencies.
template <int kF>
struct PairSums {
  Complex sch[kF] = {}, sch_b[kF] = {}, ssx[kF] = {}, ssx_b[kF] = {};

  __device__ void add_coulomb_hole(int f, const Coefficients& c, Complex m) {
    multiply_add(sch_b[f], c.sch_b, m);
    multiply_add(sch[f], c.sch, m);
  }
  __device__ void add_exchange(int f, const Coefficients& c, Complex m) {
    multiply_add(ssx[f], c.ssx, m);
    multiply_add(ssx_b[f], c.ssx_b, m);
  }

  // Call after the full bands, whose ssx_b are v alone: adds u, which sch_b has summed as well.
  __device__ void complete_full_bands() {
    for (int f = 0; f < kF; ++f) ssx_b[f] += sch_b[f];
  }

  __device__ bool finite() const {
    double all = 0;
    for (int f = 0; f < kF; ++f)
      for (const Complex& z : {sch[f], sch_b[f], ssx[f], ssx_b[f]}) all += z.re * 0 + z.im * 0;
    return all == 0;
  }

  // Multiplies by what depends on (igp, ig) alone, and adds to asx and ach.
  __device__ void finish(Complex w, Complex eps, double vcoul, ThreadSums<kF>& sums) const {
    const Complex half = 0.5 * vcoul * (w * eps);
    for (int f = 0; f < kF; ++f) {
      sums.ach[f] += half * add_imaginary(-sch[f], w.im, sch_b[f]);
      sums.asx[f] += half * add_imaginary(-2 * not_zero(w.re) * ssx[f], w.im, ssx_b[f]);
    }
  }

 private:
  // x + i b y
  static __device__ Complex add_imaginary(Complex x, double b, Complex y) {
    return {fma(-b, y.im, x.re), fma(b, y.re, x.im)};
  }
};

#endif

}  // namespace ado::cuda::gpp
