// Transpose, engine: few_rows and few_columns, for thin matrices. Blocks copy long parts of a to
// shared memory byte by byte, and gather elements from there.
//
//   a in global memory --8 bytes, asynchronously--> shared memory
//   shared memory --one element at a time--> registers --4 bytes or more--> out in global memory
//
// The copies are aligned in both memories at every alignment of a, because each row has the same
// offset within a vector in the tile as in a. For this purpose, the pitch of the tile is congruent
// to the stride of a modulo the size of a vector. Asynchronous copies use no registers while they
// are in flight.
//
// few_columns is a transpose with few rows in the other direction: rows of a are contiguous, and a
// block stores a part of each row of out.
#pragma once

#include "common/async_copy.cuh"
#include "transpose/engine/matrix.cuh"

namespace ado::cuda {
namespace {

// ---- few_rows, few_columns ----------------------------------------------------------------------
constexpr int kStagedVector = 8;  // bytes per asynchronous copy

// The part of a that a thread block stages: `rows` rows of `bytes` bytes, which are `pitch` bytes
// apart in shared memory. Each row is copied by `lanes` threads.
struct StagedShape {
  int rows = 0, bytes = 0, pitch = 0, lanes = 0;
  std::size_t shared_bytes() const {
    return static_cast<std::size_t>(rows) * pitch + 2 * kStagedVector;
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

// Stages `bytes` bytes of each of `rows` rows, from (first_row, first_byte) on. Each team of
// shape.lanes threads copies one row.
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

#endif

// Maximum number of rows for few_rows, which needs up to one thread per row of a period, and of
// columns for few_columns.
constexpr std::int64_t kFew = kThreads;

// Parts of rows have at least 256 bytes, because smaller parts would have many incomplete sectors.
constexpr std::int64_t kPartBytes = 256;

// Bytes of each of `count` long rows that a block processes: about `staged` bytes in total, or
// fewer if that is necessary for `blocks` blocks per multiprocessor.
int part_of_rows(std::int64_t row_bytes, std::int64_t count, std::int64_t staged, int blocks,
                 const Hardware& gpu) {
  const std::int64_t parts = std::max(blocks * gpu.multiprocessors, 1);
  const std::int64_t longest = row_bytes / parts / kPartBytes * kPartBytes;
  const std::int64_t part = ceil_div(staged / count, kPartBytes) * kPartBytes;
  return static_cast<int>(std::max(std::min(part, longest), kPartBytes));
}

// ---- few_rows -----------------------------------------------------------------------------------
#ifdef __CUDACC__

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

// H200 (2026): bytes per block, and blocks per multiprocessor.
constexpr int kRowsStaged = 16 << 10, kRowsBlocks = 2;

// The block processes one sector less than `part` bytes per row, because a row may start within a
// vector. Neighbouring rows of the tile then do not share a vector. The pitch is congruent to the
// stride of a modulo the size of a vector and is not a multiple of 16 bytes, so that the elements
// of a column are in different banks.
StagedShape few_rows_shape(const Transpose& p, const Hardware& gpu) {
  if (p.rows() == 0) return {.bytes = 1};
  const int part = part_of_rows(p.cols() * p.a.type.size, p.rows(), kRowsStaged, kRowsBlocks, gpu);
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

constexpr Variant<Transpose> kFewRows = {
    .name = "few_rows",
    .changes = {"If a has few rows, copies long parts of all rows and stores whole rows of out.",
                Step::kCoalescing, Step::kInFlight},
    .why_not = [](const Transpose& p) -> const char* {
      if (const char* reason = Transpose::why_not_out_of_place(p)) return reason;
      if (p.rows() > kFew) return "a has more than 256 rows";
      return p.out.packed() ? nullptr : "rows of out are padded, so whole rows are not contiguous";
    },
    .blocks = {{kBlock}},
    .grid =
        [](const Transpose& p, Extent, const Hardware& gpu) {
          return p.rows() == 0
                     ? Extent{}
                     : grid_of(ceil_div(p.cols() * p.a.type.size, few_rows_shape(p, gpu).bytes), 1);
        },
    .shared_bytes = [](const Transpose& p, Extent,
                       const Hardware& gpu) { return few_rows_shape(p, gpu).shared_bytes(); },
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      with_size(p, [&](auto size) {
        launch(go, transpose_few_rows<size>, input_bytes(p), output_bytes(p),
               few_rows_shape(p, go.hardware));
      });
    })};

// ---- few_columns --------------------------------------------------------------------------------
#ifdef __CUDACC__

// Few columns: a thread block reads whole rows of a, which are contiguous in memory, and writes a
// long part of each of the few rows of out. A warp writes a piece of one row at a time.
template <int kSize>
__global__ void __launch_bounds__(kThreads)
    transpose_few_columns(ConstBytes a, Bytes out, StagedShape shape) {
  using Unit = Element<kUnit<kSize>>;
  constexpr int kCount = kUnit<kSize> / kSize, kWarps = kThreads / 32;
  constexpr int kStep = 32 * kCount, kPiece = 4 * kStep;  // elements
  extern __shared__ __align__(16) std::byte shared[];
  const std::int64_t first = block_x() * shape.rows;
  const int rows = static_cast<int>(min(a.rows - first, std::int64_t{shape.rows}));
  const bool padded = shape.pitch > a.cols;  // else all rows are staged as a single one
  const ConstBytes flat{a.data, 1, a.rows * a.cols, 0};
  const Staged tile =
      padded ? stage_rows(a, first, rows, 0, shape.bytes, shared, shape)
             : stage_rows(flat, 0, 1, first * a.cols, rows * shape.bytes, shared, shape);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();

  const int cols = static_cast<int>(out.rows), lane = thread_in_block() % 32;
  const int start = first_element<kSize>(lane, shape.pitch);
  // kCount - 1 more elements, because the first unit of a row can start before the row.
  const int pieces = cols * ((rows + kCount - 1 + kPiece - 1) / kPiece);
  for (int piece = thread_in_block() / 32; piece < pieces; piece += kWarps) {
    const int col = piece % cols;
    std::byte* to = &out(col, first * kSize);
    const int early = offset_within(to, kUnit<kSize>) / kSize;
    const std::byte* column = tile.origin + col * kSize;
    const int begin = piece / cols * kPiece + lane * kCount - early;
#pragma unroll
    for (int step = 0; step < kPiece; step += kStep) {
      const int row = begin + step;
      if (row >= 0 && row + kCount <= rows) {
        const std::byte* from[kCount];
#pragma unroll
        for (int i = 0; i < kCount; ++i)
          from[i] = column + (row + (i + start) % kCount) * shape.pitch;
        *reinterpret_cast<Unit*>(to + row * kSize) = gather<kSize>(from, 0, start);
      } else {  // the first and the last unit may be incomplete
        for (int i = max(row, 0); i < min(row + kCount, rows); ++i)
          *reinterpret_cast<Element<kSize>*>(to + i * kSize) =
              staged_element<kSize>(column + i * shape.pitch);
      }
    }
  }
}

#endif

// H200 (2026).
constexpr int kColumnsStaged = 12 << 10, kColumnsBlocks = 4;

// Rows of whole vectors are padded by one vector, because otherwise all rows of the tile would
// start in the same few banks.
StagedShape few_columns_shape(const Transpose& p, const Hardware& gpu) {
  if (p.cols() == 0) return {.rows = 1};
  const int size = p.a.type.size, bytes = static_cast<int>(std::min(p.cols(), kFew)) * size;
  const bool pads = bytes % (2 * kStagedVector) == 0 && starts_at_vector(p.a.data, kStagedVector);
  const int part = part_of_rows(p.rows() * size, p.cols(), kColumnsStaged, kColumnsBlocks, gpu);
  StagedShape shape{.rows = part / size,
                    .bytes = bytes,
                    .pitch = bytes + pads * kStagedVector,
                    .lanes = kThreads};
  while (pads && shape.lanes > 1 && shape.lanes * kStagedVector > bytes) shape.lanes /= 2;
  while (!shape.fits(gpu)) shape.rows -= kSectorBytes / size;
  return shape;
}

constexpr Variant<Transpose> kFewColumns = {
    .name = "few_columns",
    .changes = {"If a has few columns, copies whole rows and stores long parts of all rows of out.",
                Step::kCoalescing, Step::kInFlight},
    .why_not = [](const Transpose& p) -> const char* {
      if (const char* reason = Transpose::why_not_out_of_place(p)) return reason;
      if (p.cols() > kFew) return "a has more than 256 columns";
      return p.a.packed() ? nullptr : "rows of a are padded, so whole rows are not contiguous";
    },
    .blocks = {{kBlock}},
    .grid =
        [](const Transpose& p, Extent, const Hardware& gpu) {
          return p.cols() == 0 ? Extent{}
                               : grid_of(ceil_div(p.rows(), few_columns_shape(p, gpu).rows), 1);
        },
    .shared_bytes = [](const Transpose& p, Extent,
                       const Hardware& gpu) { return few_columns_shape(p, gpu).shared_bytes(); },
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      with_size(p, [&](auto size) {
        launch(go, transpose_few_columns<size>, input_bytes(p), output_bytes(p),
               few_columns_shape(p, go.hardware));
      });
    })};

}  // namespace
}  // namespace ado::cuda
