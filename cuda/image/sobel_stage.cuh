// The gradient as a stage of the sliding window (sliding_window.cuh). It computes two pixels per
// register and keeps the differences and the weighted sums of the last two rows.
#pragma once

#include "image/packed_pixels.cuh"

#ifdef __CUDACC__

namespace ado::cuda {

// ---- sliding_window, fused ----------------------------------------------------------------------
// Interpreted as a half-precision number, the bits of an integer below 2048 are that integer
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

// -------------------------------------------------------------------------------------------------

}  // namespace ado::cuda

#endif
