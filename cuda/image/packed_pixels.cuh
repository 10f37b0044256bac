// Rows of pixels as the lanes of a warp hold them: words of four.
#pragma once

#include <cstdint>

#ifdef __CUDACC__

namespace ado::cuda {

// kCount words of four pixels each, the leftmost pixel in the lowest byte.
template <int kCount>
struct Words {
  unsigned at[kCount];
};

// The words of a lane with one of its left and one of its right neighbour around them.
template <int kWords>
struct Surrounded {
  unsigned at[kWords + 2];

  // The four pixels from the `pixel`-th own one on.
  __device__ unsigned window(int pixel) const {
    const int byte = pixel + 4;
    return byte % 4 == 0 ? at[byte / 4]
                         : __funnelshift_r(at[byte / 4], at[byte / 4 + 1], 8 * (byte % 4));
  }
};

template <int kWords>
__device__ Surrounded<kWords> surround(const Words<kWords>& own) {
  constexpr unsigned kAllLanes = 0xffffffff;
  Surrounded<kWords> all;
  all.at[0] = __shfl_up_sync(kAllLanes, own.at[kWords - 1], 1);
#pragma unroll
  for (int w = 0; w < kWords; ++w) all.at[w + 1] = own.at[w];
  all.at[kWords + 1] = __shfl_down_sync(kAllLanes, own.at[0], 1);
  return all;
}

// The pixels of a lane that are inside the image.
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
  __device__ void apply(Words<kWords>& words) const {
#pragma unroll
    for (int w = 0; w < kWords; ++w) words.at[w] &= mask[kAligned ? 0 : w];
  }
};

}  // namespace ado::cuda

#endif
