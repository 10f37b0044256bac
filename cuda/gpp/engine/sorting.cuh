// Engine: sorts the bands, for all variants of the engine except single_launch; and the first
// variants that process sorted bands.
//
// Bands are sorted by kind (occupation), because a loop over bands of one kind needs only the
// arithmetic of that kind. Within a kind, bands are sorted by energy, because bands with similar
// energies are far from the same poles:
//
//   place   0          ends[kFullBands]   ends[kWeightedBands]   ends[kEmptyBands]        length
//           | full bands   P P | weighted bands      P | empty bands      P P P | P P P P P |
//           | high ..... low   | low ........... high  | low ......... high     |
//
// P is padding: each kind starts at a multiple of kGroup places, and the length of the list is a
// multiple of kChunk. Energies are sorted within windows of kSortWindow places, counted from the
// start of the kind.
#pragma once

#include "gpp/costs.cuh"

namespace ado::cuda::gpp {

// ---- sorted_bands, sorted_by_energy, blocks_2d --------------------------------------------------
inline constexpr int kChunk = 16;  // bands per chunk; each chunk has a Range of energies
inline constexpr int kGroup = 4;   // each kind is padded to a multiple of this

// Full bands have an occupation of 1 and no negative energies. Empty bands have an occupation of 0.
// All others are weighted bands, which need the weight and the cut-off.
enum Kind : int { kFullBands, kWeightedBands, kEmptyBands, kKinds };

ADO_ANYWHERE constexpr std::int64_t round_up(std::int64_t count, std::int64_t to) {
  return (count + to - 1) / to * to;
}

// The range of the energies of a chunk in a pass.
struct alignas(16) Range {
  double low, high;
  // The largest deviation of a band's change of energy from typical_step(). Used with two
  // frequencies.
  double deviation, unused;
};

// The sorted list, and copies of operands in sorted order. Padding has band -1, aqsn = 0, and the
// energies of the band before it. A variant allocates only the arrays that it uses.
struct SortedBands {
  std::int64_t length = 0;
  Complex *aqsn = nullptr, *aqsm = nullptr;       // [tile][band][ig or igp of the tile]
  Range* ranges = nullptr;                        // [pass][chunk]
  double *wx = nullptr, *occ = nullptr;           // wx: [pass][band][frequency of the pass]
  std::int64_t *band = nullptr, *ends = nullptr;  // the list, and the end of each kind
  std::int64_t* by_kind = nullptr;                // the list before it is sorted by energy,
  double* energy = nullptr;                       // and its energies at the first frequency
};

inline std::int64_t sorted_length(const Gpp& p) {
  return round_up(p.bands() + kKinds * (kGroup - 1), kChunk);
}

// Assigns consecutive pieces of scratch memory to arrays.
struct ScratchCursor {
  std::uintptr_t at = 0;

