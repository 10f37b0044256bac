// Engine: single_launch, for small problems, for which launch overhead dominates.
//
// Bands keep their order, so no other kernel must sort or gather them first. The operands are
// staged in shared memory directly from their arrays, and the block that finishes last adds the
// partial sums of all blocks. No block waits for another one, so a grid of any size completes on
// any number of multiprocessors. Each pass is one launch.
//
// A tile has 128 pairs (igp, ig), one per thread. Its width along ig is a power of two, chosen so
// that thin matrices fill the tile. An item is the work of one tile and one segment of the bands.
// Each block processes several items. While it computes, it copies the next chunk of bands, which
// may belong to its next item (double buffering).
//
//   tile of 32 ig:   ig 0 ........ 31        item = segment * tiles + tile
//          igp 0     warp 0, lanes 0-31      block b processes items b, b + gridDim.x, ...
//          ...
//          igp 3     warp 3
#pragma once

#include <atomic>

#include "common/async_copy.cuh"
#include "common/graph_counter.cuh"
#include "gpp/costs.cuh"
#include "gpp/engine/timing.cuh"

namespace ado::cuda::gpp {

// ---- single_launch ------------------------------------------------------------------------------
inline constexpr int kSingleThreads = 128;
inline constexpr int kSingleChunk = 16;  // maximum bands per chunk
// Maximum elements of aqsn and aqsm per chunk: enough for 16 bands of a tile of 32 by 4, or for 8
// bands of a tile of 128 by 1.
inline constexpr int kSingleElements = 1040;
inline constexpr int kSingleBlocks = 4;  // resident per multiprocessor, by the launch bounds

// The blocks of a wave, which are resident together, and the maximum of a grid.
inline std::int64_t single_wave(const Hardware& gpu) {
  return std::int64_t{kSingleBlocks} * std::max(gpu.multiprocessors, 1);
}
inline std::int64_t most_single_blocks(const Hardware& gpu) { return 2 * single_wave(gpu); }

// The numbers have 32 bits, because the kernel divides them. Problems that fit in memory have fewer
// than 2^32 items.
struct Items {
  unsigned columns = 0, rows = 0;  // ig and igp of a tile: 2^column_bits and 2^row_bits
  unsigned column_bits = 0, row_bits = 0;
  unsigned chunk = 0;              // maximum bands per chunk
  unsigned across = 0, tiles = 0;  // tiles along igp, and all tiles
  unsigned segment_length = 0;     // bands
  unsigned count = 0;              // of items
};

// Cycles of a multiprocessor per (band, igp, ig) of a pass, excluding FP64 instructions; and the
// additional cycles per element of aqsn or aqsm that is copied for a tile.
inline constexpr double kOtherCyclesOfItems = 0.39;  // H100
inline constexpr double kCyclesPerElement = 0.0012;  // H100

// The times of a pass with tiles of `elements` columns and rows.
constexpr PassTime single_pass_of(unsigned elements) {
  return {.instructions = 16, .other_cycles = kOtherCyclesOfItems + kCyclesPerElement * elements};
}

inline Items items_of(const Gpp& p, const Hardware& gpu) {
  Items items;
  if (p.empty()) return items;
  // Selects the fastest tile: with few threads outside the matrix and few elements to copy.
  std::int64_t best = 0;
  double least_cycles = 0;
  constexpr unsigned kBits = 7;
  static_assert(kSingleThreads == 1 << kBits);
  for (unsigned column_bits = 0; column_bits <= kBits; ++column_bits) {
    const unsigned columns = 1 << column_bits, rows = kSingleThreads / columns;
    const std::int64_t tiles = ceil_div(p.columns(), columns) * ceil_div(p.rows(), rows);
    const double cycles =
        static_cast<double>(tiles) *
        cycles_of(single_pass_of(columns + rows), gpu, p.frequencies() == 1 ? 1 : kMaxFrequencies);
    if (best != 0 && cycles >= least_cycles) continue;
    best = tiles;
    least_cycles = cycles;
    items.columns = columns;
    items.rows = rows;
    items.column_bits = column_bits;
    items.row_bits = kBits - column_bits;
  }
  items.tiles = static_cast<unsigned>(best);
  items.across = static_cast<unsigned>(ceil_div(p.rows(), items.rows));
  items.chunk = std::min<unsigned>(kSingleChunk, kSingleElements / (items.columns + items.rows));
  // Selects the number of segments with the shortest estimated time, in units of one band: an item
  // costs its bands plus kItem, and adding the partial sums of kBlocks blocks costs one. Items with
  // many terms of the second branch end later than the others, by the time of the bands of kTail
  // items.
  constexpr std::int64_t kItem = 8, kBlocks = 64, kTail = 2;
  const std::int64_t wave = single_wave(gpu);
  std::int64_t least = 0;
  const auto consider = [&](std::int64_t segments) {
    segments = std::clamp(segments, ceil_div(p.bands(), Gpp::kLongestSum), p.bands());
    const std::int64_t length = ceil_div(p.bands(), segments);
    const std::int64_t count = best * ceil_div(p.bands(), length);
    const std::int64_t time = ceil_div(count, wave) * (length + kItem) + kTail * length +
                              std::min(count, most_single_blocks(gpu)) / kBlocks;
    if (least != 0 && time >= least) return;
    least = time;
    items.segment_length = static_cast<unsigned>(length);
    items.count = static_cast<unsigned>(count);
  };
  for (std::int64_t segments = 1; segments < wave; segments *= 2) consider(segments);
  for (std::int64_t waves = 1; waves <= 8; ++waves) consider(waves * wave / best);
  return items;
}

inline Extent grid_of_items(const Gpp& p, Extent, const Hardware& gpu) {
  return {static_cast<unsigned>(
      std::clamp<std::int64_t>(items_of(p, gpu).count, 1, most_single_blocks(gpu)))};
}

inline double seconds_of_single_launch(const Gpp& p, const Hardware& gpu) {
  const Items items = items_of(p, gpu);
  return seconds_of(p, gpu,
                    {.launches_per_call = 0,
                     .operand_copies = 0,
                     .launches_per_pass = 0,
                     .kernels = 1,
                     .bands = p.bands(),
                     .pairs = std::int64_t{items.tiles} * kSingleThreads,
                     .segments = items.tiles == 0 ? 0 : items.count / items.tiles,
                     .segment_length = items.segment_length,
                     .resident_pairs = kSingleBlocks * kSingleThreads},
                    single_pass_of(items.columns + items.rows));
}

#ifdef __CUDACC__

// Each counter is the number of blocks of a launch that have stored their partial sums. It is 0
// before and after each launch. Concurrent launches must use different counters, so each launch
// uses the next one of kArrivalCounters. A graph can replay a launch at any time, so captured
// launches use a counter of the graph.
inline constexpr unsigned kArrivalCounters = 1 << 14;
__device__ unsigned arrivals[kArrivalCounters];

// Returns true in all threads of the block that calls this last. `counter`: an index of arrivals.
__device__ inline bool arrives_last(unsigned counter, unsigned* counter_of_graph) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned blocks = gridDim.x;
    unsigned* const arrived = counter_of_graph != nullptr ? counter_of_graph : &arrivals[counter];
    last = atomicInc(arrived, blocks - 1) == blocks - 1;  // wraps to 0
  }
  __syncthreads();
  return last;
}

