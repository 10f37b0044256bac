// Transpose, the first steps: naive and narrow_blocks, tiled, padded, coarsened. They load and
// store single elements. Each kernel is written in full; compare it with the kernel above it. At
// the end: copy, the ceiling.
#pragma once

#include "transpose/matrix.cuh"

namespace ado::cuda {
namespace {

constexpr int kTile = 32;  // side of the square tile, in elements

#ifdef __CUDACC__

// One thread per element.
//
// The 32 lanes of a warp read neighbouring elements of one row, which is coalesced. They write to
// 32 rows, which costs one sector of 32 bytes per element. `narrow_blocks` runs this kernel in
// narrow, tall blocks. With 8 x 32 threads and aligned 4-byte elements, a warp loads four whole
// sectors and stores half of each of eight sectors.
template <class T>
__global__ void transpose_naive(Matrix<const T> a, Matrix<T> out) {
  const std::int64_t row = block_y() * blockDim.y + threadIdx.y;
  const std::int64_t col = block_x() * blockDim.x + threadIdx.x;
  if (a.contains(row, col)) out(col, row) = a(row, col);
}

// Shared memory: a block loads a tile along the rows of a and stores it along the rows of out, so
// that loads and stores are both coalesced. Only shared memory is accessed by columns. The parts of
// a tile outside the matrix are undefined and are not stored.
template <class T>
__global__ void __launch_bounds__(kTile* kTile) transpose_tiled(Matrix<const T> a, Matrix<T> out) {
  __shared__ T tile[kTile][kTile];
  const std::int64_t first_row = block_y() * kTile, first_col = block_x() * kTile;
  const int x = threadIdx.x, y = threadIdx.y;

  T element;
  if (a.contains(first_row + y, first_col + x)) element = a(first_row + y, first_col + x);
  tile[y][x] = element;
  __syncthreads();
  if (out.contains(first_col + y, first_row + x)) out(first_col + y, first_row + x) = tile[x][y];
}

// Padding: in `tiled`, a warp reads a column of the tile. For 4-byte elements, its 32 words are 32
// words apart, so all are in the same one of the 32 banks and are read one after another. With rows
// of 33 words, they are in 32 different banks and are read together.
template <class T>
__global__ void __launch_bounds__(kTile* kTile) transpose_padded(Matrix<const T> a, Matrix<T> out) {
  __shared__ T tile[kTile][kTile + 1];
  const std::int64_t first_row = block_y() * kTile, first_col = block_x() * kTile;
  const int x = threadIdx.x, y = threadIdx.y;

  T element;
  if (a.contains(first_row + y, first_col + x)) element = a(first_row + y, first_col + x);
  tile[y][x] = element;
  __syncthreads();
  if (out.contains(first_col + y, first_row + x)) out(first_col + y, first_row + x) = tile[x][y];
}

// Several elements per thread: a thread of `padded` has only one load in flight. With blocks of 32
// x kHeight threads, each thread moves 32 / kHeight elements. More bytes are then in flight per
// multiprocessor, and fewer warps wait at the barrier.
template <int kHeight, class T>
__global__ void __launch_bounds__(kTile* kHeight)
    transpose_coarsened(Matrix<const T> a, Matrix<T> out) {
  __shared__ T tile[kTile][kTile + 1];
  constexpr int kElements = kTile / kHeight;  // per thread
  const std::int64_t first_row = block_y() * kTile, first_col = block_x() * kTile;
  const int x = threadIdx.x, y = threadIdx.y;

  T element[kElements];  // in registers, so that all loads start before the first one is used
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const std::int64_t row = first_row + y + i * kHeight, col = first_col + x;
    if (a.contains(row, col)) element[i] = a(row, col);
  }
#pragma unroll
  for (int i = 0; i < kElements; ++i) tile[y + i * kHeight][x] = element[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const std::int64_t row = first_col + y + i * kHeight, col = first_row + x;
    if (out.contains(row, col)) out(row, col) = tile[x][y + i * kHeight];
  }
}

// The ceiling of the ladder: copies the bytes in order. One 16-byte vector per thread is the
// fastest of the versions tried (H200, 2026), as fast as cudaMemcpy: the resident blocks then span
// the least memory, which keeps DRAM pages open. Slower versions: 2, 4 or 8 vectors per thread (3
// to 6 %), the bulk copy engine (0.5 to 4 %, in a persistent ring 8 %), and loads that bypass L1 (3
// %). Prefetch and evict-first hints made no difference.
__global__ void transpose_copy(const std::byte* a, std::byte* out, std::int64_t bytes) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kVectorBytes;
  if (first + kVectorBytes <= bytes) {
    *reinterpret_cast<uint4*>(out + first) = *reinterpret_cast<const uint4*>(a + first);
  } else {
    for (std::int64_t i = first; i < bytes; ++i) out[i] = a[i];
  }
}

#endif

// One block per `cols` x `rows` elements of a. Blocks that are neighbours in x read neighbouring
// columns.
Extent grid_over(const Transpose& p, std::int64_t cols, std::int64_t rows) {
  return grid_of(ceil_div(p.cols(), cols), ceil_div(p.rows(), rows));
}

}  // namespace
}  // namespace ado::cuda
