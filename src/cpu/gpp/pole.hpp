// The terms of the GPP model for numbers or vectors, with everything that depends only on (igp, ig)
// hoisted out of the loop over bands.
//
// With w = a + ib, d = x - a, p = x + a, u = 1 / |x - w|^2 and v = 1 / |x + w|^2:
//
//   first branch:   sch / I = w (d + ib) u
//                   ssx / I = w/2 ((d + ib) u - (p - ib) v)
//                           = w/2 (2a (d p - b^2) u v + ib (u + v))
//   second branch:  ssx / I = w/2 (-(p - ib) v)
//
// So the loop over bands sums four real factors times m, two of them in both branches. The
// remaining complex arithmetic follows after the loop. The difference d u - p v would suffer from
// cancellation. d p - b^2 is as accurate as the complex number whose real part it is.
#pragma once

#include "routines/gpp.hpp"

#include "core/compensated.hpp"
#include "cpu/common/loops.hpp"
#include "cpu/common/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

// V is double, or a vector of doubles.
template <class V>
struct ComplexOf {
  V re, im;

  friend ADO_INLINE ComplexOf operator+(ComplexOf x, ComplexOf y) {
    return {x.re + y.re, x.im + y.im};
  }
  friend ADO_INLINE ComplexOf operator*(ComplexOf x, ComplexOf y) {
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
  }
};
using Complex = ComplexOf<double>;

template <class T>
ADO_INLINE T element(const Array& a, int64_t i) {
  return load<T>(a.data + i * a.stride[0]);
}
template <class T>
ADO_INLINE T element(const Array& a, int64_t i, int64_t j) {
  return load<T>(a.data + i * a.stride[0] + j * a.stride[1]);
}

template <class V>
constexpr int kLanesOf = sizeof(V) / sizeof(double);

template <class V, int... kAt>
ADO_INLINE ComplexOf<V> split(V low, V high, std::integer_sequence<int, kAt...>) {
  return {__builtin_shufflevector(low, high, (2 * kAt)...),
          __builtin_shufflevector(low, high, (2 * kAt + 1)...)};
}

// Loads `count` complex numbers into the first lanes, at most one per lane, and 0 into the others.
template <class V>
ADO_INLINE ComplexOf<V> load_lanes(const std::byte* from, int64_t stride, int64_t count) {
  if constexpr (kLanesOf<V> == 1) {
    return load<ComplexOf<V>>(from);
  } else {
    if (stride == sizeof(Complex) && count >= kLanesOf<V>)
      return split(load_vector<V>(from), load_vector<V>(from + sizeof(V)),
                   std::make_integer_sequence<int, kLanesOf<V>>{});
    double re[kLanesOf<V>] = {}, im[kLanesOf<V>] = {};
    for (int64_t lane = 0; lane < min(count, kLanesOf<V>); ++lane) {
      const auto z = load<Complex>(from + lane * stride);
      re[lane] = z.re;
      im[lane] = z.im;
    }
    return {load_vector<V>(re), load_vector<V>(im)};
  }
}

// Terms per chain. A chain is summed without compensation, and the sums of chains are summed with
// compensation. Otherwise, n equal terms would accumulate n roundings.
constexpr int64_t kChain = 32;

// Bands per block. Within a block, the sums of chains are added without compensation.
constexpr int64_t kBlockBands = 8 * kChain;

// A contribution to asx (screened exchange) and to ach (Coulomb hole).
template <class V>
struct SelfEnergy {
  ComplexOf<V> screened, coulomb;
};

template <class V>
class Totals {
 public:
  ADO_INLINE void add(const SelfEnergy<V>& terms) {
    sums_[0].add(terms.screened.re);
    sums_[1].add(terms.screened.im);
    sums_[2].add(terms.coulomb.re);
    sums_[3].add(terms.coulomb.im);
  }
  // Finalises the sums; do not call add() afterwards.
  ADO_INLINE SelfEnergy<V> total() {
    return {{sums_[0].total(), sums_[1].total()}, {sums_[2].total(), sums_[3].total()}};
  }

 private:
  CompensatedSum<V> sums_[4];
};

ADO_INLINE SelfEnergy<double> sum_of_lanes(const SelfEnergy<double>& terms) { return terms; }
template <class V>
ADO_INLINE SelfEnergy<double> sum_of_lanes(const SelfEnergy<V>& terms) {
  Totals<double> lanes;
  for (int i = 0; i < kLanesOf<V>; ++i)
    lanes.add(
        {{terms.screened.re[i], terms.screened.im[i]}, {terms.coulomb.re[i], terms.coulomb.im[i]}});
  return lanes.total();
}

