// Transpose through a staged part of a: the kernels few_columns, few_rows and unaligned_bytes.
#pragma once

#include "transpose/staging.cuh"

namespace ado::cuda {
namespace {

#ifdef __CUDACC__

// Few columns: a block reads contiguous memory, whole rows of a, and writes a long part of each of
// the few rows of out.
template <int kSize>
__global__ void __launch_bounds__(kThreads)
    transpose_few_columns(ConstBytes a, Bytes out, StagedShape shape) {
  extern __shared__ __align__(16) std::byte shared[];
  const std::int64_t first = block_x() * shape.rows, last = min(first + shape.rows, a.rows);
  const std::int64_t staged_first = max(first - shape.slack, std::int64_t{0});
  const Staged tile =
      stage_packed(a, staged_first, static_cast<int>(last - staged_first), shared, shape.pitch);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();
  store_columns<kSize, kSectorBytes>(out, 0, static_cast<int>(out.rows), first, last, tile,
                                     staged_first);
}

// Any matrix: a block reads parts of many rows of a and writes parts of many rows of out.
template <int kSize, int kAlign>
__global__ void __launch_bounds__(kThreads)
    transpose_unaligned_bytes(ConstBytes a, Bytes out, StagedShape shape) {
  extern __shared__ __align__(16) std::byte shared[];
  const std::int64_t first = block_x() * shape.rows, last = min(first + shape.rows, a.rows);
  const std::int64_t staged_first = max(first - shape.slack, std::int64_t{0});
  const std::int64_t first_byte = block_y() * shape.bytes;
  const int bytes = static_cast<int>(min(a.cols - first_byte, std::int64_t{shape.bytes}));
  if (bytes <= 0) return;  // the grid is rounded up
  const Staged tile = stage_rows(a, staged_first, static_cast<int>(last - staged_first), first_byte,
                                 bytes, shared, shape);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();
  store_columns<kSize, kAlign>(out, first_byte / kSize, bytes / kSize, first, last, tile,
                               staged_first);
}

// Gathers the elements of one unit of out. The first is in row `row` of the tile, at `from`. The
// next element of a row of out is in the next row of the tile, and a row of out has `rows`
// elements.
template <int kSize>
__device__ Element<kUnit<kSize>> gather_elements(const std::byte* from, int row, int rows,
                                                 int pitch) {
  if constexpr (kSize >= 4) {
    return staged_element<kSize>(from);
  } else {
    constexpr int kCount = kUnit<kSize> / kSize;
    unsigned element[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      element[i] = staged_element<kSize>(from);
      const bool wraps = ++row == rows;
      from += wraps ? kSize - (rows - 1) * pitch : pitch;
      row = wraps ? 0 : row;
    }
    if constexpr (kSize == 1)
      return combine(element[0], element[1], element[2], element[3]);
    else
      return combine(element[0], element[1]);
  }
}

// Few rows: a block reads a long part of each of the few rows of a, and writes contiguous memory,
// whole rows of out.
template <int kSize>
__global__ void __launch_bounds__(kThreads)
    transpose_few_rows(ConstBytes a, Bytes out, StagedShape shape) {
  using Unit = Element<kUnit<kSize>>;
  constexpr int kCount = kUnit<kSize> / kSize, kStep = kThreads * kCount;
  extern __shared__ __align__(16) std::byte shared[];
  const int rows = static_cast<int>(a.rows);
  const std::int64_t first_byte = block_x() * shape.bytes;
  const int bytes = static_cast<int>(min(a.cols - first_byte, std::int64_t{shape.bytes}));
  const Staged tile = stage_rows(a, 0, rows, first_byte, bytes, shared, shape);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();

  std::byte* to = &out(first_byte / kSize, 0);
  const int count = bytes / kSize * rows;
  const int early = offset_within(to, kUnit<kSize>) / kSize;  // elements
  int element = thread_in_block() * kCount - early;
  const Position step(kStep, rows);
  Position from(element + early * rows, rows);  // the index must not be negative
  from.group -= early;
#pragma unroll 4
  for (; element < count; element += kStep, from.advance(step, rows)) {
    const std::byte* staged = tile.origin + from.at * tile.pitch + from.group * kSize;
    if (element >= 0 && element + kCount <= count) {
      *reinterpret_cast<Unit*>(to + element * kSize) =
          gather_elements<kSize>(staged, from.at, rows, tile.pitch);
    } else {
      for (int i = max(-element, 0); i < min(kCount, count - element); ++i) {
        const Position one(element + i, rows);
        *reinterpret_cast<Element<kSize>*>(to + (element + i) * kSize) =
            staged_element<kSize>(tile.origin + one.at * tile.pitch + one.group * kSize);
      }
    }
  }
}

#endif

// The smallest pitch of at least `bytes` that is congruent to `stride` modulo a vector, and not a
// multiple of 16 bytes. Then columns of the tile are spread over the banks.
int pitch_of(std::int64_t bytes, std::int64_t stride) {
  std::int64_t pitch = bytes + (stride - bytes) % kStagedVector;
  if (pitch < bytes) pitch += kStagedVector;
  if (pitch % (2 * kStagedVector) == 0) pitch += kStagedVector;
  return static_cast<int>(pitch);
}

}  // namespace
}  // namespace ado::cuda
