// Gaussian blur in two passes. The weights are the product of taps along the rows and taps down the
// columns, so 7 + 7 products replace 49:
//
//     tile with halo                across                       result
//   +----------------+          +--------------+
//   |                |  7 taps  |              |  7 taps
//   |  14 x 38       |  ----->  |  14 x 32     |  ----->   +--------------+
//   |  pixels        |  along   |  sums        |  down     |  8 x 32      |
//   |                |  rows    |              |  columns  +--------------+
//   |                |          |              |
//   +----------------+          +--------------+
//
// The first pass also sums the three rows above and below the tile, which the second pass needs.
#pragma once

#include "gaussian_blur/weights.cuh"
#include "image/view.cuh"

namespace ado::cuda {
namespace {

constexpr int kTwoPassBlockRows = 8;

// Columns that are loaded on either side of a tile if threads load kLoaded pixels at a time: the
// radius, rounded up to a multiple of kLoaded, so that the first column is aligned.
template <int kLoaded>
constexpr int kMargin = kRadius + kRadius % kLoaded;

#ifdef __CUDACC__

// ---------------------------------------------------------------------------------------------
// separable: one pixel per thread, 1.7 ms for 16384 x 16384 pixels on an H200.
__global__ void __launch_bounds__(kBlockCols* kTwoPassBlockRows)
    gaussian_blur_separable(Batch batch) {
  constexpr int kHaloRows = kTwoPassBlockRows + 2 * kRadius, kHaloCols = kBlockCols + 2 * kRadius;
  __shared__ int tile[kHaloRows][kHaloCols];
  __shared__ int across[kHaloRows][kBlockCols];
  const int row = threadIdx.y, col = threadIdx.x;
  const ImageView view(batch);

  // Loads the tile and its halo as in gaussian_blur_shared.
  load_tile<kHaloCols, kTwoPassBlockRows>(view.moved(-kRadius, -kRadius), tile);
  __syncthreads();

  // First pass: seven taps along each row, in two rounds of eight rows.
#pragma unroll
  for (int first = 0; first < kHaloRows; first += kTwoPassBlockRows) {
    if (first + row >= kHaloRows) break;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kTaps; ++i) sum += weights.tap[i] * tile[first + row][col + i];
    across[first + row][col] = sum;
  }
  __syncthreads();

  // Second pass: seven taps down each column.
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i) sum += weights.tap[i] * across[row + i][col];
  view.moved(row, col).store(0, 0, static_cast<std::uint8_t>(sum >> kShift));
}

// ---------------------------------------------------------------------------------------------
// Two passes with kDown by kAcross neighbouring pixels per thread. A thread copies kLoaded pixels
// at a time to shared memory and reads kAcross pixels at a time from there.
//
//   two_pixels    2 rows by 1 column, 1.29 ms
//   wide_shared   2 rows by 2 columns, 1.08 ms: half the shared-memory accesses
//   float_taps    the same with floats, 1.11 ms. Floats were faster on GPUs that multiply integers
//                 at a sixth of their rate. Here multiplications are not the limit, and the
//                 conversions cost more than is saved.
//
// With kAcross = kLoaded = 2, a thread reads ten columns of a tile's row as five vectors of 8
// bytes. The margin is four columns instead of three, so that these vectors are aligned:
//
//   column - col       0  1   2  3   4  5   6  7   8  9
//   8-byte accesses   [    ] [    ] [    ] [    ] [    ]
//   taps of pixel 0       0   1  2   3  4   5  6
//   taps of pixel 1           0  1   2  3   4  5   6
template <class Number, int kAcross, int kDown, int kLoaded>
__global__ void __launch_bounds__(kBlockCols* kTwoPassBlockRows)
    gaussian_blur_two_passes(Batch batch) {
  constexpr int kCols = kBlockCols * kAcross, kRows = kTwoPassBlockRows * kDown;
  constexpr int kHaloRows = kRows + 2 * kRadius, kHaloCols = kCols + 2 * kMargin<kLoaded>;
  __shared__ __align__(8) Number tile[kHaloRows][kHaloCols];
  __shared__ __align__(8) Number across[kHaloRows][kCols];
  const int row = threadIdx.y, col = threadIdx.x * kAcross;
  const ImageView view(batch);

  load_tile<kHaloCols, kTwoPassBlockRows, kLoaded>(view.moved(-kRadius, -kMargin<kLoaded>), tile);
  __syncthreads();

  // First pass.
#pragma unroll
  for (int first = 0; first < kHaloRows; first += kTwoPassBlockRows) {
    const int halo_row = row + first;
    if (halo_row >= kHaloRows) break;
    constexpr int kFirst = kMargin<kLoaded> - kRadius;  // column of tap 0 of pixel 0
    constexpr int kEnd = (kFirst + kTaps + 2 * (kAcross - 1)) / kAcross * kAcross;
    Number pixel[kEnd];
#pragma unroll
    for (int i = kFirst / kAcross * kAcross; i < kEnd; i += kAcross)
      vector_at<kAcross>(pixel[i]) = vector_at<kAcross>(tile[halo_row][col + i]);
    Vector<Number, kAcross> sums = {};
#pragma unroll
    for (int i = 0; i < kTaps; ++i)
#pragma unroll
      for (int k = 0; k < kAcross; ++k) sums.at[k] += tap<Number>(i) * pixel[kFirst + k + i];
    vector_at<kAcross>(across[halo_row][col]) = sums;
  }
  __syncthreads();

  // Second pass. Each sum along a row is read once for all kDown results that need it.
  Vector<Number, kAcross> sums[kDown] = {};
#pragma unroll
  for (int i = 0; i < kDown - 1 + kTaps; ++i) {
    const auto along = vector_at<kAcross>(across[row * kDown + i][col]);
#pragma unroll
    for (int down = 0; down < kDown; ++down)
#pragma unroll
      for (int k = 0; k < kAcross; ++k)
        if (i >= down && i < down + kTaps) sums[down].at[k] += tap<Number>(i - down) * along.at[k];
  }
  const ImageView own = view.moved(row * kDown, col);
#pragma unroll
  for (int down = 0; down < kDown; ++down) {
    const auto result = [&](int k) {
      return static_cast<std::uint8_t>(static_cast<int>(sums[down].at[k]) >> kShift);
    };
    if constexpr (kAcross == 2)
      own.store_pair(down, 0, {result(0), result(1)});
    else
      own.store(down, 0, result(0));
  }
}

#endif

}  // namespace
}  // namespace ado::cuda
