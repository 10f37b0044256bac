// Engine: partial_fractions, the last variant of gpp. Tiles and launches as in
// engine_split_tiles.cuh, with fewer FP64 instructions per band and more of them that share a
// register.
//
// Partial fractions. With P = 1 / (x - w) and Q = 1 / (x + w),
//
//   sch = I w P      ssx = I w / 2 (P - Q)      if x is far from the pole
//   sch = 0          ssx = I w / 2 (0 - Q)      if x is near the pole
//
// So both branches are one formula, in which P is 0 near the pole. Q is smooth, because x and Re w
// are not negative, and needs no selection. 86 FP64 instructions per band and two igp become 74.
//
// Powers of the energy. Far from all poles, the coefficients are r times a polynomial in the
// energy, of degree 3. The loop sums r m, r m x, r m x^2 and r m x^3. The powers are the same for
// all lanes, and are computed once per call. With c = (x1 + x2) / 2 and h = (x2 - x1) / 2, the
// terms of both frequencies have the common denominator of engine_moments.cuh:
//
//   Q    1 / r = t^2 + 4h^2 b^2    t = y^2 + b^2 - h^2    y = a + c
//        1 / (x1 + w) = r (q1 - ib) (q2^2 + b^2)          q1 = c + a - h = a + x1
//        1 / (x2 + w) = r (q2 - ib) (q1^2 + b^2)          q2 = c + a + h = a + x2
//
// Empty bands below all poles need only P, which is -Q with -c instead of c. If c, a - h and a + h
// are not negative, the polynomials in c have no negative coefficients, so their sums do not
// cancel.
//
// Error. P and Q cancel if x is much larger than |w|: the error of a sum of n bands is amplified by
// at most 1 + x / |w|. The polynomials of full bands far from their poles contain a^2 - b^2 - x^2,
// which amplifies by at most 9 (see lowest_energy_of_moments). Therefore the loop over bands is cut
// into runs: see longest_run. Each run is added to the sums of the thread.
#pragma once

#include "gpp/engine_split_tiles.cuh"

namespace ado::cuda::gpp {

// With fewer bands, the error bound leaves runs of less than two chunks; see longest_run.
inline constexpr std::int64_t kFewestBandsOfRuns = 704;

inline bool has_matrix_instructions(const Hardware& gpu) { return gpu.compute == 90; }

#ifdef __CUDACC__

// The longest run of bands whose rounding errors, amplified, remain below three quarters of the
// error bound. A multiple of kChunk, and 0 if not even one chunk does.
__device__ inline int longest_run(std::int64_t bands, double amplification) {
  constexpr double kRoundingsOfTerm = 12;
  const auto bound = static_cast<double>(32 + min(bands, std::int64_t{Gpp::kLongestSum}));
  const double run = 0.75 * bound / amplification - kRoundingsOfTerm;
  return run >= kChunk ? static_cast<int>(run) / kChunk * kChunk : 0;
}

// References to the sums of r m, r m x, r m x^2 and r m x^3 of a pair.
struct PowerSums {
  Complex &one, &x, &x2, &x3;

  // The sums of r ((x + s)^2 + b^2), and of the same times (x + d).
  __device__ Complex square(double s, double b2) const {
    Complex sum = x2;
    multiply_add(sum, 2 * s, x);
    multiply_add(sum, fma(s, s, b2), one);
    return sum;
  }
  __device__ Complex cube(double d, double s, double b2) const {
    const double square = fma(s, s, b2);
    Complex sum = x3;
    multiply_add(sum, fma(2.0, s, d), x2);
    multiply_add(sum, fma(2 * s, d, square), x);
    multiply_add(sum, d * square, one);
    return sum;
  }
};

// Adds r m to the sums of powers of each pair. Consecutive FMAs read the same power, from the
// operand cache.
template <int kCount, class SumsOf>
__device__ void add_powers(const Complex (&rm)[kCount], double x, double x2, double x3,
                           SumsOf sums_of) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums_of(i).one += rm[i];
#pragma unroll
  for (int i = 0; i < kCount; ++i) multiply_add(sums_of(i).x, x, rm[i]);
#pragma unroll
  for (int i = 0; i < kCount; ++i) multiply_add(sums_of(i).x2, x2, rm[i]);
#pragma unroll
  for (int i = 0; i < kCount; ++i) multiply_add(sums_of(i).x3, x3, rm[i]);
}

