// Gaussian blur in registers: dot products of four packed pixels, without shared memory.
//
// A thread computes 16 rows of four pixels. Along a row, three 32-bit words contain all ten pixels
// that the four sums need. The taps are shifted instead of the pixels (a dot means a weight of
// zero):
//
//   column      -4 -3 -2 -1 |  0  1  2  3 |  4  5  6  7
//   word           before   |    here     |    after
//   pixel 0      .  1  2  3 |  4  3  2  1 |  .  .  .  .     __dp4a(before, 0x03020100,
//   pixel 1      .  .  1  2 |  3  4  3  2 |  1  .  .  .         __dp4a(here, 0x01020304, 0))
//   pixel 2      .  .  .  1 |  2  3  4  3 |  2  1  .  .
//   pixel 3      .  .  .  . |  1  2  3  4 |  3  2  1  .
#pragma once

#include "gaussian_blur/tiles.cuh"

namespace ado::cuda {
namespace {

// Pixels per thread. Rows at the seams of threads are summed twice. In blocks of 8 rows of threads,
// 4 pixel rows per thread take 254 us, 8 take 202 us and 16 take 178 us. In blocks of 4 rows of
// threads, 16 take 165 us (16384 x 16384 pixels, H200, 2026).
constexpr int kDotAcross = 4, kDotDown = 16;
constexpr int kDotBlockRows = 4;

#ifdef __CUDACC__

// Taps of pixel `k` of four, packed for the four pixels of word `word` of three.
constexpr unsigned packed_taps(int k, int word) {
  unsigned packed = 0;
  for (int byte = 0; byte < kDotAcross; ++byte) {
    const int i = (word - 1) * kDotAcross + byte - k + kRadius;
    if (i >= 0 && i < kTaps)
      packed |= static_cast<unsigned>(GaussianBlur::kDefaultTaps[i]) << (8 * byte);
  }
  return packed;
}

template <int k, int kWord>
constexpr unsigned kPackedTaps = packed_taps(k, kWord);

// Adds the weighted sum along a row around pixel `k` to `sum`.
template <int k>
__device__ unsigned sum_along(const PackedNeighbours& words, unsigned sum) {
  if constexpr (kPackedTaps<k, 0> != 0) sum = __dp4a(words.before, kPackedTaps<k, 0>, sum);
  sum = __dp4a(words.here, kPackedTaps<k, 1>, sum);
  if constexpr (kPackedTaps<k, 2> != 0) sum = __dp4a(words.after, kPackedTaps<k, 2>, sum);
  return sum;
}

// A sum along a row is at most 255 * 16 and a whole sum at most 255 * 256. Both fit into 16 bits,
// so two columns share a register: (pixel 1, pixel 0) and (pixel 3, pixel 2). Down the columns, the
// taps 1 2 3 4 3 2 1 are 1 1 1 1 convolved with itself, so the kernel adds four neighbours twice.
// Additions use a pipe that is not used by dot products and multiplications.
__global__ void __launch_bounds__(kBlockCols* kDotBlockRows)
    gaussian_blur_dot_product(Batch batch) {
  constexpr int kHaloRows = kDotDown + 2 * kRadius;
  const ImageView tile(batch);
  const ImageView view = tile.moved(threadIdx.y * kDotDown, threadIdx.x * kDotAcross);
  tile.with_access(
      kDotBlockRows * kDotDown, kBlockCols * kDotAcross, kRadius, [&]<Access kAccess>() {
        unsigned sums[kHaloRows][2];
#pragma unroll
        for (int i = 0; i < kHaloRows; ++i) {
          const PackedNeighbours words = view.packed<kAccess>(i - kRadius);
          sums[i][0] = sum_along<0>(words, sum_along<1>(words, 0) << 16);
          sums[i][1] = sum_along<2>(words, sum_along<3>(words, 0) << 16);
        }
#pragma unroll
        for (int rows = kHaloRows - kRadius; rows >= kDotDown; rows -= kRadius)
#pragma unroll
          for (int i = 0; i < rows; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half)
              sums[i][half] += sums[i + 1][half] + sums[i + 2][half] + sums[i + 3][half];
#pragma unroll
        for (int i = 0; i < kDotDown; ++i)  // the upper byte of each half is the sum >> 8
          view.store_packed<kAccess>(i, __byte_perm(sums[i][0], sums[i][1], 0x7531));
      });
}

#endif

}  // namespace
}  // namespace ado::cuda
