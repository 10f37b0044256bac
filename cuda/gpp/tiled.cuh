// The top rungs of gpp: blocks of 32 ig by some igp, with what they need of the sorted bands in
// shared memory.
//
// What limits them is how many registers a multiprocessor can read, not its FP64 pipe: of three
// different ones an FMA takes three cycles, not two, and a selection or comparison another
// (benchmarks/fp64_operands.cu). So what pays is what leaves instructions away, of any kind.
#pragma once

#ifdef __CUDACC__
#include <cuda_pipeline_primitives.h>
#endif

#include "gpp/hoisted.cuh"
#include "gpp/sorted.cuh"

namespace ado::cuda::gpp {

#ifdef __CUDACC__

inline constexpr int kStages = 3;  // chunks in shared memory

// What a block needs of some bands.
template <int kRows, int kF>
struct alignas(16) Chunk {
  Complex aqsn[kChunk][kTileColumns];
  Complex aqsm[kChunk][kTileRows<kRows>];
  double wx[kChunk][kF];
  double occ[kChunk];
  Range range;
};

// A multiprocessor, for 128 or 168 registers a thread.
template <int kRows>
constexpr int kTileBlocks = kRows == 1 ? 4 : 3;

// Starts to copy kCount elements of T with all threads of the block.
template <int kCount, class T>
__device__ void copy_async(T* to, const T* from) {
  constexpr int kVectors = kCount * sizeof(T) / 16, kThreads = kTileWarps * kWarp;
  static_assert(kCount * sizeof(T) % 16 == 0);
#pragma unroll
  for (int first = 0; first < kVectors; first += kThreads)
    if (const int i = first + static_cast<int>(threadIdx.x); i < kVectors)
      __pipeline_memcpy_async(reinterpret_cast<Complex*>(to) + i,
                              reinterpret_cast<const Complex*>(from) + i, 16);
}

// Whether all of these energies are far from the pole. Rounding is monotonic, so what holds for the
// nearest holds for each.
__device__ inline bool far_from(const Pole& w, Range energies) {
  const double gap = fmax(fmax(energies.low - w.a, w.a - energies.high), 0.0);
  return fma(gap, gap, w.b2) > w.limit;
}

// Warps side by side in igp, kRows each, lanes in ig.
template <int kRows, int kF>
__global__ void __launch_bounds__(kTileWarps* kWarp, kTileBlocks<kRows>)
    gpp_tile(View p, Pass<kF> pass, Sorted sorted, Tiling tiling) {
  __shared__ Chunk<kRows, kF> chunks[kStages];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t across = block_x() % tiling.across, segment = block_x() / tiling.across;
  const std::int64_t down = block_y();
  Sums<kF> sums;
  if (down < tiling.down) {
    const std::int64_t ig = down * kTileColumns + lane;
    const std::int64_t igp = across * kTileRows<kRows> + warp * kRows;
    Pole poles[kRows];
    PairSums<kF> found[kRows];
#pragma unroll
    for (int row = 0; row < kRows; ++row)
      poles[row] =
          pole_of(p, p.wtilde[min(igp + row, p.rows - 1) * p.columns + min(ig, p.columns - 1)]);

    const std::int64_t first = segment * tiling.segment_length;
    // From here on places are counted from the segment's first.
    const auto within = [&](Kind kind) {
      const std::int64_t end = sorted.ends[kind] - first;
      return static_cast<int>(min(max(end, std::int64_t{0}), tiling.segment_length));
    };
    const int plain_end = within(kPlainBands), weighted_end = within(kWeightedBands);
    const int end = within(kEmptyBands);
    const Complex* const aqsn = sorted.aqsn + (down * sorted.length + first) * kTileColumns;
    const Complex* const aqsm = sorted.aqsm + (across * sorted.length + first) * kTileRows<kRows>;
    const double* const wx = sorted.wx + pass.first * sorted.length + first * kF;
    const double* const occ = sorted.occ + first;
    const Range* const ranges =
        sorted.ranges + (pass.first / kMostFrequencies * sorted.length + first) / kChunk;

    const auto stage = [&](int chunk_first) {
      if (chunk_first < end) {
        Chunk<kRows, kF>& chunk = chunks[chunk_first / kChunk % kStages];
        copy_async<kChunk * kTileColumns>(chunk.aqsn[0], aqsn + chunk_first * kTileColumns);
        copy_async<kChunk * kTileRows<kRows>>(chunk.aqsm[0], aqsm + chunk_first * kTileRows<kRows>);
        copy_async<kChunk * kF>(chunk.wx[0], wx + chunk_first * kF);
        copy_async<kChunk>(chunk.occ, occ + chunk_first);
        copy_async<1>(&chunk.range, ranges + chunk_first / kChunk);
      }
      __pipeline_commit();
    };
    for (int i = 0; i < kStages - 1; ++i) stage(i * kChunk);
#pragma unroll 1
    for (int chunk_first = 0; chunk_first < end; chunk_first += kChunk) {
      __pipeline_wait_prior(kStages - 2);
      __syncthreads();
      stage(chunk_first + (kStages - 1) * kChunk);
      const Chunk<kRows, kF>& chunk = chunks[chunk_first / kChunk % kStages];

      // Bands of a kind, kUnroll at a time.
      const auto each = [&]<int kUnroll>(std::integral_constant<int, kUnroll>, int from, int to,
                                         auto add) {
        static_assert(kGroup % kUnroll == 0);
        to = min(to - chunk_first, kChunk);
#pragma unroll 1
        for (int place = max(from - chunk_first, 0); place < to; place += kUnroll) {
#pragma unroll
          for (int i = 0; i < kUnroll; ++i) {
            const int k = place + i;
            const Complex right = chunk.aqsn[k][lane];
            double x[kF];
            memcpy(x, __builtin_assume_aligned(chunk.wx[k], sizeof x), sizeof x);
#pragma unroll
            for (int row = 0; row < kRows; ++row) {
              const Complex m = conj(chunk.aqsm[k][warp * kRows + row]) * right;
#pragma unroll
              for (int f = 0; f < kF; ++f) add(poles[row], x[f], k, f, m, found[row]);
            }
          }
        }
      };
      using One = std::integral_constant<int, 1>;
      using Two = std::integral_constant<int, 2>;
      using OneOrTwo = std::integral_constant<int, kRows == 1 ? 2 : 1>;

      bool all_far = true;
#pragma unroll
      for (int row = 0; row < kRows; ++row) all_far &= far_from(poles[row], chunk.range);
      all_far = __all_sync(0xffffffffU, all_far);

      const auto plain = [&](auto coefficients) {
        each(OneOrTwo{}, 0, plain_end,
             [&](const Pole& w, double x, int, int f, Complex m, PairSums<kF>& into) {
               const Coefficients c = coefficients(w, x);
               into.add_coulomb_hole(f, c, m);
               into.add_exchange(f, c, m);
             });
      };
      if (all_far)
        plain([](const Pole& w, double x) { return at_pole(w, x); });
      else
        plain([&](const Pole& w, double x) { return by_selection<true>(p, w, x, 1); });
      if (plain_end > chunk_first && plain_end <= chunk_first + kChunk) {
#pragma unroll
        for (int row = 0; row < kRows; ++row) found[row].complete_plain();
      }
      each(One{}, plain_end, weighted_end,
           [&](const Pole& w, double x, int k, int f, Complex m, PairSums<kF>& into) {
             const Coefficients c = by_selection<false>(p, w, x, chunk.occ[k]);
             into.add_coulomb_hole(f, c, m);
             into.add_exchange(f, c, m);
           });
      const auto empty = [&]<bool kFar>(std::bool_constant<kFar>) {
        each(Two{}, weighted_end, end,
             [&](const Pole& w, double x, int, int f, Complex m, PairSums<kF>& into) {
               into.add_coulomb_hole(f, coulomb_hole<Division::kApproximate, kFar>(w, x), m);
             });
      };
      if (all_far)
        empty(std::true_type{});
      else
        empty(std::false_type{});
    }

#pragma unroll
    for (int row = 0; row < kRows; ++row)
      if (igp + row < p.rows && ig < p.columns)
        add_pair(
            p, pass, igp + row, ig, poles[row], found[row], end,
            [&](std::int64_t i) { return sorted.band[first + i]; }, sums);
  }
  sums.store(pass);
}

template <int kRows>
void run_tiles(const Gpp& p, const Launch& go) {
  const Sorted sorted = sort_bands<kRows>(p, go);
  run_passes<2>(p, go, [&]<int kF>(const Pass<kF>& pass) {
    launch(go, gpp_tile<kRows, kF>, view_of(p), pass, sorted, tiling_of<kRows>(p));
  });
}

#endif

}  // namespace ado::cuda::gpp
