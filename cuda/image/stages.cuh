// Stages of a march. Of a row that is pushed, `step` is the position in rings of two and four rows;
// what comes back is the row kReach earlier. Rows may come from below as well as from above.
#pragma once

#include <algorithm>

#include "image/bands.cuh"
#include "image/packed_pixels.cuh"
#include "image/square_root.cuh"
#include "routines/gaussian_blur.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

// [1 2 3 4 3 2 1]: along the rows by dot products of bytes, down the columns as [1 2 1] and then
// [1 0 2 0 1] by sums of what was kept. No sum exceeds 255 * 256, so two pixels share a register.
// Running sums, [1 1 1 1] convolved with itself, are two additions less for two pixels, but keep
// nine rows instead of six. With sixteen pixels a lane those do not fit the registers (159 us, this
// 144); with eight both take 147.
template <int kWords>
class Blur {
 public:
  static constexpr int kReach = 3;
  struct Options {};

  __device__ Blur(int, Options) {}

  __device__ Words<kWords> push(int step, const Surrounded<kWords>& in) {
    Words<kWords> out;
#pragma unroll
    for (int w = 0; w < kWords; ++w)
      out.at[w] =
          __byte_perm(column_sums(step, 2 * w, in), column_sums(step, 2 * w + 1, in), 0x7531);
    return out;
  }

 private:
  static constexpr int kPairs = 2 * kWords;

  __device__ unsigned column_sums(int step, int pair, const Surrounded<kWords>& in) {
    const unsigned row = weigh(in, 2 * pair, weigh(in, 2 * pair + 1, 0) << 16);
    const unsigned two = row + row_[pair], three = two + two_[pair];
    const unsigned five = three + three_[step % 2][pair], seven = five + five_[step % 2][pair];
    row_[pair] = row;
    two_[pair] = two;
    three_[step % 2][pair] = three;
    five_[step % 2][pair] = five;
    return seven;
  }

  // The weighted sum along the row around a pixel, added to another.
  __device__ static unsigned weigh(const Surrounded<kWords>& in, int pixel, unsigned sum) {
    return __dp4a(in.window(pixel - 3), 0x04030201u,
                  __dp4a(in.window(pixel + 1), 0x00010203u, sum));
  }

  // Sums of one, two, three and five rows, of the last row or the last two.
  unsigned row_[kPairs] = {}, two_[kPairs] = {}, three_[2][kPairs] = {}, five_[2][kPairs] = {};
};

// Taps as four bytes a word: along the row 0 to 3 and 4 to 6; down the columns 5, 6, 3, 4 and 1, 2,
// none, 0. A sum of products is divided by multiplying it by a reciprocal and dropping bits.
struct TapOptions {
  unsigned along[2], down[2];
  unsigned reciprocal;
  int shift;
};

inline TapOptions tap_options(const int* given) {
  constexpr int kTaps = GaussianBlur::kTaps, kNone = kTaps;
  unsigned taps[kTaps + 1] = {}, sum = 0;
  for (int i = 0; i < kTaps; ++i) sum += static_cast<unsigned>(given[i]);
  // Whatever a single tap is, it copies pixels. It stands as 2: 256 would fit no byte, and a sum of
  // 1 has a reciprocal that fits no word.
  const bool single = std::count(given, given + kTaps, 0) == kTaps - 1;
  for (int i = 0; i < kTaps; ++i)
    taps[i] = single ? 2 * (given[i] > 0) : static_cast<unsigned>(given[i]);
  if (single) sum = 2;
  const auto word = [&](int a, int b, int c, int d) {
    return taps[a] | taps[b] << 8 | taps[c] << 16 | taps[d] << 24;
  };
  // Exact for sums of products up to 255 divisors: the error of the reciprocal then adds less than
  // what is missing to the next integer.
  const std::uint64_t divisor = std::uint64_t{sum} * sum;
  int shift = 0;
  while (std::uint64_t{1} << (32 + shift) <= 255 * divisor * divisor) ++shift;
  const std::uint64_t reciprocal = ((std::uint64_t{1} << (32 + shift)) + divisor - 1) / divisor;
  return {{word(0, 1, 2, 3), word(4, 5, 6, kNone)},
          {word(5, 6, 3, 4), word(1, 2, kNone, 0)},
          static_cast<unsigned>(reciprocal),
          shift};
}

