// Engine: the arithmetic of `moments` for bands far from all poles of a warp.
//
// Full bands: with the names of hoisted_invariants (steps.cu), x^2 - w^2 = -(g + 2iab) where g =
// a^2 - b^2 - x^2. One reciprocal, r = u v = 1 / (g^2 + 4 a^2 b^2), is enough, and neither d nor q
// nor their denominators are needed. The coefficients are
//
//   u = r (2a (a + x) - g)       d u = r (g (x + a) + 2ab^2)
//   v = r (2a (a - x) - g)       (d q + b^2) u v = r (g + 2b^2)
//
// All are linear combinations of r, r g, r x and r g x, with factors that depend only on the pole.
// The loop therefore sums these four moments, multiplied by m, and the factors are applied after
// the loop: 16 FP64 instructions per band and frequency instead of 21.
//
// Empty bands need u and d u at both frequencies of a pass, x1 and x2. If x2 - x1 = 2h is the same
// for all bands, then with y = a - h - x1
//
//   1 / (u1 u2) = ((y + h)^2 + b^2) ((y - h)^2 + b^2) = t^2 + 4h^2 b^2    t = y^2 + b^2 - h^2
//
// and with r = 1 / (t^2 + 4h^2 b^2),
//
//   u1 = r (t + 2h^2 - 2hy)       d1 u1 = r (yt - ht + 2hb^2)
//   u2 = r (t + 2h^2 + 2hy)       d2 u2 = r (yt + ht - 2hb^2)
//
// The loop therefore sums r, r t, r y and r t y, multiplied by m: 17 instructions per band and two
// frequencies instead of 20.
#pragma once

#include "gpp/engine/sorting.cuh"

namespace ado::cuda::gpp {

#ifdef __CUDACC__

// One number for each of kCount independent terms. Each operation processes all terms before the
// next operation starts, so no instruction waits for the result of the previous one
// (instruction-level parallelism). If terms are processed one after another, the loops that nvcc
// compiles have up to twice as many stall cycles.
template <int kCount>
struct Batch {
  double at[kCount];

  // The numbers of(0) to of(kCount - 1).
  template <class Of>
  static __device__ Batch each(Of of) {
    Batch result;
#pragma unroll
    for (int i = 0; i < kCount; ++i) result.at[i] = of(i);
    return result;
  }

  friend __device__ Batch operator+(const Batch& x, const Batch& y) {
    return each([&](int i) { return x.at[i] + y.at[i]; });
  }
  friend __device__ Batch operator-(const Batch& x, const Batch& y) {
    return each([&](int i) { return x.at[i] - y.at[i]; });
  }
  friend __device__ Batch operator-(const Batch& x) {
    return each([&](int i) { return -x.at[i]; });
  }
  friend __device__ Batch operator*(const Batch& x, const Batch& y) {
    return each([&](int i) { return x.at[i] * y.at[i]; });
  }
  friend __device__ Batch fma(const Batch& x, const Batch& y, const Batch& z) {
    return each([&](int i) { return ::fma(x.at[i], y.at[i], z.at[i]); });
  }
  friend __device__ Batch approximate_reciprocal(const Batch& x) {
    const Batch r = each([&](int i) { return reciprocal_seed(x.at[i]); });
    const Batch e = each([&](int i) { return ::fma(-x.at[i], r.at[i], 1.0); });
    return fma(fma(e, e, e), r, r);
  }
};

// Four factors per term: coefficients as in terms.cuh, or moments. Each factor is multiplied by
// m and summed.
template <int kCount>
struct BatchCoefficients {
  Batch<kCount> sch, sch_b, ssx, ssx_b;
};

// by_selection<true> for a batch.
template <int kCount>
__device__ BatchCoefficients<kCount> select_full_bands(const Batch<kCount>& a,
                                                       const Batch<kCount>& b2,
                                                       const Batch<kCount>& limit,
                                                       const Batch<kCount>& half_inverse,
                                                       const Batch<kCount>& x) {
  using Terms = Batch<kCount>;
  const Terms d = a - x, q = a + x;
  const Terms den = fma(d, d, b2), den_plus = fma(q, q, b2);
  const Terms r = approximate_reciprocal(den * den_plus);
  const auto if_far = [&](int i, double far, double near) {
    return select(den.at[i] > limit.at[i], far, near);
  };
  BatchCoefficients<kCount> c;
  c.sch_b = r * Terms::each([&](int i) { return if_far(i, den_plus.at[i], 0); });
  c.ssx_b = r * den;
  c.sch = d * c.sch_b;
  const Terms b2_sch_b = b2 * c.sch_b;
  const Terms factor =
      Terms::each([&](int i) { return if_far(i, c.sch.at[i], half_inverse.at[i]); });
  c.ssx = fma(factor, q, b2_sch_b) * c.ssx_b;
  return c;
}

// The moments r, r y, r z and r y z, with r = 1 / (y^2 + `product`).
template <int kCount>
__device__ BatchCoefficients<kCount> moments_of(const Batch<kCount>& y, const Batch<kCount>& z,
                                                const Batch<kCount>& product) {
  BatchCoefficients<kCount> c;
  c.sch_b = approximate_reciprocal(fma(y, y, product));
  c.ssx_b = c.sch_b * y;
  c.sch = c.sch_b * z;
  c.ssx = c.ssx_b * z;
  return c;
}

// Returns w, through a statement that the compiler cannot analyse. Otherwise the compiler would
// hoist the constants below out of the loop over chunks, which would leave too few registers for
// the loops over bands.
__device__ inline Pole opaque(Pole w) {
  asm volatile("" : "+d"(w.a), "+d"(w.b2));
  return w;
}

// y = g = `difference` - x^2, z = x.
struct FullBandMoments {
  double difference, product;  // a^2 - b^2 and 4 a^2 b^2

