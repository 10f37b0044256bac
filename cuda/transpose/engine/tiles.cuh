// Transpose, engine: unaligned_rows and in_place, which load and store the tiles of `wide` at any
// alignment.
//
// The shapes are tuned on an H200 (2026). Percentages are relative to the throughput of cudaMemcpy
// for the same number of bytes, L2 flushed.
#pragma once

#include "common/micro_tile.cuh"
#include "transpose/engine/matrix.cuh"

namespace ado::cuda {
namespace {

// ---- unaligned_rows, in_place -------------------------------------------------------------------

// Describes a tile: kAcross vectors of kWidth bytes along the rows of a, kLoaded along the rows of
// out. A thread has kInFlight micro-tiles in flight, times the vectors per lane of a row of a.
//
// kAlign = 0: all rows start at multiples of kWidth. Otherwise, a vector of several elements is
// realigned from two aligned vectors. The part of a row of out that a tile stores starts early, at
// the last multiple of kAlign at or before its nominal start. So only the two ends of a row of out
// can be incomplete sectors:
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

#ifdef __CUDACC__

template <class Shape>
using VectorOf = Vector<unsigned, Shape::kWidth / 4>;

template <class T>
__device__ T load_as(const std::byte* from) {
  return *reinterpret_cast<const T*>(from);
}

// The position of a vector in shared memory, swizzled as in `wide`. A tile has kTileCols lines, one
// per row of out, of kLoaded vectors each.
template <class Shape>
__device__ int slot(int column, int i, int group) {
  constexpr int kPositions = 128 / Shape::kWidth;  // that span the banks
  static_assert(Shape::kLoaded % kPositions == 0);
  return (column * Shape::kSide + i) * Shape::kLoaded + (group ^ column % kPositions);
}

// Versions of the loads, for the reason that `wide` has several. kInside: the tile is well inside
// the matrix. kClamped: the tile has rows outside the matrix. The nearest row is loaded instead of
// each of them and is not stored. kChecked: each vector is checked.
enum class Bounds { kInside, kClamped, kChecked };

// Loads a tile of `a`, transposed. Teams of kLanes neighbouring threads load kSide rows at a time.
template <class Shape, Bounds kBounds>
__device__ void load_tile(ConstBytes a, std::int64_t first_row, std::int64_t first_col,
                          VectorOf<Shape>* tile) {
  using Words = VectorOf<Shape>;
  using T = Element<Shape::kSize>;
  constexpr int kLanes = Shape::kAcross < 32 ? Shape::kAcross : 32;
  constexpr int kPerLane = Shape::kAcross / kLanes, kTeams = kThreads / kLanes;
  constexpr bool kChecks = kBounds == Bounds::kChecked;
  constexpr int kInFlight = kChecks && Shape::kSide > 1 ? 1 : Shape::kInFlight;
  // 16-byte vectors are all loaded before the first one is realigned. Otherwise too few loads are
  // in flight: 83 % of cudaMemcpy instead of 89 % (H200). For 8-byte vectors, realigning each
  // vector at once is faster: 77 % instead of 72 %.
  constexpr bool kRealignsLate = Shape::kRealigns && (kChecks || Shape::kWidth == kVectorBytes);
  static_assert(Shape::kLoaded % (kTeams * kInFlight) == 0);
  static_assert(!Shape::kRealigns || kPerLane == 1);  // one shift per row
  const int lane = thread_in_block() % kLanes, team = thread_in_block() / kLanes;
  const std::byte* end = &a(a.rows - 1, a.cols);

#pragma unroll 1
  for (int group = team; group < Shape::kLoaded; group += kTeams * kInFlight) {
    Words micro_tile[kInFlight][kPerLane][Shape::kSide], next[kInFlight][kPerLane][Shape::kSide];
    unsigned shift[kInFlight][Shape::kSide];
#pragma unroll
    for (int flight = 0; flight < kInFlight; ++flight) {
#pragma unroll
      for (int i = 0; i < Shape::kSide; ++i) {
        std::int64_t row = first_row + (group + flight * kTeams) * Shape::kSide + i;
        if (kBounds != Bounds::kInside) row = min(max(row, std::int64_t{0}), a.rows - 1);
        const std::int64_t byte = (first_col + lane * Shape::kSide) * Shape::kSize;
        const std::byte* from = &a(row, byte);
        const unsigned offset =
            Shape::kRealigns ? reinterpret_cast<std::uintptr_t>(from) % Shape::kWidth : 0;
        shift[flight][i] = offset;
        const std::byte* first = from - offset;
        const std::byte* second = offset != 0 ? first + Shape::kWidth : first;
#pragma unroll
        for (int step = 0; step < kPerLane; ++step) {
          const int skip = step * kLanes * Shape::kWidth;
          Words& vector = micro_tile[flight][step][i];
          if (!kChecks || (byte + skip + Shape::kWidth <= a.cols &&
                           (!Shape::kRealigns ||
                            (first + skip >= a.data && second + skip + Shape::kWidth <= end)))) {
            vector = load_as<Words>(first + skip);
            if constexpr (kRealignsLate)
              next[flight][step][i] = load_as<Words>(second + skip);
            else if constexpr (Shape::kRealigns)
              vector = realign(vector, load_as<Words>(second + skip), offset);
          } else if constexpr (Shape::kSide > 1) {
            T element[Shape::kSide];
#pragma unroll
            for (int k = 0; k < Shape::kSide; ++k)
              if (byte + skip + k * Shape::kSize < a.cols)
                element[k] = load_as<T>(from + skip + k * Shape::kSize);
            memcpy(&vector, element, sizeof vector);
            shift[flight][i] = 0;
          }
        }
      }
    }
#pragma unroll
    for (int flight = 0; flight < kInFlight; ++flight) {
#pragma unroll
      for (int step = 0; step < kPerLane; ++step) {
        if constexpr (kRealignsLate)
#pragma unroll
          for (int i = 0; i < Shape::kSide; ++i)
            micro_tile[flight][step][i] =
                realign(micro_tile[flight][step][i], next[flight][step][i], shift[flight][i]);
        transpose_in_registers<Shape::kSize>(micro_tile[flight][step]);
#pragma unroll
        for (int i = 0; i < Shape::kSide; ++i)
          tile[slot<Shape>(step * kLanes + lane, i, group + flight * kTeams)] =
              micro_tile[flight][step][i];
      }
    }
  }
}

// Stores the tile to the rows of `out` from first_row on, except rows before `first_stored`. In
// each row, the tile starts at byte `start`, rounded down to a multiple of kAlign (TileShape).
// Only bytes [first_byte, last_byte) of the row are written.
template <class Shape, bool kWhole>
__device__ void store_tile(Bytes out, std::int64_t first_row, std::int64_t first_stored,
                           std::int64_t start, std::int64_t first_byte, std::int64_t last_byte,
                           const VectorOf<Shape>* tile) {
  using Words = VectorOf<Shape>;
  using T = Element<Shape::kSize>;
  constexpr bool kByVectors = !Shape::kRealigns || Shape::kAlign % Shape::kWidth == 0;
  constexpr int kLanes = Shape::kStored <= 16 ? 16 : 32;
  constexpr int kTeams = kThreads / kLanes;
  const int lane = thread_in_block() % kLanes, team = thread_in_block() / kLanes;

#pragma unroll 4
  for (int row = team; row < Shape::kTileCols; row += kTeams) {
    if (!kWhole && first_row + row >= out.rows) break;
    if (!kWhole && first_row + row < first_stored) continue;
    std::byte* to = &out(first_row + row, start);
    const int early = Shape::kAlign > 0
                          ? static_cast<int>(reinterpret_cast<std::uintptr_t>(to) % Shape::kAlign)
                          : 0;
    const int column = row / Shape::kSide, i = row % Shape::kSide;
#pragma unroll
    for (int vector = lane; vector < Shape::kStored; vector += kLanes) {
      const int at = vector * Shape::kWidth - early;        // from `to`
      const int from = at + Shape::kSlack * Shape::kWidth;  // from the start of the loaded line
      Words value = tile[slot<Shape>(column, i, from / Shape::kWidth)];
      if constexpr (Shape::kRealigns && kByVectors) {
        const int last = (from + Shape::kWidth - 1) / Shape::kWidth;
        value = realign(value, tile[slot<Shape>(column, i, last)], from % Shape::kWidth);
      }
      if (kByVectors &&
          (kWhole || (start + at >= first_byte && start + at + Shape::kWidth <= last_byte))) {
        *reinterpret_cast<Words*>(to + at) = value;
      } else if constexpr (Shape::kSide > 1) {
        T element[Shape::kSide];
        memcpy(element, &value, sizeof value);
#pragma unroll
        for (int k = 0; k < Shape::kSide; ++k) {
          const std::int64_t byte = start + at + k * Shape::kSize;
          if (byte >= first_byte && byte < last_byte)
            *reinterpret_cast<T*>(to + at + k * Shape::kSize) = element[k];
        }
      }
    }
  }
}

#endif

// ---- unaligned_rows -----------------------------------------------------------------------------
// If rows are unaligned, a vector of several elements needs two loads and a shift. Elements of 4
// bytes and more are therefore moved one by one, still in whole sectors. Smaller elements are moved
// by realigned vectors: 2-byte elements by 16-byte vectors (89 %; 8-byte vectors: 83 %), 1-byte
// elements by 8-byte vectors (82 %; 16-byte vectors: 68 %).
//
// Tiles have 16 or 32 KiB. The sector at the end of an unaligned part of a row is needed again, so
// L1 must have enough space to keep it. With tiles that used 200 of the 256 KiB of L1, the
// throughput was 82 % instead of 92 %.
//
// For 1-byte elements, a tile with half as many rows of a is faster if a has few rows, and up to
// about 8191x8193 (74 % instead of 72 %; 5699x4389: 69 % instead of 64 %). kLargeTiles is the
// corresponding limit, in large tiles per multiprocessor.
constexpr double kLargeTiles = 23.27;
constexpr std::int64_t kRowsForLargeTiles = 1024;

// Calls `visit` with the shape of the tiles of `unaligned_rows`.
template <class Visit>
auto with_unaligned_tile(const Transpose& p, const Hardware& gpu, Visit visit) {
  return with_size(p, [&](auto size) {
    if constexpr (size == 1) {
      using Large = TileShape<1, 8, 16, 32, 2, kVectorBytes>;
      const auto tiles = static_cast<double>(p.a.bytes() / Large::kBytes);
      const bool many = tiles > kLargeTiles * gpu.multiprocessors;
      return many && p.rows() >= kRowsForLargeTiles
                 ? visit(Large{})
                 : visit(TileShape<1, 8, 16, 16, 1, kVectorBytes>{});
    } else if constexpr (size == 2) {
      return visit(TileShape<2, kVectorBytes, 16, 16, 1, kSectorBytes>{});
    } else if constexpr (size == 4) {
      return visit(TileShape<4, 4, 64, 64, 4, kSectorBytes>{});
    } else {
      return visit(TileShape<size, size, 512 / size, 32, 4, kSectorBytes>{});
    }
  });
}

// Neighbours in x store neighbouring parts of the same rows of out, as in `wide`.
template <class Shape>
Extent grid_of_unaligned_tiles(const Transpose& p, Shape) {
  if (p.rows() == 0) return {};
  constexpr std::int64_t early = Shape::kAlign / Shape::kSize - 1;
  return grid_of(ceil_div(p.rows() + early, Shape::kTileRows),
                 ceil_div(p.cols(), Shape::kTileCols));
}

#ifdef __CUDACC__

// Whole sectors for unaligned rows: stores start early, at a sector boundary, and small elements
// are loaded by aligned vectors.
//
// The register limit keeps more blocks resident: for 8191x8193 2-byte elements on an H200, 89 % of
// the throughput of the copy instead of 83 %. With a limit of four blocks, the compiler would use
// 48 registers instead of 32 for 4-byte elements.
template <int kSize>
constexpr int kUnalignedBlocks = kSize == 1   ? 4
                                 : kSize == 2 ? 3
                                 : kSize == 4 ? 8
                                              : 6;

// The last tile of a row of tiles is shifted left as in `wide`, if its vectors are realigned.
template <class Shape>
__global__ void __launch_bounds__(kThreads, blocks_held(kUnalignedBlocks<Shape::kSize>, kThreads))
    transpose_unaligned_rows(ConstBytes a, Bytes out) {
  static_assert(Shape::kAlign > 0 && Shape::kRealigns == (Shape::kSide > 1));
  extern __shared__ __align__(16) std::byte shared[];
  auto* const tile = reinterpret_cast<VectorOf<Shape>*>(shared);
  const std::int64_t first_col = block_y() * Shape::kTileCols;
  if (first_col >= out.rows) return;                          // the grid is rounded up
  const std::int64_t last_col = out.rows - Shape::kTileCols;  // of a tile inside the matrix
  const bool movable = Shape::kRealigns && last_col >= 0;
  const std::int64_t col = movable ? min(first_col, last_col) : first_col;
  const std::int64_t row = block_x() * Shape::kTileRows;
  const std::int64_t first_row = row - Shape::kSlack * Shape::kSide,
                     last_row = row + Shape::kTileRows;
  // Aligned vectors can extend beyond the matrix only near its first and its last element.
  const bool at_start = first_row < Shape::kMargin && col < Shape::kSide;
  const bool at_end = last_row + Shape::kMargin > a.rows && col > last_col - Shape::kSide;
  const bool rows_inside = first_row >= 0 && last_row <= a.rows;
  if (col > last_col || (Shape::kRealigns && (at_start || at_end)))
    load_tile<Shape, Bounds::kChecked>(a, first_row, col, tile);
  else if (rows_inside)
    load_tile<Shape, Bounds::kInside>(a, first_row, col, tile);
  else
    load_tile<Shape, Bounds::kClamped>(a, first_row, col, tile);
  __syncthreads();
  if (rows_inside && first_col <= last_col)
    store_tile<Shape, true>(out, col, first_col, row * Shape::kSize, 0, out.cols, tile);
  else
    store_tile<Shape, false>(out, col, first_col, row * Shape::kSize, 0, out.cols, tile);
}

#endif

constexpr Variant<Transpose> kUnalignedRows = {
    .name = "unaligned_rows",
    .changes = {"Keeps accesses aligned if rows are not.", Step::kCoalescing},
    .why_not = Transpose::why_not_out_of_place,
    .blocks = {{kBlock}},
    .grid =
        [](const Transpose& p, Extent, const Hardware& gpu) {
          return with_unaligned_tile(p, gpu,
                                     [&](auto shape) { return grid_of_unaligned_tiles(p, shape); });
        },
    .shared_bytes =
        [](const Transpose& p, Extent, const Hardware& gpu) {
          return with_unaligned_tile(
              p, gpu, [](auto shape) { return std::size_t{decltype(shape)::kBytes}; });
        },
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      with_unaligned_tile(p, go.hardware, [&](auto shape) {
        launch(go, transpose_unaligned_rows<decltype(shape)>, input_bytes(p), output_bytes(p));
      });
    })};