// While the loop processes full bands far from all poles, the sums of a pair are powers, for each
// frequency. With partial fractions, sch and sch_b are P as in hoisting.cuh, and the others are
// powers, for both frequencies of Q.
__device__ inline PowerSums powers_at(PairSums<2>& sums, int f) {
  return {sums.sch_b[f], sums.sch[f], sums.ssx_b[f], sums.ssx[f]};
}
__device__ inline PowerSums powers_of_q(PairSums<2>& sums) {
  return {sums.ssx_b[0], sums.ssx[0], sums.ssx_b[1], sums.ssx[1]};
}

// The operands of a band in shared memory, for one lane: m of each igp, and energies with powers.
struct BandOperands {
  Complex m[kSplitRows];
  double x[2];
  EnergyPowers powers;
};

// Calls add_band(operands) for the bands at places [from, to) of the chunk, two per iteration.
template <class Chunk, class AddBand>
__device__ void for_bands(const Chunk& chunk, int from, int to, AddBand add_band) {
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  constexpr int kUnroll = 4;
  static_assert(kGroup % kUnroll == 0);
  to = min(to, kChunk);
  const Complex* aqsn = &chunk.aqsn[0][lane];
  const Complex* aqsm = &chunk.aqsm[0][warp * kSplitRows];
#pragma unroll 1
  for (int k = max(from, 0); k < to; k += kUnroll) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      BandOperands band;
      const Complex right = aqsn[(k + i) * kTileColumns];
#pragma unroll
      for (int row = 0; row < kSplitRows; ++row)
        band.m[row] = conj(aqsm[(k + i) * kTileRows<kSplitRows> + row]) * right;
      band.powers = chunk.powers[k + i];
      band.x[0] = chunk.wx[k + i][0];
      band.x[1] = chunk.wx[k + i][1];
      add_band(band, k + i);
    }
  }
}

// The constants of t^2 + `product`, where t = y^2 + `squares`.
struct TwoEnergies {
  double squares, product;

  static __device__ TwoEnergies of(const Pole& w, double h) {
    h = __shfl_sync(kAllLanes, h, 0);  // opaque to the compiler: see EmptyBandMoments
    return {w.b2 - h * h, 4 * (h * h) * w.b2};
  }
};

// The range of energies for which partial fractions may be used for full bands and all poles of a
// warp, and the length of their runs.
struct FractionsRange {
  double lowest_a = 0, highest = -INFINITY;
  int longest = 0;

  template <int kCount>
  static __device__ FractionsRange of(const Inputs& p, const Pole (&poles)[kCount], double h,
                                      double highest) {
    double negative_a = -INFINITY, negative_w2 = -INFINITY;
    bool simple = true;
#pragma unroll
    for (const Pole& w : poles) {
      const double w2 = squared_modulus(w);
      negative_a = fmax(negative_a, -w.a);
      negative_w2 = fmax(negative_w2, -w2);
      simple &= w2 > Gpp::kTolZero * w.limit;  // the third branch does not apply
    }
    FractionsRange range = {.lowest_a = -max_over_lanes(negative_a)};
    const double lowest_w = sqrt(-max_over_lanes(negative_w2));
    range.longest = longest_run(p.bands, 1 + highest / lowest_w);
    if (__all_sync(kAllLanes, simple) && range.longest > 0 && range.lowest_a >= fabs(h))
      range.highest = highest;
    return range;
  }

  __device__ bool contains(Range energies) const {
    constexpr double kNegligible = 0x1p-50;
    return energies.high <= highest &&
           energies.deviation <= kNegligible * (energies.low + lowest_a);
  }
};