template <int kF>
struct SingleStage {
  Complex elements[kSingleElements];  // aqsn: [band][ig], then aqsm: [band][igp]
  double wx[kSingleChunk][kF];
  double occ[kSingleChunk];
};

template <int kF>
__global__ void __launch_bounds__(kSingleThreads, kSingleBlocks)
    gpp_single_launch(Inputs p, Pass<kF> pass, Items items, unsigned counter,
                      unsigned* counter_of_graph, Complex* asx, Complex* ach) {
  __shared__ SingleStage<kF> stages[2];
  const unsigned thread = threadIdx.x;
  const unsigned column = thread & (items.columns - 1), row = thread >> items.column_bits;
  struct Item {
    std::int64_t first, last;  // bands [first, last)
    std::int64_t igp, ig;      // first pair
  };
  const auto item_at = [&](unsigned index) -> Item {
    const unsigned segment = index / items.tiles, tile = index - segment * items.tiles;
    const unsigned down = tile / items.across, across = tile - down * items.across;
    const std::int64_t first = std::int64_t{segment} * items.segment_length;
    return {first, min(first + items.segment_length, p.bands),
            std::int64_t{across} << items.row_bits, std::int64_t{down} << items.column_bits};
  };

  // The next chunk to be copied: the index of its item, its first band, and the end of the item.
  unsigned next_index = blockIdx.x;
  std::int64_t next_first = 0, next_last = 0;
  const Complex *next_aqsn = nullptr, *next_aqsm = nullptr;  // first copy of this thread
  bool copies_aqsn = false, copies_aqsm = false;
  const auto start_item = [&] {
    if (next_index >= items.count) return;
    const Item item = item_at(next_index);
    next_first = item.first;
    next_last = item.last;
    const std::int64_t ig = item.ig + column;
    const std::int64_t igp = item.igp + (thread & (items.rows - 1));
    copies_aqsn = ig < p.columns;
    copies_aqsm = igp < p.rows;
    next_aqsn = p.aqsn + (item.first + row) * p.columns + ig;
    next_aqsm = p.aqsm + (item.first + (thread >> items.row_bits)) * p.rows + igp;
  };
  const auto copy_chunk = [&](SingleStage<kF>& to) {
    if (next_index < items.count) {
      const auto bands =
          static_cast<unsigned>(min(next_last - next_first, std::int64_t{items.chunk}));
      if (copies_aqsn) {
        const Complex* from = next_aqsn;
#pragma unroll 1
        for (unsigned i = thread; i < bands << items.column_bits; i += kSingleThreads) {
          copy_element_async(&to.elements[i], from);
          from += items.rows * p.columns;
        }
      }
      if (copies_aqsm) {
        Complex* const aqsm = to.elements + (items.chunk << items.column_bits);
        const Complex* from = next_aqsm;
#pragma unroll 1
        for (unsigned i = thread; i < bands << items.row_bits; i += kSingleThreads) {
          copy_element_async(&aqsm[i], from);
          from += items.columns * p.rows;
        }
      }
      if (thread < bands * kF)
        copy_element_async(
            &to.wx[0][thread],
            &p.wx[(next_first + thread / kF) * p.frequencies + pass.first + thread % kF]);
      if (const unsigned k = kSingleThreads - 1 - thread; k < bands)
        copy_element_async(&to.occ[k], &p.occ[next_first + k]);
      next_first += bands;
      next_aqsn += bands * p.columns;
      next_aqsm += bands * p.rows;
      if (next_first == next_last) {
        next_index += gridDim.x;
        start_item();
      }
    }
    commit_copies();
  };

  ThreadSums<kF> sums;
  // Loads wtilde for the thread's pair of an item, and prefetches i_eps to L2.
  const auto pole_at = [&](unsigned index) {
    if (index >= items.count) return Complex{};
    const Item item = item_at(index);
    const std::int64_t igp = item.igp + row, ig = item.ig + column;
    if (igp >= p.rows || ig >= p.columns) return Complex{};
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p.i_eps + igp * p.columns + ig));
    return p.wtilde[igp * p.columns + ig];
  };
  start_item();
  copy_chunk(stages[0]);
  Complex next_w = pole_at(blockIdx.x);
  int stage = 0;
