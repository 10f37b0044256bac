// What the upper rungs of gpp make of a pole: all that depends on (igp, ig) alone leaves the loops,
// and only real numbers stay in them.
//
// With w = a + ib, d = a - x, q = a + x, u = 1 / (d^2 + b^2) and v = 1 / (q^2 + b^2):
//
//   at a pole     sch / (I w) = -d u + ib u
//                 ssx / (I w / 2) = -2a (d q + b^2) u v + ib (u + v)
//   near a pole   ssx / (I w / 2) = -q v + ib v
//
// At a pole ssx / (I w / 2) = 2w / (x^2 - w^2) = 1 / (x - w) - 1 / (x + w), and near one it is
// -2w delw / (4 w (delw + 1/2)) with delw put in. So with m = conj(aqsm) aqsn four sums of real
// coefficients times m are all that is added up, and w, I and ib come in at the end. The two tests
// at a pole are one, 1/u > limit, and the cut-off |ssx| > sexcut |I| compares 1 / (u v) with |w|^4,
// or 1/v with |w|^2.
#pragma once

#include "gpp/common.cuh"

namespace ado::cuda::gpp {

// How a quotient comes about.
enum class Division { kEach, kShared, kApproximate };

// What a rung does of these.
struct Hoisted {
  Division division = Division::kEach;
  bool occupied_apart = false;  // nothing of ssx where it has no weight
  bool branch_free = false;     // selects
};

#ifdef __CUDACC__

struct Pole {
  double a, b2, limit;
  double half_inverse;  // 1 / 2a
};

// a, or where it is 0 so little that it makes no difference beside ib.
__device__ inline double not_zero(double a) { return fabs(a) > 1e-200 ? a : 1e-200; }

__device__ inline double squared_modulus(const Pole& w) { return fma(w.a, w.a, w.b2); }

__device__ inline Pole pole_of(const View& p, Complex w) {
  Pole pole = {.a = w.re, .b2 = w.im * w.im};
  pole.limit = fmax(p.limit_two, squared_modulus(pole) / p.limit_one);
  pole.half_inverse = 0.5 / not_zero(w.re);
  return pole;
}

// Of m in the four sums: sch = d u and sch_b = u, ssx = (d q + b^2) u v or q v / 2a, and ssx_b the
// multiples of ib.
struct Coefficients {
  double sch, sch_b, ssx, ssx_b;
};

// 1 / x with an error of about one rounding if both are normal: 20 bits from the table, three times
// as many by e = 1 - x r and r (1 + e + e^2). A division is about ten instructions and tests for
// what has to be done otherwise. Where it is not wanted it is 0, also of 0.
__device__ inline double approximate_reciprocal(double x, bool wanted = true) {
  double r;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
  r = __hiloint2double(wanted ? __double2hiint(r) : 0, 0);  // the rest of the table's are zeros
  const double e = fma(-x, r, 1.0);
  return fma(fma(e, e, e), r, r);
}

template <Division kBy>
__device__ double reciprocal(double x) {
  return kBy == Division::kApproximate ? approximate_reciprocal(x) : 1 / x;
}

// Of a band that is not occupied; kFar: from the pole.
template <Division kBy, bool kFar = false>
__device__ Coefficients coulomb_hole(const Pole& w, double x) {
  const double d = w.a - x, den = fma(d, d, w.b2);
  const bool pole = kFar || den > w.limit;
  Coefficients c = {};
  if constexpr (kBy == Division::kApproximate)
    c.sch_b = approximate_reciprocal(den, pole);
  else
    c.sch_b = pole ? 1 / den : 0;
  c.sch = d * c.sch_b;
  return c;
}

// Leaves out what is above the cut-off, and weighs the rest. `w4` is |w|^4 at a pole, and |w|^2 / 4
// near one; `den` is what ssx was divided by.
__device__ inline double weight(const View& p, double x, double occ, double w4, double den) {
  return x < 0 && p.sexcut * p.sexcut * den < w4 ? 0 : occ;
}

// One branch or another.
template <Division kBy>
__device__ Coefficients by_branches(const View& p, const Pole& w, double x, double occ) {
  const double d = w.a - x, q = w.a + x;
  const double den = fma(d, d, w.b2), den_plus = fma(q, q, w.b2), w2 = squared_modulus(w);
  Coefficients c = {};
  if (den > w.limit) {
    const double both = den * den_plus, r = reciprocal<kBy>(both);
    c.sch_b = kBy == Division::kEach ? 1 / den : r * den_plus;
    c.sch = d * c.sch_b;
    if (const double factor = weight(p, x, occ, w2 * w2, both); factor != 0) {
      c.ssx = factor * (fma(d, q, w.b2) * r);
      c.ssx_b = factor * fma(r, den, c.sch_b);
    }
  } else if (den != 0 && w2 > Gpp::kTolZero * den) {
    if (const double factor = weight(p, x, occ, 0.25 * w2, den_plus); factor != 0) {
      const double v = factor * reciprocal<kBy>(den_plus);
      c.ssx = q * w.half_inverse * v;
      c.ssx_b = v;
    }
  }
  return c;
}

__device__ inline double select(bool condition, double x, double y) { return condition ? x : y; }

// At a pole, with occ = 1 and x not negative. ssx_b is v alone; u, which sch_b adds up as well,
// comes in with PairSums::complete_plain.
__device__ inline Coefficients at_pole(const Pole& w, double x) {
  const double d = w.a - x, q = w.a + x;
  const double den = fma(d, d, w.b2), den_plus = fma(q, q, w.b2);
  const double r = approximate_reciprocal(den * den_plus);
  Coefficients c;
  c.sch_b = r * den_plus;
  c.sch = d * c.sch_b;
  c.ssx = fma(d, q, w.b2) * r;
  c.ssx_b = r * den;
  return c;
}

// At a pole or near one: u selects, being 0 near one, and one numerator. kPlain: as above.
//
// Terms near a pole laid aside, to be computed by those lanes alone when some have come together,
// took 46 to 48 ms where selection took 41 (prototypes, H200, si214, a lane in fifteen near a
// pole): their number differs from lane to lane. Where x = w all is NaN. w near 0 is not looked at
// here; see needs_care.
template <bool kPlain>
__device__ Coefficients by_selection(const View& p, const Pole& w, double x, double occ) {
  const double d = w.a - x, q = w.a + x;
  const double den = fma(d, d, w.b2), den_plus = fma(q, q, w.b2), both = den * den_plus;
  const bool pole = den > w.limit;
  const double r = approximate_reciprocal(both);
  Coefficients c;
  c.sch_b = r * select(pole, den_plus, 0);
  c.sch = d * c.sch_b;
  c.ssx_b = r * den;
  c.ssx = fma(select(pole, c.sch, w.half_inverse), q, w.b2 * c.sch_b) * c.ssx_b;
  if constexpr (!kPlain) {
    const double w2 = squared_modulus(w);
    const double factor = weight(p, x, occ, pole ? w2 * w2 : 0.25 * w2, pole ? both : den_plus);
    c.ssx = factor == 0 ? 0 : factor * c.ssx;
    c.ssx_b = factor == 0 ? 0 : factor * (c.sch_b + c.ssx_b);
  }
  return c;
}

// What is added up of a pair (igp, ig) and kF frequencies.
template <int kF>
struct PairSums {
  Complex sch[kF] = {}, sch_b[kF] = {}, ssx[kF] = {}, ssx_b[kF] = {};