// 1 / x where x > limit, and 0 elsewhere.
template <int kCount>
__device__ Batch<kCount> reciprocal_above(const Batch<kCount>& limit, const Batch<kCount>& x) {
  using Terms = Batch<kCount>;
  const Terms r =
      Terms::each([&](int i) { return reciprocal_seed(x.at[i], x.at[i] > limit.at[i]); });
  const Terms e = Terms::each([&](int i) { return ::fma(-x.at[i], r.at[i], 1.0); });
  return fma(fma(e, e, e), r, r);
}

// Adds the sums of full bands of one igp to the sums of the thread, and clears them.
enum class Arithmetic { kPowers, kFractions, kSelection };

__device__ inline void finish_full_bands(const Inputs& p, Arithmetic arithmetic, double h,
                                         std::int64_t igp, std::int64_t ig, PairSums<2>& from,
                                         ThreadSums<2>& sums) {
  if (igp < p.rows && ig < p.columns) {
    const Complex w = p.wtilde[igp * p.columns + ig];
    const Complex half = 0.5 * p.vcoul[igp] * (w * p.i_eps[igp * p.columns + ig]);
    const double a = w.re, b2 = w.im * w.im;
#pragma unroll
    for (int f = 0; f < 2; ++f) {
      // P = re + ib im, and P - Q = both_re + ib both_im.
      Complex re, im, both_re, both_im;
      if (arithmetic == Arithmetic::kPowers) {
        const PowerSums powers = powers_at(from, f);
        const double difference = fma(a, a, -b2);
        Complex g = -powers.x2, gx = -powers.x3, odd = a * powers.x;
        multiply_add(g, difference, powers.one);
        multiply_add(gx, difference, powers.x);
        both_im = -2 * g;
        multiply_add(both_im, 4 * a * a, powers.one);
        both_re = -2 * a * g;
        multiply_add(both_re, -4 * a * b2, powers.one);
        im = 0.5 * both_im + 2 * odd;
        re = 0.5 * both_re + -gx;
      } else {
        const PowerSums powers = powers_of_q(from);
        const double q = f == 0 ? a - h : a + h, other = f == 0 ? a + h : a - h;
        re = -from.sch[f];
        im = from.sch_b[f];
        both_re = re + -powers.cube(q, other, b2);
        both_im = im + powers.square(other, b2);
      }
      sums.ach[f] += half * Complex{fma(-w.im, im.im, re.re), fma(w.im, im.re, re.im)};
      sums.asx[f] +=
          half * Complex{fma(-w.im, both_im.im, both_re.re), fma(w.im, both_im.re, both_re.im)};
    }
  }
  from = {};
}

// The weight multiplies m, instead of the coefficients of both frequencies. kCutOff: an energy is
// negative.
template <bool kCutOff>
__device__ void add_weighted_band(const Inputs& p, const Pole (&poles)[kSplitRows],
                                  const BandGroup<1, kSplitRows, 2>& band, double occ,
                                  PairSums<2> (&sums)[kSplitRows]) {
#pragma unroll
  for (int row = 0; row < kSplitRows; ++row) {
    const Complex m = band.m[0][row], weighted = occ * m;
#pragma unroll
    for (int f = 0; f < 2; ++f) {
      const Pole& w = poles[row];
      const double x = band.x[0][f], d = w.a - x, q = w.a + x;
      Coefficients c = by_selection<true>(p, w, x, 1);
      c.ssx_b += c.sch_b;
      if constexpr (kCutOff) {
        const double den = fma(d, d, w.b2), den_plus = fma(q, q, w.b2), w2 = squared_modulus(w);
        const bool far = den > w.limit;
        const double denominator = far ? den * den_plus : den_plus;
        const bool within = weight_of(p, x, 1, far ? w2 * w2 : 0.25 * w2, denominator) != 0;
        c.ssx = select(within, c.ssx, 0);
        c.ssx_b = select(within, c.ssx_b, 0);
      }
      sums[row].add_coulomb_hole(f, c, m);
      sums[row].add_exchange(f, c, weighted);
    }
  }
}

