// average_matvec, engine: averages of all rows, and split_average_then_gemm. The number and the
// length of the rows determine the kernel.
#pragma once

#include "average_matvec/engine/row_averages.cuh"
#include "common/dependent_launch.cuh"

#include <algorithm>

namespace ado::cuda {
namespace {

// ---- split_average_then_gemm, row_product -------------------------------------------------------
// Averages of long rows. Each row is split into parts, with one block per part:
//
//   row 0  | part 0 | part 1 | part 2 | part 3 |
//   row 1  | part 0 | ...
//
// With few rows, one block per row would leave most multiprocessors idle. With many rows, parts of
// equal size keep the last wave of blocks short. A second kernel adds the parts of each row in a
// fixed order, so repeated calls return identical bits.

struct SplitRows {
  std::int64_t parts;         // per row
  std::int64_t part_samples;  // the last part of a row may be shorter
};

// Tuned on an H200.
constexpr std::int64_t kMaxPartBytes = 128 << 10, kMinPartBytes = 8 << 10;
constexpr std::int64_t kMaxParts = 4096;  // if parts exceed kMaxPartBytes
constexpr std::int64_t kLongRow = 1 << 20;
// Bytes that one block reads in the time of the second kernel, 2 us.
constexpr std::int64_t kBlockBytes = 92 << 10;

// The number of rows, with one block each, that saturates DRAM.
std::int64_t saturating_rows(const Hardware& gpu) {
  constexpr double kBlockBandwidth = 51.2e9;  // at the peak rate; a block reads 47 GB/s (H200)
  constexpr std::int64_t kUnit = 8;           // the rate of a block is known to a few per cent
  const auto rows = static_cast<std::int64_t>(gpu.memory_bandwidth / kBlockBandwidth + kUnit / 2);
  return std::clamp<std::int64_t>(rows / kUnit * kUnit, kUnit,
                                  std::max<std::int64_t>(resident_averagers(gpu), kUnit));
}

// Returns true if splitting saves more time than the second kernel takes. Long rows are always
// split, because their blocks would end at different times.
bool worth_splitting(std::int64_t rows, std::int64_t row_bytes, const Hardware& gpu) {
  const std::int64_t busy = saturating_rows(gpu);
  return row_bytes >= kLongRow || row_bytes * (busy - rows) > busy * kBlockBytes;
}

SplitRows split_rows_of(std::int64_t rows, std::int64_t samples, int element_bytes,
                        const Hardware& gpu) {
  const std::int64_t row_bytes = samples * element_bytes;
  if (!worth_splitting(rows, row_bytes, gpu)) return {.parts = 1, .part_samples = samples};
  const std::int64_t part_bytes = std::max(kMaxPartBytes, rows * row_bytes / kMaxParts);
  const std::int64_t busy =
      std::min(ceil_div(resident_averagers(gpu), rows), row_bytes / kMinPartBytes);
  const std::int64_t wanted = std::max(busy, ceil_div(row_bytes, part_bytes));
  constexpr std::int64_t kUnit = 128;  // elements; parts start at the same offset in a sector
  const std::int64_t part_samples = ceil_div(ceil_div(samples, wanted), kUnit) * kUnit;
  return {.parts = ceil_div(samples, part_samples), .part_samples = part_samples};
}

#ifdef __CUDACC__

// Returns the sum over the block in thread 0. `warp_sums` has kAveragingWarps elements in shared
// memory.
template <class T>
__device__ T sum_over_block(T own, T* warp_sums) {
  const T warp_sum = sum_over_lanes(own);
  if (threadIdx.x % kWarpSize == 0) warp_sums[threadIdx.x / kWarpSize] = warp_sum;
  __syncthreads();
  T sum = 0;
  if (threadIdx.x == 0)
#pragma unroll
    for (int i = 0; i < kAveragingWarps; ++i) sum += warp_sums[i];
  return sum;
}

// Writes the sum of each part.
template <class T>
__global__ void __launch_bounds__(kAveragingThreads, kAveragingBlocks)
    average_matvec_split_sums(SampleRows<T> p, SplitRows split, T* sums) {
  __shared__ T warp_sums[kAveragingWarps];
  allow_next_kernel();
  constexpr int kWarpVectors = kVectorsPerThread * kWarpSize;
  const std::int64_t row = blockIdx.x / split.parts, part = blockIdx.x % split.parts;
  const std::int64_t first = part * split.part_samples;
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const T own = sum_of_lane<kWarpSize>(p.data + row * p.samples + first,
                                       min(split.part_samples, p.samples - first),
                                       warp * kWarpVectors + lane, kAveragingWarps * kWarpVectors);
  const T sum = sum_over_block(own, warp_sums);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One block per row adds the sums of its parts.
template <class T>
__global__ void __launch_bounds__(kAveragingThreads)
    average_matvec_combine(const T* sums, std::int64_t parts, T samples, T* averages) {
  __shared__ T warp_sums[kAveragingWarps];
  allow_next_kernel();
  wait_for_previous_kernel();
  CompensatedSum<T> own;
  for (std::int64_t part = threadIdx.x; part < parts; part += kAveragingThreads)
    own.add(sums[blockIdx.x * parts + part]);
  const T sum = sum_over_block(own.total(), warp_sums);
  if (threadIdx.x == 0) averages[blockIdx.x] = sum / samples;
}

// Averages of rows that are not split (row_averages.cuh).
template <int kLanes, class T>
__global__ void __launch_bounds__(kAveragingThreads, kAveragingBlocks)
    average_matvec_row_average(SampleRows<T> rows, T* averages) {
  __shared__ T warp_sums[kAveragingWarps];
  allow_next_kernel();
  average_rows_of<kLanes>(rows, blockIdx.x, warp_sums,
                          [&](std::int64_t row, T average) { averages[row] = average; });
}

#endif

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

// Like sharing_of(), but rows that need whole warps are shared by more warps, until the blocks
// occupy the whole device or have one row each.
template <int kLanes>
RowSharing sharing_for(std::int64_t rows, std::int64_t row_bytes, const Hardware& gpu) {
  RowSharing sharing = sharing_of<kLanes>(row_bytes);
  while (kLanes == kWarpSize && sharing.rows_per_block > 1 &&
         ceil_div(rows, sharing.rows_per_block) < resident_averagers(gpu)) {
    sharing.warps_per_row *= 2;
    sharing.rows_per_block /= 2;
  }
  return sharing;
}

AveragingPlan averaging_of(const AverageMatvec& p, const Hardware& gpu) {
  const std::int64_t rows = p.sets() * p.length(), samples = p.samples();
  const int element_bytes = p.vectors.type.size;
  AveragingPlan plan;
  const std::int64_t row_bytes = samples * element_bytes;
  if (samples == 1 || rows == 0) return plan;
  plan.split = split_rows_of(rows, samples, element_bytes, gpu);
  plan.kind = plan.split.parts > 1 ? Averaging::kSplit : Averaging::kRows;
  plan.blocks =
      plan.split.parts > 1 ? rows * plan.split.parts : with_lanes(row_bytes, [&](auto lanes) {
        return ceil_div(rows, sharing_for<lanes>(rows, row_bytes, gpu).rows_per_block);
      });
  return plan;
}

// Bytes of scratch memory, which contains the averages, then the sums of the parts.
std::size_t scratch_of_averaging(const AverageMatvec& p, const Hardware& gpu) {
  const AveragingPlan plan = averaging_of(p, gpu);
  if (plan.kind == Averaging::kNone) return 0;
  const std::int64_t sums = plan.split.parts > 1 ? plan.split.parts : 0;
  return static_cast<std::size_t>(p.sets() * p.length() * (1 + sums) * p.vectors.type.size);
}

#ifdef __CUDACC__

// Launches the kernels that compute the averages. Returns the address of the averages.
template <class T>
const T* launch_averaging(const Launch& go, const AverageMatvec& p) {
  const AveragingPlan plan = averaging_of(p, go.hardware);
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
        const RowSharing sharing =
            sharing_for<lanes>(rows, samples * std::int64_t{sizeof(T)}, go.hardware);
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

// ---- split_average_then_gemm --------------------------------------------------------------------
constexpr Variant<AverageMatvec> kSplitAverageThenGemm = {
    .name = "split_average_then_gemm",
    .changes = {"Splits long rows across several blocks, skips averaging if M is 1, and computes "
                "the product with cuBLAS.",
                Step::kParallelism, Step::kOperations},
    .why_not = why_not_library,
    .blocks = {{{kAveragingThreads}}},
    .grid = [](const AverageMatvec& p, Extent,
               const Hardware& gpu) { return blocks_for(averaging_of(p, gpu).blocks); },
    .scratch_bytes = scratch_of_averaging,
    .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
      with_real(p.vectors.type,
                [&]<class T>(T) { multiply_with_library<T>(p, go, launch_averaging<T>(go, p)); });
    })};

}  // namespace
}  // namespace ado::cuda
