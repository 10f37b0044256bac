// Engine: tiled and two_rows, tiles of 32 ig by a few igp, with operands staged in shared memory.
//
// The limit is the register-read bandwidth of a multiprocessor, not its FP64 pipe. An FMA with
// three different registers takes three cycles instead of two, and a selection or comparison takes
// one more (measured on an H200). Therefore, saving any kind of instruction reduces
// the time.
//
// A block computes a tile for a segment of the sorted bands. With two igp per thread, which share
// the loads of aqsn:
//
//                  ig 0 ........ 31        block_x = segment * across + tile of igp
//   igp 0, 1       warp 0, lanes 0-31      block_y = tile of ig
//   igp 2, 3       warp 1
//   igp 4, 5       warp 2                  sorted bands    | segment 0         | segment 1   ...
//   igp 6, 7       warp 3                  chunks of 16    | 0 | 1 | 2 | 3 |...|
//
// While the warps compute chunk c, chunks c + 1 and c + 2 are being copied. Chunk c is in stage c %
// 3 of shared memory.
#pragma once

#ifdef __CUDACC__
#include <cuda_pipeline_primitives.h>

#include <cstddef>
#endif

#include "common/async_copy.cuh"
#include "common/vector.cuh"
#include "gpp/engine/sorting.cuh"
#include "gpp/engine/timing.cuh"

