// Kernels of the image filters for one row, in vector registers. The filters and the fused edge
// detection use them.
#pragma once

#include "cpu/image/stages.hpp"
#include "routines/grayscale.hpp"

#if defined(__AVX512BW__)
#define ADO_X86_STREAM _mm512_stream_si512
#elif defined(__AVX2__)
#define ADO_X86_STREAM _mm256_stream_si256
#elif defined(__x86_64__)
#define ADO_X86_STREAM _mm_stream_si128
#endif

namespace ado::ADO_ISA {
namespace {

// ---- simd, prefetch, streaming, threaded, fused_bands -------------------------------------------
// The colours of a vector of pixels as pairs of 16-bit numbers, one pair of each kind per pixel.
// The weight of the second colour does not fit into a signed number, so the colour occurs twice
// with half the weight.
struct Colours {
  Int16s first_and_third, second_twice;
};

#if defined(__AVX2__)
// Bytes kOne and kOther of each of the first four pixels (of kSize bytes) in each 16-byte lane, as
// 16-bit numbers.
template <int kSize, int kOne, int kOther, int... kAt>
ADO_INLINE Int16s spread(Int32s pixels, std::integer_sequence<int, kAt...>) {
  constexpr int kZero = 0x80;
  const Bytes places = {(kAt % 4 == 0   ? kAt % 16 / 4 * kSize + kOne
                         : kAt % 4 == 2 ? kAt % 16 / 4 * kSize + kOther
                                        : kZero)...};
  return reinterpret_cast<Int16s>(ADO_X86(shuffle_epi8)(reinterpret_cast<Register>(pixels),
                                                        reinterpret_cast<Register>(places)));
}
#endif

// Number of bytes that `luminance` reads in addition to kWidth pixels. It is 0 for four bytes per
// pixel.
template <int kSize>
constexpr int kExcess = kSize == 4     ? 0
                        : kWidth == 64 ? 16
                                       : 4;

// Loads the i-th of four vectors that contain kWidth pixels, with four pixels per 16-byte lane. If
// kBefore, the excess bytes precede the pixels in memory. Otherwise, they follow the pixels.
//
// With three bytes per pixel and AVX2, lane l of vector i contains four pixels, from 16 l + 4 i on,
// so that narrowing keeps the order. Each lane is loaded from memory, without a shuffle. With
// AVX-512, one load and one permutation are 1.2 times as fast as four loads (Emerald Rapids).
template <int kSize, bool kBefore>
ADO_INLINE Int32s load_pixels(const std::byte* from, int i) {
  const std::byte* at = from + i * (kWidth / 4) * kSize;
  if constexpr (kSize == 4) return load_vector<Int32s>(at);
#if defined(__AVX512BW__)
  const auto pixels = load_vector<Int32s>(at - (kBefore ? 16 : 0));
  if constexpr (kBefore)
    return __builtin_shufflevector(pixels, pixels, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12, 12, 13,
                                   14, 15);
  return __builtin_shufflevector(pixels, pixels, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12);
#elif defined(__AVX2__)
  using Lane = std::int32_t __attribute__((vector_size(16)));
  const std::byte* lanes = from + 12 * i - (kBefore ? 4 : 0);
  return __builtin_shufflevector(load_vector<Lane>(lanes), load_vector<Lane>(lanes + 48), 0, 1, 2,
                                 3, 4, 5, 6, 7);
#else
  Int32s pixels;
  for (int k = 0; k < kWidth / 4; ++k)
    pixels[k] = load_vector<std::int32_t>(at + k * kSize - (kBefore ? 1 : 0)) >> (kBefore ? 8 : 0);
  return pixels;
#endif
}

template <int kSize, bool kBefore>
ADO_INLINE Colours colours_of(Int32s pixels) {
#if defined(__AVX2__)
  // The first pixel of a lane begins at byte kFirst. With AVX-512, the permutation of load_pixels
  // moves it to byte 4.
  constexpr int kFirst = kBefore && kSize == 3 ? 4 : 0;
  constexpr VectorOf<1, kWidth>::Indices kIndices;
  const Int16s second_twice = spread<kSize, kFirst + 1, kFirst + 1>(pixels, kIndices);
  if constexpr (kSize == 3) return {spread<3, kFirst, kFirst + 2>(pixels, kIndices), second_twice};
#else
  const Int32s second = pixels >> 8 & 0xff;
  const auto second_twice = reinterpret_cast<Int16s>(second | second << 16);
#endif
  return {reinterpret_cast<Int16s>(pixels & 0xff00ff), second_twice};
}

ADO_INLINE Colours weights_of(bool reversed) {
  constexpr int kFirst = Grayscale::kRed, kSecond = Grayscale::kGreen, kThird = Grayscale::kBlue;
  const int outer = reversed ? kThird | kFirst << 16 : kFirst | kThird << 16;
  return {reinterpret_cast<Int16s>(Int32s{} + outer),
          reinterpret_cast<Int16s>(Int32s{} + (kSecond / 2 | (kSecond - kSecond / 2) << 16))};
}

// Returns the gray values of kWidth pixels. Narrows four vectors to one, lane by lane.
template <int kSize, bool kBefore = false>
ADO_INLINE Bytes luminance(const std::byte* from, const Colours& weights) {
  Int32s y[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto colours = colours_of<kSize, kBefore>(load_pixels<kSize, kBefore>(from, i));
    y[i] = (multiply_add(colours.first_and_third, weights.first_and_third) +
            multiply_add(colours.second_twice, weights.second_twice)) >>
           Grayscale::kShift;
  }
  const auto mixed = reinterpret_cast<Int32s>(narrow(narrow(y[0], y[1]), narrow(y[2], y[3])));
  // If each vector contains consecutive pixels, lane l of `mixed` contains the l-th group of four
  // pixels of each vector. A shuffle restores the order.
#if defined(__AVX512BW__)
  return reinterpret_cast<Bytes>(
      __builtin_shufflevector(mixed, mixed, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
#elif defined(__AVX2__)
  if constexpr (kSize == 4)
    return reinterpret_cast<Bytes>(__builtin_shufflevector(mixed, mixed, 0, 4, 1, 5, 2, 6, 3, 7));
#endif
  return reinterpret_cast<Bytes>(mixed);
}

// How a row of gray values is stored. kExact: only its pixels. kWithRoom: in a buffer that has room
// for whole vectors. kStreaming: only its pixels, with non-temporal stores.
enum class Stores : std::uint8_t { kExact, kWithRoom, kStreaming };

// `to` must be aligned if kStores is kStreaming.
template <Stores kStores>
ADO_INLINE void store_gray(Pixel* to, Bytes pixels) {
#if defined(__x86_64__)
  if constexpr (kStores == Stores::kStreaming)
    return ADO_X86_STREAM(reinterpret_cast<Register*>(to), reinterpret_cast<Register>(pixels));
#endif
  store_vector(to, pixels);
}

// Converts `count` pixels. Reads at most `readable` bytes of `from`. Prefetches `ahead` bytes
// ahead, unless `ahead` is 0. The last vector overlaps the previous one or extends into the room
// after the row, so that no pixel is converted individually.
template <int kSize, Stores kStores>
ADO_INLINE void gray_packed(const std::byte* from, int64_t readable, int64_t count, bool reversed,
                            int64_t ahead, Pixel* to) {
  constexpr int64_t kReads = kWidth * kSize + kExcess<kSize>;
  const Colours weights = weights_of(reversed);
  const auto convert = [&](int64_t col) {
    const std::byte* pixels = from + col * kSize;
    for (int line = 0; ahead != 0 && line < kWidth * kSize; line += kLine)
      __builtin_prefetch(pixels + ahead + line);
    return luminance<kSize>(pixels, weights);
  };
  const int64_t last = kStores == Stores::kWithRoom ? count - 1 : count - kWidth;
  const int64_t end = readable < kReads ? -1 : min(last, (readable - kReads) / kSize);
  int64_t col = 0;
  if (kStores == Stores::kStreaming && end >= 0) {
    store_vector(to, convert(0));
    col = to_next_line(reinterpret_cast<std::byte*>(to)) % kWidth;
    if (col == 0) col = kWidth;
  }
  for (; col <= end; col += kWidth) store_gray<kStores>(to + col, convert(col));
  if (col >= count) return;
  const int64_t final = count - kWidth;
  if (end >= 0 && end == final) return store_vector(to + final, convert(final));
  // Reading beyond the last pixel could exceed the input. The last vector therefore reads its
  // excess bytes before its first pixel.
  if (kSize == 3 && end >= 0 && final >= 6) {
    if (col < final) store_vector(to + final - 6, convert(final - 6));
    return store_vector(to + final, luminance<kSize, true>(from + final * kSize, weights));
  }
  while (col < count) {
    col = max(min(col, final), 0);
    alignas(kLine) std::byte rest[kReads] = {};
    std::memcpy(rest, from + col * kSize, min(kWidth * kSize, readable - col * kSize));
    const Bytes pixels = luminance<kSize>(rest, weights);
    std::memcpy(to + col, &pixels, min(count, kWidth));
    col += kWidth;
  }
}

// Converts part of a row of an image with any strides.
template <Stores kStores>
ADO_INLINE void gray_row(const Image& image, int64_t row, int64_t begin, int64_t count,
                         int64_t ahead, Pixel* to) {
  const std::byte* from = image.at(row, begin);
  const bool reversed = image.to_channel == -1;
  if (reversed || image.to_channel == 1) {
    const std::byte* first = reversed ? from - 2 : from;
    // Bytes up to the end of the row, or of the last row if rows follow each other in memory. The
    // fourth byte of the last pixel is included only if it is known to be inside the array.
    int64_t readable = (image.cols - begin - 1) * image.to_col + 3;
    readable += image.channels == 4 && !reversed;
    if (image.to_row >= image.cols * image.to_col)
      readable += (image.rows - 1 - row) * image.to_row;
    if (image.to_col == 4)
      return gray_packed<4, kStores>(first, readable, count, reversed, ahead, to);
    if (image.to_col == 3)
      return gray_packed<3, kStores>(first, readable, count, reversed, ahead, to);
  }
  for (int64_t col = 0; col < count; col += kWidth) {
    alignas(kLine) std::byte pixels[4 * kWidth] = {};
    const int64_t some = min(kWidth, count - col);
    for (int64_t i = 0; i < some; ++i)
      for (int channel = 0; channel < 3; ++channel)
        pixels[4 * i + channel] = from[(col + i) * image.to_col + channel * image.to_channel];
    gray_packed<4, Stores::kExact>(pixels, sizeof(pixels), some, false, 0, to + col);
  }
}

}  // namespace
}  // namespace ado::ADO_ISA
