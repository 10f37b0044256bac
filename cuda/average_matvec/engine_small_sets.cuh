// Small problems: one launch, in which each block computes all results of a few sets.
//
// The time of a small problem is the latency of one launch and one DRAM access. Each block
// therefore issues all its loads at once: the vectors of its sets and the whole matrix. It then
// averages and multiplies in shared memory. With cold caches, instructions are fetched from DRAM as
// well. The kernel is therefore short: it copies single elements, which requires no code for
// alignment, and it multiplies by 1 / M.
//
// tiny_matrix does the same for many sets and a matrix of at most 16 rows. There, the bytes in
// flight matter, so the rows are averaged with wide loads (engine_row_averages.cuh).
#pragma once

#include <algorithm>

#include "average_matvec/engine_product_tile.cuh"
#include "common/async_copy.cuh"

namespace ado::cuda {

inline constexpr int kSmallThreads = 256;
inline constexpr int kSmallBlocks = 4;                       // per multiprocessor, to hide latency
inline constexpr std::int64_t kSmallVectorBytes = 24 << 10;  // vectors and averages per block
inline constexpr std::int64_t kSmallMatrixBytes = 16 << 10;

struct SmallPlan {
  int log_sets = 0;   // sets per block
  int log_lanes = 0;  // lanes per row
  int rotation = 0;   // 0, or a power of two minus 1
  std::int64_t blocks = 0;
  std::size_t shared_bytes = 0;
};

inline SmallPlan small_plan(const AverageMatvec& p, const Hardware& gpu) {
  constexpr Tuned<std::int64_t> kMinBytes{2 << 10, "H200"};
  const std::int64_t busy = std::int64_t{kSmallBlocks} * gpu.multiprocessors;
  const std::int64_t element = p.vectors.type.size, length = p.length(), samples = p.samples();
  const std::int64_t set_bytes = length * (samples + 1) * element;
  SmallPlan plan;
  const auto blocks = [&](int log_sets) { return ceil_div(p.sets(), std::int64_t{1} << log_sets); };
  while (plan.log_sets < 10 && blocks(plan.log_sets) > 1) {
    const std::int64_t doubled = set_bytes << (plan.log_sets + 1);
    if (doubled > (blocks(plan.log_sets + 1) >= busy ? kSmallVectorBytes / 2 : kMinBytes.on(gpu)))
      break;
    ++plan.log_sets;
  }
  const std::int64_t rows = length << plan.log_sets;
  while (plan.log_lanes < 5 && (1 << plan.log_lanes) < samples &&
         ((rows << plan.log_lanes) < kSmallThreads || (samples >> plan.log_lanes) > 8))
    ++plan.log_lanes;
  // If L is a multiple of 8, the elements of a column of the matrix are in few banks, which causes
  // bank conflicts. The same holds for the averages of one element of all sets.
  if (length % 8 == 0)
    while (plan.rotation < kWarpSize - 1 && 2 * plan.rotation + 1 < length)
      plan.rotation = 2 * plan.rotation + 1;
  plan.blocks = blocks(plan.log_sets);
  plan.shared_bytes = static_cast<std::size_t>((rows * (samples + 1) + length * length) * element);
  return plan;
}

// Sums are not compensated. Each lane adds M / 32 numbers to kSmallSums sums in rotation. The error
// is at most 22 roundings for these sums, two for their total, five for the reduction over the
// lanes, and two for the multiplication by 1 / M (routines/average_matvec.hpp allows 32).
inline constexpr int kSmallSums = 4;
inline constexpr std::int64_t kMaxSmallSamples = 22 * kSmallSums * kWarpSize;

inline const char* why_not_small(const AverageMatvec& p) {
  const std::int64_t element = p.vectors.type.size;
  if (p.length() * p.length() * element > kSmallMatrixBytes)
    return "the matrix exceeds 16 KiB, its share of shared memory";
  if (p.length() * (p.samples() + 1) * element > kSmallVectorBytes)
    return "the vectors and averages of one set exceed 24 KiB, their share of shared memory";
  if (p.samples() > kMaxSmallSamples) return "M exceeds 2816, the limit for uncompensated sums";
  return nullptr;
}

// With many sets, wide loads are faster than copies of single elements.
inline const char* why_small_slower(const AverageMatvec& p, const Hardware& gpu) {
  constexpr Tuned<double> kWorkPerMultiprocessor{53030.305, "H200"};  // 7 million operations
  const double work = static_cast<double>(p.sets()) * static_cast<double>(p.length()) *
                      static_cast<double>(p.length() + p.samples());
  return work > kWorkPerMultiprocessor.on(gpu) * gpu.multiprocessors
             ? "there are enough sets for kernels with wide loads"
             : nullptr;
}

#ifdef __CUDACC__

template <class T>
struct SmallOperands {
  const T *vectors, *matrix;
  T* out;
  std::int64_t sets;
  int length, samples, log_sets, log_lanes, rotation;
  T scale;  // 1 / samples
};

template <class T>
SmallOperands<T> small_operands(const AverageMatvec& p, const Hardware& gpu) {
  const SmallPlan plan = small_plan(p, gpu);
  return {.vectors = p.vectors.as<const T>(),
          .matrix = p.matrix.as<const T>(),
          .out = p.out.as<T>(),
          .sets = p.sets(),
          .length = static_cast<int>(p.length()),
          .samples = static_cast<int>(p.samples()),
          .log_sets = plan.log_sets,
          .log_lanes = plan.log_lanes,
          .rotation = plan.rotation,
          .scale = T(1) / static_cast<T>(p.samples())};
}

template <class T>
__device__ void copy_elements_async(T* to, const T* from, int count) {
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += kSmallThreads) copy_element_async(to + i, from + i);
}