  template <class T>
  void take(T*& array, std::int64_t count) {
    array = reinterpret_cast<T*>(at);
    at += static_cast<std::uintptr_t>(count) * sizeof(T);
  }
};

inline std::int64_t range_count(const Gpp& p) {
  return ceil_div(p.frequencies(), kMaxFrequencies) * (sorted_length(p) / kChunk);
}

// Allocates the list and the ranges only, for variants that read the operands from their original
// arrays.
inline SortedBands take_sorted_list(const Gpp& p, ScratchCursor& scratch) {
  SortedBands sorted;
  sorted.length = sorted_length(p);
  scratch.take(sorted.ranges, range_count(p));
  scratch.take(sorted.band, sorted.length);
  scratch.take(sorted.ends, kKinds);
  scratch.take(sorted.by_kind, sorted.length);
  scratch.take(sorted.energy, sorted.length);
  return sorted;
}

inline std::size_t sorted_list_bytes(const Gpp& p) {
  ScratchCursor scratch;
  take_sorted_list(p, scratch);
  return scratch.at;
}

#ifdef __CUDACC__

__device__ inline Kind kind_of(const Inputs& p, std::int64_t n) {
  if (p.occ[n] == 0) return kEmptyBands;
  bool full = p.occ[n] == 1;
  for (std::int64_t f = 0; f < p.frequencies; ++f) full &= p.wx[n * p.frequencies + f] >= 0;
  return full ? kFullBands : kWeightedBands;
}

inline constexpr int kSortThreads = 1024;

// Fills by_kind, energy and ends. Runs in one block.
__global__ void __launch_bounds__(kSortThreads) gpp_sort_by_kind(Inputs p, SortedBands sorted) {
  __shared__ int count_of_warp[kSortThreads / kWarpSize];
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  std::int64_t end = 0;
#pragma unroll 1
  for (int kind = 0; kind < kKinds; ++kind) {
#pragma unroll 1
    for (std::int64_t first = 0; first < p.bands; first += kSortThreads) {
      const std::int64_t n = first + threadIdx.x;
      const bool mine = n < p.bands && kind_of(p, n) == kind;
      const unsigned lanes = __ballot_sync(kAllLanes, mine);
      if (lane == 0) count_of_warp[warp] = __popc(lanes);
      __syncthreads();
      int before = __popc(lanes & ((1U << lane) - 1)), all = 0;
      for (int w = 0; w < kSortThreads / kWarpSize; ++w) {
        before += w < warp ? count_of_warp[w] : 0;
        all += count_of_warp[w];
      }
      if (mine) {
        sorted.by_kind[end + before] = n;
        const double x = p.wx[n * p.frequencies];
        sorted.energy[end + before] = kind == kFullBands ? -x : x;
      }
      end += all;
      __syncthreads();
    }
    const std::int64_t padded = round_up(end, kGroup);
    const std::int64_t last = kind + 1 < kKinds ? padded : sorted.length;
    for (std::int64_t i = end + threadIdx.x; i < last; i += kSortThreads) {
      sorted.by_kind[i] = -1;
      sorted.energy[i] = INFINITY;
    }
    end = padded;
    if (threadIdx.x == 0) sorted.ends[kind] = end;
  }
}

inline constexpr int kOrderThreads = 128;

// Sorts by the energy at the first frequency, within windows of kSortWindow places of a kind. One
// warp per place counts the energies below the energy of the place:
//
//   kind        | window 0          | window 1          | rest |
//   by_kind     |  C  A  D  B ...   |                   |  G  P|
//   band        |  A  B  C  D ...   |                   |  G  P|   padding has an infinite energy
__global__ void __launch_bounds__(kOrderThreads) gpp_sort_by_energy(SortedBands sorted) {
  constexpr std::int64_t kSortWindow = 2048;
  const std::int64_t place = thread_x() / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  if (place >= sorted.length) return;
  std::int64_t begin = 0, end = sorted.length;
  for (int kind = 0; kind < kKinds; ++kind) {
    if (sorted.ends[kind] <= place) begin = sorted.ends[kind];
    if (sorted.ends[kind] > place) end = min(end, sorted.ends[kind]);
  }
  begin += (place - begin) / kSortWindow * kSortWindow;
  end = min(end, begin + kSortWindow);
  const double x = sorted.energy[place];
  int rank = 0;
#pragma unroll 4
  for (std::int64_t other = begin + lane; other < end; other += kWarpSize) {
    const double y = sorted.energy[other];
    rank += (y < x) | ((y == x) & (other < place));
  }
  rank = sum_over_lanes(rank);
  if (lane == 0) sorted.band[begin + rank] = sorted.by_kind[place];
}

// The energies at a place of the sorted list. Padding has the energies of the band before it.
__device__ inline const double* energies_at(const Inputs& p, const SortedBands& sorted,
                                            std::int64_t place) {
  while (place > 0 && sorted.band[place] < 0) --place;
  return p.wx + max(sorted.band[place], std::int64_t{0}) * p.frequencies;
}

__device__ inline int frequencies_of_pass(const Inputs& p, std::int64_t first) {
  return static_cast<int>(min(p.frequencies - first, std::int64_t{kMaxFrequencies}));
}

__device__ inline double max_over_lanes(double x) {
#pragma unroll
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
    x = fmax(x, __shfl_xor_sync(kAllLanes, x, distance));
  return x;
}

// Returns by how much the energy of a band changes from the first to the last frequency of a pass.
// Most bands of a problem have the same change, but band 0 can be an exception. So the first empty
// band is read; without empty bands, the last band of the sorted list.
__device__ inline double typical_step(const Inputs& p, const SortedBands& sorted,
                                      std::int64_t first, std::int64_t last) {
  const std::int64_t place = min(sorted.ends[kWeightedBands], sorted.length - 1);
  const double* const x = energies_at(p, sorted, place);
  return x[last] - x[first];
}

// Stores the ranges of the energies of a chunk for every `warps`-th pass, from pass `warp` on. The
// lanes of a warp load the bands of the chunk together. Loading one band after another took longer
// than the copies of the gather (H200, 2026: 30 of 45 us, 400 x 256 x 4096 x 2).
__device__ inline void find_ranges_of_chunk(const Inputs& p, const SortedBands& sorted,
                                            std::int64_t chunk, int warp, int warps) {
  const int lane = threadIdx.x % kWarpSize;
  const double* const x = energies_at(p, sorted, chunk * kChunk + lane % kChunk);
  for (std::int64_t first = warp * kMaxFrequencies; first < p.frequencies;
       first += warps * kMaxFrequencies) {
    const std::int64_t last = first + frequencies_of_pass(p, first) - 1;
    const double step = typical_step(p, sorted, first, last);
    const Range range = {.low = -max_over_lanes(-fmin(x[first], x[last])),
                         .high = max_over_lanes(fmax(x[first], x[last])),
                         .deviation = max_over_lanes(fabs((x[last] - x[first]) - step)),
                         .unused = 0};
    if (lane == 0)
      sorted.ranges[first / kMaxFrequencies * (sorted.length / kChunk) + chunk] = range;
  }
}

// Returns true if all energies of the range are far from the pole. Rounding is monotonic, so it is
// enough to test the nearest energy.
__device__ inline bool far_from(const Pole& w, Range energies) {
  const double gap = fmax(fmax(energies.low - w.a, w.a - energies.high), 0.0);
  return fma(gap, gap, w.b2) > w.limit;
}

// The coefficients of a full band far from the pole; ssx_b contains only v.
__device__ inline Coefficients full_band_far_from_pole(const Pole& w, double x) {
  const double d = w.a - x, q = w.a + x;
  const double den = fma(d, d, w.b2), den_plus = fma(q, q, w.b2);
  const double r = approximate_reciprocal(den * den_plus);
  Coefficients c;
  c.sch_b = r * den_plus;
  c.sch = d * c.sch_b;
  c.ssx = fma(d, q, w.b2) * r;
  c.ssx_b = r * den;
  return c;
}

// Calls add_band(n, x, m, f) for the bands at places [begin, end) of the sorted list.
template <int kF, class AddBand>
__device__ void for_sorted_bands(const Inputs& p, const Pass<kF>& pass, const SortedBands& sorted,
                                 std::int64_t igp, std::int64_t ig, std::int64_t begin,
                                 std::int64_t end, AddBand add_band) {
#pragma unroll 1
  for (std::int64_t place = begin; place < end; ++place) {
    const std::int64_t n = sorted.band[place];
    if (n < 0) continue;
    const Complex m = conj(p.aqsm[n * p.rows + igp]) * p.aqsn[n * p.columns + ig];
#pragma unroll
    for (int f = 0; f < kF; ++f) add_band(n, p.wx[n * p.frequencies + pass.first + f], m, f);
  }
}

// ---- sorted_bands -------------------------------------------------------------------------------
// Three loops, one per kind of band. Full bands need no weight and no
// cut-off, empty bands need no ssx, and no loop tests the occupation.
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2)
    gpp_sorted_bands(Inputs p, Pass<kF> pass, SortedBands sorted) {
  ThreadSums<kF> sums;
  const std::int64_t igp = block_y(), ig = thread_x();
  const bool own = igp < p.rows && ig < p.columns;
  const Pole w = pole_of(p, own ? p.wtilde[igp * p.columns + ig] : Complex{});
  const std::int64_t full_end = sorted.ends[kFullBands], weighted_end = sorted.ends[kWeightedBands];
  const std::int64_t end = sorted.ends[kEmptyBands];
#pragma unroll 1
  for (std::int64_t first = 0; first < end; first += Gpp::kLongestSum) {
    const std::int64_t last = min(first + Gpp::kLongestSum, end);
    PairSums<kF> pair_sums;
    if (own) {
      const auto for_bands = [&](std::int64_t from, std::int64_t to, auto add_band) {
        for_sorted_bands(p, pass, sorted, igp, ig, max(from, first), min(to, last), add_band);
      };
      for_bands(0, full_end, [&](std::int64_t, double x, Complex m, int f) {
        const Coefficients c = by_selection<true>(p, w, x, 1);
        pair_sums.add(f, c, m);
      });
      pair_sums.complete_full_bands();
      for_bands(full_end, weighted_end, [&](std::int64_t n, double x, Complex m, int f) {
        const Coefficients c = by_selection<false>(p, w, x, p.occ[n]);
        pair_sums.add(f, c, m);
      });
      for_bands(weighted_end, end, [&](std::int64_t, double x, Complex m, int f) {
        pair_sums.add_coulomb_hole(f, coulomb_hole(w, x), m);
      });
    }
    add_pair(
        p, pass, own, igp, ig, w, pair_sums, last - first,
        [&](std::int64_t i) { return sorted.band[first + i]; }, sums);
    sums.next();
  }
  sums.store(pass);
}

