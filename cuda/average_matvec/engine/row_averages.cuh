// average_matvec, engine: averages of the rows of a packed matrix, for rows of any length and
// alignment.
#pragma once

#include "average_matvec/library.cuh"
#include "common/read_ceiling.cuh"
#include "core/compensated.hpp"

namespace ado::cuda {
namespace {

// ---- wide_average, overlapped, split_average_then_gemm, row_product, cluster --------------------
#ifdef __CUDACC__
// Pairwise sum; overwrites the terms.
template <class T, int kCount>
__device__ T pairwise_sum(T (&terms)[kCount]) {
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i) terms[i] += terms[i + half];
  return terms[0];
}
#endif

// ---- wide_average, overlapped, split_average_then_gemm, row_product -----------------------------
// The number of lanes grows with the row length, so that most rows take one or two batches of
// loads. Very long rows are shared by several warps of a block:
//
//   row length     up to 24 bytes  one lane averages several rows, element by element
//                  up to 100       1 lane per row
//                  up to 160       2 lanes per row
//                  up to 448       4 lanes per row
//                  up to 2048      8 lanes per row
//                  above           1, 2, 4 or 8 warps per row
constexpr int kAveragingThreads = 256;
constexpr int kAveragingWarps = kAveragingThreads / kWarpSize;
constexpr int kAveragingBlocks = 4;  // resident per multiprocessor

// The number of averaging blocks that are resident at the same time.
constexpr std::int64_t resident_averagers(const Hardware& gpu) {
  return std::int64_t{kAveragingBlocks} * gpu.multiprocessors;
}

// A thread averages kShortRows short rows.
constexpr std::int64_t kShortRowBytes = 24;
constexpr int kShortRows = 8;

// Distribution of rows over the warps of a block. With warps_per_row = 2:
//
//          | 4 KiB  | 4 KiB  | 4 KiB  | 4 KiB  |    a warp has 8 vectors of 16 bytes per lane in
//   row 0  | warp 0 | warp 1 | warp 0 | warp 1 |    flight: 4 KiB
//   row 1  | warp 2 | warp 3 | warp 2 | warp 3 |
//
// The parts of a row that a block has in flight are contiguous.
struct RowSharing {
  int rows_per_block;
  int warps_per_row = 1;  // a power of two
};

// kLanes is the number of lanes per row from with_lanes.
template <int kLanes>
constexpr RowSharing sharing_of(std::int64_t row_bytes) {
  if constexpr (kLanes == 0) {
    return {.rows_per_block = kAveragingThreads * kShortRows};
  } else {
    RowSharing sharing{.rows_per_block = kAveragingThreads / kLanes};
    // If a row is up to a quarter longer than the bytes in flight, a second, small batch of loads
    // is faster than twice the number of warps (H200).
    constexpr std::int64_t kInFlight = std::int64_t{kVectorsPerThread} * kVectorBytes * kLanes;
    while (kLanes == kWarpSize && sharing.rows_per_block > 1 &&
           sharing.warps_per_row * kInFlight * 5 / 4 < row_bytes) {
      sharing.warps_per_row *= 2;
      sharing.rows_per_block /= 2;
    }
    return sharing;
  }
}

// Calls `visit` with the number of lanes that share a row; 0 for short rows (tuned on an H200).
template <class Visit>
auto with_lanes(std::int64_t row_bytes, Visit visit) {
  if (row_bytes > 2048) return visit(std::integral_constant<int, kWarpSize>{});
  if (row_bytes > 448) return visit(std::integral_constant<int, 8>{});
  if (row_bytes > 160) return visit(std::integral_constant<int, 4>{});
  if (row_bytes > 100) return visit(std::integral_constant<int, 2>{});
  if (row_bytes > kShortRowBytes) return visit(std::integral_constant<int, 1>{});
  return visit(std::integral_constant<int, 0>{});
}

template <int kLanes, class T>
RowSharing sharing_of(const AverageMatvec& p) {
  return sharing_of<kLanes>(p.samples() * std::int64_t{sizeof(T)});
}

// Calls `visit` with a zero of the element type and with the number of lanes per row.
template <class Visit>
auto with_type_and_lanes(const AverageMatvec& p, Visit visit) {
  return with_real(p.vectors.type, [&](auto zero) {
    return with_lanes(p.samples() * std::int64_t{sizeof zero},
                      [&](auto lanes) { return visit(zero, lanes); });
  });
}

// `rows` rows of `samples` elements each.
template <class T>
struct SampleRows {
  const T* data;
  std::int64_t rows, samples;
  RowSharing sharing;
};

#ifdef __CUDACC__

template <int kLanes, class T>
SampleRows<T> rows_of(const AverageMatvec& p) {
  return {p.vectors.as<const T>(), p.sets() * p.length(), p.samples(), sharing_of<kLanes, T>(p)};
}

template <class T>
T* averages_of(const Launch& go) {
  return reinterpret_cast<T*>(go.scratch);
}

__device__ float sum_of(WideVector<float> v) { return (v.at[0] + v.at[1]) + (v.at[2] + v.at[3]); }
__device__ double sum_of(WideVector<double> v) { return v.at[0] + v.at[1]; }

// One lane's share of a row's sum. The row is split at addresses that are multiples of 16 bytes:
//
//   | edge elements | vector 0 | vector 1 | ... | vector n - 1 | edge elements |
//
// In each batch, the lane loads kVectorsPerThread vectors that are kLanes apart: first, first +
// kLanes, and so on; the next batch begins `batch_stride` vectors later. It also adds edge element
// number `first`, if that exists. Loads of whole warps bypass L1. With fewer lanes per row, several
// loads share a sector, and L1 keeps the sector for them.
template <int kLanes, class T>
__device__ T sum_of_lane(const T* row, std::int64_t samples, int first, int batch_stride) {
  constexpr int kLength = kVectorLength<T>;
  const int offset = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) / sizeof(T) % kLength);
  const int leading =
      static_cast<int>(min(samples, static_cast<std::int64_t>((kLength - offset) % kLength)));
  const std::int64_t vectors = (samples - leading) / kLength;
  const int edges = static_cast<int>(samples - vectors * kLength);
  const auto edge = [&](int i) { return row[i < leading ? i : samples - edges + i]; };
  const auto* from = reinterpret_cast<const WideVector<T>*>(row + leading) + first;
  const auto load = [&](int i) {
    return kLanes == kWarpSize ? load_past_l1(from + i * kLanes)
                               : load_read_only(from + i * kLanes);
  };

  CompensatedSum<T> sum;
  const T own_edge = first < edges ? edge(first) : T(0);  // in flight together with the vectors
  for (std::int64_t left = vectors - first; left > 0; left -= batch_stride, from += batch_stride) {
    WideVector<T> vector[kVectorsPerThread] = {};
    if (left > (kVectorsPerThread - 1) * kLanes) {
#pragma unroll
      for (int i = 0; i < kVectorsPerThread; ++i) vector[i] = load(i);
    } else {
#pragma unroll
      for (int i = 0; i < kVectorsPerThread; ++i)
        if (i * kLanes < left) vector[i] = load(i);
    }
    T terms[kVectorsPerThread];
#pragma unroll
    for (int i = 0; i < kVectorsPerThread; ++i) terms[i] = sum_of(vector[i]);
    sum.add(pairwise_sum(terms));
  }
  sum.add(own_edge);
  if constexpr (kLanes < 2 * (kLength - 1))  // there can be more edge elements than lanes
    for (int i = first + kLanes; i < edges; i += kLanes) sum.add(edge(i));
  return sum.total();
}