namespace ado::cuda::gpp {

// ---- tiled, two_rows, moments -------------------------------------------------------------------
inline constexpr int kTileColumns = 32;  // ig of a tile, one per lane
inline constexpr int kTileWarps = 4;
template <int kRowsPerThread>
inline constexpr int kTileRows = kTileWarps* kRowsPerThread;  // igp of a tile

// Each block processes a segment of the bands. A segment has at most the number of bands that may
// be summed without compensation, and fewer if there are too few tiles for the device.
struct Tiling {
  std::int64_t across = 0, down = 0;  // tiles of igp and of ig
  std::int64_t length = 0;            // of the sorted list
  std::int64_t segments = 0, segment_length = 0;
};

// Returns a tiling with at least `enough_blocks` blocks, if there are enough bands.
template <int kRowsPerThread>
Tiling tiling_with_blocks(const Gpp& p, std::int64_t enough_blocks) {
  Tiling tiling;
  tiling.across = ceil_div(p.rows(), kTileRows<kRowsPerThread>);
  tiling.down = ceil_div(p.columns(), kTileColumns);
  tiling.length = sorted_length(p);
  if (p.empty()) return tiling;
  const std::int64_t wanted =
      ceil_div(tiling.length, ceil_div(enough_blocks, tiling.across * tiling.down));
  tiling.segment_length = round_up(wanted < Gpp::kLongestSum ? wanted : Gpp::kLongestSum, kChunk);
  tiling.segments = ceil_div(tiling.length, tiling.segment_length);
  return tiling;
}

// 2048 blocks on an H200, which has 132 multiprocessors: about four waves of four blocks. With
// half as many blocks, two_rows takes 0.6 % longer. moments takes 1.7 % less time, but not for the
// shapes for which it is chosen (38 random shapes, H100, 2026).
inline constexpr double kEnoughBlocksPerMultiprocessor = 15.52;

template <int kRowsPerThread>
Tiling tiling_of(const Gpp& p, const Hardware& gpu) {
  return tiling_with_blocks<kRowsPerThread>(
      p,
      static_cast<std::int64_t>(kEnoughBlocksPerMultiprocessor * std::max(gpu.multiprocessors, 1)));
}

inline Extent grid_of_tiling(const Tiling& tiling) {
  return grid_of(tiling.across * tiling.segments, tiling.down);
}

template <int kRowsPerThread>
Extent grid_of_tiles(const Gpp& p, Extent, const Hardware& gpu) {
  return grid_of_tiling(tiling_of<kRowsPerThread>(p, gpu));
}

// Allocates the sorted list and copies of the operands in sorted order, for any number of segments.
template <int kRowsPerThread>
SortedBands take_sorted_tiles(const Gpp& p, ScratchCursor& scratch) {
  const Tiling tiling = tiling_with_blocks<kRowsPerThread>(p, 1);
  SortedBands sorted;
  sorted.length = tiling.length;
  scratch.take(sorted.aqsn, tiling.down * kTileColumns * tiling.length);
  scratch.take(sorted.aqsm, tiling.across * kTileRows<kRowsPerThread> * tiling.length);
  scratch.take(sorted.ranges, range_count(p));
  scratch.take(sorted.wx, p.frequencies() * tiling.length);
  scratch.take(sorted.occ, tiling.length);
  scratch.take(sorted.band, tiling.length);
  scratch.take(sorted.ends, kKinds);
  scratch.take(sorted.by_kind, tiling.length);
  scratch.take(sorted.energy, tiling.length);
  return sorted;
}

template <int kRowsPerThread>
std::size_t sorted_tiles_bytes(const Gpp& p) {
  ScratchCursor scratch;
  take_sorted_tiles<kRowsPerThread>(p, scratch);
  return scratch.at;
}

// Cycles of a multiprocessor per (band, igp, ig) of a pass, excluding FP64 instructions.
inline constexpr double kOtherCyclesOfTiles = 0.2;  // H100

// Three launches sort and gather: they write the operands in sorted order, and the first kernel of
// a pass reads them. One launch per pass adds the partial sums.
template <int kRowsPerThread>
TiledWork tiled_work(const Gpp& p, const Hardware& gpu, int kernels, int resident_blocks) {
  const Tiling tiling = tiling_of<kRowsPerThread>(p, gpu);
  constexpr int kPairs = kTileRows<kRowsPerThread> * kTileColumns;
  return {.launches_per_call = 3,
          .operand_copies = 2,
          .launches_per_pass = kernels,
          .kernels = kernels,
          .bands = p.bands() + kKinds * (kGroup - 1),
          .pairs = tiling.across * tiling.down * kPairs,
          .segments = tiling.segments,
          .segment_length = tiling.segment_length,
          .resident_pairs = resident_blocks * kPairs};
}

// Blocks per multiprocessor. They leave 128 or 168 registers per thread.
template <int kRowsPerThread>
constexpr int kTileBlocks = kRowsPerThread == 1 ? 4 : 3;

inline double seconds_of_two_rows(const Gpp& p, const Hardware& gpu) {
  return seconds_of(p, gpu, tiled_work<2>(p, gpu, 1, kTileBlocks<2>),
                    {.instructions = 15.75, .other_cycles = kOtherCyclesOfTiles});
}

#ifdef __CUDACC__

static_assert(kTileColumns == kWarpSize);

inline constexpr int kGatherThreads = 256, kGatherBlocks = 8;  // blocks per band

// Copies `count` elements of a band, or zeros for padding, into tiles of `width` elements:
//
//   row             | e0 .. e31 | e32 .. e63 | ...
//   to   tile 0     | place 0: e0 .. e31 of its band  | place 1 | ... | place length - 1 |
//        tile 1     | place 0: e32 .. e63             | ...
//
// Staging a chunk of a tile is then one contiguous copy. Without these copies, the loop would read
// the original operands through the sorted list, which took 45 ms instead of 41 (prototypes, H200,
// 2026, si214).
__device__ inline void gather_row(const Complex* row, std::int64_t count, int width,
                                  std::int64_t place, std::int64_t length, Complex* to) {
  const std::int64_t padded = round_up(count, width);
  for (std::int64_t i = thread_x(); i < padded; i += std::int64_t{gridDim.x} * blockDim.x)
    to[(i / width * length + place) * width + i % width] =
        row != nullptr && i < count ? row[i] : Complex{};
}

__global__ void __launch_bounds__(kGatherThreads)
    gpp_gather_bands(Inputs p, SortedBands sorted, int tile_rows) {
  const std::int64_t place = block_y();
  if (place >= sorted.length) return;
  const std::int64_t n = sorted.band[place];
  gather_row(n < 0 ? nullptr : p.aqsn + n * p.columns, p.columns, kTileColumns, place,
             sorted.length, sorted.aqsn);
  gather_row(n < 0 ? nullptr : p.aqsm + n * p.rows, p.rows, tile_rows, place, sorted.length,
             sorted.aqsm);
  if (block_x() != 0) return;
  if (threadIdx.x == 0) sorted.occ[place] = n < 0 ? 0 : p.occ[n];
  for (std::int64_t first = threadIdx.x * kMaxFrequencies; first < p.frequencies;
       first += std::int64_t{blockDim.x} * kMaxFrequencies) {
    const int count = frequencies_of_pass(p, first);
    double* const to = sorted.wx + first * sorted.length + place * count;
    for (int f = 0; f < count; ++f) to[f] = energies_at(p, sorted, place)[first + f];
  }
  if (place % kChunk == 0)
    find_ranges_of_chunk(p, sorted, place / kChunk, threadIdx.x / kWarpSize,
                         kGatherThreads / kWarpSize);
}

inline constexpr int kStages = 3;  // chunks in shared memory

// The operands of a chunk of bands in shared memory. Stages begin at sectors. Misaligned
// stages cost a third more L2 bytes (H200, 2026): asynchronous copies fetch their sectors twice.
template <int kRowsPerThread, int kF>
struct alignas(kSectorBytes) StagedBands {
  Complex aqsn[kChunk][kTileColumns];
  Complex aqsm[kChunk][kTileRows<kRowsPerThread>];
  double wx[kChunk][kF];
  double occ[kChunk];
  Range range;
};

// The gathered operands of a tile from place `first` on. Copies them to shared memory.
//
// A thread copies the same vectors of 16 bytes of each chunk, so it keeps their addresses.
// Computing them again for each chunk took 75 more instructions per chunk (H100, 2026, si214: 3.7 %
// of the time of moments).
template <int kRowsPerThread, int kF>
class TileOperands {
 public:
  using Chunk = StagedBands<kRowsPerThread, kF>;

