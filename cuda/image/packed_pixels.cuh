// Pixels in the registers of a lane: four pixels packed into each 32-bit word.
#pragma once

#include <cstdint>

#include "common/vector.cuh"
#include "common/warp.cuh"

#ifdef __CUDACC__

namespace ado::cuda {

// kWords words of four pixels each, the leftmost pixel in the lowest byte.
template <int kWords>
using PackedPixels = Vector<unsigned, kWords>;

// The pixels of a lane, and the four pixels on either side. For kWords = 2:
//
//   word    |      at[0]      |     at[1]     |     at[2]     |     at[3]     |
//   pixel   |  -4 -3 -2 -1    |  0  1  2  3   |  4  5  6  7   |  8  9 10 11   |
//              left neighbour           the lane's own          right neighbour
template <int kWords>
struct PixelsAround {
  unsigned at[kWords + 2];

  // Four packed pixels, starting at any pixel from -4 on:
  //
  //   four_from(-3) = [-3 -2 -1  0] = __funnelshift_r(at[0], at[1], 8 * 1)
  __device__ unsigned four_from(int pixel) const {
    const int byte = pixel + 4;
    return byte % 4 == 0 ? at[byte / 4]
                         : __funnelshift_r(at[byte / 4], at[byte / 4 + 1], 8 * (byte % 4));
  }
};

// Shuffles the four pixels on either side from the neighbouring lanes.
template <int kWords>
__device__ PixelsAround<kWords> exchange_neighbours(const PackedPixels<kWords>& own) {
  PixelsAround<kWords> all;
  all.at[0] = __shfl_up_sync(kAllLanes, own.at[kWords - 1], 1);
#pragma unroll
  for (int w = 0; w < kWords; ++w) all.at[w + 1] = own.at[w];
  all.at[kWords + 1] = __shfl_down_sync(kAllLanes, own.at[0], 1);
  return all;
}

// Sets the pixels of a lane that are outside the image to zero. In aligned rows, either all pixels
// of a lane are inside or none.
template <int kWords, bool kAligned>
struct ColumnMask {
  unsigned mask[kAligned ? 1 : kWords];

  __device__ ColumnMask(std::int64_t col, std::int64_t cols) {
#pragma unroll
    for (int w = 0; w < (kAligned ? 1 : kWords); ++w) {
      mask[w] = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (col + 4 * w + i >= 0 && col + 4 * w + i < cols) mask[w] |= 0xffu << (8 * i);
    }
  }
  __device__ void apply(PackedPixels<kWords>& pixels) const {
#pragma unroll
    for (int w = 0; w < kWords; ++w) pixels.at[w] &= mask[kAligned ? 0 : w];
  }
};

}  // namespace ado::cuda

#endif
