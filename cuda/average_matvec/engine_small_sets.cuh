// Small problems: one launch, in which each block computes all results of a few sets.
//
// The time of a small problem is the latency of one launch and one DRAM access. Each block
// therefore issues all its loads at once: the vectors of its sets and the whole matrix. It then
// averages and multiplies in shared memory. With cold caches, instructions are fetched from DRAM as
// well. The kernel is therefore short: it copies single elements, which requires no code for
// alignment, and it multiplies by 1 / M.
#pragma once

#include <algorithm>

#include "average_matvec/engine_row_averages.cuh"
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

// With many sets, separate kernels with wide loads are faster, unless the matrix is tiny. They are
// also faster for a tiny matrix if the rows of a block start in the same bank. If M is 1, only one
// other kernel is needed, so fewer sets suffice.
inline const char* why_small_slower(const AverageMatvec& p, const Hardware& gpu) {
  constexpr Tuned<double> kWorkPerMultiprocessor{53030.305, "H200"};  // 7 million operations
  constexpr Tuned<std::int64_t> kTinyMatrix{16, "H100"}, kTinyWithoutAverages{11, "H100"};
  constexpr std::int64_t kConflictBytes = 256;  // shorter rows are slow in the other kernels, too
  const bool averages = p.samples() > 1;
  const double work = static_cast<double>(p.sets()) * static_cast<double>(p.length()) *
                      static_cast<double>(p.length() + p.samples());
  const double most = kWorkPerMultiprocessor.on(gpu) * gpu.multiprocessors;
  if (p.length() > (averages ? kTinyMatrix : kTinyWithoutAverages).on(gpu))
    return work > (averages ? most : most / 4)
               ? "there are enough sets for separate kernels for the averages and the product"
               : nullptr;
  return work > 4 * most && p.samples() * p.vectors.type.size % kConflictBytes == 0
             ? "the rows of a block start in the same bank of shared memory"
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

}  // namespace ado::cuda