// ---- hoisted, shared_division, simd, packed, two_frequencies, sorted_by_occupation --------------
ADO_INLINE bool all(int lane) { return lane != 0; }
template <class Mask>
ADO_INLINE bool all(const Mask& lanes) {
  bool so = true;
  for (unsigned i = 0; i < sizeof(Mask) / sizeof(lanes[0]); ++i) so &= lanes[i] != 0;
  return so;
}

// Everything that depends only on (igp, ig).
template <class V>
struct Pole {
  V re, im, im_squared, twice_re;
  V limit;              // first branch if |x - w|^2 is larger,
  V third_limit;        // third branch, where ssx = 0, if it is not smaller than this
  V cutoff;             // if x < 0, ssx is cut off where |w|^4 / |ssx / I|^2 is smaller than this;
  V near_norm;          // in the second branch the quotient is |x + w|^2 times this
  ComplexOf<V> weight;  // I w vcoul / 2
  bool ordinary;        // in no lane can x be w or -w, or the third branch apply
};

template <class V>
ADO_INLINE Pole<V> pole_of(const Gpp& p, int64_t igp, int64_t ig) {
  const int64_t count = min(p.columns() - ig, kLanesOf<V>);
  const auto lanes_of = [&](const Array& a) {
    return load_lanes<V>(a.data + igp * a.stride[0] + ig * a.stride[1], a.stride[1], count);
  };
  ComplexOf<V> w = lanes_of(p.wtilde);
  if constexpr (kLanesOf<V> != 1) {
    // Lanes beyond the last column must be ordinary, too. Their other operands are 0.
    for (int64_t lane = count; lane < kLanesOf<V>; ++lane) w.re[lane] = w.im[lane] = 1;
  }
  Pole<V> pole;
  pole.re = w.re;
  pole.im = w.im;
  pole.im_squared = w.im * w.im;
  pole.twice_re = 2.0 * w.re;
  const V norm = w.re * w.re + pole.im_squared;
  const V relative = norm * (1 / p.limit_one()), absolute = V{} + p.limit_two();
  pole.limit = relative > absolute ? relative : absolute;
  pole.third_limit = norm * (1 / Gpp::kTolZero);
  pole.cutoff = norm * norm * (1 / (p.sexcut * p.sexcut));
  pole.near_norm = 4.0 * norm;
  const double half = 0.5 * element<double>(p.vcoul, igp);
  pole.weight = lanes_of(p.i_eps) * w;
  pole.weight = {half * pole.weight.re, half * pole.weight.im};
  pole.ordinary = all((pole.third_limit > 2.0 * pole.limit) & (pole.im_squared > 0x1p-120 * norm));
  return pole;
}

// Kinds of bands. The kind determines the arithmetic of the terms.
enum class Kind : std::uint8_t {
  kAny,    // the weight and the cut-off
  kFull,   // occupation 1 and no negative energies: no weight and no cut-off
  kEmpty,  // occupation 0: no ssx
};

// Computation of u and v: two divisions, or one division and u = uv / v. A shared division requires
// an ordinary pole, because infinity times 0 is NaN if x is w or -w.
enum class Division : std::uint8_t { kSeparate, kShared };

// Sums over bands of real factors times m. The factors are u, d u, and the real and imaginary parts
// of ssx.
template <class V>
struct FactorSums {
  ComplexOf<V> u, du, screened_re, screened_im;

  friend ADO_INLINE FactorSums operator+(const FactorSums& x, const FactorSums& y) {
    return {x.u + y.u, x.du + y.du, x.screened_re + y.screened_re, x.screened_im + y.screened_im};
  }
};

template <class V>
ADO_INLINE void multiply_add(ComplexOf<V>& sum, V factor, const ComplexOf<V>& m) {
  sum.re += factor * m.re;
  sum.im += factor * m.im;
}