// Full and weighted bands, with two frequencies.
__global__ void __launch_bounds__(kTileWarps* kWarpSize, kSplitBlocks)
    gpp_occupied_fractions(Inputs p, Pass<2> pass, SortedBands sorted, Tiling tiling) {
  using Operands = TileOperands<kSplitRows, 2, StagedWithPowers<kSplitRows, 2>>;
  ThreadSums<2> sums;
  const SplitTile tile(tiling, 0, sorted.ends[kWeightedBands]);
  if (tile.down < tiling.down) {
    Pole poles[kSplitRows];
    load_poles(p, tile.igp, tile.ig, poles);
    const double h = 0.5 * (p.wx[pass.first + 1] - p.wx[pass.first]);
    const int full_end = tile.place_of(sorted.ends[kFullBands]);
    const int end = tile.place_of(sorted.ends[kWeightedBands]);
    const double powers_from = lowest_energy_of_moments(poles);
    PairSums<2> pair_sums[kSplitRows];
    FractionsRange range;
    Arithmetic arithmetic = Arithmetic::kPowers;
    int selected = full_end, run = 0, longest = longest_run(p.bands, 9);

    const auto finish_run = [&] {
      run = 0;
#pragma unroll
      for (int row = 0; row < kSplitRows; ++row)
        finish_full_bands(p, arithmetic, h, tile.igp + row, tile.ig, pair_sums[row], sums);
    };
    Operands operands(sorted, pass, tile.across, tile.down, tile.first);
    operands.for_chunks(end, [&](const auto& chunk, int place) {
      const bool with_full_bands = place < full_end;
      if (with_full_bands && arithmetic == Arithmetic::kPowers &&
          (longest == 0 || !(chunk.range.low >= powers_from))) {
        finish_run();
        arithmetic = Arithmetic::kFractions;
        range = FractionsRange::of(p, poles, h, chunk.range.high);
        longest = range.longest;
      }
      if (with_full_bands && arithmetic == Arithmetic::kFractions && !range.contains(chunk.range)) {
        finish_run();
        arithmetic = Arithmetic::kSelection;
        selected = place;
      }
      if (with_full_bands && arithmetic != Arithmetic::kSelection && run == longest) finish_run();
      run += kChunk;

      if (arithmetic == Arithmetic::kPowers) {
        FullBandMoments constants[kSplitRows];
#pragma unroll
        for (int row = 0; row < kSplitRows; ++row)
          constants[row] = FullBandMoments::of(opaque(poles[row]));
        using Split = SplitTerms<1, 2>;
        for_bands(chunk, 0, full_end - place, [&](const BandOperands& band, int) {
          const auto x = Split::Terms::each([&](int t) { return band.x[t % 2]; });
          const auto g = fma(-x, x, Split::of_rows(constants, &FullBandMoments::difference));
          const auto r = approximate_reciprocal(
              fma(g, g, Split::of_rows(constants, &FullBandMoments::product)));
#pragma unroll
          for (int f = 0; f < 2; ++f) {
            const Complex rm[] = {r.at[f] * band.m[0], r.at[2 + f] * band.m[1]};
            add_powers(rm, band.x[f], band.powers.squares[f], band.powers.cubes[f],
                       [&](int row) { return powers_at(pair_sums[row], f); });
          }
        });
      } else if (arithmetic == Arithmetic::kFractions) {
        TwoEnergies constants[kSplitRows];
#pragma unroll
        for (int row = 0; row < kSplitRows; ++row)
          constants[row] = TwoEnergies::of(opaque(poles[row]), h);
        using Split = SplitTerms<1, 2>;
        using Middle = SplitTerms<1, 1>;
        for_bands(chunk, 0, full_end - place, [&](const BandOperands& band, int) {
          const double(&powers)[4] = band.powers.of_mean;
          const auto x = Split::Terms::each([&](int t) { return band.x[t % 2]; });
          const auto limit = Split::of_rows(poles, &Pole::limit);
          const auto d = Split::of_rows(poles, &Pole::a) - x;
          const auto den = fma(d, d, Split::of_rows(poles, &Pole::b2));
          const auto y = Middle::Terms::each([&](int t) { return poles[t].a + powers[1]; });
          const auto t = fma(y, y, Middle::of_rows(constants, &TwoEnergies::squares));
          const auto r =
              approximate_reciprocal(fma(t, t, Middle::of_rows(constants, &TwoEnergies::product)));
          const auto u = reciprocal_above(limit, den);
          const auto du = d * u;
#pragma unroll
          for (int i = 0; i < Split::kCount; ++i) {
            const int row = i / 2, f = i % 2;
            multiply_add(pair_sums[row].sch[f], du.at[i], band.m[row]);
            multiply_add(pair_sums[row].sch_b[f], u.at[i], band.m[row]);
          }
          const Complex rm[] = {r.at[0] * band.m[0], r.at[1] * band.m[1]};
          add_powers(rm, powers[1], powers[2], powers[3],
                     [&](int row) { return powers_of_q(pair_sums[row]); });
        });
      } else {
        for_groups<1>(chunk, 0, full_end - place, [&](const auto& group, int) {
#pragma unroll
          for (int row = 0; row < kSplitRows; ++row)
#pragma unroll
            for (int f = 0; f < 2; ++f)
              pair_sums[row].add(f, by_selection<true>(p, poles[row], group.x[0][f], 1),
                                 group.m[0][row]);
        });
      }
      if (full_end > place && full_end <= place + kChunk) {
        if (arithmetic != Arithmetic::kSelection) finish_run();
#pragma unroll
        for (int row = 0; row < kSplitRows; ++row) pair_sums[row].complete_full_bands();
      }
      for_groups<1>(chunk, full_end - place, end - place, [&](const auto& group, int k) {
        // The same for all lanes, unlike the cut-off itself.
        if (group.x[0][0] < 0 || group.x[0][1] < 0)
          add_weighted_band<true>(p, poles, group, chunk.occ[k], pair_sums);
        else
          add_weighted_band<false>(p, poles, group, chunk.occ[k], pair_sums);
      });
    });
    add_split_pairs(p, pass, sorted, tiling, 0, sorted.ends[kWeightedBands], pair_sums, sums,
                    selected);
  }
  sums.store(pass);
}

