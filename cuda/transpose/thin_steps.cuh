// Transpose of matrices with few columns or rows: the kernels few_columns and few_rows.
#pragma once

#include "transpose/staging.cuh"

namespace ado::cuda {
namespace {

#ifdef __CUDACC__

// Few columns: a thread block reads whole rows of a, which are contiguous in memory, and writes a
// long part of each of the few rows of out.
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
  store_columns<kSize>(out, first, last, tile, staged_first);
}

// Few rows: a thread block reads a long part of each of the few rows of a, and writes whole rows of
// out, which are contiguous in memory.
//
// The distance between the units of out that a thread stores is a multiple of `rows` elements. The
// elements of all these units are therefore in the same rows of the tile, and the row addresses are
// computed only once.
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

  // Period of the rows, in units. rows & -rows is the largest power of two that divides rows.
  const int period = rows / min(rows & -rows, kCount);
  const int active = kThreads / period * period;
  if (thread_in_block() >= active) return;
  std::byte* to = &out(first_byte / kSize, 0);
  const int count = bytes / kSize * rows;
  const int early = offset_within(to, kUnit<kSize>) / kSize;  // elements
  int element = thread_in_block() * kCount - early;
  const int first = first_element<kSize>(thread_in_block() % 32, tile.pitch);
  const std::byte* from[kCount];  // element (i + first) % kCount of the unit
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int index = element + (i + first) % kCount + early * rows;  // not negative
    from[i] = tile.origin + index % rows * tile.pitch + (index / rows - early) * kSize;
  }
  const int step = active * kCount, from_step = step / rows * kSize;
  if (early == 0 && count % kCount == 0) {
#pragma unroll 4
    for (int skip = 0; element < count; element += step, skip += from_step)
      *reinterpret_cast<Unit*>(to + element * kSize) = gather<kSize>(from, skip, first);
  } else {  // the first and the last unit may be incomplete
#pragma unroll 1
    for (int skip = 0; element < count; element += step, skip += from_step)
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int at = element + (i + first) % kCount;
        if (at >= 0 && at < count)
          *reinterpret_cast<Element<kSize>*>(to + at * kSize) =
              staged_element<kSize>(from[i] + skip);
      }
  }
}

#endif

// Maximum number of rows of few_rows, whose period needs up to one thread per row, and of columns
// of few_columns.
constexpr std::int64_t kFew = kThreads;

// Parts of rows have at least 256 bytes, because smaller parts would have many incomplete sectors.
constexpr std::int64_t kPartBytes = 256;

// Returns the number of bytes of each of `count` long rows that a thread block processes, so that
// it processes about `staged` bytes in total. If possible, rows of `bytes` bytes are divided into
// at least `parts` parts, so that all multiprocessors have blocks.
std::int64_t part_of_rows(std::int64_t bytes, std::int64_t count, std::int64_t staged,
                          std::int64_t parts) {
  const std::int64_t part = ceil_div(staged / count, kPartBytes) * kPartBytes;
  return std::max(std::min(part, bytes / parts / kPartBytes * kPartBytes), kPartBytes);
}

// Pads the rows of the tile by one vector if all rows would otherwise start in the same few banks.
StagedShape few_columns_shape(const Transpose& p) {
  if (p.cols() == 0) return {.rows = 1};
  const int size = p.a.type.size;
  const std::int64_t bytes = p.cols() * size;
  const bool pads = bytes % (2 * kStagedVector) == 0 && starts_at_vector(p.a.data, kStagedVector);
  return {.rows = static_cast<int>(part_of_rows(p.rows() * size, p.cols(), 12 << 10, 528)) / size,
          .bytes = static_cast<int>(bytes),
          .slack = rows_aligned(p.out, kSectorBytes) ? 0 : kSectorBytes / size,
          .pitch = static_cast<int>(bytes) + (pads ? kStagedVector : 0)};
}

Extent grid_of_few_columns(const Transpose& p) {
  if (p.cols() == 0) return {};
  return grid_of(ceil_div(p.rows(), few_columns_shape(p).rows), 1);
}

// The block processes one sector less than `part` bytes per row, because a row may start within a
// vector. Neighbouring rows of the tile then share no vector. The pitch is congruent to the stride
// of a modulo the size of a vector and is not a multiple of 16 bytes, so that the elements of a
// column are in different banks.
StagedShape few_rows_shape(const Transpose& p) {
  if (p.rows() == 0) return {.bytes = 1};
  const int size = p.a.type.size;
  const auto part = static_cast<int>(part_of_rows(p.cols() * size, p.rows(), 16 << 10, 264));
  StagedShape shape{.rows = static_cast<int>(p.rows()), .bytes = part - kSectorBytes, .lanes = 32};
  while (shape.lanes < kThreads && shape.lanes * kStagedVector < part) shape.lanes *= 2;
  shape.pitch = part + static_cast<int>(p.a.stride[0] & (kStagedVector - 1));
  if (shape.pitch % (2 * kStagedVector) == 0) shape.pitch += kStagedVector;
  return shape;
}

Extent grid_of_few_rows(const Transpose& p) {
  if (p.rows() == 0) return {};
  return grid_of(ceil_div(p.cols() * p.a.type.size, few_rows_shape(p).bytes), 1);
}

}  // namespace
}  // namespace ado::cuda