// ---- sorted_by_energy, blocks_2d ----------------------------------------------------------------
// One warp per chunk.
__global__ void __launch_bounds__(kOrderThreads) gpp_find_ranges(Inputs p, SortedBands sorted) {
  const std::int64_t chunk = thread_x() / kWarpSize;
  if (chunk < sorted.length / kChunk) find_ranges_of_chunk(p, sorted, chunk, 0, 1);
}

// If the energies of a chunk are far from the poles of all lanes of a warp, its
// bands need no selection between the branches. Lanes outside the matrix compute the last row or
// column, so that whole warps vote, but do not add the result.
template <int kF>
__device__ void add_sorted_by_energy(const Inputs& p, const Pass<kF>& pass,
                                     const SortedBands& sorted, std::int64_t igp, std::int64_t ig) {
  ThreadSums<kF> sums;
  const bool own = igp < p.rows && ig < p.columns;
  igp = min(igp, p.rows - 1);
  ig = min(ig, p.columns - 1);
  const Pole w = pole_of(p, p.wtilde[igp * p.columns + ig]);
  const Range* const ranges =
      sorted.ranges + pass.first / kMaxFrequencies * (sorted.length / kChunk);
  const std::int64_t full_end = sorted.ends[kFullBands], weighted_end = sorted.ends[kWeightedBands];
  const std::int64_t end = sorted.ends[kEmptyBands];
#pragma unroll 1
  for (std::int64_t first = 0; first < end; first += Gpp::kLongestSum) {
    const std::int64_t last = min(first + Gpp::kLongestSum, end);
    PairSums<kF> pair_sums;
    const auto for_bands = [&](std::int64_t from, std::int64_t to, auto add_band) {
      for_sorted_bands(p, pass, sorted, igp, ig, from, to, add_band);
    };
    // Splits places [from, to) at the chunk boundaries. Uniform for all lanes of a warp.
    const auto for_chunks = [&](std::int64_t from, std::int64_t to, auto add_chunk) {
      to = min(to, last);
#pragma unroll 1
      for (std::int64_t begin = max(from, first); begin < to;) {
        const std::int64_t chunk = begin / kChunk, stop = min((chunk + 1) * kChunk, to);
        add_chunk(begin, stop, __all_sync(kAllLanes, far_from(w, ranges[chunk])) != 0);
        begin = stop;
      }
    };
    for_chunks(0, full_end, [&](std::int64_t begin, std::int64_t stop, bool all_far) {
      const auto add = [&](int f, const Coefficients& c, Complex m) { pair_sums.add(f, c, m); };
      if (all_far) {
        for_bands(begin, stop, [&](std::int64_t, double x, Complex m, int f) {
          add(f, full_band_far_from_pole(w, x), m);
        });
      } else {
        for_bands(begin, stop, [&](std::int64_t, double x, Complex m, int f) {
          add(f, by_selection<true>(p, w, x, 1), m);
        });
      }
    });
    pair_sums.complete_full_bands();
    for_bands(max(full_end, first), min(weighted_end, last),
              [&](std::int64_t n, double x, Complex m, int f) {
                const Coefficients c = by_selection<false>(p, w, x, p.occ[n]);
                pair_sums.add(f, c, m);
              });
    for_chunks(weighted_end, end, [&](std::int64_t begin, std::int64_t stop, bool all_far) {
      if (all_far) {
        for_bands(begin, stop, [&](std::int64_t, double x, Complex m, int f) {
          pair_sums.add_coulomb_hole(f, coulomb_hole<true>(w, x), m);
        });
      } else {
        for_bands(begin, stop, [&](std::int64_t, double x, Complex m, int f) {
          pair_sums.add_coulomb_hole(f, coulomb_hole<false>(w, x), m);
        });
      }
    });
    add_pair(
        p, pass, own, igp, ig, w, pair_sums, last - first,
        [&](std::int64_t i) { return sorted.band[first + i]; }, sums);
    sums.next();
  }
  sums.store(pass);
}