// Sums of matrix products: 16 x 8 numbers. A lane has columns 2 (lane % 4) and the next one, of
// rows lane / 4 and 8 + lane / 4.
struct ProductSums {
  double of[4] = {};

  // Adds A B, with 16 x 16 and 16 x 8 elements. A lane passes columns lane % 4 + 4j of A in rows
  // lane / 4 (a[2j]) and 8 + lane / 4 (a[2j + 1]), and rows lane % 4 + 4j of B in column lane / 4.
  __device__ void add(const double (&a)[8], const double (&b)[4]) {
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(of[0]), "+d"(of[1]), "+d"(of[2]), "+d"(of[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
          "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const int a_lane = lane / 4 * 4 + k % 4, b_lane = lane % 4 * 8 + k % 4;
      const double upper = __shfl_sync(kAllLanes, a[k / 4 * 2], a_lane);
      const double lower = __shfl_sync(kAllLanes, a[k / 4 * 2 + 1], a_lane);
      const double left = __shfl_sync(kAllLanes, b[k / 4], b_lane);
      const double right = __shfl_sync(kAllLanes, b[k / 4], b_lane + 4);
      of[0] = fma(upper, left, of[0]);
      of[1] = fma(upper, right, of[1]);
      of[2] = fma(lower, left, of[2]);
      of[3] = fma(lower, right, of[3]);
    }
#endif
  }
};

// Empty bands far from all poles of a warp. The sums of powers are matrix products: row: real or
// imaginary part of r aqsn, for one of eight ig; column: c^k times the real or imaginary part of
// aqsm, for one igp. A warp has eight tiles of eight pairs, and its lanes process different bands:
//
//              columns        Re aqsm (1, c, c^2, c^3)   Im aqsm (1, c, c^2, c^3)
//   rows                      lanes 0, 1 of four         lanes 2, 3 of four
//   Re r aqsn of 8 ig         of[0], of[1]               of[0], of[1]
//   Im r aqsn of 8 ig         of[2], of[3]               of[2], of[3]
//
// So m is not computed for each band. A matrix instruction also reads fewer registers than FMAs,
// whose throughput is limited by the registers that they read (benchmarks/fp64_operands.cu).
inline constexpr int kTileSteps = kTileColumns / 8;

class EmptyBandProducts {
 public:
  static constexpr int kPadding = 2;  // complex numbers: loads of eight lanes have no bank conflict

