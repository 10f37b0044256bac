// Bands sorted by kind and energy, with what tiles need of them copied in that order.
//
// A loop over bands of one kind does one thing, and bands of about the same energy are far from the
// same poles. Copied into the tiles' own layout, staging them is a plain copy: read from where they
// are, with their order in a list, the loop took 45 ms instead of 41 (prototypes, H200,
// si214).
#pragma once

#include "gpp/common.cuh"

namespace ado::cuda::gpp {

inline constexpr int kTileColumns = 32;  // ig of a tile
inline constexpr int kTileWarps = 4;
template <int kRows>
inline constexpr int kTileRows = kTileWarps* kRows;  // igp of one whose threads take so many each

inline constexpr int kChunk = 16;  // bands staged at a time
inline constexpr int kGroup = 4;   // each kind is filled up to a multiple of so many

// Plain bands have an occupation of 1 and no negative energies, empty ones none, and the others
// need weights and the cut-off.
enum Kind : int { kPlainBands, kWeightedBands, kEmptyBands, kKinds };

ADO_ANYWHERE constexpr std::int64_t round_up(std::int64_t count, std::int64_t to) {
  return (count + to - 1) / to * to;
}

// Blocks take a segment of the bands each: no more than may be added up plainly, and fewer where
// there are too few tiles for the device.
struct Tiling {
  std::int64_t across = 0, down = 0;  // tiles of igp and of ig
  std::int64_t length = 0;            // bands with what fills them up, in whole chunks
  std::int64_t segments = 0, segment_length = 0;
};

template <int kRows>
Tiling tiling_of(const Gpp& p) {
  constexpr std::int64_t kEnoughBlocks = 2048;
  Tiling tiling;
  tiling.across = ceil_div(p.rows(), kTileRows<kRows>);
  tiling.down = ceil_div(p.columns(), kTileColumns);
  tiling.length = round_up(p.bands() + kKinds * (kGroup - 1), kChunk);
  if (p.empty()) return tiling;
  const std::int64_t wanted =
      ceil_div(tiling.length, ceil_div(kEnoughBlocks, tiling.across * tiling.down));
  tiling.segment_length = round_up(wanted < Gpp::kLongestSum ? wanted : Gpp::kLongestSum, kChunk);
  tiling.segments = ceil_div(tiling.length, tiling.segment_length);
  return tiling;
}

template <int kRows>
Extent grid_of_tiles(const Gpp& p) {
  const Tiling tiling = tiling_of<kRows>(p);
  return grid_of(tiling.across * tiling.segments, tiling.down);
}

// Lowest and highest energy of a chunk in a pass.
struct alignas(16) Range {
  double low, high;
};

// Places that only fill up have band -1, no aqsn, and the energies of the band before.
struct Sorted {
  std::int64_t length = 0;
  Complex *aqsn = nullptr, *aqsm = nullptr;       // tile by tile, band by band
  Range* ranges = nullptr;                        // pass by pass, chunk by chunk
  double *wx = nullptr, *occ = nullptr;           // wx pass by pass
  std::int64_t *band = nullptr, *ends = nullptr;  // ends: of each kind
  std::int64_t* by_kind = nullptr;                // bands before they are sorted by energy,
  double* energy = nullptr;                       // and the energies
};

// Laid out behind `at`, which moves to the end.
template <int kRows>
Sorted sorted_at(const Gpp& p, std::uintptr_t& at) {
  const Tiling tiling = tiling_of<kRows>(p);
  const auto take = [&]<class T>(T*& array, std::int64_t count) {
    array = reinterpret_cast<T*>(at);
    at += static_cast<std::uintptr_t>(count) * sizeof(T);
  };
  Sorted sorted;
  sorted.length = tiling.length;
  take(sorted.aqsn, tiling.down * kTileColumns * tiling.length);
  take(sorted.aqsm, tiling.across * kTileRows<kRows> * tiling.length);
  take(sorted.ranges, ceil_div(p.frequencies(), kMostFrequencies) * (tiling.length / kChunk));
  take(sorted.wx, p.frequencies() * tiling.length);
  take(sorted.occ, tiling.length);
  take(sorted.band, tiling.length);
  take(sorted.ends, kKinds);
  take(sorted.by_kind, tiling.length);
  take(sorted.energy, tiling.length);
  return sorted;
}

template <int kRows>
std::size_t bytes_of_sorted(const Gpp& p) {
  std::uintptr_t end = 0;
  sorted_at<kRows>(p, end);
  return end;
}

#ifdef __CUDACC__

__device__ inline Kind kind_of(const View& p, std::int64_t n) {
  if (p.occ[n] == 0) return kEmptyBands;
  bool plain = p.occ[n] == 1;
  for (std::int64_t f = 0; f < p.frequencies; ++f) plain &= p.wx[n * p.frequencies + f] >= 0;
  return plain ? kPlainBands : kWeightedBands;
}

inline constexpr int kSortThreads = 1024;

// By kind: one block.
__global__ void __launch_bounds__(kSortThreads) gpp_sort_by_kind(View p, Sorted sorted) {
  __shared__ int found[kSortThreads / kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  std::int64_t end = 0;
#pragma unroll 1
  for (int kind = 0; kind < kKinds; ++kind) {
#pragma unroll 1
    for (std::int64_t first = 0; first < p.bands; first += kSortThreads) {
      const std::int64_t n = first + threadIdx.x;
      const bool mine = n < p.bands && kind_of(p, n) == kind;
      const unsigned lanes = __ballot_sync(0xffffffffU, mine);
      if (lane == 0) found[warp] = __popc(lanes);
      __syncthreads();
      int before = __popc(lanes & ((1U << lane) - 1)), all = 0;
      for (int w = 0; w < kSortThreads / kWarp; ++w) {
        before += w < warp ? found[w] : 0;
        all += found[w];
      }
      if (mine) {
        sorted.by_kind[end + before] = n;
        sorted.energy[end + before] = p.wx[n * p.frequencies];
      }
      end += all;
      __syncthreads();
    }
    const std::int64_t full = round_up(end, kGroup);
    const std::int64_t last = kind + 1 < kKinds ? full : sorted.length;
    for (std::int64_t i = end + threadIdx.x; i < last; i += kSortThreads) {
      sorted.by_kind[i] = -1;
      sorted.energy[i] = INFINITY;
    }
    end = full;
    if (threadIdx.x == 0) sorted.ends[kind] = end;
  }
}

inline constexpr int kOrderThreads = 128;

// Then by the energy at the first frequency, among so many of a kind; a thread a place.
__global__ void __launch_bounds__(kOrderThreads) gpp_sort_by_energy(Sorted sorted) {
  constexpr std::int64_t kAmong = 2048;
  const std::int64_t place = thread_x();
  if (place >= sorted.length) return;
  std::int64_t begin = 0, end = sorted.length;
  for (int kind = 0; kind < kKinds; ++kind) {
    if (sorted.ends[kind] <= place) begin = sorted.ends[kind];
    if (sorted.ends[kind] > place) end = min(end, sorted.ends[kind]);
  }
  begin += (place - begin) / kAmong * kAmong;
  end = min(end, begin + kAmong);
  const double x = sorted.energy[place];
  std::int64_t rank = 0;
#pragma unroll 8
  for (std::int64_t other = begin; other < end; ++other) {
    const double y = sorted.energy[other];
    rank += (y < x) | ((y == x) & (other < place));
  }
  sorted.band[begin + rank] = sorted.by_kind[place];
}

inline constexpr int kGatherThreads = 256, kGatherBlocks = 8;  // blocks: a band

// Numbers of one band from a row of them into tiles.
__device__ inline void gather_row(const Complex* row, std::int64_t count, int width,
                                  std::int64_t place, std::int64_t length, Complex* to) {
  const std::int64_t padded = round_up(count, width);
  for (std::int64_t i = thread_x(); i < padded; i += std::int64_t{gridDim.x} * blockDim.x)
    to[(i / width * length + place) * width + i % width] =
        row != nullptr && i < count ? row[i] : Complex{};
}

__global__ void __launch_bounds__(kGatherThreads)
    gpp_gather_bands(View p, Sorted sorted, int tile_rows) {
  const std::int64_t place = block_y();
  if (place >= sorted.length) return;
  const std::int64_t n = sorted.band[place];
  gather_row(n < 0 ? nullptr : p.aqsn + n * p.columns, p.columns, kTileColumns, place,
             sorted.length, sorted.aqsn);
  gather_row(n < 0 ? nullptr : p.aqsm + n * p.rows, p.rows, tile_rows, place, sorted.length,
             sorted.aqsm);
  if (block_x() != 0) return;
  if (threadIdx.x == 0) sorted.occ[place] = n < 0 ? 0 : p.occ[n];
  const auto energies = [&](std::int64_t at) {
    while (at > 0 && sorted.band[at] < 0) --at;
    return p.wx + max(sorted.band[at], std::int64_t{0}) * p.frequencies;
  };
  for (std::int64_t first = threadIdx.x * kMostFrequencies; first < p.frequencies;
       first += std::int64_t{blockDim.x} * kMostFrequencies) {
    const int together =
        static_cast<int>(min(p.frequencies - first, std::int64_t{kMostFrequencies}));
    double* const to = sorted.wx + first * sorted.length + place * together;
    for (int f = 0; f < together; ++f) to[f] = energies(place)[first + f];
    if (place % kChunk != 0) continue;
    Range range = {energies(place)[first], energies(place)[first]};
    for (int k = 0; k < kChunk; ++k) {
      for (int f = 0; f < together; ++f) {
        const double x = energies(place + k)[first + f];
        range = {fmin(range.low, x), fmax(range.high, x)};
      }
    }
    sorted.ranges[(first / kMostFrequencies * sorted.length + place) / kChunk] = range;
  }
}

// Launches these; `go` is the tiles'.
template <int kRows>
Sorted sort_bands(const Gpp& p, const Launch& go) {
  auto at = reinterpret_cast<std::uintptr_t>(go.scratch) + bytes_of_partials(volume_of(go.grid));
  const Sorted sorted = sorted_at<kRows>(p, at);
  if (p.empty()) return sorted;
  const View view = view_of(p);
  Launch sorting = go;
  sorting.shared_bytes = 0;
  sorting.grid = {1};
  sorting.block = {kSortThreads};
  launch(sorting, gpp_sort_by_kind, view, sorted);
  sorting.grid = {static_cast<unsigned>(ceil_div(sorted.length, kOrderThreads))};
  sorting.block = {kOrderThreads};
  launch(sorting, gpp_sort_by_energy, sorted);
  sorting.grid = grid_of(kGatherBlocks, sorted.length);
  sorting.block = {kGatherThreads};
  launch(sorting, gpp_gather_bands, view, sorted, kTileRows<kRows>);
  return sorted;
}

#endif

}  // namespace ado::cuda::gpp