// ---- in_place -----------------------------------------------------------------------------------
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
    return Transpose::rows_aligned(p.out, 8) ? visit(InPlaceTile<size, 0>{})
                                             : visit(InPlaceTile<size, size>{});
  });
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

#ifdef __CUDACC__

// Swaps tile (row, col) with tile (col, row). One block processes both tiles, so no block
// overwrites elements that another block has not read yet.
template <class Shape, bool kWhole>
__device__ void swap_tiles(Bytes m, std::int64_t row, std::int64_t col, VectorOf<Shape>* tiles) {
  const ConstBytes a{m.data, m.rows, m.cols, m.stride};
  const auto last_byte = [&](std::int64_t first) {
    return min((first + Shape::kTileRows) * Shape::kSize, m.cols);
  };
  constexpr Bounds kBounds = kWhole ? Bounds::kInside : Bounds::kChecked;
  load_tile<Shape, kBounds>(a, row, col, tiles);
  if (row != col) load_tile<Shape, kBounds>(a, col, row, tiles + Shape::kVectors);
  __syncthreads();
  store_tile<Shape, kWhole>(m, col, 0, row * Shape::kSize, row * Shape::kSize, last_byte(row),
                            tiles);
  if (row != col)
    store_tile<Shape, kWhole>(m, row, 0, col * Shape::kSize, col * Shape::kSize, last_byte(col),
                              tiles + Shape::kVectors);
}

