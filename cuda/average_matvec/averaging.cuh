// Averages of all rows. The number and the length of the rows determine the kernel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "average_matvec/dependent_launch.cuh"
#include "average_matvec/row_averages.cuh"
#include "average_matvec/split_rows.cuh"
#include "routines/average_matvec.hpp"

namespace ado::cuda {

enum class Averaging : std::uint8_t {
  kNone,   // M = 1: the averages are the vectors
  kRows,   // lanes or warps of one block per row
  kSplit,  // several blocks per row
};

struct AveragingPlan {
  Averaging kind = Averaging::kNone;
  std::int64_t blocks = 0;
  SplitRows split = {.parts = 1, .part_samples = 0};
};

// The number of blocks that occupies the whole device. Tuned on an H200 (132 multiprocessors).
inline constexpr std::int64_t kFullBlocks = 528;

// Like sharing_of(), but rows that need whole warps are shared by more warps, until there are
// kFullBlocks blocks or one row per block.
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
  plan.split = split_rows_of(rows, samples, element_bytes);
  plan.kind = plan.split.parts > 1 ? Averaging::kSplit : Averaging::kRows;
  plan.blocks =
      plan.split.parts > 1 ? rows * plan.split.parts : with_lanes(row_bytes, [&](auto lanes) {
        return ceil_div(rows, sharing_for<lanes>(rows, row_bytes).rows_per_block);
      });
  return plan;
}

inline AveragingPlan averaging_of(const AverageMatvec& p) {
  return averaging_plan(p.sets() * p.length(), p.samples(), p.vectors.type.size);
}

// Bytes of scratch memory, which contains the averages, then the sums of the parts.
inline std::size_t scratch_of_averaging(const AverageMatvec& p) {
  const AveragingPlan plan = averaging_of(p);
  if (plan.kind == Averaging::kNone) return 0;
  const std::int64_t sums = plan.split.parts > 1 ? plan.split.parts : 0;
  return static_cast<std::size_t>(p.sets() * p.length() * (1 + sums) * p.vectors.type.size);
}

#ifdef __CUDACC__

// Launches the kernels that compute the averages. Returns the address of the averages.
template <class T>
const T* launch_averaging(const Launch& go, const AverageMatvec& p) {
  const AveragingPlan plan = averaging_of(p);
  const std::int64_t rows = p.sets() * p.length(), samples = p.samples();
  const T* const vectors = p.vectors.as<const T>();
  T* const averages = reinterpret_cast<T*>(go.scratch);
  Launch averaging = go;
  averaging.grid = {static_cast<unsigned>(plan.blocks)};
  switch (plan.kind) {
    case Averaging::kNone:
      return vectors;
    case Averaging::kRows:
      with_lanes(samples * std::int64_t{sizeof(T)}, [&](auto lanes) {
        const RowSharing sharing = sharing_for<lanes>(rows, samples * std::int64_t{sizeof(T)});
        launch(averaging, average_matvec_row_average<lanes, T>,
               SampleRows<T>{vectors, rows, samples, sharing}, averages);
      });
      break;
    case Averaging::kSplit: {
      T* const sums = averages + rows;
      launch(averaging, average_matvec_split_sums<T>, SampleRows<T>{vectors, rows, samples, {}},
             plan.split, sums);
      averaging.grid = {static_cast<unsigned>(rows)};
      launch_with({.dependent = true}, averaging, average_matvec_combine<T>, sums, plan.split.parts,
                  static_cast<T>(samples), averages);
      break;
    }
  }
  return averages;
}

#endif

}  // namespace ado::cuda
