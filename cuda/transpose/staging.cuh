// Transpose through a staged part of a: the tile is copied to shared memory byte for byte, and
// elements are gathered from it.
//
//   a in global memory --8 bytes, asynchronously--> shared memory
//   shared memory --one element at a time--> registers --4 bytes or more--> out in global memory
//
// The copies are aligned in both memories at every alignment of a, because the tile keeps the
// offset of a row within a vector: the pitch of the tile is congruent to the stride of a, modulo
// the size of a vector. The copies take no registers while they are in flight.
#pragma once

#include "common/async_copy.cuh"
#include "transpose/registers.cuh"
#include "transpose/tile_shape.cuh"

namespace ado::cuda {
namespace {

constexpr int kStagedVector = 8;  // bytes per asynchronous copy

// The part of a that a block stages: `rows` rows of `bytes` bytes, and `slack` rows before them
// (tile_shape.cuh). Rows are `pitch` bytes apart in shared memory.
struct StagedShape {
  int rows, bytes, slack, pitch;
  std::size_t shared_bytes() const {
    return static_cast<std::size_t>(rows + slack) * pitch + 2 * kStagedVector;
  }
};

#ifdef __CUDACC__

// A staged part of a. Byte b of row r is at origin + r * pitch + b.
struct Staged {
  std::byte* origin;
  int pitch;
};

// Copies a vector, or the bytes of it that are in the array [begin, end).
__device__ void stage_vector(std::byte* to, const std::byte* from, const std::byte* begin,
                             const std::byte* end) {
  using Word = std::uint64_t;
  static_assert(sizeof(Word) == kStagedVector);
  if (from >= begin && from + kStagedVector <= end) {
    copy_element_async(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from));
  } else {
    for (int i = 0; i < kStagedVector; ++i)
      if (from + i >= begin && from + i < end) to[i] = from[i];
  }
}

// Stages `rows` rows of `bytes` bytes, from (first_row, first_byte) on. A team of kLanes threads
// copies kLanes vectors of a row at a time.
template <int kLanes>
__device__ Staged stage_rows(ConstBytes a, std::int64_t first_row, int rows,
                             std::int64_t first_byte, int bytes, std::byte* shared, int pitch) {
  const int lane = thread_in_block() % kLanes, team = thread_in_block() / kLanes;
  const std::byte* corner = &a(first_row, first_byte);
  const std::byte *begin = a.data, *end = &a(a.rows - 1, a.cols);
  const Staged tile{shared + offset_within(corner, kStagedVector), pitch};
  const int steps = (bytes + 2 * kStagedVector - 2) / (kLanes * kStagedVector) + 1;
  for (int i = team; i < rows * steps; i += kThreads / kLanes) {
    const int row = i / steps, step = i - row * steps;
    const std::byte* from = corner + row * a.stride;
    const int byte = (step * kLanes + lane) * kStagedVector - offset_within(from, kStagedVector);
    if (byte < bytes) stage_vector(tile.origin + row * pitch + byte, from + byte, begin, end);
  }
  return tile;
}

// The index of an element that advances by a constant number of elements: `at` within group
// `group` of `length` elements. There is one division per thread, not per element.
struct Position {
  int group, at;
  __device__ Position(int index, int length) : group(index / length), at(index - group * length) {}
  __device__ void advance(Position step, int length) {
    group += step.group;
    at += step.at;
    if (at >= length) {
      at -= length;
      ++group;
    }
  }
};

// Stages `rows` complete rows of a packed matrix, from first_row on. Their bytes are contiguous.
__device__ Staged stage_packed(ConstBytes a, std::int64_t first_row, int rows, std::byte* shared,
                               int pitch) {
  const int bytes = static_cast<int>(a.cols), total = rows * bytes;
  const std::byte* first = &a(first_row, 0);
  const std::byte *begin = a.data, *end = a.data + a.rows * a.cols;
  const int early = offset_within(first, kStagedVector);
  const Staged tile{shared + early, pitch};
  constexpr int kStep = kThreads * kStagedVector;
  const int thread_byte = thread_in_block() * kStagedVector;
  if (pitch == bytes) {
    for (int byte = thread_byte - early; byte < total; byte += kStep)
      stage_vector(tile.origin + byte, first + byte, begin, end);
  } else {  // padded rows, which consist of whole vectors
    const Position step(kStep, bytes);
    Position to(thread_byte, bytes);
    for (int byte = thread_byte; byte < total; byte += kStep, to.advance(step, bytes))
      stage_vector(tile.origin + to.group * pitch + to.at, first + byte, begin, end);
  }
  return tile;
}

// Several small elements are stored together, as a unit of at least 4 bytes.
template <int kSize>
constexpr int kUnit = kSize < 4 ? 4 : kSize;

// Loads an element of the tile. Rows are aligned to 8 bytes only.
template <int kSize>
__device__ Element<kSize> staged_element(const std::byte* from) {
  if constexpr (kSize == 16) {
    const auto half = reinterpret_cast<const uint2*>(from);
    return {half[0].x, half[0].y, half[1].x, half[1].y};
  } else {
    return *reinterpret_cast<const Element<kSize>*>(from);
  }
}

// Combines elements of one unit.
__device__ unsigned combine(unsigned a, unsigned b, unsigned c, unsigned d) {
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}
__device__ unsigned combine(unsigned a, unsigned b) { return __byte_perm(a, b, 0x5410); }

// Gathers the unit whose first element is at `from`. Its other elements are in the next rows.
//
// Lanes read rows that are kUnit / kSize rows apart. If the pitch is a multiple of 4 bytes, they
// would all access the same few banks. Groups of lanes therefore read the rows of their units in
// different orders, which start with row `first`.
template <int kSize>
__device__ Element<kUnit<kSize>> gather_rows(const std::byte* from, int pitch, int first) {
  if constexpr (kSize >= 4) {
    return staged_element<kSize>(from);
  } else {
    constexpr int kCount = kUnit<kSize> / kSize;
    unsigned element[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      element[i] = staged_element<kSize>(from + (i + first) % kCount * pitch);
    unsigned unit;
    if constexpr (kSize == 1)
      unit = combine(element[0], element[1], element[2], element[3]);
    else
      unit = combine(element[0], element[1]);
    return __funnelshift_l(unit, unit, 8 * kSize * first);  // rotates
  }
}

template <int kSize>
__device__ int first_row_of_lane(int lane, int pitch) {
  constexpr int kCount = kUnit<kSize> / kSize;
  if (kCount == 1 || pitch % 2 != 0) return 0;
  if (kCount == 4 && pitch % 4 == 2) return lane / 16 * 2;
  return lane / (32 / kCount);
}

// Stores the columns of the tile to rows first_line, first_line + 1, ... of out: the part of these
// rows from element `first` to element `last`, both rounded down to multiples of kAlign bytes in
// memory. The last part ends with the row. The tile starts at row staged_first of a.
template <int kSize, int kAlign>
__device__ void store_columns(Bytes out, std::int64_t first_line, int lines, std::int64_t first,
                              std::int64_t last, Staged tile, std::int64_t staged_first) {
  using Unit = Element<kUnit<kSize>>;
  constexpr int kStep = 32 * kUnit<kSize>;
  const int lane = thread_in_block() % 32, warp = thread_in_block() / 32;
  const int first_row = first_row_of_lane<kSize>(lane, tile.pitch);
  for (int line = warp; line < lines; line += kThreads / 32) {
    std::byte* row = &out(first_line + line, 0);
    const auto rounded_down = [&](std::int64_t byte) {
      return byte - offset_within(row + byte, kAlign);
    };
    const std::int64_t begin = rounded_down(first * kSize);
    const std::int64_t end = last * kSize >= out.cols ? out.cols : rounded_down(last * kSize);
    const int count = static_cast<int>(end - begin);
    // Units before element 0 or across the end of the row are incomplete.
    const int lower = begin < 0 ? static_cast<int>(-begin) : 0;
    const int upper = static_cast<int>(min(out.cols - begin, std::int64_t{1} << 30));
    const std::byte* column = tile.origin +
                              static_cast<int>(begin - staged_first * kSize) / kSize * tile.pitch +
                              line * kSize;
    std::byte* to = row + begin;
#pragma unroll 4
    for (int byte = lane * kUnit<kSize>; byte < count; byte += kStep) {
      const std::byte* from = column + byte / kSize * tile.pitch;
      if (byte >= lower && byte + kUnit<kSize> <= upper) {
        *reinterpret_cast<Unit*>(to + byte) = gather_rows<kSize>(from, tile.pitch, first_row);
      } else {
        for (int i = 0; i < kUnit<kSize> / kSize; ++i)
          if (byte + i * kSize >= lower && byte + i * kSize < upper)
            *reinterpret_cast<Element<kSize>*>(to + byte + i * kSize) =
                staged_element<kSize>(from + i * tile.pitch);
      }
    }
  }
}

#endif

}  // namespace
}  // namespace ado::cuda