template <class T>
__global__ void __launch_bounds__(kSmallThreads) average_matvec_small_sets(SmallOperands<T> p) {
  extern __shared__ __align__(kVectorBytes) std::byte shared[];
  const std::int64_t first_set = std::int64_t{blockIdx.x} << p.log_sets;
  const int exist = static_cast<int>(min(p.sets - first_set, std::int64_t{1} << p.log_sets));
  const int rows = exist * p.length, thread = threadIdx.x;
  T* const matrix = reinterpret_cast<T*>(shared);
  T* const averages = matrix + p.length * p.length;
  T* const vectors = averages + rows;
  copy_elements_async(vectors, p.vectors + first_set * p.length * p.samples, rows * p.samples);
  copy_elements_async(matrix, p.matrix, p.length * p.length);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();

  const int lanes = 1 << p.log_lanes, lane = thread & (lanes - 1);
#pragma unroll 1
  for (int first = 0; first < rows; first += kSmallThreads >> p.log_lanes) {
    const int row = first + (thread >> p.log_lanes);
    T sums[kSmallSums] = {};
    if (row < rows)
#pragma unroll 1
      for (int sample = lane; sample < p.samples; sample += kSmallSums * lanes)
#pragma unroll
        for (int i = 0; i < kSmallSums; ++i)
          if (sample + i * lanes < p.samples)
            sums[i] += vectors[row * p.samples + sample + i * lanes];
    T sum = pairwise_sum(sums);
#pragma unroll 1
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(kAllLanes, sum, distance);
    if (row < rows && lane == 0) averages[row] = sum * p.scale;
  }
  __syncthreads();

#pragma unroll 1
  for (int result = thread; result < p.length << p.log_sets; result += kSmallThreads) {
    const int row = result >> p.log_sets, set = result & ((1 << p.log_sets) - 1);
    if (set >= exist) continue;
    const T *const left = matrix + row * p.length, *const right = averages + set * p.length;
    T product = 0;
    if (p.rotation == 0) {
      for (int j = 0; j < p.length; ++j) product = fma(left[j], right[j], product);
    } else {
      // The lanes start at different elements, so that they access different banks.
      int element = result & p.rotation;
      for (int j = 0; j < p.length; ++j) {
        product = fma(left[element], right[element], product);
        if (++element == p.length) element = 0;
      }
    }
    p.out[row * p.sets + first_set + set] = product;
  }
}

#endif

// tiny_matrix: a block averages the rows of as many whole sets as its lanes can process at once.

inline constexpr int kTinyLength = 16;
inline constexpr std::int64_t kTinyRowBytes = 2048;  // a row takes at most eight lanes

inline const char* why_not_tiny(const AverageMatvec& p) {
  if (p.length() > kTinyLength) return "L exceeds 16";
  if (p.samples() * p.vectors.type.size > kTinyRowBytes) return "the samples of a row exceed 2 KiB";
  return nullptr;
}

inline const char* why_tiny_slower(const AverageMatvec& p, const Hardware& gpu) {
  return why_not_small(p) == nullptr && why_small_slower(p, gpu) == nullptr
             ? "with this few sets, the time is the latency of one access"
             : nullptr;
}

// Rows of whole sets.
template <int kLanes, class T>
RowSharing tiny_sharing_of(const AverageMatvec& p) {
  RowSharing sharing = sharing_of<kLanes, T>(p);
  const int length = static_cast<int>(std::max<std::int64_t>(p.length(), 1));
  sharing.rows_per_block = std::max(sharing.rows_per_block / length, 1) * length;
  return sharing;
}

#ifdef __CUDACC__

template <int kLanes, class T>
__global__ void __launch_bounds__(kAveragingThreads, kAveragingBlocks)
    average_matvec_tiny_matrix(SampleRows<T> rows, ProductOperands<T> p) {
  static_assert(kLanes < kWarpSize);
  constexpr int kRows = kLanes == 0 ? kAveragingThreads * kShortRows : kAveragingThreads / kLanes;
  __shared__ T averages[kRows];
  const int rows_per_block = rows.sharing.rows_per_block;
  const std::int64_t first = std::int64_t{blockIdx.x} * rows_per_block;
  const std::int64_t first_set = std::int64_t{blockIdx.x} * (rows_per_block / p.length);
  rows.rows = min(rows.rows, first + rows_per_block);
  average_rows_of<kLanes, T>(rows, blockIdx.x, nullptr,
                             [&](std::int64_t row, T average) { averages[row - first] = average; });
  __syncthreads();
  const int results = static_cast<int>(rows.rows - first), sets = results / p.length;
#pragma unroll 1
  for (int result = threadIdx.x; result < results; result += kAveragingThreads) {
    const int row = result / sets, set = result % sets;
    T product = 0;
    for (int i = 0; i < p.length; ++i)
      product = fma(p.matrix[row * p.length + i], averages[set * p.length + i], product);
    p.out[row * p.sets + first_set + set] = product;
  }
}

#endif

}  // namespace ado::cuda
