// What the image filters do with one row, in vector registers: alone and in the fused pipeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/isa.hpp"
#include "cpu/common/vectors.hpp"
#include "cpu/image/stages.hpp"
#include "routines/grayscale.hpp"

namespace ado::ADO_ISA {
namespace {

// --------------------------------------------------------------------------------------- grayscale

// The colours of a vector of pixels as 16-bit numbers, a pair to each pixel. The second colour's
// weight does not fit a signed one, so it is there twice, with half the weight each.
struct Colours {
  SignedWords first_and_third, second_twice;
};

#if defined(__AVX2__)
// In each lane, two bytes of each of the first four pixels of kSize bytes.
template <int kSize, int kOne, int kOther, int... kAt>
ADO_INLINE SignedWords spread(Ints pixels, std::integer_sequence<int, kAt...>) {
  constexpr int kZero = 0x80;
  const Bytes places = {(kAt % 4 == 0   ? kAt % 16 / 4 * kSize + kOne
                         : kAt % 4 == 2 ? kAt % 16 / 4 * kSize + kOther
                                        : kZero)...};
  return reinterpret_cast<SignedWords>(ADO_X86(shuffle_epi8)(reinterpret_cast<Register>(pixels),
                                                             reinterpret_cast<Register>(places)));
}
#endif

// As many pixels of kSize bytes as a vector holds of four. May read all of kWidth bytes.
template <int kSize>
ADO_INLINE Colours load_colours(const std::byte* from) {
#if defined(__AVX2__)
  auto pixels = load_vector<Ints>(from);
  if constexpr (kSize == 3) {
#if defined(__AVX512BW__)
    pixels =
        __builtin_shufflevector(pixels, pixels, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12);
#else
    pixels = __builtin_shufflevector(pixels, pixels, 0, 1, 2, 3, 3, 4, 5, 6);
#endif
  }
  constexpr VectorOf<1, kWidth>::Indices kIndices;
  return {spread<kSize, 0, 2>(pixels, kIndices), spread<kSize, 1, 1>(pixels, kIndices)};
#else
  Ints pixels;
  if constexpr (kSize == 4)
    pixels = load_vector<Ints>(from);
  else
    for (int i = 0; i < kWidth / 4; ++i) pixels[i] = load_vector<std::int32_t>(from + i * kSize);
  const Ints second = pixels >> 8 & 0xff;
  return {reinterpret_cast<SignedWords>(pixels & 0xff00ff),
          reinterpret_cast<SignedWords>(second | second << 16)};
#endif
}

ADO_INLINE Colours weights_of(bool reversed) {
  constexpr int kFirst = Grayscale::kRed, kSecond = Grayscale::kGreen, kThird = Grayscale::kBlue;
  const int outer = reversed ? kThird | kFirst << 16 : kFirst | kThird << 16;
  return {reinterpret_cast<SignedWords>(Ints{} + outer),
          reinterpret_cast<SignedWords>(Ints{} + (kSecond / 2 | (kSecond - kSecond / 2) << 16))};
}

// Grey values of kWidth pixels. Four vectors are narrowed to one lane by lane, so the pieces of
// four pixels come out in the wrong order: lane l has the l-th piece of each vector.
template <int kSize>
ADO_INLINE Bytes luminance(const std::byte* from, const Colours& weights) {
  Ints y[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto colours = load_colours<kSize>(from + i * (kWidth / 4) * kSize);
    y[i] = (multiply_add(colours.first_and_third, weights.first_and_third) +
            multiply_add(colours.second_twice, weights.second_twice)) >>
           Grayscale::kShift;
  }
  const auto mixed = reinterpret_cast<Ints>(narrow(narrow(y[0], y[1]), narrow(y[2], y[3])));
#if defined(__AVX512BW__)
  return reinterpret_cast<Bytes>(
      __builtin_shufflevector(mixed, mixed, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
#elif defined(__AVX2__)
  return reinterpret_cast<Bytes>(__builtin_shufflevector(mixed, mixed, 0, 4, 1, 5, 2, 6, 3, 7));
#else
  return reinterpret_cast<Bytes>(mixed);
#endif
}

// kWidth pixels at a time; `to` must have room for whole vectors. `from` is read up to `readable`.
// The memory kAhead bytes behind each pixel is sent for, if that is not 0.
template <int kSize, int kAhead>
ADO_INLINE void gray_packed(const std::byte* from, int64_t readable, int64_t count, bool reversed,
                            Pixel* to) {
  constexpr int64_t kReads = kWidth * kSize + (kSize == 3 ? kWidth / 4 : 0);
  const Colours weights = weights_of(reversed);
  alignas(kLine) std::byte rest[kReads] = {};
  for (int64_t col = 0; col < count; col += kWidth) {
    const std::byte* pixels = from + col * kSize;
    for (int line = 0; kAhead != 0 && line < kWidth * kSize; line += kLine)
      __builtin_prefetch(pixels + kAhead + line);
    if (readable - col * kSize < kReads) {
      std::memcpy(rest, pixels, readable - col * kSize);
      pixels = rest;
    }
    store_vector(to + col, luminance<kSize>(pixels, weights));
  }
}

// A row of grey values from colours that lie in any way.
template <int kAhead>
ADO_INLINE void gray_row(const Image& image, int64_t row, int64_t begin, int64_t count, Pixel* to) {
  const std::byte* from = image.at(row, begin);
  const bool reversed = image.to_channel == -1;
  if (reversed || image.to_channel == 1) {
    const std::byte* first = reversed ? from - 2 : from;
    // To the end of the row, but not to a fourth byte of the last pixel if that is not the array's.
    const int64_t readable = (image.cols - begin - 1) * image.to_col + 3;
    const bool alpha = image.channels == 4 && !reversed;
    if (image.to_col == 4)
      return gray_packed<4, kAhead>(first, readable + alpha, count, reversed, to);
    if (image.to_col == 3) return gray_packed<3, kAhead>(first, readable, count, reversed, to);
  }
  for (int64_t col = 0; col < count; col += kWidth) {
    alignas(kLine) std::byte pixels[4 * kWidth] = {};
    for (int64_t i = 0; i < min(kWidth, count - col); ++i)
      for (int channel = 0; channel < 3; ++channel)
        pixels[4 * i + channel] = from[(col + i) * image.to_col + channel * image.to_channel];
    gray_packed<4, 0>(pixels, sizeof(pixels), kWidth, false, to + col);
  }
}

// ----------------------------------------------------------------------------------- Gaussian blur

// The taps 1 2 3 4 3 2 1 are 1 2 1 taken of what 1 0 2 0 1 gives, and no sum exceeds 65280: 16-bit
// numbers, shifts by whole elements and additions do. Two shifts that do not wait for each other,
// twice, are 1.05 to 1.1 times as fast as four in a row, 1 1 and 1 0 1 twice (Zen 5).
struct BlurRow {
  ADO_INLINE void operator()(const Pixel* const (&rows)[7], int64_t, int64_t end, Pixel* to,
                             Ahead soon) const {
    // Sums of the elements before need no element behind; they are those of the pixel 3 before.
    constexpr int kBehind = 3;
    Neighbourhood down, pairs;
    for (int64_t col = -kWidth; col < end + kBehind; col += kWidth) {
      soon.fetch_some();
      const auto at = [&](int row) { return load_vector<Bytes>(rows[row] + col); };
      Wide sum = weighted<1>(at(0), at(6)) + weighted<2>(at(1), at(5)) + weighted<3>(at(2), at(4)) +
                 weighted<2>(at(3), at(3));
      const Neighbours x = down(sum);
      const Wide x1 = x.before<1>();
      const Neighbours y = pairs(x.now + x.before<2>() + x1 + x1);
      const Wide y2 = y.before<2>();
      sum = y.now + y.before<4>() + y2 + y2;
      store_vector(to + col - kBehind, narrow(reinterpret_cast<SignedWords>(sum.low >> 8),
                                              reinterpret_cast<SignedWords>(sum.high >> 8)));
    }
  }
};

// ------------------------------------------------------------------------------------------- Sobel

// The magnitudes of gradients, rounded down, and none above 255. Every n = x^2 + y^2 here is below
// 2^24 and so a float. Its root r lies by 1 / (2 r + 2) or more below the next whole number, and
// rounding moves it by r 2^-24 at most: too little to get there, as r is below 2^11.
// The roots bound this loop, at 4.4 cycles a vector of any width (Zen 5). Still, a step of Newton's
// from the processor's estimate of 1 / r takes 1.1 to 1.3 times as long, and no less if half of the
// roots are found in each way: the shorter chain from load to store counts for more.
ADO_INLINE Bytes magnitude(Wide x, Wide y) {
  const auto half = [](Words x, Words y) {
    constexpr VectorOf<2, kWidth>::Indices kIndices;
    const auto root = [](Words pairs) {
      const auto both = reinterpret_cast<SignedWords>(pairs);
      const Floats squared = __builtin_convertvector(multiply_add(both, both), Floats);
      return __builtin_convertvector(square_root(squared), Ints);
    };
    return narrow(root(interleave<2, false>(x, y, kIndices)),
                  root(interleave<2, true>(x, y, kIndices)));
  };
  return narrow(half(x.low, y.low), half(x.high, y.high));
}

struct SobelRow {
  ADO_INLINE void operator()(const Pixel* const (&rows)[3], int64_t, int64_t end, Pixel* to,
                             Ahead soon) const {
    constexpr int kBehind = 1;
    Neighbourhood smooths, downs;
    for (int64_t col = -kWidth; col < end + kBehind; col += kWidth) {
      soon.fetch_some();
      const auto at = [&](int row) { return widen(load_vector<Bytes>(rows[row] + col)); };
      const Wide above = at(0), here = at(1), below = at(2);
      const Neighbours smooth = smooths(above + here + here + below), down = downs(below - above);
      const Wide middle = down.before<1>();
      store_vector(to + col - kBehind, magnitude(smooth.now - smooth.before<2>(),
                                                 down.now + middle + middle + down.before<2>()));
    }
  }
};

}  // namespace
}  // namespace ado::ADO_ISA
