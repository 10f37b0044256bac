// GPP: the arithmetic that several steps and the engine share.
#pragma once

#include "gpp/passes.cuh"

namespace ado::cuda::gpp {

// Threads of the largest block. Launch bounds for two such blocks limit a thread to 128 registers.
// Without launch bounds, nvcc would use more registers, and fewer warps would be resident.
inline constexpr int kHoistedThreads = 256;

// One thread per (igp, ig): x along ig, y along igp.
inline Extent grid_of_pairs(const Gpp& p, Extent block) {
  return grid_of(ceil_div(p.columns(), block.x), ceil_div(p.rows(), block.y));
}

#ifdef __CUDACC__

// ---- reciprocal, squared_moduli, blocked, swapped_indices, large_blocks -------------------------
// A complex quotient takes one real reciprocal instead of two real divisions.
__device__ inline Complex divide_by_reciprocal(Complex x, Complex y) {
  return 1 / norm(y) * (x * conj(y));
}

// ---- bands_inside, frequency_outside, blocked, swapped_indices, large_blocks --------------------
// ssx and sch of one (band, igp, ig, frequency), without the weights and the cut-off.
struct Term {
  Complex ssx, sch;
};

// ---- blocked, swapped_indices, large_blocks -----------------------------------------------------
__device__ inline Term simplified_term(const Inputs& p, double x, Complex w, Complex eps) {
  const Complex wdiff = x - w, delw = divide_by_reciprocal(w, wdiff);
  const double delwr = norm(delw);
  if (norm(wdiff) > p.limit_two && delwr < p.limit_one)
    return {.ssx = divide_by_reciprocal(w * w * eps, difference_of_squares(x, w)),
            .sch = delw * eps};
  if (delwr > Gpp::kTolZero)
    return {.ssx = divide_by_reciprocal(-(w * w * eps), 2 * (w * (x + w))), .sch = {}};
  return {};
}

// The arithmetic of simplified_branches for all frequencies of a pass. m is conj(aqsm) aqsn, and
// energy(f) returns the energy of a frequency.
template <int kF, class Energy>
__device__ void add_simplified_terms(const Inputs& p, double occ, double vcoul, Complex w,
                                     Complex eps, Complex m, Energy energy, ThreadSums<kF>& sums) {
#pragma unroll
  for (int i = 0; i < kF; ++i) {
    const double x = energy(i);
    const Term term = simplified_term(p, x, w, eps);
    if (occ != 0 && (x >= 0 || norm(term.ssx) <= p.sexcut * p.sexcut * norm(eps)))
      sums.asx[i] += vcoul * occ * term.ssx * m;
    sums.ach[i] += 0.5 * (vcoul * term.sch * m);
  }
}

// ---- hoisted_invariants, one_reciprocal, fast_reciprocal, skip_empty_bands, branch_free ---------
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

