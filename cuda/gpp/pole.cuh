// The model with everything that depends only on (igp, ig) hoisted out of the loop over bands. Only
// real coefficients remain in the loop.
//
// With w = a + ib, d = a - x, q = a + x, u = 1 / (d^2 + b^2) and v = 1 / (q^2 + b^2):
//
//   far from the pole    sch / (I w) = -d u + ib u
//                        ssx / (I w / 2) = -2a (d q + b^2) u v + ib (u + v)
//   near the pole        ssx / (I w / 2) = -q v + ib v
//
// "Far from the pole" means the first branch of the formulas, "near the pole" the second.
//
// Far from the pole, ssx / (I w / 2) = 2w / (x^2 - w^2) = 1 / (x - w) - 1 / (x + w). Near the pole,
// ssx / (I w / 2) = -2w delw / (4 w (delw + 1/2)), with delw inserted. So with m = conj(aqsm) aqsn,
// it is enough to sum four real coefficients times m. The factors w, I and ib are applied after the
// loop. The two tests of the first branch become one, 1/u > limit. The cut-off |ssx| > sexcut |I|
// compares 1 / (u v) with |w|^4 far from the pole, and 1/v with |w|^2 / 4 near the pole.
#pragma once

#include "gpp/passes.cuh"

namespace ado::cuda::gpp {

#ifdef __CUDACC__

// The numbers derived from w that the loop over bands uses.
struct Pole {
  double a, b2;         // b2: b^2
  double limit;         // x is far from the pole if d^2 + b^2 is above this
  double half_inverse;  // 1 / 2a
};

// Returns a. If a is about 0, returns a tiny number instead, which is negligible compared with ib.
__device__ inline double not_zero(double a) { return fabs(a) > 1e-200 ? a : 1e-200; }

__device__ inline double squared_modulus(const Pole& w) { return fma(w.a, w.a, w.b2); }

__device__ inline Pole pole_of(const Inputs& p, Complex w) {
  Pole pole = {.a = w.re, .b2 = w.im * w.im};
  pole.limit = fmax(p.limit_two, squared_modulus(pole) / p.limit_one);
  pole.half_inverse = 0.5 / not_zero(w.re);
  return pole;
}

// The coefficients of m in the four sums. Far from the pole: sch = d u, sch_b = u, ssx = (d q +
// b^2) u v, ssx_b = u + v. Near the pole: ssx = q v / 2a, ssx_b = v. The sums with _b are
// multiplied by ib after the loop.
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

  // Call this after the full bands, whose ssx_b contains only v. Adds the sum of u, which is in
  // sch_b.
  __device__ void complete_full_bands() {
    for (int f = 0; f < kF; ++f) ssx_b[f] += sch_b[f];
  }

  __device__ bool finite() const {
    double all = 0;
    for (int f = 0; f < kF; ++f)
      for (const Complex& z : {sch[f], sch_b[f], ssx[f], ssx_b[f]}) all += z.re * 0 + z.im * 0;
    return all == 0;
  }

  // Multiplies the sums by the factors that depend only on (igp, ig), and adds them to asx and ach.
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
