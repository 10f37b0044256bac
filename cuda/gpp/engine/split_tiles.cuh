// Engine: moments, the last variant of gpp. Tiles as in tiling.cuh, with separate launches
// for occupied and for empty bands and the arithmetic of moments.cuh.
//
// A kernel for one kind of bands has fewer sums per thread. One kernel for all bands with this
// arithmetic is as slow as two_rows (H200, 2026), although it executes 10 % fewer FP64
// instructions: its loops have too few registers to interleave independent terms.
//
// Full bands are sorted by descending energy, so the chunks with energies above all poles come
// first. For these chunks, pair_sums contains moments. Before the first chunk that cannot use
// moments, they are converted to coefficients.
#pragma once

#include "gpp/engine/moments.cuh"
#include "gpp/engine/tiling.cuh"
#include "routines/gpp_tiles.hpp"

namespace ado::cuda::gpp {

// ---- moments ------------------------------------------------------------------------------------
inline constexpr int kSplitRows = 2;  // igp per thread

// Both kernels use the grid of tiles. For each sum, the partial sums of the first kernel precede
// the partial sums of the second kernel.
inline Extent grid_of_split_sums(Extent grid) { return {2 * grid.x, grid.y, grid.z}; }

inline constexpr int kSplitBlocks = 3;  // per multiprocessor; allows 168 registers per thread

inline double seconds_of_moments(const Gpp& p, const Hardware& gpu) {
  return seconds_of(p, gpu, tiled_work<kSplitRows>(p, gpu, 2, kSplitBlocks),
                    {.instructions = 14.25, .other_cycles = kOtherCyclesOfTiles});
}

#ifdef __CUDACC__

// The work of a block in a launch for occupied or for empty bands. Places are relative to `first`.
struct SplitTile {
  std::int64_t across, down, igp, ig;  // the first igp of the thread
  std::int64_t first;
  int length;

  // Divides the chunks of places [begin, end) of the sorted list among the segments.
  __device__ SplitTile(const Tiling& tiling, std::int64_t begin, std::int64_t end)
      : across(block_x() % tiling.across), down(block_y()) {
    igp = across * kTileRows<kSplitRows> + threadIdx.x / kWarpSize * kSplitRows;
    ig = down * kTileColumns + threadIdx.x % kWarpSize;
    const std::int64_t first_chunk = begin / kChunk;
    const std::int64_t chunks = round_up(end, kChunk) / kChunk - first_chunk;
    const std::int64_t per_segment = round_up(chunks, tiling.segments) / tiling.segments;
    first = (first_chunk + block_x() / tiling.across * per_segment) * kChunk;
    length = static_cast<int>(per_segment * kChunk);
  }

  // Place `end` of the sorted list, relative to `first` and clamped to the block.
  __device__ int place_of(std::int64_t end) const {
    return static_cast<int>(min(max(end - first, std::int64_t{0}), std::int64_t{length}));
  }
};

// The terms of kBands bands, for all igp and frequencies of a thread: term t belongs to band t / kF
// / kSplitRows, to row t / kF % kSplitRows and to frequency t % kF.
template <int kBands, int kF>
struct SplitTerms {
  static constexpr int kCount = kBands * kSplitRows * kF;
  using Terms = Batch<kCount>;

