// Pixels in the registers of a lane: four pixels packed into each 32-bit word, their luminance, and
// the magnitude of gradients.
#pragma once

#include "common/grid.cuh"
#include "common/vector.cuh"
#include "routines/grayscale.hpp"

namespace ado::cuda {

// FLOPs of approximate_length(). The square root of the special function unit is not counted.
inline constexpr double kFlopsOfLength = 2 * 2;  // FMAs

#ifdef __CUDACC__

// kWords words of four pixels each, the leftmost pixel in the lowest byte.
template <int kWords>
using PackedPixels = Vector<unsigned, kWords>;

// Mask of the first `count` pixels of a word; `count` may be any number.
__device__ inline unsigned first_pixels(int count) {
  return count <= 0 ? 0 : count >= 4 ? 0xffffffff : (1U << (8 * count)) - 1;
}

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

// Shuffles the four pixels on either side from the neighbouring lanes, for rows that are computed
// in registers: colour images. For gray images, lanes read these pixels from shared memory.
template <int kWords>
__device__ PixelsAround<kWords> exchange_neighbours(const PackedPixels<kWords>& own) {
  PixelsAround<kWords> all;
  all.at[0] = __shfl_up_sync(kAllLanes, own.at[kWords - 1], 1);
#pragma unroll
  for (int w = 0; w < kWords; ++w) all.at[w + 1] = own.at[w];
  all.at[kWords + 1] = __shfl_down_sync(kAllLanes, own.at[0], 1);
  return all;
}

// Luminance of pixels in 32-bit words, by dot products of four bytes.
//
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

// Returns sqrt(x^2 + y^2) of integers x and y, from the square root of the special function unit.
// If the exact root is below 256, the result and the exact root have the same integer part. `half`
// is 0.5 or, if x and y are in units of u, 0.5 u^2.
//
// The relative error of the approximation is up to 2^-23 (PTX ISA, sqrt.approx), so without `half`
// the result for a square might be just below the integer root. Adding half a unit under the root
// prevents that at no cost. q = x^2 + y^2 is an integer, so there is no integer between sqrt(q) and
// sqrt(q + 0.5). For all n up to 255, sqrt(n^2 - 0.5) and sqrt(n^2 + 0.5) are both more than 2^-10
// away from n, and the error is less than 2^-15. From 255^2 on, the result is at least 255. With x
// and y up to 1020, q is less than 2^21, so a float represents q + 0.5 exactly. A unit that is a
// power of two changes only exponents. On an H200, the result was correct for every q from 0 to 2 *
// 1020^2 with a unit of 1, even without `half`.
__device__ inline float approximate_length(float x, float y, float half) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaf(x, x, fmaf(y, y, half))));
  return root;
}

#endif

}  // namespace ado::cuda
