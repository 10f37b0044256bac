// Gaussian blur, engine: any seven taps, as a stage of the sliding window.
#pragma once

#include <algorithm>

#include "image/packed_pixels.cuh"
#include "routines/gaussian_blur.hpp"

namespace ado::cuda {
namespace {

// The reason why only the sliding window can solve a problem, or nullptr.
const char* why_not_options(const GaussianBlur& p) {
  return p.border == Border::kConstant && p.default_taps()
             ? nullptr
             : "only border=\"constant\" and the default taps are supported";
}

#ifdef __CUDACC__

// Taps, packed as four bytes per word: `along` the row, taps 0 to 3 and 4 to 6; `down` the columns,
// taps 5, 6, 3, 4 and 1, 2, none, 0. A sum of products is divided by the square of the taps' sum,
// by multiplication by a reciprocal and a shift.
struct TapOptions {
  unsigned along[2], down[2];
  unsigned reciprocal;
  int shift;
};

TapOptions tap_options(const int* given) {
  constexpr int kTaps = GaussianBlur::kTaps, kNone = kTaps;
  unsigned taps[kTaps + 1] = {}, sum = 0;
  for (int i = 0; i < kTaps; ++i) sum += static_cast<unsigned>(given[i]);
  // A single non-zero tap only moves pixels, independent of its value. It is replaced by 2, because
  // a tap of 256 does not fit into a byte, and the reciprocal of 1 does not fit into 32 bits.
  const bool single = std::count(given, given + kTaps, 0) == kTaps - 1;
  for (int i = 0; i < kTaps; ++i)
    taps[i] = single ? 2 * (given[i] > 0) : static_cast<unsigned>(given[i]);
  if (single) sum = 2;
  const auto word = [&](int a, int b, int c, int d) {
    return taps[a] | taps[b] << 8 | taps[c] << 16 | taps[d] << 24;
  };
  // Exact for sums of products up to 255 * divisor, because the error of the reciprocal then adds
  // less than the distance to the next integer.
  const std::uint64_t divisor = std::uint64_t{sum} * sum;
  int shift = 0;
  while (std::uint64_t{1} << (32 + shift) <= 255 * divisor * divisor) ++shift;
  const std::uint64_t reciprocal = ((std::uint64_t{1} << (32 + shift)) + divisor - 1) / divisor;
  return {{word(0, 1, 2, 3), word(4, 5, 6, kNone)},
          {word(5, 6, 3, 4), word(1, 2, kNone, 0)},
          static_cast<unsigned>(reciprocal),
          shift};
}

// Gaussian blur with any seven taps. Along the rows, it uses dot products of bytes. Down
// the columns, the sums of two pixels do not fit into one register, so each pixel takes four dot
// products of pairs of rows:
//
//   seven rows, newest last    i-6  i-5  i-4  i-3  i-2  i-1   i
//   tap                         0    1    2    3    4    5    6
//                              (    early    ) (3    4)  (5   6)
template <int kWords>
class GaussianAnyTapsStage {
 public:
  static constexpr int kRadius = 3;
  using Options = TapOptions;

  // In bands from the bottom up, rows arrive in reverse order, so the taps are reversed, too.
  __device__ GaussianAnyTapsStage(int direction, const Options& options) : taps_(options) {
    if (direction > 0) return;
    taps_.down[0] = __byte_perm(options.along[0], options.along[1], 0x2301);
    taps_.down[1] = __byte_perm(options.along[0], options.along[1], 0x6745);
  }

  __device__ PackedPixels<kWords> push(int step, const PixelsAround<kWords>& in) {
    const int now = step % 4, last = (step + 3) % 4, earlier = (step + 2) % 4;
    PackedPixels<kWords> out = {};
#pragma unroll
    for (int pixel = 0; pixel < 4 * kWords; ++pixel) {
      const unsigned row = __dp4a(in.four_from(pixel - 3), taps_.along[0],
                                  __dp4a(in.four_from(pixel + 1), taps_.along[1], 0u));
      const unsigned pair = __byte_perm(pairs_[last][pixel], row, 0x5432);
      const unsigned before = pairs_[earlier][pixel];
      const unsigned sum =
          __dp2a_lo(pair, taps_.down[0], __dp2a_hi(before, taps_.down[0], early_[now][pixel]));
      early_[now][pixel] = __dp2a_lo(pair, taps_.down[1], __dp2a_hi(before, taps_.down[1], 0u));
      pairs_[now][pixel] = pair;
      out.at[pixel / 4] |= __umulhi(sum, taps_.reciprocal) >> taps_.shift << (8 * (pixel % 4));
    }
    return out;
  }

 private:
  Options taps_;
  unsigned pairs_[4][4 * kWords] = {};  // sums along two rows, the earlier row in the lower half
  unsigned early_[4][4 * kWords] = {};  // products of the first three taps, for four rows later
};

#endif

}  // namespace
}  // namespace ado::cuda
