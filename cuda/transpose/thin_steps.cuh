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

// Few rows: a block reads a long part of each of the few rows of a, and writes contiguous memory,
// whole rows of out.
//
// The units of out that a thread stores are a multiple of `rows` elements apart. So their elements
// are always in the same rows of the tile, and their addresses are computed only once.
template <int kSize>
__global__ void __launch_bounds__(kThreads)
    transpose_few_rows(ConstBytes a, Bytes out, StagedShape shape) {
  using Unit = Element<kUnit<kSize>>;
  constexpr int kCount = kUnit<kSize> / kSize;
  extern __shared__ __align__(16) std::byte shared[];
  const int rows = static_cast<int>(a.rows);
  const std::int64_t first_byte = block_x() * shape.bytes;
  const int bytes = static_cast<int>(min(a.cols - first_byte, std::int64_t{shape.bytes}));
  const Staged tile = stage_rows(a, 0, rows, first_byte, bytes, shared, shape);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();

  const int period = rows / min(rows & -rows, kCount);  // in units; rows & -rows: a power of two
  const int active = kThreads / period * period;
  if (thread_in_block() >= active) return;
  std::byte* to = &out(first_byte / kSize, 0);
  const int count = bytes / kSize * rows;
  const int early = offset_within(to, kUnit<kSize>) / kSize;  // elements
  int element = thread_in_block() * kCount - early;
  int offset[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int from = element + i + early * rows;  // not negative
    offset[i] = from % rows * tile.pitch + (from / rows - early) * kSize;
  }
  const int step = active * kCount;
  const std::byte* staged = tile.origin;
#pragma unroll 4
  for (; element < count; element += step, staged += step / rows * kSize) {
    if (element >= 0 && element + kCount <= count) {
      Unit unit;
      if constexpr (kSize >= 4)
        unit = staged_element<kSize>(staged + offset[0]);
      else if constexpr (kSize == 2)
        unit =
            combine(staged_element<2>(staged + offset[0]), staged_element<2>(staged + offset[1]));
      else
        unit =
            combine(staged_element<1>(staged + offset[0]), staged_element<1>(staged + offset[1]),
                    staged_element<1>(staged + offset[2]), staged_element<1>(staged + offset[3]));
      *reinterpret_cast<Unit*>(to + element * kSize) = unit;
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (element + i >= 0 && element + i < count)
          *reinterpret_cast<Element<kSize>*>(to + (element + i) * kSize) =
              staged_element<kSize>(staged + offset[i]);
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