  __device__ TileOperands(const SortedBands& sorted, const Pass<kF>& pass, std::int64_t across,
                          std::int64_t down, std::int64_t first)
      : aqsn_(sorted.aqsn + (down * sorted.length + first) * kTileColumns + threadIdx.x),
        aqsm_(sorted.aqsm + (across * sorted.length + first) * kTileRows<kRowsPerThread> +
              threadIdx.x) {
    int vector = static_cast<int>(threadIdx.x);
    const auto assign = [&](int offset, int bytes, const void* from) {
      const int vectors = bytes / kVectorBytes;
      if (vector >= 0 && vector < vectors) {
        other_ = static_cast<const Bytes*>(from) + vector;
        other_stride_ = vectors;
        other_offset_ = offset + vector * kVectorBytes;
      }
      vector -= vectors;
    };
    assign(offsetof(Chunk, wx), sizeof(Chunk::wx),
           sorted.wx + pass.first * sorted.length + first * kF);
    assign(offsetof(Chunk, occ), sizeof(Chunk::occ), sorted.occ + first);
    assign(offsetof(Chunk, range), sizeof(Chunk::range),
           sorted.ranges + (pass.first / kMaxFrequencies * sorted.length + first) / kChunk);
  }

  // Calls add_chunk(chunk, place) for the chunks at places [0, end).
  template <class AddChunk>
  __device__ void for_chunks(int end, AddChunk add_chunk) {
    __shared__ Chunk stages[kStages];
    const auto copy_chunk = [&](int place) {
      if (place < end) copy_next(stages[place / kChunk % kStages]);
      commit_copies();
    };
    for (int i = 0; i < kStages - 1; ++i) copy_chunk(i * kChunk);
#pragma unroll 1
    for (int place = 0; place < end; place += kChunk) {
      wait_for_copies<kStages - 2>();
      // After the barrier, the copies of this chunk by all threads are complete, and all threads
      // have finished the previous chunk, whose stage the next copy overwrites.
      __syncthreads();
      copy_chunk(place + (kStages - 1) * kChunk);
      add_chunk(stages[place / kChunk % kStages], place);
    }
  }

