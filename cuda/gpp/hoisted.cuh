// The rungs of gpp with an (igp, ig) a thread that take out of the loop over bands what does not
// depend on them.
#pragma once

#include "gpp/model.cuh"
#include "gpp/pole.cuh"

namespace ado::cuda::gpp {

// At most; two blocks of them leave a thread 128 registers, where nvcc would take more and a
// multiprocessor hold less.
inline constexpr int kHoistedThreads = 256;

inline Extent grid_of_lanes(const Gpp& p, Extent block) {
  return grid_of(ceil_div(p.columns(), block.x), p.rows());
}

#ifdef __CUDACC__

// Whether the sums of a pair are not what the formulas say: where something has overflowed or is no
// number, as for x = w or -w, and for what by_selection does not look at: w so small that even near
// it nothing is left.
template <int kF>
__device__ bool needs_care(const Pole& w, const PairSums<kF>& found) {
  const double w2 = squared_modulus(w);
  return !found.finite() || (w2 != 0 && !(w2 > Gpp::kTolZero * w.limit));
}

// Adds what was found of a pair, or works it out from the formulas for the bands that `band_at`
// gives.
template <int kF, class BandAt>
__device__ void add_pair(const View& p, const Pass<kF>& pass, std::int64_t igp, std::int64_t ig,
                         const Pole& pole, const PairSums<kF>& found, std::int64_t bands,
                         BandAt band_at, Sums<kF>& sums) {
  const std::int64_t pair = igp * p.columns + ig;
  const Complex w = p.wtilde[pair], eps = p.i_eps[pair];
  if (!needs_care(pole, found)) {
    found.finish(w, eps, p.vcoul[igp], sums);
    return;
  }
#pragma unroll 1
  for (std::int64_t i = 0; i < bands; ++i)
    if (const std::int64_t n = band_at(i); n >= 0)
      add_terms<kSimple, false>(p, pass, n, igp, w, eps, p.aqsn[n * p.columns + ig], sums);
}

// Bands in runs that may be added up plainly.
template <Hoisted kBy, int kF>
__device__ void add_hoisted(const View& p, const Pass<kF>& pass) {
  Sums<kF> sums;
  const std::int64_t igp = block_y(), ig = thread_x();
  const bool own = igp < p.rows && ig < p.columns;
  const Pole w = pole_of(p, own ? p.wtilde[igp * p.columns + ig] : Complex{});
#pragma unroll 1
  for (std::int64_t first = 0; first < p.bands; first += Gpp::kLongestSum) {
    const std::int64_t last = min(first + Gpp::kLongestSum, p.bands);
    if (own) {
      PairSums<kF> found;
#pragma unroll 1
      for (std::int64_t n = first; n < last; ++n) {
        const Complex m = conj(p.aqsm[n * p.rows + igp]) * p.aqsn[n * p.columns + ig];
        const double occ = p.occ[n];
#pragma unroll
        for (int f = 0; f < kF; ++f) {
          const double x = p.wx[n * p.frequencies + pass.first + f];
          Coefficients c;
          if (kBy.occupied_apart && occ == 0) {
            c = coulomb_hole<kBy.division>(w, x);
          } else {
            if constexpr (kBy.branch_free)
              c = by_selection<false>(p, w, x, occ);
            else
              c = by_branches<kBy.division>(p, w, x, occ);
            found.add_exchange(f, c, m);
          }
          found.add_coulomb_hole(f, c, m);
        }
      }
      add_pair(
          p, pass, igp, ig, w, found, last - first, [=](std::int64_t i) { return first + i; },
          sums);
    }
    sums.next();
  }
  sums.store(pass);
}

// ---------------------------------------------------------------------------------------------
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2)
    gpp_hoisted_invariants(View p, Pass<kF> pass) {
  constexpr Hoisted kBy{};
  add_hoisted<kBy>(p, pass);
}

// ---------------------------------------------------------------------------------------------
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2) gpp_one_reciprocal(View p, Pass<kF> pass) {
  constexpr Hoisted kBy{.division = Division::kShared};
  add_hoisted<kBy>(p, pass);
}

// ---------------------------------------------------------------------------------------------
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2) gpp_fast_reciprocal(View p, Pass<kF> pass) {
  constexpr Hoisted kBy{.division = Division::kApproximate};
  add_hoisted<kBy>(p, pass);
}

// ---------------------------------------------------------------------------------------------
// All threads are at the same band, so that no warp is divided.
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2) gpp_occupied_apart(View p, Pass<kF> pass) {
  constexpr Hoisted kBy{.division = Division::kApproximate, .occupied_apart = true};
  add_hoisted<kBy>(p, pass);
}

// ---------------------------------------------------------------------------------------------
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2) gpp_branch_free(View p, Pass<kF> pass) {
  constexpr Hoisted kBy{
      .division = Division::kApproximate, .occupied_apart = true, .branch_free = true};
  add_hoisted<kBy>(p, pass);
}

#endif

}  // namespace ado::cuda::gpp
