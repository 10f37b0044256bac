// The terms of gpp as the published steps compute them, from the formulas.
#pragma once

#include "gpp/common.cuh"

namespace ado::cuda::gpp {

#ifdef __CUDACC__

// The steps that change the arithmetic.
struct Arithmetic {
  bool reciprocals = false, squared_moduli = false, simple_branches = false;
};
constexpr Arithmetic kPlain{};
constexpr Arithmetic kReciprocals{.reciprocals = true};
constexpr Arithmetic kSquares{.reciprocals = true, .squared_moduli = true};
constexpr Arithmetic kSimple{.reciprocals = true, .squared_moduli = true, .simple_branches = true};

template <Arithmetic kBy>
__device__ Complex quotient(Complex x, Complex y) {
  if constexpr (kBy.reciprocals) {
    return 1 / norm(y) * (x * conj(y));
  } else {
    const Complex product = x * conj(y);
    const double scale = norm(y);
    return {product.re / scale, product.im / scale};
  }
}

// Of complex numbers only magnitudes are compared: these, or their squares.
template <Arithmetic kBy>
__device__ double size_of(Complex x) {
  if constexpr (kBy.squared_moduli)
    return norm(x);
  else
    return sqrt(norm(x));
}
template <Arithmetic kBy>
__device__ double size_of(double x) {
  return kBy.squared_moduli ? x * x : x;
}

struct Term {
  Complex ssx, sch;
};

template <Arithmetic kBy>
__device__ Term at_pole(double x, Complex w, Complex eps, Complex delw) {
  return {.ssx = quotient<kBy>(w * w * eps, difference_of_squares(x, w)), .sch = delw * eps};
}

// As delw + 1/2 = (x + w) / (2 (x - w)), 4 w^2 (delw + 1/2) / delw is 2 w (x + w), which loses no
// digits where w is near -x.
template <Arithmetic kBy>
__device__ Complex ssx_near_pole(double x, Complex w, Complex eps) {
  return quotient<kBy>(-(w * w * eps), 2 * (w * Complex{x + w.re, w.im}));
}

// Of one (band, igp, ig, f), without the weights and the cut-off.
template <Arithmetic kBy>
__device__ Term term_of(const View& p, double x, Complex w, Complex eps) {
  const Complex wdiff = {x - w.re, -w.im}, delw = quotient<kBy>(w, wdiff);
  const double delwr = norm(delw);
  if (norm(wdiff) > p.limit_two && delwr < p.limit_one) return at_pole<kBy>(x, w, eps, delw);
  if (delwr > Gpp::kTolZero) return {.ssx = ssx_near_pole<kBy>(x, w, eps), .sch = {}};
  return {};
}

// Adds the terms of all frequencies of the pass. Where x = -w, ssx is no number, and so not within
// its limit; an empty band must not multiply it by 0 and drops it. Transposed are wx and aqsm, so
// that bands are neighbours.
template <Arithmetic kBy, bool kTransposed, int kF>
__device__ void add_terms(const View& p, const Pass<kF>& pass, std::int64_t n, std::int64_t igp,
                          Complex w, Complex eps, Complex aqsn, Sums<kF>& sums) {
  const double occ = p.occ[n], vcoul = p.vcoul[igp];
  const Complex m = conj(p.aqsm[kTransposed ? igp * p.bands + n : n * p.rows + igp]) * aqsn;
#pragma unroll
  for (int i = 0; i < kF; ++i) {
    const std::int64_t f = pass.first + i;
    const double x = p.wx[kTransposed ? f * p.bands + n : n * p.frequencies + f];
    Term term = term_of<kBy>(p, x, w, eps);
    const auto within_limit = [&] {
      return size_of<kBy>(term.ssx) <= size_of<kBy>(p.sexcut) * size_of<kBy>(eps);
    };
    if constexpr (kBy.simple_branches) {
      if (occ != 0 && (x >= 0 || within_limit())) sums.asx[i] += vcoul * occ * term.ssx * m;
    } else {
      // As Fortran, which computes both sides.
      if (!within_limit() & ((x < 0) | (occ == 0))) term.ssx = {};
      sums.asx[i] += vcoul * occ * term.ssx * m;
    }
    sums.ach[i] += 0.5 * (vcoul * term.sch * m);
  }
}

#endif

}  // namespace ado::cuda::gpp
