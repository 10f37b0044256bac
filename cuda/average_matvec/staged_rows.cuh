// Averages of short rows: a block copies neighbouring rows to shared memory with loads of 16 bytes,
// and adds the elements of each row from there.
//
// Rows that are a few bytes long start anywhere within a vector. In global memory, one load per
// element and row would access most sectors several times. The copy to shared memory accesses each
// sector once, whatever the length and the alignment of the rows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "average_matvec/row_averages.cuh"
#include "common/async_copy.cuh"
#include "common/grid.cuh"

namespace ado::cuda {

// Distribution of rows over blocks and threads. `lanes` neighbouring lanes share a row.
struct StagedRows {
  int rows_per_block;
  int lanes;  // a power of two, at most 32
};

// A block stages up to kStagedBytes; fewer if the device would not have kFullBlocks blocks. Tuned
// on an H200 (132 multiprocessors).
inline constexpr std::int64_t kStagedBytes = 16 << 10;
inline constexpr std::int64_t kMinStagedBytes = 2 << 10;
inline constexpr std::int64_t kFullBlocks = 528;

// Without compensation, the error of a row is at most kMaxLaneTerms / 4 + 2 roundings in a lane,
// five over the lanes and one of the division (routines/average_matvec.hpp allows 32).
inline constexpr std::int64_t kMaxLaneTerms = 64;
inline constexpr std::int64_t kMaxStagedRow = 8 << 10;  // bytes

inline constexpr int kPreferredLaneTerms = 16;

inline int lanes_of_staged(std::int64_t rows, std::int64_t samples) {
  int lanes = 1;
  while (lanes < kWarpSize && 2 * lanes <= samples &&
         (ceil_div(samples, lanes) > kPreferredLaneTerms || rows * lanes < kAveragingThreads))
    lanes *= 2;
  return lanes;
}

inline StagedRows staged_rows_of(std::int64_t rows, std::int64_t samples, int element_bytes) {
  const std::int64_t row_bytes = samples * element_bytes;
  const std::int64_t most = std::max<std::int64_t>(kStagedBytes / row_bytes, 1);
  const std::int64_t least = std::min(most, ceil_div(kMinStagedBytes, row_bytes));
  std::int64_t count = std::clamp(ceil_div(rows, kFullBlocks), least, most);
  if (count > kAveragingThreads) count -= count % kAveragingThreads;
  return {.rows_per_block = static_cast<int>(count), .lanes = lanes_of_staged(count, samples)};
}

// Staged rows may begin within a vector, and end within another.
inline std::size_t bytes_of_staged(std::int64_t rows, std::int64_t samples, int element_bytes) {
  return static_cast<std::size_t>(rows * samples * element_bytes + 2 * kVectorBytes);
}

#ifdef __CUDACC__

// Copies elements [first, first + count) of an array of `elements` to shared memory, and returns
// where the first one is. The copies consist of whole vectors, except at the ends of the array.
// Contains a barrier.
template <class T>
__device__ const T* stage(T* shared, const T* array, std::int64_t elements, std::int64_t first,
                          int count) {
  constexpr int kLength = kVectorLength<T>;
  const int before =
      static_cast<int>(reinterpret_cast<std::uintptr_t>(array + first) / sizeof(T) % kLength);
  const int vectors = (before + count + kLength - 1) / kLength;
  const std::int64_t start = first - before;  // of vector 0
  for (int vector = threadIdx.x; vector < vectors; vector += blockDim.x) {
    const std::int64_t from = start + vector * kLength;
    T* const to = shared + vector * kLength;
    if (from >= 0 && from + kLength <= elements) {
      copy_vector_async(shared_address(to), array + from, kVectorBytes);
    } else {
      for (int i = 0; i < kLength; ++i)
        if (from + i >= 0 && from + i < elements) copy_element_async(to + i, array + from + i);
    }
  }
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();
  return shared + before;
}

// Adds the elements of each of `rows` staged rows, and calls store(row, sum) in one thread per row.
//
// Each lane starts at a different element of its row, so that the lanes of a warp access different
// banks. With rows of 16 elements of four bytes, 32 banks and one lane per row:
//
//   lane                    0   1   2   3  ...  30  31
//   bank of element 0       0  16   0  16  ...   0  16   16-way bank conflict
//   first element           0   0   1   1  ...  15  15
//   bank of first element   0  16   1  17  ...  15  31   no conflict
template <class T, class Store>
__device__ void sum_staged_rows(const T* staged, int rows, int samples, int lanes, Store store) {
  constexpr int kPhaseLanes = 128 / static_cast<int>(sizeof(T));  // served together
  const int thread = threadIdx.x, lane = thread & (lanes - 1), log_lanes = __ffs(lanes) - 1;
  const int row_in_block = thread >> log_lanes, rows_per_pass = blockDim.x >> log_lanes;
  const int steps = (samples + lanes - 1) >> log_lanes, end = steps << log_lanes;
  int start = lane;
  if (const int phase_rows = kPhaseLanes >> log_lanes; phase_rows > 1) {
    const int repeats = min(__ffs(samples >> log_lanes) - 1, __ffs(phase_rows) - 1);
    start += (row_in_block & (phase_rows - 1)) * (1 << repeats) / phase_rows * lanes;
  }
  for (int first = 0; first < rows; first += rows_per_pass) {
    const int row = first + row_in_block;
    const T* const elements = staged + static_cast<std::int64_t>(row) * samples;
    T sums[4] = {};
    if (row < rows) {
      int at = start;
      for (int step = 0; step < steps; step += 4)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (step + i < steps && at < samples) sums[i] += elements[at];
          at += lanes;
          if (at >= end) at -= end;
        }
    }
    T sum = pairwise_sum(sums);
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(kAllLanes, sum, distance);
    if (row < rows && lane == 0) store(row, sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kAveragingThreads)
    average_matvec_staged_average(SampleRows<T> p, StagedRows plan, T* averages) {
  extern __shared__ __align__(kVectorBytes) std::byte shared[];
  allow_next_kernel();
  const std::int64_t first = std::int64_t{blockIdx.x} * plan.rows_per_block;
  const int rows =
      static_cast<int>(min(std::int64_t{plan.rows_per_block}, p.rows - first));
  const int samples = static_cast<int>(p.samples);
  const T* const staged = stage(reinterpret_cast<T*>(shared), p.data, p.rows * p.samples,
                                first * samples, rows * samples);
  sum_staged_rows(staged, rows, samples, plan.lanes, [&](int row, T sum) {
    averages[first + row] = sum / static_cast<T>(samples);
  });
}

#endif

}  // namespace ado::cuda
