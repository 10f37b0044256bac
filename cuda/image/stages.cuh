// Stages of the sliding window. push() takes the next row and returns the result for the row
// kRadius before it. `step` is the iteration within the unrolled loop. Stages compute positions in
// their rings of two or four rows from it. Rows may arrive from the top down or from the bottom up.
#pragma once

#include "image/bands.cuh"
#include "image/packed_pixels.cuh"
#include "routines/gaussian_blur.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

// Gaussian blur with the default taps [1 2 3 4 3 2 1]. Along the rows, it uses dot products of
// bytes. Down the columns, it convolves with [1 2 1] and then with [1 0 2 0 1], from sums that are
// kept per column:
//
//   r[i]            the weighted sum along row i
//   two[i]   = r[i] + r[i-1]             [1 1]
//   three[i] = two[i] + two[i-1]         [1 2 1]
//   five[i]  = three[i] + three[i-2]     [1 2 2 2 1]
//   seven[i] = five[i] + five[i-2]       [1 2 3 4 3 2 1]
//
// No sum exceeds 255 * 256, so two pixels share a register.
//
// Convolving [1 1 1 1] with itself would save two additions per two pixels but keep nine rows
// instead of six. With 16 pixels per lane, nine rows do not fit into registers (159 us instead of
// 144). With eight pixels per lane, both take 147 us.
template <int kWords>
class GaussianStage {
 public:
  static constexpr int kRadius = 3;
  struct Options {};

  __device__ GaussianStage(int, Options) {}

  __device__ PackedPixels<kWords> push(int step, const PixelsAround<kWords>& in) {
    PackedPixels<kWords> out;
#pragma unroll
    for (int w = 0; w < kWords; ++w)  // the upper byte of each half is the sum >> 8
      out.at[w] =
          __byte_perm(column_sums(step, 2 * w, in), column_sums(step, 2 * w + 1, in), 0x7531);
    return out;
  }

 private:
  static constexpr int kPairs = 2 * kWords;

  // Returns the weighted sums of a pair of pixels, one in each half of the register.
  __device__ unsigned column_sums(int step, int pair, const PixelsAround<kWords>& in) {
    const unsigned row = weigh(in, 2 * pair, weigh(in, 2 * pair + 1, 0) << 16);
    const unsigned two = row + row_[pair], three = two + two_[pair];
    const unsigned five = three + three_[step % 2][pair], seven = five + five_[step % 2][pair];
    row_[pair] = row;
    two_[pair] = two;
    three_[step % 2][pair] = three;
    five_[step % 2][pair] = five;
    return seven;
  }

  // Adds the weighted sum along the row around a pixel to `sum`: pixels -3 to 0 with the taps 1 2 3
  // 4, pixels 1 to 4 with the taps 3 2 1 0.
  __device__ static unsigned weigh(const PixelsAround<kWords>& in, int pixel, unsigned sum) {
    return __dp4a(in.four_from(pixel - 3), 0x04030201u,
                  __dp4a(in.four_from(pixel + 1), 0x00010203u, sum));
  }

  // The sums of the previous row, or of the previous two rows.
  unsigned row_[kPairs] = {}, two_[kPairs] = {}, three_[2][kPairs] = {}, five_[2][kPairs] = {};
};

// Taps, packed as four bytes per word: `along` the row, taps 0 to 3 and 4 to 6; `down` the columns,
// taps 5, 6, 3, 4 and 1, 2, none, 0. A sum of products is divided by the square of the taps' sum,
// by multiplication by a reciprocal and a shift.
struct TapOptions {
  unsigned along[2], down[2];
  unsigned reciprocal;
  int shift;
};

inline TapOptions tap_options(const int* given) {
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

// Gaussian blur with any seven taps. Along the rows, it uses dot products of bytes as above. Down
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

// Sobel. Interpreted as a half-precision number, the bits of an integer below 2048 are that integer
// times 2^-24. So two pixels share a register, need no conversion, and have exact signed sums.

__device__ inline unsigned add_halves(unsigned a, unsigned b) {
  unsigned sum;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}
__device__ inline unsigned subtract_halves(unsigned a, unsigned b) {
  unsigned difference;
  asm("{.reg .b32 negative;\nneg.f16x2 negative, %2;\nadd.rn.f16x2 %0, %1, negative;}"
      : "=r"(difference)
      : "r"(a), "r"(b));
  return difference;
}
// 2 a + b.
__device__ inline unsigned add_twice(unsigned a, unsigned b) {
  unsigned sum;
  constexpr unsigned kTwo = 0x40004000;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(kTwo), "r"(b));
  return sum;
}
__device__ inline float2 floats_of(unsigned halves) {
  float2 floats;
  asm("{.reg .f16 low, high;\nmov.b32 {low, high}, %2;\n"
      "cvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;}"
      : "=f"(floats.x), "=f"(floats.y)
      : "r"(halves));
  return floats;
}

