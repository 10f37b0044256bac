// Transpose by vectors: the tile shapes per element size, and the grids.
//
// The shapes and limits are tuned on an H200. Percentages are relative to the throughput of
// cudaMemcpy for the same number of bytes, L2 flushed.
#pragma once

#include "transpose/matrix.cuh"

namespace ado::cuda {
namespace {

constexpr Extent kBlock{32, 8};
constexpr int kThreads = kBlock.volume();

#ifdef __CUDACC__

// The remainder operation only tells the compiler the range, which saves registers.
__device__ int thread_in_block() {
  return static_cast<int>((threadIdx.y * kBlock.x + threadIdx.x) % kThreads);
}

#endif

// Describes a tile: kAcross vectors of kWidth bytes along the rows of a, kLoaded along the rows of
// out. A thread has kInFlight micro-tiles in flight, times the vectors per lane of a row of a.
//
// kAlign = 0: all rows start at multiples of kWidth. Otherwise, a vector of several elements is
// realigned from two aligned vectors (registers.cuh). The part of a row of out that a tile stores
// starts early, at the last multiple of kAlign at or before its nominal start. So only the two ends
// of a row of out can be incomplete sectors:
//
//   sectors   |       |       |       |       |       |       |
//   nominal      [    tile 0    ][    tile 1    ][  tile 2  ]
//   stored       [  tile 0   ][    tile 1    ][   tile 2    ]
//   early                     <->   less than kAlign bytes, the same for all tiles of the row
//
// The early elements belong to the previous tile, so each tile loads kSlack more vectors than it
// stores: the kAlign bytes before its nominal start.
template <int kSize_, int kWidth_, int kAcross_, int kLoaded_, int kInFlight_, int kAlign_ = 0>
struct TileShape {
  static constexpr int kSize = kSize_, kWidth = kWidth_, kAcross = kAcross_, kLoaded = kLoaded_;
  static constexpr int kInFlight = kInFlight_, kAlign = kAlign_;
  static constexpr int kSide = kWidth / kSize;  // elements per vector, side of a micro-tile
  static constexpr int kSlack = kAlign / kWidth, kStored = kLoaded - kSlack;
  static constexpr int kTileRows = kStored * kSide, kTileCols = kAcross * kSide;  // of a
  static constexpr int kVectors = kAcross * kSide * kLoaded;
  static constexpr int kBytes = kVectors * kWidth;  // of shared memory
  static constexpr bool kRealigns = kAlign > 0 && kSize < kWidth;
  static constexpr int kMargin = kRealigns ? 1 : 0;  // rows around it that aligned loads may touch
};

// 256 bytes across. 256 bytes down, or 512 if elements are wide.
template <int kSize>
constexpr int kWideDown = kSize >= 8 ? 32 : 16;
template <int kSize>
using WideTile = TileShape<kSize, kVectorBytes, 16, kWideDown<kSize>, kWideDown<kSize> / 16>;

// If rows are unaligned, a vector of several elements needs two loads and a shift. Elements of 4
// bytes and more are therefore moved one by one, still in whole sectors. Smaller elements are moved
// by realigned vectors: 2-byte elements by 16-byte vectors (89 %; 8-byte vectors: 83 %), 1-byte
// elements by 8-byte vectors (82 %; 16-byte vectors: 68 %).
//
// Tiles have 16 to 64 KiB. The sector at the end of an unaligned part of a row is needed again, so
// L1 must have enough space to keep it. With tiles that used 200 of the 256 KiB of L1, the
// throughput was 82 % instead of 92 %.
template <int kSize>
struct UnalignedTileOf {
  using Type = TileShape<kSize, kSize, 512 / kSize, 32, 4, kSectorBytes>;
};
template <>
struct UnalignedTileOf<4> {
  using Type = TileShape<4, 4, 64, 64, 4, kSectorBytes>;
};
template <>
struct UnalignedTileOf<2> {
  using Type = TileShape<2, kVectorBytes, 16, 16, 1, kSectorBytes>;
};
template <>
struct UnalignedTileOf<1> {
  using Type = TileShape<1, 8, 16, 32, 2, kVectorBytes>;
};
template <int kSize>
using UnalignedTile = typename UnalignedTileOf<kSize>::Type;

// A tile with half as many rows of a. For 1-byte elements, it is faster up to about 8191x8193 (74 %
// instead of 72 %; 5699x4389: 69 % instead of 64 %), and if a has few rows.
using SmallUnalignedTile = TileShape<1, 8, 16, 16, 1, kVectorBytes>;

// Calls `visit` with the shape of the tiles of `unaligned_rows`.
template <class Visit>
auto with_unaligned_tile(const Transpose& p, Visit visit) {
  return with_size(p, [&](auto size) {
    if constexpr (size == 1)
      if (p.a.bytes() < 96 << 20 || p.rows() < 1024) return visit(SmallUnalignedTile{});
    return visit(UnalignedTile<size>{});
  });
}

// In place, tiles are square and are stored from their nominal start, because another block owns
// the elements before it. Unaligned elements of 1 and 2 bytes are then stored one by one.
template <int kSize, int kAlign>
using InPlaceTile =
    std::conditional_t<(kSize >= 4),
                       TileShape<kSize, kSize, 256 / kSize, 256 / kSize, kSize == 16 ? 1 : 4>,
                       TileShape<kSize, 8, 16, 16, 1, kAlign>>;

// Calls `visit` with the shape of the tiles that `in_place` swaps.
template <class Visit>
auto with_in_place_tile(const Transpose& p, Visit visit) {
  return with_size(p, [&](auto size) {
    return rows_aligned(p.out, 8) ? visit(InPlaceTile<size, 0>{})
                                  : visit(InPlaceTile<size, size>{});
  });
}

// Blocks that are neighbours in x store neighbouring parts of the same rows of out, so the next
// block completes the sectors and DRAM pages that one block leaves incomplete. If neighbouring
// blocks load the same rows of a instead, the kernel takes 2 to 3 % longer, with bands of tiles up
// to 8 %. Only for vectors in rows that are 128 KiB apart, bands of 1024 rows are faster: 94 % of
// the copy instead of 92 %.
template <class Shape>
Extent grid_of_tiles(const Transpose& p, Shape) {
  if (p.rows() == 0) return {};
  const std::int64_t early = Shape::kAlign > 0 ? Shape::kAlign / Shape::kSize - 1 : 0;
  return grid_of(ceil_div(p.rows() + early, Shape::kTileRows),
                 ceil_div(p.cols(), Shape::kTileCols));
}

// A grid that covers the triangle of tiles on and above the diagonal: n + 1 by n / 2 blocks for n x
// n tiles, with n rounded up to an even number. Block (x, y) with x > y has a tile in row y from
// the top. The other blocks (marked *) have a tile in row y from the bottom, because their tile in
// row y from the top would be below the diagonal. For n = 4, the block of each tile:
//
//              col 0    col 1    col 2    col 3
//   row 0      (1,0)    (2,0)    (3,0)    (4,0)
//   row 1               (2,1)    (3,1)    (4,1)
//   row 2                        (1,1)*   (0,1)*
//   row 3                                 (0,0)*
template <class Shape>
Extent grid_of_triangle(const Transpose& p, Shape) {
  static_assert(Shape::kTileRows == Shape::kTileCols && Shape::kSlack == 0);
  if (p.rows() == 0) return {};
  const std::int64_t tiles = ceil_div(p.rows(), Shape::kTileRows), even = tiles + tiles % 2;
  return grid_of(even + 1, even / 2);
}

}  // namespace
}  // namespace ado::cuda
