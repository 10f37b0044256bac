// The GPP model's terms on numbers or vectors, with all that (igp, ig) alone decides taken out of
// the loop over bands.
//
// With w = a + ib, d = x - a, p = x + a, u = 1 / |x - w|^2 and v = 1 / |x + w|^2:
//
//   first branch:   sch / I = w (d + ib) u
//                   ssx / I = w/2 ((d + ib) u - (p - ib) v)
//                           = w/2 (2a (d p - b^2) u v + ib (u + v))
//   second branch:  ssx / I = w/2 (-(p - ib) v)
//
// so that four sums over the bands of real factors times m, two of them of both branches, leave
// all that is complex for the end. The difference in d u - p v would cancel; d p - b^2 is as exact
// as the complex number that it is the real part of.
#pragma once

#include "routines/gpp.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/compensated.hpp"
#include "core/isa.hpp"
#include "cpu/common/streaming.hpp"
#include "cpu/common/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

// ---------------------------------------------------------------------------------------- numbers

// Of doubles, or of vectors of them.
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

// So many complex numbers, at most as many as there are lanes; 0 in the lanes that are left.
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

// ------------------------------------------------------------------------------------------- sums

// Terms are added plainly in chains of so many, and the sums of chains with compensation: equal
// terms would be wrong by as many roundings as there are.
constexpr int64_t kChain = 32;

// Of so many bands the sums of chains, too, are added plainly.
constexpr int64_t kBlockBands = 8 * kChain;

template <class V>
struct Terms {
  ComplexOf<V> screened, coulomb;  // of asx and of ach
};

template <class V>
class Totals {
 public:
  ADO_INLINE void add(const Terms<V>& terms) {
    sums_[0].add(terms.screened.re);
    sums_[1].add(terms.screened.im);
    sums_[2].add(terms.coulomb.re);
    sums_[3].add(terms.coulomb.im);
  }
  // The last word, as of each sum.
  ADO_INLINE Terms<V> total() {
    return {{sums_[0].total(), sums_[1].total()}, {sums_[2].total(), sums_[3].total()}};
  }

 private:
  CompensatedSum<V> sums_[4];
};

ADO_INLINE Terms<double> sum_of_lanes(const Terms<double>& terms) { return terms; }
template <class V>
ADO_INLINE Terms<double> sum_of_lanes(const Terms<V>& terms) {
  Totals<double> lanes;
  for (int i = 0; i < kLanesOf<V>; ++i)
    lanes.add(
        {{terms.screened.re[i], terms.screened.im[i]}, {terms.coulomb.re[i], terms.coulomb.im[i]}});
  return lanes.total();
}

// -------------------------------------------------------------------------------------- the model

ADO_INLINE bool all(int lane) { return lane != 0; }
template <class Mask>
ADO_INLINE bool all(const Mask& lanes) {
  bool so = true;
  for (unsigned i = 0; i < sizeof(Mask) / sizeof(lanes[0]); ++i) so &= lanes[i] != 0;
  return so;
}

// What (igp, ig) alone decides.
template <class V>
struct Pole {
  V re, im, im_squared, twice_re;
  V limit;       // the first branch is where |x - w|^2 is larger,
  V weightless;  // and the second has no weight where it is not smaller than this
  V cutoff;      // where x < 0, ssx counts only if |w|^4 / |ssx / I|^2 is not smaller than this,
  V near_norm;   // which in the second branch is |x + w|^2 times this
  ComplexOf<V> weight;  // I w vcoul / 2
  bool ordinary;        // every lane has weight everywhere, and x is neither w nor -w
};

