// Luminance of pixels in words, four bytes at a time.
#pragma once

#include "routines/grayscale.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

// The weights have 16 bits and a dot product takes 8, so one is made of two: of the low bytes of
// the weights and of the high ones, where the pixel has its bytes.
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

// The luminance of the pixel in bytes kFirst to kFirst + 2 of a word, times 2^16.
template <int kFirst = 0>
__device__ unsigned luminance(unsigned word) {
  return __dp4a(word, kLowWeights<kFirst>, __dp4a(word, kHighWeights<kFirst>, 0U) << 8);
}

// Of such results the third bytes, which are the results proper.
__device__ inline unsigned pack(unsigned first, unsigned second) {
  return __byte_perm(first, second, 0x0062);
}
__device__ inline unsigned pack(unsigned a, unsigned b, unsigned c, unsigned d) {
  return __byte_perm(pack(a, b), pack(c, d), 0x5410);
}

}  // namespace ado::cuda

#endif