#pragma unroll 1
  for (unsigned index = blockIdx.x; index < items.count; index += gridDim.x) {
    const Item item = item_at(index);
    const std::int64_t igp = item.igp + row, ig = item.ig + column;
    const bool own = igp < p.rows && ig < p.columns;
    const Pole w = pole_of(p, next_w);
    next_w = pole_at(index + gridDim.x);
    PairSums<kF> pair_sums;
    Complex full_sch_b[kF] = {};  // of full bands
#pragma unroll 1
    for (std::int64_t first = item.first; first < item.last; first += items.chunk) {
      wait_for_copies<0>();
      // After the barrier, the copies of this chunk by all threads are complete, and all threads
      // have finished the previous chunk, whose stage the next copy overwrites.
      __syncthreads();
      const SingleStage<kF>& chunk = stages[stage];
      stage ^= 1;
      copy_chunk(stages[stage]);
      const Complex* aqsn = chunk.elements + column;
      const Complex* aqsm = chunk.elements + (items.chunk << items.column_bits) + row;
      const auto bands = static_cast<unsigned>(min(item.last - first, std::int64_t{items.chunk}));
#pragma unroll 1
      for (unsigned k = 0; k < bands; ++k, aqsn += items.columns, aqsm += items.rows) {
        const Complex m = conj(*aqsm) * *aqsn;
        const double occ = chunk.occ[k];
        double x[kF];
        int signs = 0;
#pragma unroll
        for (int f = 0; f < kF; ++f) {
          x[f] = chunk.wx[k][f];
          signs |= __double2hiint(x[f]);
        }
        // Integer comparisons do not use the FP64 pipe. The shift removes the sign, because the
        // occupation may be -0.
        const bool empty = (__double_as_longlong(occ) << 1) == 0;
        const bool full = __double_as_longlong(occ) == __double_as_longlong(1.0) && signs >= 0;
        if (empty) {
#pragma unroll
          for (int f = 0; f < kF; ++f) pair_sums.add_coulomb_hole(f, coulomb_hole(w, x[f]), m);
        } else if (full) {
#pragma unroll
          for (int f = 0; f < kF; ++f) {
            const Coefficients c = by_selection<true>(p, w, x[f], 1);
            multiply_add(full_sch_b[f], c.sch_b, m);
            multiply_add(pair_sums.sch[f], c.sch, m);
            pair_sums.add_exchange(f, c, m);
          }
        } else {
#pragma unroll
          for (int f = 0; f < kF; ++f) {
            const Coefficients c = by_selection<false>(p, w, x[f], occ);
            pair_sums.add(f, c, m);
          }
        }
      }
    }
#pragma unroll
    for (int f = 0; f < kF; ++f) {
      pair_sums.sch_b[f] += full_sch_b[f];
      pair_sums.ssx_b[f] += full_sch_b[f];
    }
    add_pair(
        p, pass, own, igp, ig, w, pair_sums, item.last - item.first,
        [&](std::int64_t i) { return item.first + i; }, sums);
    sums.next();
  }
  sums.store(pass);
  if (!arrives_last(counter, counter_of_graph)) return;
  __threadfence();
  constexpr int kCount = ThreadSums<kF>::kCount, kLanes = kSingleThreads / kCount;
  const int number = thread / kLanes;
  CompensatedSum<double> sum;
  constexpr int kLoads = 8;  // in flight
