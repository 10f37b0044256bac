// The top rungs of gpp: blocks of 32 ig by some igp, with what they need of the bands in shared
// memory.
//
// Bands are sorted first: occupied ones, those among them that need more care, and the others, so
// that each loop does one thing. aqsn and aqsm are copied in that order and in the blocks' tiles,
// so that staging them is a plain copy: read from where they are, with the bands' order in a list,
// the loop took 45 ms instead of 41 (H200, si214).
#pragma once

#ifdef __CUDACC__
#include <cuda_pipeline_primitives.h>
#endif

#include "gpp_hoisted.cuh"

namespace ado::cuda::gpp {

inline constexpr int kTileColumns = 32;
inline constexpr int kTileWarps = 4;
inline constexpr int kChunk = 16;  // bands staged at a time
inline constexpr int kStages = 3;  // chunks in shared memory
inline constexpr int kGroup = 4;   // bands: each kind is filled up to whole groups
inline constexpr int kKinds = 3;
inline constexpr int kSortThreads = 1024;
inline constexpr int kGatherThreads = 256, kGatherBlocks = 8;  // blocks: a band

// igp of a tile whose threads take so many each.
template <int kRows>
inline constexpr int kTileRows = kTileWarps* kRows;

// Sorted bands with what fills them up, in whole chunks.
constexpr std::int64_t sorted_length(std::int64_t bands) {
  return ceil_div(bands + kKinds * (kGroup - 1), kChunk) * kChunk;
}

// Blocks take a segment of the bands each: no more than may be added up plainly, and fewer where
// there are too few tiles for the device.
struct Tiling {
  std::int64_t across, down;  // tiles of igp and of ig
  std::int64_t segments, segment_length;
};

inline Tiling tiling_of(const Gpp& p, int rows_each) {
  constexpr std::int64_t kEnoughBlocks = 2048, kShortest = kChunk;
  const std::int64_t across = ceil_div(p.rows(), kTileWarps * rows_each);
  const std::int64_t down = ceil_div(p.columns(), kTileColumns);
  if (across * down == 0) return {across, down, 0, 0};
  const std::int64_t length = sorted_length(p.bands());
  const std::int64_t wanted = ceil_div(length, ceil_div(kEnoughBlocks, across * down));
  const std::int64_t segment = ceil_div(wanted < kShortest          ? kShortest
                                        : wanted > Gpp::kLongestSum ? Gpp::kLongestSum
                                                                    : wanted,
                                        kChunk) *
                               kChunk;
  return {across, down, ceil_div(length, segment), segment};
}

inline Extent grid_of_tiles(const Gpp& p, int rows_each) {
  const Tiling tiling = tiling_of(p, rows_each);
  return grid_of(tiling.across * tiling.segments, tiling.down);
}

inline std::size_t bytes_of_sorted(const Gpp& p, int rows_each) {
  const Tiling tiling = tiling_of(p, rows_each);
  const std::int64_t of_band =
      16 * (tiling.down * kTileColumns + tiling.across * kTileWarps * rows_each) +
      8 * (p.frequencies() + 2);
  return static_cast<std::size_t>(of_band * sorted_length(p.bands()) + 8 * kKinds);
}

#ifdef __CUDACC__

// Bands in their new order; band -1 fills up.
struct Sorted {
  std::int64_t length = 0;
  Complex *aqsn = nullptr, *aqsm = nullptr;       // tile by tile, band by band
  double *wx = nullptr, *occ = nullptr;           // wx pass by pass
  std::int64_t *band = nullptr, *ends = nullptr;  // ends: of each kind
};

inline Sorted sorted_at(const Gpp& p, int rows_each, std::byte* at) {
  const Tiling tiling = tiling_of(p, rows_each);
  const auto take = [&]<class T>(T*& array, std::int64_t count) {
    array = reinterpret_cast<T*>(at);
    at += count * static_cast<std::int64_t>(sizeof(T));
  };
  Sorted sorted = {.length = sorted_length(p.bands())};
  take(sorted.aqsn, tiling.down * kTileColumns * sorted.length);
  take(sorted.aqsm, tiling.across * kTileWarps * rows_each * sorted.length);
  take(sorted.wx, p.frequencies() * sorted.length);
  take(sorted.occ, sorted.length);
  take(sorted.band, sorted.length);
  take(sorted.ends, kKinds);
  return sorted;
}

enum class Kind { kPlain, kCareful, kEmpty };

// Plain bands have an occupation of 1 and no negative energies.
__device__ inline Kind kind_of(const View& p, std::int64_t n) {
  if (p.occ[n] == 0) return Kind::kEmpty;
  bool plain = p.occ[n] == 1;
  for (std::int64_t f = 0; f < p.frequencies; ++f) plain &= p.wx[n * p.frequencies + f] >= 0;
  return plain ? Kind::kPlain : Kind::kCareful;
}

// One block.
__global__ void __launch_bounds__(kSortThreads) gpp_sort_bands(View p, Sorted sorted) {
  __shared__ int found[kSortThreads / kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  std::int64_t end = 0;
#pragma unroll 1
  for (int kind = 0; kind < kKinds; ++kind) {
#pragma unroll 1
    for (std::int64_t first = 0; first < p.bands; first += kSortThreads) {
      const std::int64_t n = first + threadIdx.x;
      const bool mine = n < p.bands && static_cast<int>(kind_of(p, n)) == kind;
      const unsigned lanes = __ballot_sync(0xffffffffU, mine);
      if (lane == 0) found[warp] = __popc(lanes);
      __syncthreads();
      int before = __popc(lanes & ((1U << lane) - 1)), all = 0;
      for (int w = 0; w < kSortThreads / kWarp; ++w) {
        before += w < warp ? found[w] : 0;
        all += found[w];
      }
      if (mine) sorted.band[end + before] = n;
      end += all;
      __syncthreads();
    }
    const std::int64_t full =
        kind + 1 < kKinds ? (end + kGroup - 1) / kGroup * kGroup : sorted.length;
    for (std::int64_t i = end + threadIdx.x; i < full; i += kSortThreads) sorted.band[i] = -1;
    end = (end + kGroup - 1) / kGroup * kGroup;
    if (threadIdx.x == 0) sorted.ends[kind] = end;
  }
}

// Numbers of one band from a row of them into tiles.
__device__ inline void gather_row(const Complex* row, std::int64_t count, int width,
                                  std::int64_t place, std::int64_t length, Complex* to) {
  const std::int64_t padded = (count + width - 1) / width * width;
  for (std::int64_t i = thread_x(); i < padded; i += std::int64_t{gridDim.x} * blockDim.x)
    to[(i / width * length + place) * width + i % width] =
        row != nullptr && i < count ? row[i] : Complex{};
}

__global__ void __launch_bounds__(kGatherThreads)
    gpp_gather_bands(View p, Sorted sorted, int width) {
  const std::int64_t place = block_y();
  if (place >= sorted.length) return;
  const std::int64_t n = sorted.band[place];
  gather_row(n < 0 ? nullptr : p.aqsn + n * p.columns, p.columns, kTileColumns, place,
             sorted.length, sorted.aqsn);
  gather_row(n < 0 ? nullptr : p.aqsm + n * p.rows, p.rows, width, place, sorted.length,
             sorted.aqsm);
  if (block_x() != 0) return;
  if (threadIdx.x == 0) sorted.occ[place] = n < 0 ? 0 : p.occ[n];
  for (std::int64_t f = threadIdx.x; f < p.frequencies; f += blockDim.x) {
    const std::int64_t first = f / kMostFrequencies * kMostFrequencies;
    const std::int64_t together = min(p.frequencies - first, std::int64_t{kMostFrequencies});
    sorted.wx[first * sorted.length + place * together + f - first] =
        n < 0 ? 1 : p.wx[n * p.frequencies + f];
  }
}

// What a block needs of some bands.
template <int kRows, int kF>
struct alignas(16) Chunk {
  Complex aqsn[kChunk][kTileColumns];
  Complex aqsm[kChunk][kTileRows<kRows>];
  double wx[kChunk][kF];
  double occ[kChunk];
};

template <int kRows>
constexpr int kTileBlocks = kRows == 1 ? 4 : 3;  // a multiprocessor, for 128 or 168 registers

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
    const auto within = [&](std::int64_t end) {
      return static_cast<int>(min(max(end - first, std::int64_t{0}), tiling.segment_length));
    };
    const int plain_end = within(sorted.ends[0]), careful_end = within(sorted.ends[1]);
    const int end = within(sorted.ends[2]);
    const Complex* const aqsn = sorted.aqsn + (down * sorted.length + first) * kTileColumns;
    const Complex* const aqsm = sorted.aqsm + (across * sorted.length + first) * kTileRows<kRows>;
    const double* const wx = sorted.wx + pass.first * sorted.length + first * kF;
    const double* const occ = sorted.occ + first;

    const auto stage = [&](int chunk_first) {
      if (chunk_first < end) {
        Chunk<kRows, kF>& chunk = chunks[chunk_first / kChunk % kStages];
        copy_async<kChunk * kTileColumns>(chunk.aqsn[0], aqsn + chunk_first * kTileColumns);
        copy_async<kChunk * kTileRows<kRows>>(chunk.aqsm[0], aqsm + chunk_first * kTileRows<kRows>);
        copy_async<kChunk * kF>(chunk.wx[0], wx + chunk_first * kF);
        copy_async<kChunk>(chunk.occ, occ + chunk_first);
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
      using PlainUnroll = std::integral_constant<int, kRows == 1 ? 2 : 1>;
      each(PlainUnroll{}, 0, plain_end,
           [&](const Pole& w, double x, int, int f, Complex m, PairSums<kF>& into) {
             const Coefficients c = by_selection<true>(p, w, x, 1);
             into.add_coulomb_hole(f, c, m);
             into.add_exchange(f, c, m);
           });
      if (plain_end > chunk_first && plain_end <= chunk_first + kChunk) {
#pragma unroll
        for (int row = 0; row < kRows; ++row) found[row].fold();
      }
      each(One{}, plain_end, careful_end,
           [&](const Pole& w, double x, int k, int f, Complex m, PairSums<kF>& into) {
             const Coefficients c = by_selection<false>(p, w, x, chunk.occ[k]);
             into.add_coulomb_hole(f, c, m);
             into.add_exchange(f, c, m);
           });
      each(Two{}, careful_end, end,
           [&](const Pole& w, double x, int, int f, Complex m, PairSums<kF>& into) {
             Coefficients c;
             coulomb_hole<Division::kApproximate>(w, x, c);
             into.add_coulomb_hole(f, c, m);
           });
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

// Launches the kernels of a tile; what the sorted bands take of scratch follows the partials.
template <int kRows>
void run_tiles(const Gpp& p, const Launch& go) {
  const Tiling tiling = tiling_of(p, kRows);
  const View view = view_of(p);
  const Sorted sorted = sorted_at(p, kRows, go.scratch + bytes_of_partials(volume_of(go.grid)));
  if (tiling.segments != 0) {
    Launch before = go;
    before.shared_bytes = 0;
    before.grid = {1};
    before.block = {kSortThreads};
    launch(before, gpp_sort_bands, view, sorted);
    before.block = {kGatherThreads};
    before.grid = grid_of(kGatherBlocks, sorted.length);
    launch(before, gpp_gather_bands, view, sorted, kTileRows<kRows>);
  }
  run_passes<2>(p, go, [&]<int kF>(const Pass<kF>& pass) {
    launch(go, gpp_tile<kRows, kF>, view, pass, sorted, tiling);
  });
}

#endif

}  // namespace ado::cuda::gpp
