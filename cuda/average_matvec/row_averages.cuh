// Averages of the rows of a packed matrix, however long they are and wherever they begin.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/read_ceiling.cuh"
#include "core/compensated.hpp"

namespace ado::cuda {

inline constexpr int kAveragingThreads = 256;
inline constexpr int kAveragingWarps = kAveragingThreads / 32;

// Rows of at most two vectors: a lane averages several, element by element.
inline constexpr std::int64_t kShortRow = 2 * kVectorBytes;
inline constexpr int kShortRows = 8;

// What a block does. Long rows are shared by several warps, so that what is in flight lies side by
// side: each of them adds up a piece.
struct RowSharing {
  int rows_per_block;
  int pieces = 1;  // a power of two
};

template <int kLanes>
constexpr RowSharing sharing_of(std::int64_t row_bytes) {
  if constexpr (kLanes == 0) {
    return {.rows_per_block = kAveragingThreads * kShortRows};
  } else {
    RowSharing sharing{.rows_per_block = kAveragingThreads / kLanes};
    // What is in flight of a row. A quarter more than fits is faster with a second, small flight.
    constexpr std::int64_t kFlight = std::int64_t{kVectorsPerThread} * kVectorBytes * kLanes;
    while (kLanes == 32 && sharing.rows_per_block > 1 &&
           sharing.pieces * kFlight * 5 / 4 < row_bytes) {
      sharing.pieces *= 2;
      sharing.rows_per_block /= 2;
    }
    return sharing;
  }
}

// Calls `visit` with how many lanes share a row: so many that their vectors in flight cover it
// about once. With 0 rows are short.
template <class Visit>
auto with_lanes(std::int64_t row_bytes, Visit visit) {
  if (row_bytes > 2048) return visit(std::integral_constant<int, 32>{});
  if (row_bytes > 448) return visit(std::integral_constant<int, 8>{});
  if (row_bytes > 128) return visit(std::integral_constant<int, 4>{});
  if (row_bytes > kShortRow) return visit(std::integral_constant<int, 1>{});
  return visit(std::integral_constant<int, 0>{});
}

template <class T>
struct Rows {
  const T* data;
  std::int64_t rows, samples;
  RowSharing sharing;
};

#ifdef __CUDACC__

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using Type = float4;
};
template <>
struct VectorOf<double> {
  using Type = double2;
};

inline __device__ float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }
inline __device__ double sum_of(double2 v) { return v.x + v.y; }

template <class T, int kCount>
__device__ T sum_of_tree(T (&terms)[kCount]) {
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i) terms[i] += terms[i + half];
  return terms[0];
}

// In every lane the sum over its group of kLanes in the warp.
template <int kLanes, class T>
__device__ T sum_over_lanes(T x) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(0xffffffffU, x, distance);
  return x;
}

// What one thread of those that share a row adds up of it: the vectors from the first-th of each
// `flight` on, kLanes apart, and one of the elements before the first and after the last vector.
// Past L1 where whole warps read; few lanes a row leave parts of its sectors to each other's loads.
template <int kLanes, class T>
__device__ T sum_of_part(const T* row, std::int64_t samples, int first, int flight) {
  using Vector = typename VectorOf<T>::Type;
  constexpr int kWidth = kVectorBytes / sizeof(T);
  const int begin = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) / sizeof(T) % kWidth);
  const int early =
      static_cast<int>(min(samples, static_cast<std::int64_t>((kWidth - begin) % kWidth)));
  const std::int64_t vectors = (samples - early) / kWidth;
  const int edges = static_cast<int>(samples - vectors * kWidth);
  const auto edge = [&](int i) { return row[i < early ? i : samples - edges + i]; };
  const auto* from = reinterpret_cast<const Vector*>(row + early) + first;
  const auto load = [&](int i) {
    return kLanes == 32 ? __ldcg(from + i * kLanes) : __ldg(from + i * kLanes);
  };

  CompensatedSum<T> sum;
  const T own_edge = first < edges ? edge(first) : T(0);  // under way together with the vectors
  for (std::int64_t left = vectors - first; left > 0; left -= flight, from += flight) {
    Vector vector[kVectorsPerThread] = {};
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
    sum.add(sum_of_tree(terms));
  }
  sum.add(own_edge);
  if constexpr (kLanes < 2 * (kWidth - 1))  // one edge a lane may not be all
    for (int i = first + kLanes; i < edges; i += kLanes) sum.add(edge(i));
  return sum.total();
}

template <class T, class Store>
__device__ void average_short_rows(const Rows<T>& p, std::int64_t first, T samples, Store store) {
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

// Gives the averages of the rows of block number `block` to `store`. `part` is a number a warp in
// shared memory.
template <int kLanes, class T, class Store>
__device__ void average_rows_of(const Rows<T>& p, std::int64_t block, T* part, Store store) {
  const T samples = static_cast<T>(p.samples);
  const int thread = threadIdx.x, warp = thread / 32;
  const std::int64_t first = block * p.sharing.rows_per_block;
  if constexpr (kLanes == 0) {
    average_short_rows(p, first + thread, samples, store);
  } else if constexpr (kLanes < 32) {
    const std::int64_t row = first + thread / kLanes;
    const T sum = row < p.rows ? sum_of_part<kLanes>(p.data + row * p.samples, p.samples,
                                                     thread % kLanes, kVectorsPerThread * kLanes)
                               : T(0);
    const T all = sum_over_lanes<kLanes>(sum);
    if (thread % kLanes == 0 && row < p.rows) store(row, all / samples);
  } else {
    constexpr int kFlight = kVectorsPerThread * 32;
    const int pieces = p.sharing.pieces, piece = warp & (pieces - 1);
    const std::int64_t row = first + warp / pieces;
    const T sum = row < p.rows ? sum_of_part<32>(p.data + row * p.samples, p.samples,
                                                 piece * kFlight + thread % 32, pieces * kFlight)
                               : T(0);
    const T all = sum_over_lanes<32>(sum);
    if (pieces == 1) {
      if (thread % 32 == 0 && row < p.rows) store(row, all / samples);
      return;
    }
    if (thread % 32 == 0) part[warp] = all;
    __syncthreads();
    if (thread < p.sharing.rows_per_block && first + thread < p.rows) {
      T row_sum = 0;
      for (int i = 0; i < pieces; ++i) row_sum += part[thread * pieces + i];
      store(first + thread, row_sum / samples);
    }
  }
}

#endif

}  // namespace ado::cuda
