// Luminance of pixels in 32-bit words, by dot products of four bytes.
#pragma once

#include "routines/grayscale.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

// The weights have 16 bits, but a dot product multiplies bytes. So the luminance takes two dot
// products: one with the low bytes of the weights, one with the high bytes.
//
//   byte of the word     0      1      2      3
//   kFirst = 0           R      G      B    (alpha or the next pixel, weight 0)
//   kFirst = 1      (previous)  R      G      B
constexpr unsigned packed_weights(int shift, int first) {
  const auto byte = [=](int weight, int at) {
    return (static_cast<unsigned>(weight) >> shift & 0xffU) << (8 * (first + at));
  };
  return byte(Grayscale::kRed, 0) | byte(Grayscale::kGreen, 1) | byte(Grayscale::kBlue, 2);
}
template <int kFirst>
inline constexpr unsigned kLowWeights = packed_weights(0, kFirst);
template <int kFirst>
inline constexpr unsigned kHighWeights = packed_weights(8, kFirst);

// Returns the luminance, times 2^16, of the pixel in bytes kFirst to kFirst + 2 of a word.
template <int kFirst = 0>
__device__ unsigned luminance(unsigned word) {
  return __dp4a(word, kLowWeights<kFirst>, __dp4a(word, kHighWeights<kFirst>, 0U) << 8);
}

// Packs two or four luminances. Each luminance is in the third byte of its word, because it is
// multiplied by 2^16.
__device__ inline unsigned pack(unsigned first, unsigned second) {
  return __byte_perm(first, second, 0x0062);
}
__device__ inline unsigned pack(unsigned a, unsigned b, unsigned c, unsigned d) {
  return __byte_perm(pack(a, b), pack(c, d), 0x5410);
}

}  // namespace ado::cuda

#endif