  __device__ void add_coulomb_hole(int f, const Coefficients& c, Complex m) {
    add(sch_b[f], c.sch_b, m);
    add(sch[f], c.sch, m);
  }
  __device__ void add_exchange(int f, const Coefficients& c, Complex m) {
    add(ssx[f], c.ssx, m);
    add(ssx_b[f], c.ssx_b, m);
  }

  // After the plain bands, of which ssx_b has only v.
  __device__ void complete_plain() {
    for (int f = 0; f < kF; ++f) ssx_b[f] += sch_b[f];
  }

  __device__ bool finite() const {
    double all = 0;
    for (int f = 0; f < kF; ++f)
      for (const Complex& z : {sch[f], sch_b[f], ssx[f], ssx_b[f]}) all += z.re * 0 + z.im * 0;
    return all == 0;
  }

  // With what was left out.
  __device__ void finish(Complex w, Complex eps, double vcoul, Sums<kF>& sums) const {
    const Complex half = 0.5 * vcoul * (w * eps);
    for (int f = 0; f < kF; ++f) {
      sums.ach[f] += half * with(-sch[f], w.im, sch_b[f]);
      sums.asx[f] += half * with(-2 * not_zero(w.re) * ssx[f], w.im, ssx_b[f]);
    }
  }

 private:
  static __device__ void add(Complex& sum, double c, Complex m) {
    sum = {fma(c, m.re, sum.re), fma(c, m.im, sum.im)};
  }
  // x + i b y
  static __device__ Complex with(Complex x, double b, Complex y) {
    return {fma(-b, y.im, x.re), fma(b, y.re, x.im)};
  }
};

#endif

}  // namespace ado::cuda::gpp
