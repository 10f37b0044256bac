// Conversion between float32 and the 16-bit and 8-bit formats.
#pragma once

#include "emulator/lanes/lanes.hpp"

namespace ado::ADO_ISA {
namespace {

ADO_INLINE u32 bits32(f32 x) { return __builtin_bit_cast(u32, x); }
ADO_INLINE f32 float_of(u32 x) { return __builtin_bit_cast(f32, x); }

// Rounds x to odd: returns x if a float can hold it, otherwise the neighbouring float whose last
// bit is 1. Rounding the result to at most 22 bits is then correct rounding of x.
ADO_INLINE f32 odd_of(f64 x) {
  const f32 rounded = static_cast<f32>(x);
  const f64 error = x - static_cast<f64>(rounded);
  if (rounded - rounded != 0 && x - x == 0) return __builtin_copysignf(0x1.fffffep127f, rounded);
  if (!(error != 0) || (bits32(rounded) & 1) || rounded - rounded != 0) return rounded;
  const bool negative = bits32(rounded) >> 31 != 0;  // also of -0
  return float_of(bits32(rounded) + ((error > 0) != negative ? 1 : -1));
}
// a * b + c for 16-bit a, b and c: the product is exact, the sum is rounded to odd. Products of
// bfloat16 need the exponents of float64.
ADO_INLINE f32 odd_fma(f32 a, f32 b, f32 c) {
  const f32 product = a * b, sum = product + c, part = sum - product;
  const f32 error = (product - (sum - part)) + (c - part);
  const bool exact = !(error != 0) || (bits32(sum) & 1) || sum - sum != 0;
  return exact ? sum : float_of(bits32(sum) + ((error > 0) == (sum > 0) ? 1 : -1));
}
ADO_INLINE f32 wide_odd_fma(f32 a, f32 b, f32 c) {
  const f64 product = f64{a} * b, sum = product + c, part = sum - product;
  const f64 error = (product - (sum - part)) + (c - part);
  const bool exact = !(error != 0) || (bits(sum) & 1) || sum - sum != 0;
  const u64 step = (error > 0) == (sum > 0) ? 1 : ~u64{0};
  return odd_of(exact ? sum : __builtin_bit_cast(f64, bits(sum) + step));
}
// The number after truncation, if a direction moves it away from 0.
template <class Format, Round kRound>
ADO_INLINE u16 directed(f32 x) {
  const u16 truncated = Format::template narrow<Round::kZero>(x);
  const bool away = kRound == Round::kUp ? x > 0 : x < 0;
  return static_cast<u16>(truncated + (away && Format::widen(truncated) != x && x - x == 0));
}

struct Half {
  static constexpr u16 kNan = 0x7fff;
  static ADO_INLINE f32 widen(u16 h) {
    const u32 sign = u32(h & 0x8000) << 16, rest = h & 0x7fff;
    const f32 normal = float_of((rest << 13) + 0x38000000u);
    const f32 small = static_cast<f32>(static_cast<s32>(rest)) * 0x1p-24f;
    const u32 value =
        rest >= 0x7c00 ? (rest << 13) | 0x7f800000u : bits32(rest < 0x400 ? small : normal);
    return float_of(value | sign);
  }
  template <Round kRound>
  static ADO_INLINE u16 narrow(f32 x) {
    const u32 sign = (bits32(x) >> 16) & 0x8000, rest = bits32(x) & 0x7fffffff;
    if (rest > 0x7f800000u) return kNan;
    if constexpr (kRound == Round::kDown || kRound == Round::kUp) return directed<Half, kRound>(x);
    u32 out;
    if (rest < 0x38800000u) {  // subnormal: the addition rounds at the right bit
      const f32 shifted = float_of(rest) + 0.5f;
      out = bits32(shifted) - bits32(0.5f);
      if (kRound == Round::kZero && shifted - 0.5f > float_of(rest)) --out;
    } else {
      const u32 odd = (rest >> 13) & 1;
      out = (rest - 0x38000000u + (kRound == Round::kNearest ? 0xfff + odd : 0)) >> 13;
    }
    const u32 limit = kRound == Round::kZero && rest != 0x7f800000u ? 0x7bff : 0x7c00;
    return static_cast<u16>(sign | (out > limit ? limit : out));
  }
};

struct Brain {
  static constexpr u16 kNan = 0x7fff;
  static ADO_INLINE f32 widen(u16 h) { return float_of(u32{h} << 16); }
  template <Round kRound>
  static ADO_INLINE u16 narrow(f32 x) {
    const u32 b = bits32(x);
    if (x != x) return kNan;
    if constexpr (kRound == Round::kDown || kRound == Round::kUp) return directed<Brain, kRound>(x);
    return static_cast<u16>((b + (kRound == Round::kNearest ? 0x7fff + ((b >> 16) & 1) : 0)) >> 16);
  }
};

// 8-bit floats with kBits bits after the point. The step of subnormals is 2^kLeast.
template <int kBits, int kLeast, u32 kMost>
struct Eighth {
  static ADO_INLINE f32 power(int exponent) {
    return float_of(static_cast<u32>(exponent + 127) << 23);
  }
  // Values beyond the largest number become that number.
  static ADO_INLINE u32 narrow(f32 x) {
    const u32 sign = bits32(x) >> 24 & 0x80, rest = bits32(x) & 0x7fffffff;
    if (rest > 0x7f800000u) return 0x7f;
    const int exponent = static_cast<int>(rest >> 23) - 127 - kBits;
    const int above = exponent > kLeast ? exponent - kLeast : 0;
    if (above > 31) return sign | kMost;
    const f32 steps = __builtin_rintf(float_of(rest) * power(-kLeast - above));
    const u32 code = (static_cast<u32>(above) << kBits) + static_cast<u32>(steps);
    return sign | (code < kMost ? code : kMost);
  }
  static ADO_INLINE f32 widen(u32 code) {
    const u32 rest = code & 0x7f, above = rest >> kBits, bits = rest & ((1u << kBits) - 1);
    const f32 steps = static_cast<f32>(above == 0 ? bits : bits | 1u << kBits);
    const f32 size = rest <= kMost ? steps * power(kLeast + static_cast<int>(above ? above - 1 : 0))
                     : kBits == 2 && bits == 0 ? __builtin_inff()
                                               : float_of(0x7fffffff);
    return code & 0x80 ? -size : size;
  }
};
using E4m3 = Eighth<3, -9, 0x7e>;
using E5m2 = Eighth<2, -16, 0x7b>;

// All elements of registers, with the processor's instructions for float16 where it has them.
template <class Format>
ADO_INLINE void widen_all(f32* out, const u16* in, int count) {
#if defined(__F16C__)
  if constexpr (std::is_same_v<Format, Half>) {
    for (int i = 0; i < count; i += 8)
      _mm256_storeu_ps(out + i,
                       _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
    return;
  }
#endif
  for (int i = 0; i < count; ++i) out[i] = Format::widen(in[i]);
}
template <class Format, Round kRound>
ADO_INLINE void narrow_all(u16* out, const f32* in, int count) {
#if defined(__F16C__)
  if constexpr (std::is_same_v<Format, Half>) {
    constexpr int kMode = static_cast<int>(kRound) | _MM_FROUND_NO_EXC;
    for (int i = 0; i < count; i += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(in + i), kMode));
    for (int i = 0; i < count; ++i) out[i] = in[i] != in[i] ? Half::kNan : out[i];
    return;
  }
#endif
  for (int i = 0; i < count; ++i) out[i] = Format::template narrow<kRound>(in[i]);
}

}  // namespace
}  // namespace ado::ADO_ISA