template <class V>
ADO_INLINE Pole<V> pole_of(const Gpp& p, int64_t igp, int64_t ig) {
  const int64_t count = min(p.columns() - ig, kLanesOf<V>);
  const auto lanes_of = [&](const Array& a) {
    return load_lanes<V>(a.data + igp * a.stride[0] + ig * a.stride[1], a.stride[1], count);
  };
  ComplexOf<V> w = lanes_of(p.wtilde);
  if constexpr (kLanesOf<V> != 1) {
    // Lanes beyond the last column are to be ordinary, too; all else is 0 there.
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
  pole.weightless = norm * (1 / Gpp::kTolZero);
  pole.cutoff = norm * norm * (1 / (p.sexcut * p.sexcut));
  pole.near_norm = 4.0 * norm;
  const double half = 0.5 * element<double>(p.vcoul, igp);
  pole.weight = lanes_of(p.i_eps) * w;
  pole.weight = {half * pole.weight.re, half * pole.weight.im};
  pole.ordinary = all((pole.weightless > 2.0 * pole.limit) & (pole.im_squared > 0x1p-120 * norm));
  return pole;
}

// Bands that leave something out.
enum class Kind : std::uint8_t {
  kAny,
  kFull,   // occupation 1, and no energy below 0: no weights and no cut-off
  kEmpty,  // occupation 0: nothing of asx
};

// Sums over bands of real factors times m, of the terms that the formulas above name.
template <class V>
struct Sums {
  ComplexOf<V> u, du, screened_re, screened_im;

  friend ADO_INLINE Sums operator+(const Sums& x, const Sums& y) {
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
                         Sums<V>& sums) {
  const V d = pole.re - x;  // with the opposite sign, as du and the real part have it until the end
  const V norm = d * d + pole.im_squared;
  const auto at_pole = norm > pole.limit;
  if constexpr (kKind == Kind::kEmpty) {
    const V u = at_pole ? 1.0 / norm : V{};
    multiply_add<V>(sums.u, u, m);
    multiply_add<V>(sums.du, d * u, m);
  } else {
    const V p = pole.re + x;
    const V norm_p = p * p + pole.im_squared, both = norm * norm_p;
    V u, v, uv;
    if constexpr (kOrdinary) {
      // A plain division: with Newton's steps from an estimate of 14 bits, or one division for two
      // energies, the loop takes 1.1 times as long (Zen 5, AVX-512).
      uv = 1.0 / both;
      u = uv * norm_p;
      v = uv * norm;
    } else {
      u = 1.0 / norm;
      v = 1.0 / norm_p;
      uv = u * v;
    }
    u = at_pole ? u : V{};
    V re = at_pole ? pole.twice_re * (d * p + pole.im_squared) * uv : p * v, im = v;
    if constexpr (!kOrdinary) {
      const auto weighty = at_pole | ((norm < pole.weightless) & (norm > V{}));
      re = weighty ? re : V{};
      im = weighty ? im : V{};
    }
    if constexpr (kKind == Kind::kAny) {
      const V size = (at_pole ? norm : pole.near_norm) * norm_p;
      auto left_out = size < (x < 0 ? 1.0 : 0.0) * pole.cutoff;
      if constexpr (!kOrdinary) {  // where ssx is infinite
        const V denominator = occ == 0 ? V{} : x < 0 ? norm_p : V{} + 1.0;
        left_out = left_out | (denominator == V{});
      }
      re = left_out ? V{} : occ * re;
      im = left_out ? V{} : occ * (im + u);
    }
    multiply_add<V>(sums.u, u, m);
    multiply_add<V>(sums.du, d * u, m);
    multiply_add<V>(sums.screened_re, re, m);
    multiply_add<V>(sums.screened_im, im, m);
  }
}

// Bands give what belongs to each of them: aqsn of the lanes, aqsm, the energies and the
// occupation.
template <Kind kKind, bool kOrdinary, int kEnergies, class V, class Bands>
ADO_INLINE void add_bands(const Pole<V>& pole, const Bands& bands, int64_t count,
                          Terms<V> (&terms)[kEnergies]) {
  Sums<V> sums[kEnergies] = {};
  for (int64_t begin = 0; begin < count; begin += kChain) {
    Sums<V> chain[kEnergies] = {};
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
    Sums<V>& s = sums[f];
    if constexpr (kKind == Kind::kFull) s.screened_im = s.screened_im + s.u;
    const V b = pole.im;
    terms[f].coulomb = pole.weight * ComplexOf<V>{-s.du.re - b * s.u.im, b * s.u.re - s.du.im};
    terms[f].screened = pole.weight * ComplexOf<V>{s.screened_re.re + b * s.screened_im.im,
                                                   s.screened_re.im - b * s.screened_im.re};
  }
}

template <Kind kKind, int kEnergies, class V, class Bands>
ADO_INLINE void add_bands(const Pole<V>& pole, const Bands& bands, int64_t count,
                          Totals<V> (&totals)[kEnergies]) {
  Terms<V> terms[kEnergies];
  if (pole.ordinary)
    add_bands<kKind, true>(pole, bands, count, terms);
  else
    add_bands<kKind, false>(pole, bands, count, terms);
  for (int f = 0; f < kEnergies; ++f) totals[f].add(terms[f]);
}

}  // namespace
}  // namespace ado::ADO_ISA
