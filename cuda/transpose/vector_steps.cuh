// Transpose by vectors: the kernels wide, unaligned_rows and in_place.
//
//   a in global memory --16 bytes--> registers --transposed, 16 bytes--> shared memory
//   shared memory --16 bytes--> registers --16 bytes--> out in global memory
#pragma once

#include "transpose/load_store.cuh"

#ifdef __CUDACC__

namespace ado::cuda {
namespace {

// Transposes the tile of the calling thread block. If possible, the last tile of a row of tiles is
// shifted left until it is inside the matrix, so that it contains no incomplete vectors. Another
// block stores the columns before first_col.
template <class Shape>
__device__ void transpose_tile(ConstBytes a, Bytes out, VectorOf<Shape>* tile) {
  const std::int64_t first_col = block_y() * Shape::kTileCols;
  if (first_col >= out.rows) return;                          // the grid is rounded up
  const std::int64_t last_col = out.rows - Shape::kTileCols;  // of a tile inside the matrix
  const bool movable = Shape::kSide > 1 && last_col >= 0 &&
                       (Shape::kRealigns || last_col * Shape::kSize % Shape::kWidth == 0);
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

// 16 bytes per access (1.1x over `coarsened` for 8192x8192 float32 on an H200, 97 % of the copy):
// fewer instructions move more bytes, and small elements are transposed in registers.
template <class Shape>
__global__ void __launch_bounds__(kThreads) transpose_wide(ConstBytes a, Bytes out) {
  static_assert(Shape::kAlign == 0);
  extern __shared__ __align__(16) std::byte shared[];
  transpose_tile<Shape>(a, out, reinterpret_cast<VectorOf<Shape>*>(shared));
}

// Whole sectors for unaligned rows (1.7x over `coarsened` for 8191x8193 float32 on an H200): stores
// start early, at a sector boundary, and small elements are loaded by aligned vectors.
//
// The register limit keeps more blocks resident: for 8191x8193 2-byte elements, 89 % of the
// throughput of the copy instead of 83 %. With a limit of four blocks, the compiler would use 48
// registers instead of 32 for 4-byte elements.
template <int kSize>
constexpr int kUnalignedBlocks = kSize == 1   ? 4
                                 : kSize == 2 ? 3
                                 : kSize == 4 ? 8
                                              : 6;

template <class Shape>
__global__ void __launch_bounds__(kThreads, blocks_held(kUnalignedBlocks<Shape::kSize>, kThreads))
    transpose_unaligned_rows(ConstBytes a, Bytes out) {
  static_assert(Shape::kAlign > 0);
  extern __shared__ __align__(16) std::byte shared[];
  transpose_tile<Shape>(a, out, reinterpret_cast<VectorOf<Shape>*>(shared));
}

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

ConstBytes input_bytes(const Transpose& p) {
  return {p.a.data, p.rows(), p.cols() * p.a.type.size, p.a.stride[0]};
}

Bytes output_bytes(const Transpose& p) {
  return {p.out.data, p.cols(), p.rows() * p.out.type.size, p.out.stride[0]};
}

}  // namespace
}  // namespace ado::cuda

#endif