  static __device__ Terms energies(const BandGroup<kBands, kSplitRows, kF>& group) {
    return Terms::each([&](int t) { return group.x[t / kF / kSplitRows][t % kF]; });
  }
  template <class T>
  static __device__ Terms of_rows(const T (&values)[kSplitRows], double T::*member) {
    return Terms::each([&](int t) { return values[t / kF % kSplitRows].*member; });
  }
  static __device__ void add(const BandGroup<kBands, kSplitRows, kF>& group,
                             const BatchCoefficients<kCount>& c, PairSums<kF> (&sums)[kSplitRows]) {
#pragma unroll
    for (int t = 0; t < kCount; ++t) {
      const int row = t / kF % kSplitRows, f = t % kF;
      const Complex m = group.m[t / kF / kSplitRows][row];
      multiply_add(sums[row].sch_b[f], c.sch_b.at[t], m);
      multiply_add(sums[row].ssx_b[f], c.ssx_b.at[t], m);
      multiply_add(sums[row].sch[f], c.sch.at[t], m);
      multiply_add(sums[row].ssx[f], c.ssx.at[t], m);
    }
  }
};

// Adds the pairs of a thread to its sums, for the bands at places [begin, end) of the sorted list.
// Loads the poles again, because the loops over bands have too few registers to keep them.
template <int kF>
__device__ void add_split_pairs(const Inputs& p, const Pass<kF>& pass, const SortedBands& sorted,
                                const Tiling& tiling, std::int64_t begin, std::int64_t end,
                                const PairSums<kF> (&pair_sums)[kSplitRows], ThreadSums<kF>& sums) {
  const SplitTile tile(tiling, begin, end);
  const int from = tile.place_of(begin), to = tile.place_of(end);
  Pole poles[kSplitRows];
  load_poles(p, tile.igp, tile.ig, poles);
#pragma unroll
  for (int row = 0; row < kSplitRows; ++row)
    add_pair(
        p, pass, tile.igp + row < p.rows && tile.ig < p.columns, tile.igp + row, tile.ig,
        poles[row], pair_sums[row], to - from,
        [&](std::int64_t i) { return sorted.band[tile.first + from + i]; }, sums);
}

// Full and weighted bands.
template <int kF>
__global__ void __launch_bounds__(kTileWarps* kWarpSize, kSplitBlocks)
    gpp_occupied_tile(Inputs p, Pass<kF> pass, SortedBands sorted, Tiling tiling) {
  ThreadSums<kF> sums;
  const SplitTile tile(tiling, 0, sorted.ends[kWeightedBands]);
  if (tile.down < tiling.down) {
    Pole poles[kSplitRows];
    load_poles(p, tile.igp, tile.ig, poles);
    PairSums<kF> pair_sums[kSplitRows];
    bool in_moments = true;
    const double moments_from = lowest_energy_of_moments(poles);
    const int full_end = tile.place_of(sorted.ends[kFullBands]);
    const int end = tile.place_of(sorted.ends[kWeightedBands]);

    TileOperands<kSplitRows, kF> operands(sorted, pass, tile.across, tile.down, tile.first);
    operands.for_chunks(end, [&](const auto& chunk, int place) {
      const bool adds_moments = in_moments && place < full_end && chunk.range.low >= moments_from;
      if (adds_moments) {
        FullBandMoments constants[kSplitRows];
#pragma unroll
        for (int row = 0; row < kSplitRows; ++row)
          constants[row] = FullBandMoments::of(opaque(poles[row]));
        constexpr int kBands = kMaxFrequencies / kF;
        using Split = SplitTerms<kBands, kF>;
        for_groups<kBands>(chunk, 0, full_end - place, [&](const auto& group, int) {
          const auto x = Split::energies(group);
          const auto g = fma(-x, x, Split::of_rows(constants, &FullBandMoments::difference));
          const auto product = Split::of_rows(constants, &FullBandMoments::product);
          Split::add(group, moments_of(g, x, product), pair_sums);
        });
      }
      if (in_moments && (!adds_moments || full_end <= place + kChunk)) {
        in_moments = false;
#pragma unroll
        for (int row = 0; row < kSplitRows; ++row)
          coefficients_from_moments(opaque(poles[row]), pair_sums[row]);
      }
      if (!adds_moments) {
        constexpr int kBands = 2 * kMaxFrequencies / kF;
        using Split = SplitTerms<kBands, kF>;
        for_groups<kBands>(chunk, 0, full_end - place, [&](const auto& group, int) {
          Split::add(
              group,
              select_full_bands(Split::of_rows(poles, &Pole::a), Split::of_rows(poles, &Pole::b2),
                                Split::of_rows(poles, &Pole::limit),
                                Split::of_rows(poles, &Pole::half_inverse), Split::energies(group)),
              pair_sums);
        });
      }
      if (full_end > place && full_end <= place + kChunk) {
#pragma unroll
        for (int row = 0; row < kSplitRows; ++row) pair_sums[row].complete_full_bands();
      }
      for_groups<1>(chunk, full_end - place, end - place, [&](const auto& group, int k) {
#pragma unroll
        for (int row = 0; row < kSplitRows; ++row) {
#pragma unroll
          for (int f = 0; f < kF; ++f) {
            const Coefficients c = by_selection<false>(p, poles[row], group.x[0][f], chunk.occ[k]);
            pair_sums[row].add(f, c, group.m[0][row]);
          }
        }
      });
    });
    add_split_pairs(p, pass, sorted, tiling, 0, sorted.ends[kWeightedBands], pair_sums, sums);
  }
  sums.store(pass);
}

template <int kF>
__global__ void __launch_bounds__(kTileWarps* kWarpSize, kSplitBlocks)
    gpp_empty_tile(Inputs p, Pass<kF> pass, SortedBands sorted, Tiling tiling) {
  ThreadSums<kF> sums;
  const SplitTile tile(tiling, sorted.ends[kWeightedBands], sorted.ends[kEmptyBands]);
  if (tile.down < tiling.down) {
    Pole poles[kSplitRows];
    load_poles(p, tile.igp, tile.ig, poles);
    PairSums<kF> pair_sums[kSplitRows];
    PairSums<1> moments[kSplitRows];
    EmptyBandRange range;
    if constexpr (kF == 2)
      range = EmptyBandRange::of(poles, 0.5 * typical_step(p, sorted, pass.first, pass.first + 1));
    const int begin = tile.place_of(sorted.ends[kWeightedBands]);
    const int end = tile.place_of(sorted.ends[kEmptyBands]);

    TileOperands<kSplitRows, kF> operands(sorted, pass, tile.across, tile.down, tile.first);
    operands.for_chunks(end, [&](const auto& chunk, int place) {
      if constexpr (kF == 2) {
        if (range.contains(chunk.range)) {
          EmptyBandMoments constants[kSplitRows];
#pragma unroll
          for (int row = 0; row < kSplitRows; ++row)
            constants[row] = EmptyBandMoments::of(opaque(poles[row]), range.h);
          constexpr int kBands = 4;
          for_groups<kBands>(chunk, begin - place, end - place, [&](const auto& group, int) {
            BandGroup<kBands, kSplitRows, 1> first;  // the first frequency only
#pragma unroll
            for (int i = 0; i < kBands; ++i) {
              first.x[i][0] = group.x[i][0];
#pragma unroll
              for (int row = 0; row < kSplitRows; ++row) first.m[i][row] = group.m[i][row];
            }
            using Split = SplitTerms<kBands, 1>;
            const auto y = Split::of_rows(constants, &EmptyBandMoments::a) - Split::energies(first);
            const auto t = fma(y, y, Split::of_rows(constants, &EmptyBandMoments::squares));
            const auto product = Split::of_rows(constants, &EmptyBandMoments::product);
            Split::add(first, moments_of(t, y, product), moments);
          });
          return;
        }
      }
      for_groups<2>(chunk, begin - place, end - place, [&](const auto& group, int) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int row = 0; row < kSplitRows; ++row) {
#pragma unroll
            for (int f = 0; f < kF; ++f)
              pair_sums[row].add_coulomb_hole(f, coulomb_hole(poles[row], group.x[i][f]),
                                              group.m[i][row]);
          }
        }
      });
    });
    if constexpr (kF == 2) {
#pragma unroll
      for (int row = 0; row < kSplitRows; ++row)
        add_empty_band_moments(poles[row], range.h, moments[row], pair_sums[row]);
    }
    add_split_pairs(p, pass, sorted, tiling, sorted.ends[kWeightedBands], sorted.ends[kEmptyBands],
                    pair_sums, sums);
  }
  sums.store(pass);
}

