// Gaussian blur with one or a few pixels per thread: from 49 loads from global memory per pixel to
// tiles in shared memory and two passes. The weights are the outer product of seven taps with
// themselves.
#pragma once

#include "image/view.cuh"
#include "routines/gaussian_blur.hpp"

namespace ado::cuda {
namespace {

constexpr int kTaps = GaussianBlur::kTaps;
constexpr int kRadius = GaussianBlur::kRadius;
constexpr int kBlockCols = 32;  // threads per row of a block in all kernels, so a row is one warp

// The sum of the 49 default weights is 256, so a shift divides the weighted sum by it.
constexpr int kShift = 8;

// Launch bounds of the variant launch_bounds: threads per block, and blocks that must fit on a
// multiprocessor.
constexpr int kBoundedThreads = 128, kBoundedBlocks = 10;

constexpr int kSharedBlockRows = 4, kTwoPassBlockRows = 8;

// Columns that are loaded on either side of a tile if threads load kLoaded pixels at a time: the
// radius, rounded up to a multiple of kLoaded, so that the first column is aligned. The formula is
// valid for kLoaded of 1 and 2.
template <int kLoaded>
constexpr int kMargin = kRadius + kRadius % kLoaded;

#ifdef __CUDACC__

struct Weights {
  int product[kTaps][kTaps];
  int tap[kTaps];
  float real_tap[kTaps];
};

constexpr Weights default_weights() {
  Weights w{};
  for (int i = 0; i < kTaps; ++i) {
    w.tap[i] = GaussianBlur::kDefaultTaps[i];
    w.real_tap[i] = static_cast<float>(w.tap[i]);
    for (int j = 0; j < kTaps; ++j)
      w.product[i][j] = GaussianBlur::kDefaultTaps[i] * GaussianBlur::kDefaultTaps[j];
  }
  return w;
}

__constant__ Weights weights = default_weights();

template <class Number>
__device__ Number tap(int i) {
  if constexpr (std::is_same_v<Number, float>)
    return weights.real_tap[i];
  else
    return weights.tap[i];
}

// One thread per pixel and 49 loads from global memory.
__device__ void blur_pixel(const Batch& batch) {
  const ImageView view = ImageView(batch).moved(threadIdx.y, threadIdx.x);
  if (!view.contains(0, 0)) return;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i)
#pragma unroll
    for (int j = 0; j < kTaps; ++j)
      sum += weights.product[i][j] * view.pixel(i - kRadius, j - kRadius);
  view.store(0, 0, static_cast<std::uint8_t>(sum >> kShift));
}

// naive uses blocks of 8x8 threads. A warp then loads bytes from four rows, and each load takes
// several passes through L1, which is the limiter. In `coalesced`, blocks have 32 columns, so a
// warp loads from one row. The larger blocks of `occupancy` gain nothing: a multiprocessor holds up
// to 32 blocks, and 32 blocks of 64 threads already reach its maximum number of threads.
__global__ void gaussian_blur_naive(Batch batch) { blur_pixel(batch); }

// The kernel of naive with launch bounds. On Kepler, the compiler used fewer registers with them.
// For sm_90, the kernel needs few registers without bounds, and with bounds for ten blocks, the
// compiler uses more. Fewer warps are then resident.
__global__ void __launch_bounds__(kBoundedThreads, blocks_held(kBoundedBlocks, kBoundedThreads))
    gaussian_blur_launch_bounds(Batch batch) {
  blur_pixel(batch);
}

// Gaussian blur with a tile in shared memory: each pixel is loaded from global memory once per
// block instead of 49 times.
//
//   <-3-> <---------- 32 ----------> <-3->      38 columns
//   +------------------------------------+  ^
//   |                halo                |  3
//   |     +------------------------+     |  v
//   |     |  tile of the block:    |     |  ^
//   |     |  32 x 4 pixels,        |     |  4   10 rows
//   |     |  one per thread        |     |  v
//   |     +------------------------+     |  ^
//   |                                    |  3
//   +------------------------------------+  v
//
// The 4 x 32 threads load the 10 x 38 pixels in 3 x 2 rounds. In the last round in each direction,
// some threads have no pixel left to load.
//
// shared: L1 and shared memory are the same memory here, so loads do not get faster. Only address
// computations and border tests are saved.
//
// kReadOnly is for the variant read_only, which loads through the read-only data path. This path
// also uses L1, so only the compiler's order of instructions changes.
template <bool kReadOnly>
__global__ void __launch_bounds__(kBlockCols* kSharedBlockRows) gaussian_blur_shared(Batch batch) {
  constexpr int kHaloRows = kSharedBlockRows + 2 * kRadius, kHaloCols = kBlockCols + 2 * kRadius;
  constexpr int kPitch = 64;  // bytes per row of the tile
  constexpr int kDown = (kHaloRows + kSharedBlockRows - 1) / kSharedBlockRows;
  constexpr int kAcross = (kHaloCols + kBlockCols - 1) / kBlockCols;
  __shared__ std::uint8_t tile[kHaloRows][kPitch];
  const int row = threadIdx.y, col = threadIdx.x;
  const ImageView view(batch);

  // Load the tile and its halo. All loads are issued before the first result is stored.
  const ImageView first = view.moved(-kRadius, -kRadius).moved(row, col);
  std::uint8_t loaded[kDown][kAcross];
#pragma unroll
  for (int i = 0; i < kDown; ++i)
#pragma unroll
    for (int j = 0; j < kAcross; ++j)
      if (row + i * kSharedBlockRows < kHaloRows && col + j * kBlockCols < kHaloCols)
        loaded[i][j] = first.pixel<kReadOnly>(i * kSharedBlockRows, j * kBlockCols);
#pragma unroll
  for (int i = 0; i < kDown; ++i)
#pragma unroll
    for (int j = 0; j < kAcross; ++j)
      if (row + i * kSharedBlockRows < kHaloRows && col + j * kBlockCols < kHaloCols)
        tile[row + i * kSharedBlockRows][col + j * kBlockCols] = loaded[i][j];
  __syncthreads();

  // Sum 49 products from shared memory.
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i)
#pragma unroll
    for (int j = 0; j < kTaps; ++j) sum += weights.product[i][j] * tile[row + i][col + j];
  view.store(row, col, static_cast<std::uint8_t>(sum >> kShift));
}

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
//
// separable: one pixel per thread.
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

// Two passes with kDown by kAcross neighbouring pixels per thread. A thread copies kLoaded pixels
// at a time to shared memory and reads kAcross pixels at a time from there.
//
//   two_pixels    2 rows by 1 column
//   wide_shared   2 rows by 2 columns: half the shared-memory accesses
//   float_taps    the same with floats. Floats were faster on GPUs that multiply integers
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