// ---- sorted_by_energy ---------------------------------------------------------------------------
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2)
    gpp_sorted_by_energy(Inputs p, Pass<kF> pass, SortedBands sorted) {
  add_sorted_by_energy(p, pass, sorted, block_y(), thread_x());
}

// ---- blocks_2d ----------------------------------------------------------------------------------
// Blocks of a few igp by 32 ig. All warps load the same aqsn. Only the first load misses
// L1.
//
//            ig 0 ........ 31
//   igp 0    warp 0, lanes 0-31     aqsn[n][0 .. 31] is loaded by all four warps,
//   igp 1    warp 1                 aqsm[n][igp] is the same for all lanes of a warp
//   igp 2    warp 2
//   igp 3    warp 3
template <int kF>
__global__ void __launch_bounds__(kHoistedThreads, 2)
    gpp_blocks_2d(Inputs p, Pass<kF> pass, SortedBands sorted) {
  add_sorted_by_energy(p, pass, sorted, block_y() * blockDim.y + threadIdx.y, thread_x());
}

// ---- sorted_by_energy, blocks_2d ----------------------------------------------------------------
// Sorts the bands by kind and then by energy.
inline void sort_bands(const Inputs& inputs, const SortedBands& sorted, const Launch& go) {
  Launch sorting = go;
  sorting.shared_bytes = 0;
  sorting.grid = {1};
  sorting.block = {kSortThreads};
  launch(sorting, gpp_sort_by_kind, inputs, sorted);
  sorting.grid = {static_cast<unsigned>(ceil_div(sorted.length * kWarpSize, kOrderThreads))};
  sorting.block = {kOrderThreads};
  launch(sorting, gpp_sort_by_energy, sorted);
}

