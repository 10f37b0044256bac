// Transpose through shared memory: a part of a is copied to a tile in shared memory byte for byte,
// and elements are gathered from the tile.
//
//   a in global memory --8 bytes, asynchronously--> shared memory
//   shared memory --one element at a time--> registers --4 bytes or more--> out in global memory
//
// The copies are aligned in both memories at every alignment of a, because each row has the same
// offset within a vector in the tile as in a. For this purpose, the pitch of the tile is congruent
// to the stride of a modulo the size of a vector. Asynchronous copies use no registers while they
// are in flight.
#pragma once

#include "common/async_copy.cuh"
#include "transpose/registers.cuh"
#include "transpose/tile_shape.cuh"

namespace ado::cuda {
namespace {

constexpr int kStagedVector = 8;  // bytes per asynchronous copy

// The part of a that a thread block stages: `rows` rows of `bytes` bytes, and `slack` rows before
// them (tile_shape.cuh). Rows are `pitch` bytes apart in shared memory. Each row is copied by
// `lanes` threads.
struct StagedShape {
  int rows = 0, bytes = 0, slack = 0, pitch = 0, lanes = 0;
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

// Copies one vector. If kInside, the vector is known to be inside the array [begin, end).
// Otherwise, only its bytes inside the array are copied.
template <bool kInside>
__device__ void stage_vector(std::byte* to, const std::byte* from, const std::byte* begin,
                             const std::byte* end) {
  using Word = std::uint64_t;
  static_assert(sizeof(Word) == kStagedVector);
  if (kInside || (from >= begin && from + kStagedVector <= end)) {
    copy_element_async(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from));
  } else {
    for (int i = 0; i < kStagedVector; ++i)
      if (from + i >= begin && from + i < end) to[i] = from[i];
  }
}

// Stages `rows` rows of `bytes` bytes, from (first_row, first_byte) on. Teams of shape.lanes
// threads copy one row each.
__device__ Staged stage_rows(ConstBytes a, std::int64_t first_row, int rows,
                             std::int64_t first_byte, int bytes, std::byte* shared,
                             StagedShape shape) {
  const int lanes = shape.lanes, teams = kThreads / lanes;
  const int lane = thread_in_block() % lanes, team = thread_in_block() / lanes;
  const std::byte* corner = &a(first_row, first_byte);
  const int corner_offset = offset_within(corner, kStagedVector);
  const std::byte *begin = a.data, *end = &a(a.rows - 1, a.cols);
  const bool inside = corner - corner_offset >= begin &&
                      corner + (rows - 1) * a.stride + bytes + kStagedVector <= end;
  const Staged tile{shared + corner_offset, shape.pitch};

  const auto stage = [&](auto known_inside) {
    const std::int64_t from_step = teams * a.stride;
    const int to_step = teams * shape.pitch;
    const std::byte* from = corner + team * a.stride;
    std::byte* to = tile.origin + team * shape.pitch;
    for (int row = team; row < rows; row += teams, from += from_step, to += to_step) {
      int byte = lane * kStagedVector - offset_within(from, kStagedVector);
      for (; byte < bytes; byte += lanes * kStagedVector)
        stage_vector<known_inside>(to + byte, from + byte, begin, end);
    }
  };
  if (inside)
    stage(std::true_type{});
  else
    stage(std::false_type{});
  return tile;
}

// Index of an element: position `at` within group `group`, where each group has `length` elements.
// Advancing by a constant step requires one division per thread instead of one per element.
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
  const bool inside = first - early >= begin && first + total + kStagedVector <= end;
  const Staged tile{shared + early, pitch};
  constexpr int kStep = kThreads * kStagedVector;
  const int thread_byte = thread_in_block() * kStagedVector;
  const auto stage = [&](auto known_inside) {
    if (pitch == bytes) {
      for (int byte = thread_byte - early; byte < total; byte += kStep)
        stage_vector<known_inside>(tile.origin + byte, first + byte, begin, end);
    } else {  // padded rows, which consist of whole vectors
      const Position step(kStep, bytes);
      Position to(thread_byte, bytes);
      for (int byte = thread_byte; byte < total; byte += kStep, to.advance(step, bytes))
        stage_vector<known_inside>(tile.origin + to.group * pitch + to.at, first + byte, begin,
                                   end);
    }
  };
  if (inside)
    stage(std::true_type{});
  else
    stage(std::false_type{});
  return tile;
}

// Size of a unit in bytes. Elements smaller than 4 bytes are stored together, in units of 4 bytes.
template <int kSize>
constexpr int kUnit = kSize < 4 ? 4 : kSize;

// Loads an element of the tile. Rows are aligned to only 8 bytes, so 16-byte elements are loaded in
// two halves.
template <int kSize>
__device__ Element<kSize> staged_element(const std::byte* from) {
  if constexpr (kSize == 16) {
    const auto half = reinterpret_cast<const uint2*>(from);
    return {half[0].x, half[0].y, half[1].x, half[1].y};
  } else {
    return *reinterpret_cast<const Element<kSize>*>(from);
  }
}

// Gathers one unit. from[i] + skip is the address of element first + i of the unit, modulo the
// number of elements per unit. The units of neighbouring lanes begin several rows of the tile
// apart. If the pitch is a multiple of 4 bytes and all lanes load the same element of their units,
// they access only a few banks. Groups of lanes therefore start with different elements.
template <int kSize>
__device__ Element<kUnit<kSize>> gather(const std::byte* const (&from)[kUnit<kSize> / kSize],
                                        int skip, int first) {
  if constexpr (kSize >= 4) {
    return staged_element<kSize>(from[0] + skip);
  } else {
    unsigned element[kUnit<kSize> / kSize];
#pragma unroll
    for (int i = 0; i < kUnit<kSize> / kSize; ++i)
      element[i] = staged_element<kSize>(from[i] + skip);
    unsigned unit;
    if constexpr (kSize == 2)
      unit = __byte_perm(element[0], element[1], 0x5410);
    else
      unit = __byte_perm(__byte_perm(element[0], element[1], 0x0040),
                         __byte_perm(element[2], element[3], 0x0040), 0x5410);
    return __funnelshift_l(unit, unit, 8 * kSize * first);  // rotates
  }
}

// Returns the element of a unit that a lane loads first.
template <int kSize>
__device__ int first_element(int lane, int pitch) {
  constexpr int kCount = kUnit<kSize> / kSize;
  if (kCount == 1 || pitch % 2 != 0) return 0;
  if (kCount == 4 && pitch % 4 == 2) return lane / 16 * 2;
  return lane / (32 / kCount);
}

// Stores a tile that contains all columns of a, from row staged_first of a on. Column c of the tile
// becomes elements [first, last) of row c of out. Both limits are rounded down to a sector boundary
// in memory, except at the start and the end of a row.
template <int kSize>
__device__ void store_columns(Bytes out, std::int64_t first, std::int64_t last, Staged tile,
                              std::int64_t staged_first) {
  using Unit = Element<kUnit<kSize>>;
  constexpr int kWarps = kThreads / 32, kStep = 32 * kUnit<kSize>, kCount = kUnit<kSize> / kSize;
  const int lane = thread_in_block() % 32, warp = thread_in_block() / 32;
  const int start = first_element<kSize>(lane, tile.pitch);
  const int nominal = static_cast<int>(last - first) * kSize;
  const bool starts_row = first == 0, ends_row = last * kSize == out.cols;
  std::byte* to = &out(warp, first * kSize);
  const std::byte* column = tile.origin + static_cast<int>(first - staged_first) * tile.pitch;
  for (int line = warp; line < out.rows; line += kWarps, to += kWarps * out.stride) {
    const int early = offset_within(to, kSectorBytes);
    const int late = ends_row ? 0 : offset_within(to + nominal, kSectorBytes);
    const std::byte* staged = column + line * kSize;
    // The first unit may begin before the row, and the last unit may end after it.
    const bool incomplete =
        (starts_row && early > 0) || (ends_row && (nominal + early) % kUnit<kSize> != 0);
    if (!incomplete) {
      const std::byte* from[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) from[i] = staged + (i + start) % kCount * tile.pitch;
#pragma unroll 2
      for (int byte = lane * kUnit<kSize> - early; byte < nominal - late; byte += kStep)
        *reinterpret_cast<Unit*>(to + byte) = gather<kSize>(from, byte / kSize * tile.pitch, start);
    } else {
#pragma unroll 1
      for (int byte = lane * kUnit<kSize> - early; byte < nominal - late; byte += kStep)
        for (int i = 0; i < kUnit<kSize>; i += kSize)
          if ((!starts_row || byte + i >= 0) && byte + i < nominal)
            *reinterpret_cast<Element<kSize>*>(to + byte + i) =
                staged_element<kSize>(staged + (byte + i) / kSize * tile.pitch);
    }
  }
}

#endif

}  // namespace
}  // namespace ado::cuda