  __device__ void add(int f, const Coefficients& c, Complex m) {
    add_coulomb_hole(f, c, m);
    add_exchange(f, c, m);
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

// Returns true if the sums of a pair may differ from the formulas. This is so if a sum has
// overflowed or is NaN, as for x = w or -w. It is also so if w is very small: then the third branch
// may apply near w, and by_selection does not test for it.
template <int kF>
__device__ bool needs_care(const Pole& w, const PairSums<kF>& pair_sums) {
  const double w2 = squared_modulus(w);
  return !pair_sums.finite() || (w2 != 0 && !(w2 > Gpp::kTolZero * w.limit));
}

// Adds the sums of a pair to the sums of the thread, if the thread has a pair. If needs_care
// returns true, evaluates the formulas for `count` bands instead. band_at(i) is the index of the
// i-th band, or negative for padding. All lanes of a warp must call this, with the same bands.
//
// The lanes evaluate the bands of such a pair together. In a single lane, the bands would follow
// each other, and blocks with such pairs would end long after the others (H200, 2026: 0.3 of 1.6
// ms, 400 x 256 x 4096 x 2).
template <int kF, class BandAt>
__device__ void add_pair(const Inputs& p, const Pass<kF>& pass, bool own, std::int64_t igp,
                         std::int64_t ig, const Pole& pole, const PairSums<kF>& pair_sums,
                         std::int64_t count, BandAt band_at, ThreadSums<kF>& sums) {
  const std::int64_t pair = igp * p.columns + ig;
  const bool careful = own && needs_care(pole, pair_sums);
  if (own && !careful) pair_sums.finish(p.wtilde[pair], p.i_eps[pair], p.vcoul[igp], sums);
#pragma unroll 1
  for (unsigned lanes = __ballot_sync(kAllLanes, careful); lanes != 0; lanes &= lanes - 1) {
    const int lane = __ffs(static_cast<int>(lanes)) - 1;
    const std::int64_t row = __shfl_sync(kAllLanes, igp, lane);
    const std::int64_t column = __shfl_sync(kAllLanes, ig, lane);
    const Complex w = p.wtilde[row * p.columns + column], eps = p.i_eps[row * p.columns + column];
#pragma unroll 1
    for (std::int64_t i = flat_thread() % kWarpSize; i < count; i += kWarpSize) {
      const std::int64_t n = band_at(i);
      if (n < 0) continue;
      const Complex m = conj(p.aqsm[n * p.rows + row]) * p.aqsn[n * p.columns + column];
      const auto energy = [&](int f) { return p.wx[n * p.frequencies + pass.first + f]; };
      add_simplified_terms(p, p.occ[n], p.vcoul[row], w, eps, m, energy, sums);
    }
  }
}

// ---- one_reciprocal, fast_reciprocal, skip_empty_bands, branch_free -----------------------------
// The weight of ssx: the occupation, or 0 beyond the cut-off. `w4` is |w|^4 far from the pole, and
// |w|^2 / 4 near it; `den` is the denominator of ssx.
__device__ inline double weight_of(const Inputs& p, double x, double occ, double w4, double den) {
  return x < 0 && p.sexcut * p.sexcut * den < w4 ? 0 : occ;
}

// ---- fast_reciprocal, skip_empty_bands, branch_free ---------------------------------------------
// Returns the hardware approximation of 1 / x, which has 20 correct bits. If `wanted` is false, the
// result is 0.
__device__ inline double reciprocal_seed(double x, bool wanted = true) {
  double r;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
  return __hiloint2double(wanted ? __double2hiint(r) : 0, 0);  // the low half is 0 in any case
}

// Computes 1 / x with an error of about one rounding, if x and 1 / x are normal numbers. If r is
// the hardware approximation and e = 1 - x r, r (1 + e + e^2) has three times as many correct bits
// as r. A division compiles to about ten instructions, plus tests. If `wanted` is false, returns 0.
__device__ inline double approximate_reciprocal(double x, bool wanted = true) {
  const double r = reciprocal_seed(x, wanted);
  const double e = fma(-x, r, 1.0);
  return fma(fma(e, e, e), r, r);
}

// ---- skip_empty_bands, branch_free --------------------------------------------------------------
// Empty bands have no ssx. All threads process the same band at the same time, so
// this branch causes no divergence. kFar: x is known to be far from the pole.
template <bool kFar = false>
__device__ Coefficients coulomb_hole(const Pole& w, double x) {
  const double d = w.a - x, den = fma(d, d, w.b2);
  Coefficients c = {};
  c.sch_b = approximate_reciprocal(den, kFar || den > w.limit);
  c.sch = d * c.sch_b;
  return c;
}

// ---- branch_free --------------------------------------------------------------------------------
// Selection instead of branches. Near the pole, u is set to 0, and one of two
// numerators is selected. kFull: the band has an occupation of 1 and x is not negative, so there is
// no weight and no cut-off. ssx_b is then only v; see PairSums::complete_full_bands.
//
// Collecting the terms near a pole, and computing them in a few lanes once there are enough, was
// slower: 46 to 48 ms instead of 41 ms with selection (prototypes, H200, 2026, si214, one lane in
// fifteen near a pole), because the number of these terms differs between lanes. If x = w, all
// coefficients are NaN. A w near 0 is not tested here; see needs_care.
__device__ inline double select(bool condition, double x, double y) { return condition ? x : y; }

template <bool kFull>
__device__ Coefficients by_selection(const Inputs& p, const Pole& w, double x, double occ) {
  const double d = w.a - x, q = w.a + x;
  const double den = fma(d, d, w.b2), den_plus = fma(q, q, w.b2), both = den * den_plus;
  const bool far = den > w.limit;
  const double r = approximate_reciprocal(both);
  Coefficients c;
  c.sch_b = r * select(far, den_plus, 0);
  c.sch = d * c.sch_b;
  c.ssx_b = r * den;
  c.ssx = fma(select(far, c.sch, w.half_inverse), q, w.b2 * c.sch_b) * c.ssx_b;
  if constexpr (!kFull) {
    const double w2 = squared_modulus(w);
    const double weight = weight_of(p, x, occ, far ? w2 * w2 : 0.25 * w2, far ? both : den_plus);
    c.ssx = weight == 0 ? 0 : weight * c.ssx;
    c.ssx_b = weight == 0 ? 0 : weight * (c.sch_b + c.ssx_b);
  }
  return c;
}

// -------------------------------------------------------------------------------------------------

#endif

}  // namespace ado::cuda::gpp