template <Kind kKind, bool kOrdinary, class V>
ADO_INLINE void add_term(const Pole<V>& pole, double x, double occ, const ComplexOf<V>& m,
                         FactorSums<V>& sums) {
  const V d = pole.re - x;  // -d of the formulas; du and the real part change sign at the end
  const V norm = d * d + pole.im_squared;
  const auto far = norm > pole.limit;
  if constexpr (kKind == Kind::kEmpty) {
    const V u = far ? 1.0 / norm : V{};
    multiply_add<V>(sums.u, u, m);
    multiply_add<V>(sums.du, d * u, m);
  } else {
    const V p = pole.re + x;
    const V norm_p = p * p + pole.im_squared, both = norm * norm_p;
    V u, v, uv;
    if constexpr (kOrdinary) {
      // A division instruction. With Newton steps from the 14-bit estimate, or with one division
      // for two energies, the loop takes 1.1 times as long (Zen 5, AVX-512).
      uv = 1.0 / both;
      u = uv * norm_p;
      v = uv * norm;
    } else {
      u = 1.0 / norm;
      v = 1.0 / norm_p;
      uv = u * v;
    }
    u = far ? u : V{};
    V re = far ? pole.twice_re * (d * p + pole.im_squared) * uv : p * v, im = v;
    if constexpr (!kOrdinary) {
      const auto counts = far | ((norm < pole.third_limit) & (norm > V{}));
      re = counts ? re : V{};
      im = counts ? im : V{};
    }
    if constexpr (kKind == Kind::kAny) {
      const V size = (far ? norm : pole.near_norm) * norm_p;
      auto cut_off = size < (x < 0 ? 1.0 : 0.0) * pole.cutoff;
      if constexpr (!kOrdinary) {  // an infinite ssx
        const V denominator = occ == 0 ? V{} : x < 0 ? norm_p : V{} + 1.0;
        cut_off = cut_off | (denominator == V{});
      }
      re = cut_off ? V{} : occ * re;
      im = cut_off ? V{} : occ * (im + u);
    }
    multiply_add<V>(sums.u, u, m);
    multiply_add<V>(sums.du, d * u, m);
    multiply_add<V>(sums.screened_re, re, m);
    multiply_add<V>(sums.screened_im, im, m);
  }
}

// Sums `count` bands. `bands` provides aqsn of the lanes, aqsm, the energies and the occupation of
// each band.
template <Kind kKind, bool kOrdinary, int kEnergies, class V, class Bands>
ADO_INLINE void add_bands(const Pole<V>& pole, const Bands& bands, int64_t count,
                          SelfEnergy<V> (&terms)[kEnergies]) {
  FactorSums<V> sums[kEnergies] = {};
  for (int64_t begin = 0; begin < count; begin += kChain) {
    FactorSums<V> chain[kEnergies] = {};
    const int64_t end = min(begin + kChain, count);
    for (int64_t n = begin; n < end; ++n) {
      const ComplexOf<V> q = bands.aqsn(n);
      const Complex s = bands.aqsm(n);
      const ComplexOf<V> m = {s.re * q.re + s.im * q.im, s.re * q.im - s.im * q.re};
#pragma GCC unroll 2
      for (int f = 0; f < kEnergies; ++f)
        add_term<kKind, kOrdinary, V>(pole, bands.energy(n, f), bands.occ(n), m, chain[f]);
    }
#pragma GCC unroll 2
    for (int f = 0; f < kEnergies; ++f) sums[f] = sums[f] + chain[f];
  }
#pragma GCC unroll 2
  for (int f = 0; f < kEnergies; ++f) {
    FactorSums<V>& s = sums[f];
    if constexpr (kKind == Kind::kFull) s.screened_im = s.screened_im + s.u;
    const V b = pole.im;
    terms[f].coulomb = pole.weight * ComplexOf<V>{-s.du.re - b * s.u.im, b * s.u.re - s.du.im};
    terms[f].screened = pole.weight * ComplexOf<V>{s.screened_re.re + b * s.screened_im.im,
                                                   s.screened_re.im - b * s.screened_im.re};
  }
}

template <Kind kKind, Division kDivision, int kEnergies, class V, class Bands>
ADO_INLINE void add_bands(const Pole<V>& pole, const Bands& bands, int64_t count,
                          Totals<V> (&totals)[kEnergies]) {
  SelfEnergy<V> terms[kEnergies];
  if (kDivision == Division::kShared && pole.ordinary)
    add_bands<kKind, true>(pole, bands, count, terms);
  else
    add_bands<kKind, false>(pole, bands, count, terms);
  for (int f = 0; f < kEnergies; ++f) totals[f].add(terms[f]);
}

}  // namespace
}  // namespace ado::ADO_ISA