inline ScratchCursor behind_partials(const Launch& go) {
  return {reinterpret_cast<std::uintptr_t>(go.scratch) + partial_bytes(volume_of(go.grid))};
}

inline void run_sorted_bands(const Gpp& p, const Launch& go) {
  ScratchCursor scratch = behind_partials(go);
  SortedBands sorted = take_sorted_list(p, scratch);
  sorted.band = sorted.by_kind;
  Launch sorting = go;
  sorting.grid = {1};
  sorting.block = {kSortThreads};
  launch(sorting, gpp_sort_by_kind, inputs_of(p), sorted);
  run_in_passes<gpp_sorted_bands<1>, gpp_sorted_bands<2>>(p, go, sorted);
}

template <auto kOne, auto kTwo>
void run_sorted_by_energy(const Gpp& p, const Launch& go) {
  ScratchCursor scratch = behind_partials(go);
  const SortedBands sorted = take_sorted_list(p, scratch);
  sort_bands(inputs_of(p), sorted, go);
  if (p.bands() > 0) {
    Launch finding = go;
    finding.grid = {
        static_cast<unsigned>(ceil_div(sorted.length / kChunk * kWarpSize, kOrderThreads))};
    finding.block = {kOrderThreads};
    launch(finding, gpp_find_ranges, inputs_of(p), sorted);
  }
  run_in_passes<kOne, kTwo>(p, go, sorted);
}

