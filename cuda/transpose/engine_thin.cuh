// Transpose, engine: few_columns and few_rows, for matrices with few columns or rows. A part of a
// is copied to a tile in shared memory byte for byte, and elements are gathered from the tile.
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
#include "transpose/wide_step.cuh"

namespace ado::cuda {
namespace {

constexpr int kStagedVector = 8;  // bytes per asynchronous copy

// The part of a that a thread block stages: `rows` rows of `bytes` bytes, and `slack` rows before
// them (TileShape). Rows are `pitch` bytes apart in shared memory. Each row is copied by
// `lanes` threads.
struct StagedShape {
  int rows = 0, bytes = 0, slack = 0, pitch = 0, lanes = 0;
  std::size_t shared_bytes() const {
    return static_cast<std::size_t>(rows + slack) * pitch + 2 * kStagedVector;
  }
  bool fits(const Hardware& gpu) const {  // 64 KiB per block fit each GPU
    return shared_bytes() <= std::size_t{64} << 10 ||
           shared_bytes() <= static_cast<std::size_t>(gpu.shared_bytes);
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
// at least `parts` parts, so that all multiprocessors have several blocks.
std::int64_t part_of_rows(std::int64_t bytes, std::int64_t count, std::int64_t staged,
                          std::int64_t parts) {
  const std::int64_t part = ceil_div(staged / count, kPartBytes) * kPartBytes;
  const std::int64_t most = bytes / std::max(parts, std::int64_t{1}) / kPartBytes * kPartBytes;
  return std::max(std::min(part, most), kPartBytes);
}

constexpr Tuned<int> kColumnsStaged{.value = 12 << 10, .device = "H200"};  // bytes per block
constexpr Tuned<int> kColumnsBlocks{.value = 4, .device = "H200"};         // per multiprocessor
constexpr Tuned<int> kRowsStaged{.value = 16 << 10, .device = "H200"};
constexpr Tuned<int> kRowsBlocks{.value = 2, .device = "H200"};

// Pads the rows of the tile by one vector if all rows would otherwise start in the same few banks.
StagedShape few_columns_shape(const Transpose& p, const Hardware& gpu) {
  if (p.cols() == 0) return {.rows = 1};
  const int size = p.a.type.size;
  const std::int64_t bytes = p.cols() * size;
  const bool pads = bytes % (2 * kStagedVector) == 0 && starts_at_vector(p.a.data, kStagedVector);
  const std::int64_t part = part_of_rows(p.rows() * size, p.cols(), kColumnsStaged.on(gpu),
                                         kColumnsBlocks.on(gpu) * gpu.multiprocessors);
  StagedShape shape{.rows = static_cast<int>(part) / size,
                    .bytes = static_cast<int>(bytes),
                    .slack = rows_aligned(p.out, kSectorBytes) ? 0 : kSectorBytes / size,
                    .pitch = static_cast<int>(bytes) + (pads ? kStagedVector : 0)};
  // Parts remain whole sectors. Costs are also computed for matrices that why_not rejects.
  while (p.cols() <= kFew && !shape.fits(gpu)) shape.rows -= kSectorBytes / size;
  return shape;
}

Extent grid_of_few_columns(const Transpose& p, Extent, const Hardware& gpu) {
  if (p.cols() == 0) return {};
  return grid_of(ceil_div(p.rows(), few_columns_shape(p, gpu).rows), 1);
}

// The block processes one sector less than `part` bytes per row, because a row may start within a
// vector. Neighbouring rows of the tile then do not share a vector. The pitch is congruent to the
// stride of a modulo the size of a vector and is not a multiple of 16 bytes, so that the elements
// of a column are in different banks.
StagedShape few_rows_shape(const Transpose& p, const Hardware& gpu) {
  if (p.rows() == 0) return {.bytes = 1};
  const int size = p.a.type.size;
  const auto part = static_cast<int>(part_of_rows(p.cols() * size, p.rows(), kRowsStaged.on(gpu),
                                                  kRowsBlocks.on(gpu) * gpu.multiprocessors));
  StagedShape shape{.rows = static_cast<int>(p.rows()), .bytes = part - kSectorBytes, .lanes = 32};
  while (shape.lanes < kThreads && shape.lanes * kStagedVector < part) shape.lanes *= 2;
  shape.pitch = part + static_cast<int>(p.a.stride[0] & (kStagedVector - 1));
  if (shape.pitch % (2 * kStagedVector) == 0) shape.pitch += kStagedVector;
  while (p.rows() <= kFew && !shape.fits(gpu)) {
    shape.bytes -= kSectorBytes;
    shape.pitch -= kSectorBytes;
  }
  return shape;
}

Extent grid_of_few_rows(const Transpose& p, Extent, const Hardware& gpu) {
  if (p.rows() == 0) return {};
  return grid_of(ceil_div(p.cols() * p.a.type.size, few_rows_shape(p, gpu).bytes), 1);
}

}  // namespace
}  // namespace ado::cuda