// Any seven taps: along the rows likewise; down the columns, where sums of two pixels a register no
// longer fit, by dot products of pairs of rows, four a pixel.
template <int kWords>
class BlurTaps {
 public:
  static constexpr int kReach = 3;
  using Options = TapOptions;

  // Marching up, rows come in the reverse order, so taps are reversed as well.
  __device__ BlurTaps(int step, const Options& options) : taps_(options) {
    if (step > 0) return;
    taps_.down[0] = __byte_perm(options.along[0], options.along[1], 0x2301);
    taps_.down[1] = __byte_perm(options.along[0], options.along[1], 0x6745);
  }

  __device__ Words<kWords> push(int step, const Surrounded<kWords>& in) {
    const int now = step % 4, last = (step + 3) % 4, earlier = (step + 2) % 4;
    Words<kWords> out = {};
#pragma unroll
    for (int pixel = 0; pixel < 4 * kWords; ++pixel) {
      const unsigned row = __dp4a(in.window(pixel - 3), taps_.along[0],
                                  __dp4a(in.window(pixel + 1), taps_.along[1], 0u));
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
  unsigned pairs_[4][4 * kWords] = {};  // of rows, the earlier in the lower half
  unsigned early_[4][4 * kWords] = {};  // what the first three taps make of rows four steps before
};

// ---------------------------------------------------------------------------------------------
// Sobel. The bits of an integer below 2048 are those of a half, 2^-24 times as large: two pixels
// share a register and signed sums come exact, without a conversion.

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

// Of two pixels floor(sqrt(x^2 + y^2)), at most 255 (see root.cuh), all in units of 2^-24.
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

template <int kWords>
struct SobelMagnitude {
  static constexpr int kReach = 1;
  // Of the last two rows: [-1 0 1] and [1 2 1] along the row.
  unsigned difference[2][2 * kWords] = {}, smooth[2][2 * kWords] = {};

  struct Options {};
  __device__ SobelMagnitude(int, Options) {}

  __device__ Words<kWords> push(int step, const Surrounded<kWords>& in) {
    Words<kWords> out;
    unsigned even[kWords], odd[kWords];  // pixels of each word: 0 and 2, 1 and 3
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      even[w] = in.at[w + 1] & 0x00ff00ff;
      odd[w] = __byte_perm(in.at[w + 1], 0, 0x4341);
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      // Pixels -1 and 1, 2 and 4.
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

// Stages in turn: what one gives is the image that the next takes, with zeros outside.
template <class... Stages>
struct Chain;

template <class Last>
struct Chain<Last> {
  static constexpr int kReach = Last::kReach;
  Last last;

  __device__ Chain(int step, const typename Last::Options& options) : last(step, options) {}

  template <int kWords, class Mask>
  __device__ Words<kWords> push(int step, int, const Surrounded<kWords>& in, const March&,
                                const Mask&) {
    return last.push(step, in);
  }
};

template <class First, class... Rest>
struct Chain<First, Rest...> {
  static constexpr int kReach = First::kReach + Chain<Rest...>::kReach;
  First first;
  Chain<Rest...> rest;

  __device__ Chain(int step, const typename First::Options& options,
                   const typename Rest::Options&... others)
      : first(step, options), rest(step, others...) {}

  template <int kWords, class Mask>
  __device__ Words<kWords> push(int step, int index, const Surrounded<kWords>& in,
                                const March& march, const Mask& mask) {
    Words<kWords> between = first.push(step, in);
    mask.apply(between);
    const int row = index - First::kReach;
    if (!march.has_row(row)) between = {};
    return rest.push(step, row, surround(between), march, mask);
  }
};

}  // namespace ado::cuda

#endif