#endif

inline std::size_t sorted_pairs_bytes(const Gpp& p, Extent most_blocks) {
  return partial_bytes(volume_of(grid_of_pairs(p, most_blocks))) + sorted_list_bytes(p);
}

inline PassWork work_of_whole_warps(const Gpp& p, std::int64_t threads) {
  return work_per_thread(p, threads);
}

// ---- sorted_bands -------------------------------------------------------------------------------
inline constexpr OperationCounts kSortedBandsCosts{.flops = {36, 18, 6, 137},
                                                   .instructions = {22, 10, 4, 94}};
inline constexpr Decomposition kSortedPairs{
    .blocks = kBlocks,
    .grid = grid_of_pairs,
    .scratch_bytes = [](const Gpp& p) { return sorted_pairs_bytes(p, {kMinThreads}); },
    .bytes = kThreadPerPair.bytes,
    .work = work_inside_matrix};

inline constexpr Variant<Gpp> kSortedBands = with_costs<kSortedBandsCosts, kSortedPairs>(
    {.name = "sorted_bands",
     .changes = {"Sorts bands by occupation: full bands with non-negative energies skip the "
                 "weight and the cut-off test.",
                 Step::kOperations, Step::kDivergence},
     .run = ADO_RUN(run_sorted_bands)});

// ---- sorted_by_energy ---------------------------------------------------------------------------
// Half of the full bands of gpp_operands are far from all poles of a warp: they take 35 FLOPs and
// 21 instructions, and the other bands take one more of each. Each chunk is tested once, with four
// FLOPs in three instructions.
inline constexpr OperationCounts kFarFromPolesCosts{
    .flops = {35.5, 18, 6 + 4.0 / kChunk, 137}, .instructions = {21.5, 10, 4 + 3.0 / kChunk, 94}};
inline constexpr Decomposition kSortedWarps{.blocks = kBlocks,
                                            .grid = kSortedPairs.grid,
                                            .scratch_bytes = kSortedPairs.scratch_bytes,
                                            .bytes = kSortedPairs.bytes,
                                            .work = work_of_whole_warps};

inline constexpr Variant<Gpp> kSortedByEnergy = with_costs<kFarFromPolesCosts, kSortedWarps>(
    {.name = "sorted_by_energy",
     .changes = {"Sorts bands of the same kind by energy: groups of 16 bands that are far from "
                 "all poles of a warp skip the selection.",
                 Step::kOperations, Step::kDivergence},
     .run = ADO_RUN(run_sorted_by_energy<gpp_sorted_by_energy<1>, gpp_sorted_by_energy<2>>)});

// ---- blocks_2d ----------------------------------------------------------------------------------
inline constexpr Decomposition kSortedPairs2d{.blocks = {{{32, 4}, {32, 2}, {32, 8}}},
                                              .grid = grid_of_pairs,
                                              .scratch_bytes =
                                                  [](const Gpp& p) {
                                                    return sorted_pairs_bytes(p, {32, 2});
                                                  },
                                              .bytes = kThreadPerPair.bytes,
                                              .work = work_of_whole_warps};

inline constexpr Variant<Gpp> kBlocks2d = with_costs<kFarFromPolesCosts, kSortedPairs2d>(
    {.name = "blocks_2d",
     .changes = {"Uses blocks of 32 ig by 4 igp, whose warps share aqsn through L1.", Step::kReuse},
     .run = ADO_RUN(run_sorted_by_energy<gpp_blocks_2d<1>, gpp_blocks_2d<2>>)});

// -------------------------------------------------------------------------------------------------

}  // namespace ado::cuda::gpp