#pragma unroll 1
  for (std::int64_t first = thread % kLanes; first < pass.blocks; first += kLoads * kLanes) {
    double partials[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t block = first + i * kLanes;
      partials[i] = block < pass.blocks ? __ldcg(&pass.partials[number * pass.blocks + block]) : 0;
    }
#pragma unroll
    for (const double partial : partials) sum.add(partial);
  }
  const double total = sum_over_lanes<kLanes>(sum.total());
  if (thread % kLanes == 0) store_result(pass, number, total, asx, ach);
}

inline void run_single_launch(const Gpp& p, const Launch& go) {
  static std::atomic<unsigned> calls{0};
  unsigned* const of_graph = counter_of_graph(go);
  for (std::int64_t first = 0; first < p.frequencies(); first += kMaxFrequencies) {
    const auto run_pass = [&]<int kF>(std::integral_constant<int, kF>) {
      const Pass<kF> pass = {.first = first,
                             .blocks = volume_of(go.grid),
                             .partials = reinterpret_cast<double*>(go.scratch)};
      launch(go, gpp_single_launch<kF>, inputs_of(p), pass, items_of(p, go.hardware),
             calls++ % kArrivalCounters, of_graph, p.asx.as<Complex>(), p.ach.as<Complex>());
    };
    if (p.frequencies() - first == 1)
      run_pass(std::integral_constant<int, 1>{});
    else
      run_pass(std::integral_constant<int, kMaxFrequencies>{});
  }
}

#endif

// Full bands use the arithmetic of sorted_bands.
inline constexpr OperationCounts kSingleLaunchCosts{.flops = {36, 18, 6, 141},
                                                    .instructions = {22, 10, 4, 98}};

// Items of single_launch. Lanes outside the matrix execute the same operations as other lanes.
inline constexpr Decomposition kItems{
    .blocks = {{{kSingleThreads}}},
    .grid = grid_of_items,
    .scratch_bytes =
        [](const Gpp& p, const Hardware& gpu) {
          return partial_bytes(volume_of(grid_of_items(p, {}, gpu)));
        },
    .bytes = [](const Gpp& p, int,
                const Hardware& gpu) { return bytes_of_tiles(p, items_of(p, gpu).across, 0); },
    .work =
        [](const Gpp& p, std::int64_t threads, const Hardware& gpu) {
          const Items items = items_of(p, gpu);
          const std::int64_t segments = items.count / items.tiles;
          return work_of(p, std::int64_t{items.tiles} * kSingleThreads, segments,
                         iterations(std::int64_t{items.count} * kSingleThreads, threads));
        }};

inline constexpr Variant<Gpp> kSingleLaunch = with_costs<kSingleLaunchCosts, kItems>(
    {.name = "single_launch",
     .changes =
         {"Uses one launch per pass: does not sort, stages the operands in shared memory with "
          "asynchronous copies, and adds the partial sums in the block that finishes last.",
          Step::kInFlight, Step::kReuse, Step::kFusion},
     .run = ADO_RUN(run_single_launch)});

// -------------------------------------------------------------------------------------------------

}  // namespace ado::cuda::gpp