  static __device__ FullBandMoments of(const Pole& w) {
    return {fma(w.a, w.a, -w.b2), 4 * (w.a * w.a) * w.b2};
  }
};

// y = t = z^2 + `squares`, z = `a` - x1.
struct EmptyBandMoments {
  double a, squares, product;  // a - h, b^2 - h^2 and 4 h^2 b^2

  static __device__ EmptyBandMoments of(const Pole& w, double h) {
    // The compiler cannot analyse a shuffle. Otherwise, it would compute the constants again in
    // each iteration of the loop over bands.
    h = __shfl_sync(kAllLanes, h, 0);
    return {w.a - h, w.b2 - h * h, 4 * (h * h) * w.b2};
  }
};

// Converts the moments of full bands to the sums of their coefficients. The sums of ssx_b then
// contain only v.
template <int kF>
__device__ void coefficients_from_moments(const Pole& w, PairSums<kF>& sums) {
  const double twice = 2 * w.a;
#pragma unroll
  for (int f = 0; f < kF; ++f) {
    const Complex one = sums.sch_b[f], g = sums.ssx_b[f], x = sums.sch[f], gx = sums.ssx[f];
    Complex even = -g, odd = {};
    multiply_add(even, twice * w.a, one);
    multiply_add(odd, twice, x);
    sums.sch_b[f] = even + odd;
    sums.ssx_b[f] = even + -odd;
    sums.sch[f] = gx;
    multiply_add(sums.sch[f], w.a, g);
    multiply_add(sums.sch[f], twice * w.b2, one);
    sums.ssx[f] = g;
    multiply_add(sums.ssx[f], 2 * w.b2, one);
  }
}

// Adds the sums of the coefficients of empty bands at both frequencies, from their moments.
__device__ inline void add_empty_band_moments(const Pole& w, double h, const PairSums<1>& moments,
                                              PairSums<2>& sums) {
  const Complex one = moments.sch_b[0], t = moments.ssx_b[0];
  const Complex y = moments.sch[0], ty = moments.ssx[0];
  Complex even = t, odd = {};
  multiply_add(even, 2 * (h * h), one);
  multiply_add(odd, -2 * h, y);
  sums.sch_b[0] += even + odd;
  sums.sch_b[1] += even + -odd;
  odd = {};
  multiply_add(odd, -h, t);
  multiply_add(odd, 2 * h * w.b2, one);
  sums.sch[0] += ty + odd;
  sums.sch[1] += ty + -odd;
}

// Energies whose distance from a exceeds this value are far from the pole.
__device__ inline double far_distance(const Pole& w) {
  constexpr double kAboveRounding = 1 + 0x1p-40;
  return kAboveRounding * sqrt(fmax(w.limit - w.b2, 0.0));
}

// The lowest energy from which the moments of full bands may be used for all poles of a warp, or
// infinity. If x and a are not negative, |x| + |w| is at most 2 |x + w|, so no sum suffers from
// cancellation. If |w|^2 <= 4 |g|, the rounding error of `difference` is at most 4 u |g|.
template <int kCount>
__device__ double lowest_energy_of_moments(const Pole (&poles)[kCount]) {
  double lowest = 0;
#pragma unroll
  for (const Pole& w : poles) {
    const double least_g = 0.25 * squared_modulus(w);
    const double energy = sqrt(fmax(fma(w.a, w.a, -w.b2) + least_g, 0.0));
    lowest = fmax(lowest, w.a < 0 ? INFINITY : fmax(energy, w.a + far_distance(w)));
  }
  return max_over_lanes(lowest);
}

// The range of energies for which the moments of empty bands may be used for all poles of a warp.
// These energies are below all poles. If the distance is at least 5 |h|, no sum suffers from
// cancellation. If an energy changes by a small fraction of its distance from the pole, the term
// changes by the same fraction.
struct EmptyBandRange {
  double h = 0, lowest_a = 0, distance = 0;

  template <int kCount>
  static __device__ EmptyBandRange of(const Pole (&poles)[kCount], double h) {
    double negative_a = -INFINITY, distance = 5 * fabs(h);
#pragma unroll
    for (const Pole& w : poles) {
      negative_a = fmax(negative_a, -w.a);
      distance = fmax(distance, far_distance(w));
    }
    return {h, -max_over_lanes(negative_a), max_over_lanes(distance)};
  }

  __device__ bool contains(Range energies) const {
    constexpr double kNegligible = 0x1p-50;
    const double gap = lowest_a - energies.high;
    const double largest = fmax(fabs(energies.low), fabs(energies.high));
    return gap >= distance && gap >= 0.5 * largest && energies.deviation <= kNegligible * gap;
  }
};

#endif

}  // namespace ado::cuda::gpp