  // All threads of a block must call this.
  __device__ EmptyBandProducts(const Pole (&poles)[kSplitRows], double h)
      : constants_(constants_of_block()) {
#pragma unroll
    for (int row = 0; row < kSplitRows; ++row) {
      const auto c = TwoEnergies::of(poles[row], h);
      constants_[row * kTileColumns + lane()] = {poles[row].a, 0, c.squares, c.product};
    }
    __syncwarp();
  }

  // Adds the bands at places [from, to) of the chunk. The energies of all of its places must be far
  // from the poles.
  template <class Chunk>
  __device__ void add(const Chunk& chunk, int from, int to) {
    double c[4], b[kSplitRows][4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int k = band(j);
      c[j] = chunk.powers[k].of_mean[1];
      const double power = k >= from && k < to ? chunk.powers[k].of_mean[lane() / 4 % 4] : 0;
#pragma unroll
      for (int row = 0; row < kSplitRows; ++row) {
        const Complex& aqsm = chunk.aqsm[k][threadIdx.x / kWarpSize * kSplitRows + row];
        b[row][j] = power * (lane() < 16 ? aqsm.re : aqsm.im);
      }
    }
#pragma unroll
    for (int step = 0; step < kTileSteps; ++step) {
      Complex aqsn[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) aqsn[j] = chunk.aqsn[band(j)][column(step)];
#pragma unroll
      for (int row = 0; row < kSplitRows; ++row) {
        using Terms = Batch<4>;
        const Constants w = constants_[row * kTileColumns + column(step)];
        const auto y = Terms::each([&](int j) { return w.a - c[j]; });
        const auto t = fma(y, y, Terms::each([&](int) { return w.squares; }));
        const auto r =
            approximate_reciprocal(fma(t, t, Terms::each([&](int) { return w.product; })));
        double a[8];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          a[2 * j] = r.at[j] * aqsn[j].re;
          a[2 * j + 1] = r.at[j] * aqsn[j].im;
        }
        sums_[row][step].add(a, b[row]);
      }
    }
  }

  // Adds the sums of all bands to the sums of the thread. Each lane has a part of the sums of
  // eight pairs.
  __device__ void finish(const Inputs& p, double h, std::int64_t igp, std::int64_t ig_of_tile,
                         ThreadSums<2>& sums) {
#pragma unroll
    for (int row = 0; row < kSplitRows; ++row) {
#pragma unroll
      for (int step = 0; step < kTileSteps; ++step) {
        const std::int64_t ig = ig_of_tile + column(step);
        if (igp + row >= p.rows || ig >= p.columns) continue;
        const double(&s)[4] = sums_[row][step].of;
        const bool imaginary = lane() % 4 >= 2;  // aqsm: (x + iy) (-i) = y - ix
        Complex low = imaginary ? Complex{s[2], -s[0]} : Complex{s[0], s[2]};
        Complex high = imaginary ? Complex{s[3], -s[1]} : Complex{s[1], s[3]};
        high = -high;  // powers of -c
        Complex none{}, one = low, x = high, x2{}, x3{};
        if (lane() % 2 != 0) {
          x2 = low, x3 = high;
          one = x = none;
        }
        const PowerSums powers{one, x, x2, x3};
        const Complex wtilde = p.wtilde[(igp + row) * p.columns + ig];
        const Pole w = pole_of(p, wtilde);
        const double d1 = w.a + h, d2 = w.a - h;
        PairSums<2> pair_sums;
        pair_sums.sch[0] = powers.cube(d1, d2, w.b2);
        pair_sums.sch_b[0] = powers.square(d2, w.b2);
        pair_sums.sch[1] = powers.cube(d2, d1, w.b2);
        pair_sums.sch_b[1] = powers.square(d1, w.b2);
        pair_sums.finish(wtilde, p.i_eps[(igp + row) * p.columns + ig], p.vcoul[igp + row], sums);
      }
    }
  }

