// Averages of all rows, by the kernel that suits their number and length.
#pragma once

#include <algorithm>
#include <cstdint>

#include "average_matvec/dependent_launch.cuh"
#include "average_matvec/row_averages.cuh"
#include "average_matvec/split_rows.cuh"
#include "average_matvec/staged_rows.cuh"

namespace ado::cuda {

enum class Averaging : std::uint8_t {
  kNone,    // M = 1: the vectors are their own averages
  kStaged,  // copied to shared memory first
  kRows,    // some lanes or warps per row
  kSplit,   // several blocks per row
};

struct AveragingPlan {
  Averaging kind = Averaging::kNone;
  std::int64_t blocks = 0;
  std::size_t shared_bytes = 0;
  StagedRows staged = {};
  SplitRows split = {.parts = 1, .part_samples = 0};
};

// Rows of these lengths are staged: one lane per row would access a different sector (32 bytes) or
// cache line (128 bytes) per lane. Tuned on an H200 (132 multiprocessors).
inline bool worth_staging(std::int64_t row_bytes) {
  return (row_bytes > 20 && row_bytes <= 32) || (row_bytes > 100 && row_bytes <= 128);
}

// Like sharing_of(), but with at least kFullBlocks blocks if there are enough warps.
template <int kLanes>
RowSharing sharing_for(std::int64_t rows, std::int64_t row_bytes) {
  RowSharing sharing = sharing_of<kLanes>(row_bytes);
  while (kLanes == kWarpSize && sharing.rows_per_block > 1 &&
         ceil_div(rows, sharing.rows_per_block) < kFullBlocks) {
    sharing.warps_per_row *= 2;
    sharing.rows_per_block /= 2;
  }
  return sharing;
}

inline AveragingPlan averaging_plan(std::int64_t rows, std::int64_t samples, int element_bytes) {
  AveragingPlan plan;
  const std::int64_t row_bytes = samples * element_bytes;
  if (samples == 1 || rows == 0) return plan;
  if (worth_staging(row_bytes)) {
    plan.kind = Averaging::kStaged;
    plan.staged = staged_rows_of(rows, samples, element_bytes);
    plan.blocks = ceil_div(rows, plan.staged.rows_per_block);
    plan.shared_bytes = bytes_of_staged(plan.staged.rows_per_block, samples, element_bytes);
    return plan;
  }
  plan.split = split_rows_of(rows, samples, element_bytes);
  plan.kind = plan.split.parts > 1 ? Averaging::kSplit : Averaging::kRows;
  plan.blocks = plan.split.parts > 1
                    ? rows * plan.split.parts
                    : with_lanes(row_bytes, [&](auto lanes) {
                        return ceil_div(rows, sharing_for<lanes>(rows, row_bytes).rows_per_block);
                      });
  return plan;
}

// Scratch memory: the averages, then the sums of the parts.
inline std::int64_t averaging_elements(std::int64_t rows, const AveragingPlan& plan) {
  return plan.kind == Averaging::kNone ? 0
                                       : rows + (plan.split.parts > 1 ? rows * plan.split.parts : 0);
}

#ifdef __CUDACC__

// Computes the averages, and returns where they are.
template <class T>
const T* launch_averaging(const Launch& go, const AveragingPlan& plan, const T* vectors,
                          std::int64_t rows, std::int64_t samples) {
  T* const averages = reinterpret_cast<T*>(go.scratch);
  const SampleRows<T> from{vectors, rows, samples, {}};
  Launch averaging = go;
  averaging.grid = {static_cast<unsigned>(plan.blocks)};
  averaging.block = {kAveragingThreads};
  averaging.shared_bytes = plan.shared_bytes;
  switch (plan.kind) {
    case Averaging::kNone:
      return vectors;
    case Averaging::kStaged:
      launch(averaging, average_matvec_staged_average<T>, from, plan.staged, averages);
      break;
    case Averaging::kRows:
      with_lanes(samples * std::int64_t{sizeof(T)}, [&](auto lanes) {
        const RowSharing sharing = sharing_for<lanes>(rows, samples * std::int64_t{sizeof(T)});
        launch(averaging, average_matvec_row_average<lanes, T>,
               SampleRows<T>{vectors, rows, samples, sharing}, averages);
      });
      break;
    case Averaging::kSplit: {
      T* const sums = averages + rows;
      launch(averaging, average_matvec_split_sums<T>, from, plan.split, sums);
      averaging.grid = {static_cast<unsigned>(rows)};
      launch_with({.dependent = true}, averaging, average_matvec_combine<T>, sums,
                  plan.split.parts, static_cast<T>(samples), averages);
      break;
    }
  }
  return averages;
}

#endif

}  // namespace ado::cuda