// In place: one block per tile of the upper triangle (grid_of_triangle), swapped with its mirror.
template <class Shape>
__global__ void __launch_bounds__(kThreads) transpose_in_place(Bytes m) {
  extern __shared__ __align__(16) std::byte shared[];
  auto* tiles = reinterpret_cast<VectorOf<Shape>*>(shared);
  const std::int64_t x = block_x(), y = block_y(), last = gridDim.x - 2;
  const std::int64_t row = (x > y ? y : last - y) * Shape::kTileRows;
  const std::int64_t col = (x > y ? x - 1 : last - x) * Shape::kTileRows;
  if (col >= m.rows || 2 * y > last) return;  // the grid is rounded up
  if (row >= Shape::kMargin && col + Shape::kTileRows + Shape::kMargin <= m.rows)
    swap_tiles<Shape, true>(m, row, col, tiles);
  else
    swap_tiles<Shape, false>(m, row, col, tiles);
}

#endif

constexpr Variant<Transpose> kInPlace = {
    .name = "in_place",
    .changes = {"Swaps pairs of tiles if out is a.", Step::kOther},
    .why_not = [](const Transpose& p) { return p.in_place() ? nullptr : "out is not a"; },
    .blocks = {{kBlock}},
    .grid =
        [](const Transpose& p, Extent) {
          return with_in_place_tile(p, [&](auto shape) { return grid_of_triangle(p, shape); });
        },
    .shared_bytes =
        [](const Transpose& p, Extent) {
          return with_in_place_tile(
              p, [](auto shape) { return 2 * std::size_t{decltype(shape)::kBytes}; });
        },
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      with_in_place_tile(
          p, [&](auto shape) { launch(go, transpose_in_place<decltype(shape)>, output_bytes(p)); });
    })};

}  // namespace
}  // namespace ado::cuda