 private:
  struct alignas(16) Constants {
    double a, unused, squares, product;
  };

  static __device__ int lane() { return threadIdx.x % kWarpSize; }
  static __device__ int band(int j) { return lane() % 4 + 4 * j; }
  static __device__ int column(int step) { return 8 * step + lane() / 4; }
  static __device__ Constants* constants_of_block() {
    __shared__ Constants constants[kTileWarps][kSplitRows * kTileColumns];
    return constants[threadIdx.x / kWarpSize];
  }

  Constants* const constants_;
  ProductSums sums_[kSplitRows][kTileSteps];
};

// Empty bands, with two frequencies. The energies of an EmptyBandRange are below all poles. If they
// and -(a -+ h) are also not positive, powers of -c are used instead of products. `selected` is the
// first place that cannot use them.
__global__ void __launch_bounds__(kTileWarps* kWarpSize, kSplitBlocks)
    gpp_empty_fractions(Inputs p, Pass<2> pass, SortedBands sorted, Tiling tiling) {
  using Staged = StagedWithPowers<kSplitRows, 2, EmptyBandProducts::kPadding>;
  ThreadSums<2> sums;
  const SplitTile tile(tiling, sorted.ends[kWeightedBands], sorted.ends[kEmptyBands]);
  if (tile.down < tiling.down) {
    Pole poles[kSplitRows];
    load_poles(p, tile.igp, tile.ig, poles);
    PairSums<2> pair_sums[kSplitRows];
    const auto range = EmptyBandRange::of(poles, 0.5 * (p.wx[pass.first + 1] - p.wx[pass.first]));
    const bool positive = range.lowest_a >= fabs(range.h);
    const int begin = tile.place_of(sorted.ends[kWeightedBands]);
    const int end = tile.place_of(sorted.ends[kEmptyBands]);
    EmptyBandProducts products(poles, range.h);
    int selected = end;

    TileOperands<kSplitRows, 2, Staged> operands(sorted, pass, tile.across, tile.down, tile.first);
    operands.for_chunks(end, [&](const auto& chunk, int place) {
      if (selected == end && positive && chunk.range.high <= 0 && range.contains(chunk.range)) {
        products.add(chunk, begin - place, end - place);
        return;
      }
      selected = min(selected, place);
      for_groups<2>(chunk, begin - place, end - place, [&](const auto& group, int) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int row = 0; row < kSplitRows; ++row) {
#pragma unroll
            for (int f = 0; f < 2; ++f)
              pair_sums[row].add_coulomb_hole(f, coulomb_hole(poles[row], group.x[i][f]),
                                              group.m[i][row]);
          }
        }
      });
    });
    products.finish(p, range.h, tile.igp, tile.down * kTileColumns, sums);
    add_split_pairs(p, pass, sorted, tiling, sorted.ends[kWeightedBands], sorted.ends[kEmptyBands],
                    pair_sums, sums, selected);
  }
  sums.store(pass);
}

inline void run_partial_fractions(const Gpp& p, const Launch& go) {
  const Launch both = launch_of_split_sums(go);
  const SortedBands sorted = gather_tiles<kSplitRows>(p, both, true);
  run_passes<2>(p, both, [&]<int kF>(Pass<kF> pass) {
    const Tiling tiling = tiling_of<kSplitRows>(p, go.hardware);
    if constexpr (kF == 1) {
      launch_split_tiles(p, go, pass, sorted, tiling);
    } else {
      launch(go, gpp_occupied_fractions, inputs_of(p), pass, sorted, tiling);
      pass.partials += volume_of(go.grid);
      launch(go, gpp_empty_fractions, inputs_of(p), pass, sorted, tiling);
    }
  });
}

#endif

}  // namespace ado::cuda::gpp
