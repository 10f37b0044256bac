// average_matvec, engine: overlapped, the product while the vectors are still being read.
#pragma once

#include "average_matvec/engine/product_tile.cuh"

#include <algorithm>

namespace ado::cuda {
namespace {

// ---- overlapped ---------------------------------------------------------------------------------
// One kernel averages and multiplies at the same time.
//
// Sets are divided into groups. Some blocks average the rows of a group. After `lag` more averaging
// blocks, other blocks multiply the group's tiles, while the next groups are averaged. With 4
// averaging blocks (a) and 2 tiles (P) per group, and a lag of 3, blocks start in this order:
//
//   a0 a0 a0 a0 a1 a1 a1 P0 P0 a1 a2 a2 a2 P1 P1 a2 ... | tiles of the last sets
//
// The last sets do not form a group. Their product is computed after all averages, in smaller
// tiles, so that all multiprocessors share the work.
//
// Deadlock is not possible if blocks start in the order of their indices, on any number of
// multiprocessors and with any lag: only multiplying blocks wait, and only for averages of blocks
// with lower indices, which wait for nothing. CUDA does not document this order, but CUB's scans
// rely on it, too. The lag only determines how long multiplying blocks wait.
//
// Averaging blocks need no more synchronisation than the blocks of wide_average. With tickets
// instead of the block order, and with fences and counters instead of published words, averaging
// alone took 1122 to 1167 us, longer than both together take now (N = L = M = 1024 in float32,
// H200).
// Small tiles, so that few sets are left after the last average, and even smaller tiles for these
// sets (tuned on an H200).
template <class T>
using MainTile = ProductTile<T, 32, 32, 512>;
template <class T>
using LastTile = ProductTile<T, 8, 16, 512>;

template <class T>
constexpr std::size_t kOverlappedBytes = std::max(MainTile<T>::kSharedBytes,
                                                  LastTile<T>::kSharedBytes);
constexpr int kOverlappedBlocks = 3;  // resident per multiprocessor, limited by registers

constexpr std::int64_t kMinLastSets = 16, kMinGroupAveragers = 64;  // tuned on an H200

// The number of averaging blocks between a group and its product: the number of resident blocks and
// a few more. The averages of the group are then complete when its product starts.
template <class T>
std::int64_t lag_of(const Hardware& gpu) {
  constexpr std::int64_t kMore = 4, kReservedBytes = 1 << 10;  // of shared memory per block
  const std::int64_t fit = gpu.shared_bytes_per_multiprocessor /
                           (static_cast<std::int64_t>(kOverlappedBytes<T>) + kReservedBytes);
  return std::clamp<std::int64_t>(fit, 1, kOverlappedBlocks) * gpu.multiprocessors + kMore;
}

struct OverlapSchedule {
  std::int64_t group_sets;
  unsigned groups;           // number of groups, without the last sets
  unsigned group_averagers;  // averaging blocks per group
  unsigned group_tiles;      // multiplying blocks per group
  unsigned lag;              // averaging blocks between a group's last one and its product
  unsigned first_last_tile;  // the first block that multiplies the last sets
  unsigned tiles_down, last_tiles_down;
  unsigned blocks;
};

OverlapSchedule schedule_of(const AverageMatvec& p, const Hardware& gpu) {
  return with_type_and_lanes(p, [&]<class T>(T, auto lanes) -> OverlapSchedule {
    using Main = MainTile<T>;
    using Last = LastTile<T>;
    const auto averagers = [&](std::int64_t sets) {
      return ceil_div(sets * p.length(), sharing_of<lanes, T>(p).rows_per_block);
    };
    // Sets of short vectors are read quickly, so a group is more than one tile wide.
    const std::int64_t tiles_across =
        ceil_div(kMinGroupAveragers, std::max<std::int64_t>(averagers(Main::kSets), 1));
    const std::int64_t group_sets = tiles_across * Main::kSets;
    const std::int64_t grouped = std::max<std::int64_t>(p.sets() - kMinLastSets, 0);
    const std::int64_t groups = grouped / group_sets, last_sets = p.sets() - groups * group_sets;
    const std::int64_t tiles_down = ceil_div(p.length(), Main::kRows);
    const std::int64_t last_tiles_down = ceil_div(p.length(), Last::kRows);
    const std::int64_t lag = std::min(lag_of<T>(gpu), averagers(last_sets));
    const std::int64_t first_last_tile =
        std::max(averagers(p.sets()), lag + groups * averagers(group_sets)) +
        groups * tiles_across * tiles_down;
    const auto narrow = [](std::int64_t x) { return static_cast<unsigned>(x); };
    return {.group_sets = group_sets,
            .groups = narrow(groups),
            .group_averagers = narrow(averagers(group_sets)),
            .group_tiles = narrow(tiles_across * tiles_down),
            .lag = narrow(lag),
            .first_last_tile = narrow(first_last_tile),
            .tiles_down = narrow(tiles_down),
            .last_tiles_down = narrow(last_tiles_down),
            .blocks = narrow(first_last_tile + last_tiles_down * ceil_div(last_sets, Last::kSets))};
  });
}

#ifdef __CUDACC__

template <int kLanes, class T>
__global__ void __launch_bounds__(kAveragingThreads, kOverlappedBlocks)
    average_matvec_overlapped(SampleRows<T> rows, ProductOperands<T> p, T* averages,
                              OverlapSchedule schedule) {
  extern __shared__ __align__(kVectorBytes) std::byte bytes[];
  T* const shared = reinterpret_cast<T*>(bytes);
  const unsigned block = blockIdx.x;
  if (block >= schedule.first_last_tile) {
    using Tile = LastTile<T>;
    const unsigned tile = block - schedule.first_last_tile, down = schedule.last_tiles_down;
    multiply_tile<Tile, true>(
        p, static_cast<int>(tile % down) * Tile::kRows,
        schedule.groups * schedule.group_sets + std::int64_t{tile / down} * Tile::kSets, shared);
    return;
  }
  unsigned averager = block;  // index among the averaging blocks
  if (block >= schedule.lag) {
    // After the lag, blocks repeat with a period of one group's averaging and multiplying blocks.
    const unsigned since_lag = block - schedule.lag,
                   period = schedule.group_averagers + schedule.group_tiles;
    const unsigned group = min(since_lag / period, schedule.groups),
                   in_period = since_lag - group * period;
    if (group < schedule.groups && in_period >= schedule.group_averagers) {
      using Tile = MainTile<T>;
      const unsigned tile = in_period - schedule.group_averagers, down = schedule.tiles_down;
      multiply_tile<Tile, true>(
          p, static_cast<int>(tile % down) * Tile::kRows,
          group * schedule.group_sets + std::int64_t{tile / down} * Tile::kSets, shared);
      return;
    }
    averager -= group * schedule.group_tiles;
  }
  average_rows_of<kLanes>(rows, averager, shared, [&](std::int64_t row, T average) {
    Published<T>::store(averages + row, average);
  });
}

#endif

constexpr Variant<AverageMatvec> kOverlapped = {
    .name = "overlapped",
    .changes = {"Overlaps the product of averaged sets with the read of the next sets.",
                Step::kFusion},
    .blocks = {{{kAveragingThreads}}},
    .grid = [](const AverageMatvec& p, Extent,
               const Hardware& gpu) { return Extent{schedule_of(p, gpu).blocks}; },
    .shared_bytes =
        [](const AverageMatvec& p, Extent) {
          return with_real(p.vectors.type, []<class T>(T) { return kOverlappedBytes<T>; });
        },
    .scratch_bytes = bytes_of_averages,
    .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
      with_type_and_lanes(p, [&]<class T>(T, auto lanes) {
        T* const averages = averages_of<T>(go);
        clear(go, averages, bytes_of_averages(p));
        launch(go, average_matvec_overlapped<lanes, T>, rows_of<lanes, T>(p),
               product_of<T>(p, averages), averages, schedule_of(p, go.hardware));
      });
    })};

}  // namespace
}  // namespace ado::cuda