// Launches two kernels, each with the grid of `go`.
template <int kF>
void launch_split_tiles(const Gpp& p, const Launch& go, Pass<kF> pass, const SortedBands& sorted,
                        const Tiling& tiling) {
  launch(go, gpp_occupied_tile<kF>, inputs_of(p), pass, sorted, tiling);
  pass.partials += volume_of(go.grid);
  launch(go, gpp_empty_tile<kF>, inputs_of(p), pass, sorted, tiling);
}

inline Launch launch_of_split_sums(const Launch& go) {
  Launch both = go;
  both.grid = grid_of_split_sums(go.grid);
  return both;
}

inline void run_moments(const Gpp& p, const Launch& go) {
  const Launch both = launch_of_split_sums(go);
  const SortedBands sorted = gather_tiles<kSplitRows>(p, both);
  run_passes<2>(p, both, [&]<int kF>(const Pass<kF>& pass) {
    launch_split_tiles(p, go, pass, sorted, tiling_of<kSplitRows>(p, go.hardware));
  });
}

#endif

// For gpp_operands with the size of si214 (from its energies), 44 % of the full bands and 90
// % of the empty bands use moments. Full bands with moments execute 29 FLOPs in 16 instructions,
// and empty bands 15 in 8.5. The other full bands execute 36 in 22, and weighted bands 41 in 27.
// The constants of moments are computed once per chunk, and the limits of the energies and the
// coefficients once per pair and launch.
inline constexpr OperationCounts kMomentSumsCosts{
    .flops = {33.4, 15.3, 6 + 5.0 / kChunk, 368, 18},
    .instructions = {19.8, 8.7, 4 + 5.0 / kChunk, 252, 10}};