// min(255, floor(sqrt(x^2 + y^2))) of two pixels, in units of 2^-24 (see packed_pixels.cuh).
__device__ inline unsigned lengths(unsigned x, unsigned y) {
  const float2 xs = floats_of(x), ys = floats_of(y);
  constexpr float kHalf = 0x1p-49f;
  const float low = approximate_length(xs.x, ys.x, kHalf),
              high = approximate_length(xs.y, ys.y, kHalf);
  unsigned halves;
  constexpr unsigned kWhite = 0x00ff00ff;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(high), "f"(low));
  asm("min.f16x2 %0, %1, %2;" : "=r"(halves) : "r"(halves), "r"(kWhite));
  return halves;
#else
  asm("{.reg .f16 low, high;\ncvt.rz.f16.f32 low, %1;\ncvt.rz.f16.f32 high, %2;\n"
      "mov.b32 %0, {low, high};}"
      : "=r"(halves)
      : "f"(low), "f"(high));
  return __vminu2(halves, kWhite);
#endif
}

// Gradient magnitude of two pixels per register. The two pixels are two columns apart, so that a
// pair of left or right neighbours is also in one register:
//
//   word                       |  p0  p1  p2  p3  |
//   pair         left neighbours     right neighbours
//   (p0, p2)       (p-1, p1)            (p1, p3)
//   even           before               odd
//   (p1, p3)       (p0, p2)             (p2, p4)
//   odd            even                 after
template <int kWords>
struct SobelStage {
  static constexpr int kRadius = 1;
  // [-1 0 1] and [1 2 1] along the row, for the previous two rows.
  unsigned difference[2][2 * kWords] = {}, smooth[2][2 * kWords] = {};

  struct Options {};
  __device__ SobelStage(int, Options) {}

  __device__ PackedPixels<kWords> push(int step, const PixelsAround<kWords>& in) {
    PackedPixels<kWords> out;
    unsigned even[kWords], odd[kWords];  // pixels 0 and 2, 1 and 3 of each word
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      even[w] = in.at[w + 1] & 0x00ff00ff;
      odd[w] = __byte_perm(in.at[w + 1], 0, 0x4341);
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      // Pixels -1 and 1, pixels 2 and 4.
      const unsigned before = w > 0 ? __byte_perm(odd[w > 0 ? w - 1 : 0], odd[w], 0x5432)
                                    : __byte_perm(in.at[0], odd[0], 0x5453);
      const unsigned after = w + 1 < kWords
                                 ? __byte_perm(even[w], even[w + 1 < kWords ? w + 1 : w], 0x5432)
                                 : __byte_perm(even[w], in.at[kWords + 1], 0x3432);
      const unsigned evens = gradient(step, 2 * w, subtract_halves(odd[w], before),
                                      add_twice(even[w], add_halves(before, odd[w])));
      const unsigned odds = gradient(step, 2 * w + 1, subtract_halves(after, even[w]),
                                     add_twice(odd[w], add_halves(even[w], after)));
      out.at[w] = __byte_perm(evens, odds, 0x6240);
    }
    return out;
  }

  // Magnitudes of a pair of pixels, from [-1 0 1] and [1 2 1] along the new row.
  __device__ unsigned gradient(int step, int pair, unsigned new_difference, unsigned new_smooth) {
    unsigned &difference_before = difference[step % 2][pair],
             &smooth_before = smooth[step % 2][pair];
    const unsigned x =
        add_halves(add_twice(difference[(step + 1) % 2][pair], difference_before), new_difference);
    const unsigned y = subtract_halves(new_smooth, smooth_before);
    difference_before = new_difference;
    smooth_before = new_smooth;
    return lengths(x, y);
  }
};

// A chain of stages. Each stage takes the rows that the previous one returns, with zeros outside
// the image.
template <class... Stages>
struct StageChain;

template <class Last>
struct StageChain<Last> {
  static constexpr int kRadius = Last::kRadius;
  Last last;

  __device__ StageChain(int direction, const typename Last::Options& options)
      : last(direction, options) {}

  template <int kWords, class Mask>
  __device__ PackedPixels<kWords> push(int step, int, const PixelsAround<kWords>& in,
                                       const LaneWalk&, const Mask&) {
    return last.push(step, in);
  }
};

template <class First, class... Rest>
struct StageChain<First, Rest...> {
  static constexpr int kRadius = First::kRadius + StageChain<Rest...>::kRadius;
  First first;
  StageChain<Rest...> rest;

  __device__ StageChain(int direction, const typename First::Options& options,
                        const typename Rest::Options&... others)
      : first(direction, options), rest(direction, others...) {}

  template <int kWords, class Mask>
  __device__ PackedPixels<kWords> push(int step, int index, const PixelsAround<kWords>& in,
                                       const LaneWalk& walk, const Mask& mask) {
    PackedPixels<kWords> between = first.push(step, in);
    mask.apply(between);
    const int row = index - First::kRadius;
    if (!walk.has_row(row)) between = {};
    return rest.push(step, row, exchange_neighbours<kWords>(between), walk, mask);
  }
};

}  // namespace ado::cuda

#endif
