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

// Mask of a warp whose lanes are all inside a row: it does nothing.
struct NoMask {
  template <class Pixels>
  __device__ void apply(Pixels&) const {}
};

// Sets the pixels of a lane that are outside the image to zero. `end` is the number of columns from
// the first one of the lane to the end of the image.
//
// kWhole: either all pixels of a lane are inside the image or none, and pixels of neighbours are
// not masked.
template <int kWords, bool kWhole>
struct ColumnMask : NoMask {
  unsigned left = 0xffffffff;
  unsigned mask[kWhole ? 1 : kWords + 1];

  __device__ ColumnMask(bool first_in_row, int end) {
    if (first_in_row) left = 0;
#pragma unroll
    for (int w = 0; w < (kWhole ? 1 : kWords + 1); ++w) {
      const int inside = end - 4 * w;  // columns from this word to the end of the image
      mask[w] = inside <= 0 ? 0 : inside >= 4 ? 0xffffffff : (1U << (8 * inside)) - 1;
    }
  }
  __device__ void apply(PackedPixels<kWords>& pixels) const {
#pragma unroll
    for (int w = 0; w < kWords; ++w) pixels.at[w] &= mask[kWhole ? 0 : w];
  }
  __device__ void apply(PixelsAround<kWords>& pixels) const {
    pixels.at[0] &= left;
#pragma unroll
    for (int w = 0; w < kWords + 1; ++w) pixels.at[w + 1] &= mask[kWhole ? 0 : w];
  }
};

}  // namespace ado::cuda

#endif