// One thread averages kShortRows rows: first, first + kAveragingThreads, ...
template <class T, class Store>
__device__ void average_short_rows(const SampleRows<T>& p, std::int64_t first, T samples,
                                   Store store) {
  T sum[kShortRows] = {};
  for (int sample = 0; sample < p.samples; ++sample)
#pragma unroll
    for (int i = 0; i < kShortRows; ++i) {
      const std::int64_t row = first + i * kAveragingThreads;
      if (row < p.rows) sum[i] += p.data[row * p.samples + sample];
    }
#pragma unroll
  for (int i = 0; i < kShortRows; ++i) {
    const std::int64_t row = first + i * kAveragingThreads;
    if (row < p.rows) store(row, sum[i] / samples);
  }
}

// Averages the rows of block number `block`, and calls store(row, average) in one thread per row.
// `warp_sums` has kAveragingWarps elements in shared memory.
template <int kLanes, class T, class Store>
__device__ void average_rows_of(const SampleRows<T>& p, std::int64_t block, T* warp_sums,
                                Store store) {
  const T samples = static_cast<T>(p.samples);
  const int thread = threadIdx.x, warp = thread / kWarpSize;
  const std::int64_t first = block * p.sharing.rows_per_block;
  if constexpr (kLanes == 0) {
    average_short_rows(p, first + thread, samples, store);
  } else if constexpr (kLanes < kWarpSize) {
    const std::int64_t row = first + thread / kLanes;
    const T own = row < p.rows ? sum_of_lane<kLanes>(p.data + row * p.samples, p.samples,
                                                     thread % kLanes, kVectorsPerThread * kLanes)
                               : T(0);
    const T sum = sum_over_lanes<kLanes>(own);
    if (thread % kLanes == 0 && row < p.rows) store(row, sum / samples);
  } else {
    constexpr int kWarpVectors = kVectorsPerThread * kWarpSize;  // in flight per warp
    const int sharing = p.sharing.warps_per_row, sharer = warp & (sharing - 1);
    const std::int64_t row = first + warp / sharing;
    const T own = row < p.rows ? sum_of_lane<kWarpSize>(p.data + row * p.samples, p.samples,
                                                        sharer * kWarpVectors + thread % kWarpSize,
                                                        sharing * kWarpVectors)
                               : T(0);
    const T warp_sum = sum_over_lanes(own);
    if (sharing == 1) {
      if (thread % kWarpSize == 0 && row < p.rows) store(row, warp_sum / samples);
      return;
    }
    if (thread % kWarpSize == 0) warp_sums[warp] = warp_sum;
    __syncthreads();
    if (thread < p.sharing.rows_per_block && first + thread < p.rows) {
      T sum = 0;
      for (int i = 0; i < sharing; ++i) sum += warp_sums[thread * sharing + i];
      store(first + thread, sum / samples);
    }
  }
}

#endif

}  // namespace
}  // namespace ado::cuda