// Two launches on the same tiles.
inline constexpr Decomposition kSplitTiles{
    .blocks = kTiles<kSplitRows>.blocks,
    .grid = kTiles<kSplitRows>.grid,
    .scratch_bytes =
        [](const Gpp& p, const Hardware& gpu) {
          const Extent grid = grid_of_split_sums(grid_of_tiles<kSplitRows>(p, {}, gpu));
          return partial_bytes(volume_of(grid)) + sorted_tiles_bytes<kSplitRows>(p);
        },
    .bytes = kTiles<kSplitRows>.bytes,
    .work = kTiles<kSplitRows>.work};

inline constexpr Variant<Gpp> kMoments = with_costs<kMomentSumsCosts, kSplitTiles>(
    {.name = "moments",
     .changes = {"Launches separate kernels for occupied and empty bands, and computes the "
                 "coefficients of bands far from all poles after the loop, from sums of moments.",
                 Step::kOperations},
     .run = ADO_RUN(run_moments)});

// -------------------------------------------------------------------------------------------------

// gpp_tiles: the kernels of `moments`, with one sum per tile of igp instead of one sum in total.
//
// The sums of a tile must have the same bits in every call that contains the tile. The tiles of a
// block do not depend on the number of rows, and all lanes of a warp that votes belong to one tile.
// The segments must not depend on the number of rows either, so the tiling has no minimum number of
// blocks.

static_assert(GppTiles::kTileRows == kTileRows<kSplitRows>);

inline Tiling tiling_of_tiles(const Gpp& p) { return tiling_with_blocks<kSplitRows>(p, 1); }

inline Extent grid_of_tile_sums(const GppTiles& p, Extent) {
  return grid_of_tiling(tiling_of_tiles(p));
}

inline std::size_t scratch_of_tile_sums(const GppTiles& p) {
  const Extent grid = grid_of_split_sums(grid_of_tile_sums(p, {}));
  return partial_bytes(volume_of(grid)) + sorted_tiles_bytes<kSplitRows>(p);
}

#ifdef __CUDACC__

inline constexpr int kTileAddingThreads = 128;

// The grid that stores partial sums. The partial sum of block (x, y) has index y * width + x.
struct PartialsOfGrid {
  std::int64_t width, volume;
};

// Each block adds the partial sums of both kernels for one tile of igp (block x) and one sum of the
// pass (block y).
template <int kF>
__global__ void __launch_bounds__(kTileAddingThreads)
    gpp_add_partials_of_tile(Pass<kF> pass, Tiling tiling, PartialsOfGrid grid,
                             std::int64_t frequencies, Complex* asx, Complex* ach) {
  const std::int64_t tile = block_x(), number = block_y();
  const double* const partials = pass.partials + number * pass.blocks;
  const std::int64_t count = tiling.down * tiling.segments;  // per kernel
  const double sum = sum_of_partials<kTileAddingThreads>(2 * count, [=](std::int64_t i) {
    const std::int64_t kernel = i / count, block = i % count;
    const std::int64_t x = block % tiling.segments * tiling.across + tile;
    return partials[kernel * grid.volume + block / tiling.segments * grid.width + x];
  });
  if (threadIdx.x == 0)
    store_result(pass, static_cast<int>(number), sum, asx + tile * frequencies,
                 ach + tile * frequencies);
}

inline void run_tile_sums(const GppTiles& p, const Launch& go) {
  const Launch both = launch_of_split_sums(go);
  const SortedBands sorted = gather_tiles<kSplitRows>(p, both);
  const Tiling tiling = tiling_of_tiles(p);
  Launch adding = go;
  adding.grid = {static_cast<unsigned>(p.tiles())};
  adding.block = {kTileAddingThreads};
  adding.shared_bytes = 0;
  for_passes<2>(p, both, [&]<int kF>(const Pass<kF>& pass) {
    if (!p.empty()) launch_split_tiles(p, go, pass, sorted, tiling);
    adding.grid.y = kSumsPerFrequency * kF;
    launch(adding, gpp_add_partials_of_tile<kF>, pass, tiling,
           PartialsOfGrid{go.grid.x, volume_of(go.grid)}, p.frequencies(), p.asx.as<Complex>(),
           p.ach.as<Complex>());
  });
}

#endif

}  // namespace ado::cuda::gpp