 private:
  using Bytes = Vector<std::byte, kVectorBytes>;

  // Starts to copy the next chunk. The copies bypass L1 (cp.async.cg), unlike the copies without an
  // L2 policy in common/async_copy.cuh.
  __device__ void copy_next(Chunk& to) {
    constexpr int kThreads = kTileWarps * kWarpSize, kAqsn = kChunk * kTileColumns,
                  kAqsm = kChunk * kTileRows<kRowsPerThread>;
    static_assert(sizeof(Complex) == kVectorBytes && kAqsn % kThreads == 0 && kAqsm <= kThreads);
#pragma unroll
    for (int i = 0; i < kAqsn; i += kThreads)
      __pipeline_memcpy_async(&to.aqsn[0][0] + i + threadIdx.x, aqsn_ + i, kVectorBytes);
    if (threadIdx.x < kAqsm)
      __pipeline_memcpy_async(&to.aqsm[0][0] + threadIdx.x, aqsm_, kVectorBytes);
    if (other_ != nullptr) {
      __pipeline_memcpy_async(reinterpret_cast<std::byte*>(&to) + other_offset_, other_,
                              kVectorBytes);
      other_ += other_stride_;
    }
    aqsn_ += kAqsn;
    aqsm_ += kAqsm;
  }

  const Complex *aqsn_, *aqsm_;   // the next vectors of this thread
  const Bytes* other_ = nullptr;  // of wx, occ or the range
  int other_stride_ = 0, other_offset_ = 0;
};

// Bands of a chunk that are processed together: their energies, and m for each igp of the thread.
template <int kBands, int kRowsPerThread, int kF>
struct BandGroup {
  double x[kBands][kF];
  Complex m[kBands][kRowsPerThread];
};

// Calls add_group(group, k) for kBands bands at a time, at places k in [from, to) of the chunk.
// Each kind of bands is padded to a multiple of kGroup.
template <int kBands, int kRowsPerThread, int kF, class AddGroup>
__device__ void for_groups(const StagedBands<kRowsPerThread, kF>& chunk, int from, int to,
                           AddGroup add_group) {
  static_assert(kGroup % kBands == 0);
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  to = min(to, kChunk);
#pragma unroll 1
  for (int k = max(from, 0); k < to; k += kBands) {
    BandGroup<kBands, kRowsPerThread, kF> group;
#pragma unroll
    for (int i = 0; i < kBands; ++i) {
      const Complex right = chunk.aqsn[k + i][lane];
      memcpy(group.x[i], __builtin_assume_aligned(chunk.wx[k + i], sizeof group.x[i]),
             sizeof group.x[i]);
#pragma unroll
      for (int row = 0; row < kRowsPerThread; ++row)
        group.m[i][row] = conj(chunk.aqsm[k + i][warp * kRowsPerThread + row]) * right;
    }
    add_group(group, k);
  }
}

// Loads the poles of a thread. Lanes outside the matrix load the poles of the last row or column.
template <int kRowsPerThread>
__device__ void load_poles(const Inputs& p, std::int64_t igp, std::int64_t ig,
                           Pole (&poles)[kRowsPerThread]) {
#pragma unroll
  for (int row = 0; row < kRowsPerThread; ++row)
    poles[row] =
        pole_of(p, p.wtilde[min(igp + row, p.rows - 1) * p.columns + min(ig, p.columns - 1)]);
}

// ---- tiled, two_rows ----------------------------------------------------------------------------
template <int kRowsPerThread, int kF>
__global__ void __launch_bounds__(kTileWarps* kWarpSize, kTileBlocks<kRowsPerThread>)
    gpp_tile(Inputs p, Pass<kF> pass, SortedBands sorted, Tiling tiling) {
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const std::int64_t across = block_x() % tiling.across, segment = block_x() / tiling.across;
  const std::int64_t down = block_y();
  ThreadSums<kF> sums;
  if (down < tiling.down) {
    const std::int64_t ig = down * kTileColumns + lane;
    const std::int64_t igp = across * kTileRows<kRowsPerThread> + warp * kRowsPerThread;
    Pole poles[kRowsPerThread];
    PairSums<kF> pair_sums[kRowsPerThread];
    load_poles(p, igp, ig, poles);

    const std::int64_t first = segment * tiling.segment_length;
    // Places below are counted from the start of the segment.
    const auto end_of = [&](Kind kind) {
      const std::int64_t end = sorted.ends[kind] - first;
      return static_cast<int>(min(max(end, std::int64_t{0}), tiling.segment_length));
    };
    const int full_end = end_of(kFullBands), weighted_end = end_of(kWeightedBands);
    const int end = end_of(kEmptyBands);

    TileOperands<kRowsPerThread, kF> operands(sorted, pass, across, down, first);
    operands.for_chunks(end, [&](const auto& chunk, int place) {
      const auto for_bands = [&]<int kBands>(std::integral_constant<int, kBands>, int from, int to,
                                             auto add_band) {
        for_groups<kBands>(chunk, from - place, to - place, [&](const auto& group, int k) {
#pragma unroll
          for (int i = 0; i < kBands; ++i) {
#pragma unroll
            for (int row = 0; row < kRowsPerThread; ++row) {
#pragma unroll
              for (int f = 0; f < kF; ++f)
                add_band(poles[row], group.x[i][f], k + i, f, group.m[i][row], pair_sums[row]);
            }
          }
        });
      };
      using One = std::integral_constant<int, 1>;
      using Two = std::integral_constant<int, 2>;
      using OneOrTwo = std::integral_constant<int, kRowsPerThread == 1 ? 2 : 1>;

      bool all_far = true;
#pragma unroll
      for (int row = 0; row < kRowsPerThread; ++row) all_far &= far_from(poles[row], chunk.range);
      all_far = __all_sync(kAllLanes, all_far);

      const auto add_full_bands = [&](auto coefficients) {
        for_bands(OneOrTwo{}, 0, full_end,
                  [&](const Pole& w, double x, int, int f, Complex m, PairSums<kF>& into) {
                    const Coefficients c = coefficients(w, x);
                    into.add(f, c, m);
                  });
      };
      if (all_far)
        add_full_bands([](const Pole& w, double x) { return full_band_far_from_pole(w, x); });
      else
        add_full_bands([&](const Pole& w, double x) { return by_selection<true>(p, w, x, 1); });
      if (full_end > place && full_end <= place + kChunk) {
#pragma unroll
        for (int row = 0; row < kRowsPerThread; ++row) pair_sums[row].complete_full_bands();
      }
      for_bands(One{}, full_end, weighted_end,
                [&](const Pole& w, double x, int k, int f, Complex m, PairSums<kF>& into) {
                  const Coefficients c = by_selection<false>(p, w, x, chunk.occ[k]);
                  into.add(f, c, m);
                });
      const auto add_empty_bands = [&]<bool kFar>(std::bool_constant<kFar>) {
        for_bands(Two{}, weighted_end, end,
                  [&](const Pole& w, double x, int, int f, Complex m, PairSums<kF>& into) {
                    into.add_coulomb_hole(f, coulomb_hole<kFar>(w, x), m);
                  });
      };
      if (all_far)
        add_empty_bands(std::true_type{});
      else
        add_empty_bands(std::false_type{});
    });

#pragma unroll
    for (int row = 0; row < kRowsPerThread; ++row)
      add_pair(
          p, pass, igp + row < p.rows && ig < p.columns, igp + row, ig, poles[row], pair_sums[row],
          end, [&](std::int64_t i) { return sorted.band[first + i]; }, sums);
  }
  sums.store(pass);
}

// Sorts and gathers the bands. In scratch memory, they follow the partial sums of the grid of `go`.
template <int kRowsPerThread>
SortedBands gather_tiles(const Gpp& p, const Launch& go) {
  ScratchCursor scratch = behind_partials(go);
  const SortedBands sorted = take_sorted_tiles<kRowsPerThread>(p, scratch);
  if (!p.empty()) {
    sort_bands(inputs_of(p), sorted, go);
    Launch gathering = go;
    gathering.grid = grid_of(kGatherBlocks, sorted.length);
    gathering.block = {kGatherThreads};
    launch(gathering, gpp_gather_bands, inputs_of(p), sorted, kTileRows<kRowsPerThread>);
  }
  return sorted;
}

template <int kRowsPerThread>
void run_tiles(const Gpp& p, const Launch& go) {
  const SortedBands sorted = gather_tiles<kRowsPerThread>(p, go);
  run_in_passes<gpp_tile<kRowsPerThread, 1>, gpp_tile<kRowsPerThread, 2>>(
      p, go, sorted, tiling_of<kRowsPerThread>(p, go.hardware));
}

#endif

// Tiles also compute the padding of each kind of band. It is half of the largest padding on average
// for full and for weighted bands, whose numbers depend on the values.
template <int kRowsPerThread>
PassWork work_of_tiles(const Gpp& p, std::int64_t, const Hardware& gpu) {
  const Tiling tiling = tiling_of<kRowsPerThread>(p, gpu);
  const std::int64_t pairs = tiling.across * tiling.down * kTileRows<kRowsPerThread> * kTileColumns;
  PassWork work = work_of(p, pairs, tiling.segments, 0);
  if (p.occupied() > 0) work.occupied += kGroup - 1;
  work.other = static_cast<double>(round_up(p.bands() - p.occupied(), kGroup));
  return work;
}

// Tiles of (igp, ig). aqsn is read and written once by the gather, and then loaded once per tile.
template <int kRowsPerThread>
inline constexpr Decomposition kTiles{
    .blocks = {{{kTileWarps * kTileColumns}}},
    .grid = grid_of_tiles<kRowsPerThread>,
    .scratch_bytes =
        [](const Gpp& p, const Hardware& gpu) {
          return partial_bytes(volume_of(grid_of_tiles<kRowsPerThread>(p, {}, gpu))) +
                 sorted_tiles_bytes<kRowsPerThread>(p);
        },
    .bytes =
        [](const Gpp& p, int, const Hardware& gpu) {
          return bytes_of_tiles(p, tiling_of<kRowsPerThread>(p, gpu).across, 2);
        },
    .work = work_of_tiles<kRowsPerThread>};

// ---- tiled --------------------------------------------------------------------------------------
inline constexpr Variant<Gpp> kTiled = with_costs<kFarFromPolesCosts, kTiles<1>>(
    {.name = "tiled",
     .changes = {"Continues blocks_2d: gathers the sorted operands and stages them in shared "
                 "memory with asynchronous copies.",
                 Step::kInFlight, Step::kReuse},
     .run = ADO_RUN(run_tiles<1>)});

// ---- two_rows -----------------------------------------------------------------------------------
inline constexpr Variant<Gpp> kTwoRows = with_costs<kFarFromPolesCosts, kTiles<2>>(
    {.name = "two_rows",
     .changes = {"Each thread computes two igp and loads aqsn once for both.", Step::kReuse},
     .run = ADO_RUN(run_tiles<2>)});

// -------------------------------------------------------------------------------------------------

}  // namespace ado::cuda::gpp
