// cvt: conversions between types. 8-bit integers are held in 16-bit registers.
#include "emulator/lanes/half.hpp"

namespace ado::ADO_ISA {
namespace {

template <class T>
using Stored = std::conditional_t<sizeof(T) == 1, std::conditional_t<(T(-1) < T(0)), s16, u16>, T>;

template <class D, class S>
constexpr AluFunction integer =
    map1<Stored<D>, Stored<S>, [](Stored<S> x) { return static_cast<D>(static_cast<S>(x)); }>;
template <class T>
constexpr T kLowest = (T(-1) < T(0)) ? static_cast<T>(u64{1} << (8 * sizeof(T) - 1)) : T(0);
template <class T>
constexpr T kHighest = static_cast<T>(~kLowest<T>);

// cvt.sat between integers: values outside the result's range are clamped.
template <class D, class S>
void saturated(void* d, const void* a, const void*, const void*) {
  using Wide = __int128;
  auto* out = static_cast<Stored<D>*>(d);
  const auto* x = static_cast<const Stored<S>*>(a);
  for (int i = 0; i < kLanes; ++i) {
    const Wide value = static_cast<S>(x[i]);
    out[i] = value < Wide{kLowest<D>}    ? kLowest<D>
             : value > Wide{kHighest<D>} ? kHighest<D>
                                         : static_cast<D>(value);
  }
}
template <class D, class S>
constexpr AluFunction to_float = map1<D, Stored<S>, [](Stored<S> x) { return static_cast<S>(x); }>;
// Sums inside a conversion may be -0 if they round down.
template <class D, class S, Round kRound>
constexpr AluFunction to_float_directed =
    rounded<kRound, map1<D, Stored<S>, [](Stored<S> x) {
              return static_cast<S>(x) == 0 ? D(0) : static_cast<D>(static_cast<S>(x));
            }>>;

template <Round kMode>
ADO_INLINE f64 integral(f64 x) {
  if constexpr (kMode == Round::kNearest) return __builtin_rint(x);
  if constexpr (kMode == Round::kZero) return __builtin_trunc(x);
  if constexpr (kMode == Round::kDown) return __builtin_floor(x);
  return __builtin_ceil(x);
}
template <Round kMode>
ADO_INLINE f32 integral(f32 x) {
  if constexpr (kMode == Round::kNearest) return __builtin_rintf(x);
  if constexpr (kMode == Round::kZero) return __builtin_truncf(x);
  if constexpr (kMode == Round::kDown) return __builtin_floorf(x);
  return __builtin_ceilf(x);
}
// NaN becomes 0, or the highest bit if a type has 64 bits; other values are clamped.
template <class D, class S, Round kMode>
void to_integer(void* d, const void* a, const void*, const void*) {
  auto* out = static_cast<Stored<D>*>(d);
  const auto* x = static_cast<const S*>(a);
  constexpr f64 kEnd = 2.0 * static_cast<f64>(u64{1} << (8 * sizeof(D) - 1 - (D(-1) < D(0))));
  constexpr f64 kBegin = static_cast<f64>(kLowest<D>);
  constexpr D kOfNan =
      sizeof(D) == 8 || sizeof(S) == 8 ? static_cast<D>(u64{1} << (8 * sizeof(D) - 1)) : D(0);
  for (int i = 0; i < kLanes; ++i) {
    const f64 value = integral<kMode>(x[i]);
    out[i] = value != value   ? kOfNan
             : value < kBegin ? kLowest<D>
             : value >= kEnd  ? kHighest<D>
                              : static_cast<D>(value);
  }
}
template <class T, Round kMode>
constexpr AluFunction to_integral = map1<T, T, [](T x) { return integral<kMode>(x); }>;

template <class Format>
void from_half(void* d, const void* a, const void*, const void*) {
  widen_all<Format>(static_cast<f32*>(d), static_cast<const u16*>(a), kLanes);
}
template <class Format, Round kRound, bool kRelu = false>
void to_half(void* d, const void* a, const void*, const void*) {
  f32 x[kLanes];
  __builtin_memcpy(x, a, sizeof x);
  if (kRelu)
    for (f32& value : x) value = value <= 0 ? 0 : value;  // also -0
  narrow_all<Format, kRound>(static_cast<u16*>(d), x, kLanes);
}
// The first operand becomes the upper half.
template <class Format, Round kRound, bool kRelu = false>
void to_pair(void* d, const void* a, const void* b, const void* c) {
  u16 high[kLanes], low[kLanes];
  to_half<Format, kRound, kRelu>(high, a, b, c);
  to_half<Format, kRound, kRelu>(low, b, a, c);
  auto* out = static_cast<u32*>(d);
  ADO_LANES out[i] = low[i] | u32{high[i]} << 16;
}
// Returns a float64 that rounds to 16 bits as x does. Bits that float64 cannot hold set one bit far
// below the bits of the result.
template <class S>
ADO_INLINE f64 before_rounding(S x) {
  if constexpr (sizeof(S) == 8 && std::is_integral_v<S>) {
    const bool negative = x < 0;
    const u64 size = negative ? -static_cast<u64>(x) : static_cast<u64>(x);
    const u64 kept = size >> 53 == 0 ? size : (size & ~u64{0x7ff}) | (size & 0x7ff ? 0x800 : 0);
    return negative ? -static_cast<f64>(kept) : static_cast<f64>(kept);
  } else {
    return static_cast<f64>(x);
  }
}
template <class Format, class S, Round kRound = Round::kNearest>
void half_from(void* d, const void* a, const void*, const void*) {
  auto* out = static_cast<u16*>(d);
  const auto* x = static_cast<const Stored<S>*>(a);
  for (int i = 0; i < kLanes; ++i)
    out[i] = Format::template narrow<kRound>(odd_of(before_rounding(static_cast<S>(x[i]))));
}
template <class Format, class D, Round kMode>
void half_to_integer(void* d, const void* a, const void* b, const void* c) {
  f32 x[kLanes];
  widen_all<Format>(x, static_cast<const u16*>(a), kLanes);
  to_integer<D, f32, kMode>(d, x, b, c);
}
template <class Format, Round kMode>
void half_to_integral(void* d, const void* a, const void*, const void*) {
  f32 x[kLanes];
  widen_all<Format>(x, static_cast<const u16*>(a), kLanes);
  for (f32& value : x) value = integral<kMode>(value);
  narrow_all<Format, Round::kNearest>(static_cast<u16*>(d), x, kLanes);
}
template <class Format>
void half_to_double(void* d, const void* a, const void*, const void*) {
  f32 x[kLanes];
  widen_all<Format>(x, static_cast<const u16*>(a), kLanes);
  for (int i = 0; i < kLanes; ++i) static_cast<f64*>(d)[i] = x[i];
}
template <class To, class From, Round kRound>
void half_to_half(void* d, const void* a, const void*, const void*) {
  f32 x[kLanes];
  widen_all<From>(x, static_cast<const u16*>(a), kLanes);
  narrow_all<To, kRound>(static_cast<u16*>(d), x, kLanes);
}

template <class Format, bool kRelu>
ADO_INLINE u32 eighths(f32 high, f32 low) {
  return Format::narrow(kRelu && high <= 0 ? 0 : high) << 8 |
         Format::narrow(kRelu && low <= 0 ? 0 : low);
}
template <class Format, bool kRelu>
ADO_INLINE u32 halves_of_eighths(u16 x) {
  const auto part = [](u32 code) {
    const f32 value = Format::widen(code);
    return Half::narrow<Round::kNearest>(kRelu && value <= 0 ? 0 : value);
  };
  return u32{part(x >> 8)} << 16 | part(x & 0xff);
}
#define EIGHTHS(S, F, R, kRelu)                                                            \
  ADO_E2("cvt.rn.satfinite" R "." S ".f32", u16, f32, f32, (eighths<F, kRelu>(a, b))),     \
      ADO_E1("cvt.rn.satfinite" R "." S ".f16x2", u16, u32,                                \
             (eighths<F, kRelu>(Half::widen(a >> 16), Half::widen(static_cast<u16>(a))))), \
      ADO_E1("cvt.rn" R ".f16x2." S, u32, u16, (halves_of_eighths<F, kRelu>(a)))
// TensorFloat-32: 10 bits after the point; halves are rounded away from 0, or to even.
template <bool kAway>
ADO_INLINE u32 to_tf32(u32 x) {
  const bool is_number = (x & 0x7fffffff) < 0x7f800000u;
  return is_number ? (x + (kAway ? 0x1000 : 0xfff + ((x >> 13) & 1))) & ~0x1fffu : x;
}

#define N(T) static_cast<std::uint8_t>(sizeof(Stored<T>))
#define FROM_INTEGER(S)                                                                     \
  {"cvt.u8." #S, integer<u8, S>, {2, N(S), 0, 0}},                                          \
      {"cvt.s8." #S, integer<s8, S>, {2, N(S), 0, 0}},                                      \
      {"cvt.u16." #S, integer<u16, S>, {2, N(S), 0, 0}},                                    \
      {"cvt.s16." #S, integer<s16, S>, {2, N(S), 0, 0}},                                    \
      {"cvt.u32." #S, integer<u32, S>, {4, N(S), 0, 0}},                                    \
      {"cvt.s32." #S, integer<s32, S>, {4, N(S), 0, 0}},                                    \
      {"cvt.u64." #S, integer<u64, S>, {8, N(S), 0, 0}},                                    \
      {"cvt.s64." #S, integer<s64, S>, {8, N(S), 0, 0}},                                    \
      {"cvt.sat.u8." #S, saturated<u8, S>, {2, N(S), 0, 0}},                                \
      {"cvt.sat.s8." #S, saturated<s8, S>, {2, N(S), 0, 0}},                                \
      {"cvt.sat.u16." #S, saturated<u16, S>, {2, N(S), 0, 0}},                              \
      {"cvt.sat.s16." #S, saturated<s16, S>, {2, N(S), 0, 0}},                              \
      {"cvt.sat.u32." #S, saturated<u32, S>, {4, N(S), 0, 0}},                              \
      {"cvt.sat.s32." #S, saturated<s32, S>, {4, N(S), 0, 0}},                              \
      {"cvt.sat.u64." #S, saturated<u64, S>, {8, N(S), 0, 0}},                              \
      {"cvt.sat.s64." #S, saturated<s64, S>, {8, N(S), 0, 0}},                              \
      {"cvt.rn.f32." #S, to_float<f32, S>, {4, N(S), 0, 0}},                                \
      {"cvt.rn.f64." #S, to_float<f64, S>, {8, N(S), 0, 0}}, DIRECTED_FROM("rm", kDown, S), \
      DIRECTED_FROM("rp", kUp, S), DIRECTED_FROM("rz", kZero, S),                           \
      HALVES_FROM("rn", kNearest, S, S)
#define DIRECTED_FROM(R, kRound, S)                                               \
  {"cvt." R ".f32." #S, to_float_directed<f32, S, Round::kRound>, {4, N(S)}},     \
      {"cvt." R ".f64." #S, to_float_directed<f64, S, Round::kRound>, {8, N(S)}}, \
      HALVES_FROM(R, kRound, S, S)
#define HALVES_FROM(R, kRound, S, T)                                            \
  {"cvt." R ".f16." #S, half_from<Half, T, Round::kRound>, {2, N(T), 0, 0}}, {  \
    "cvt." R ".bf16." #S, half_from<Brain, T, Round::kRound>, { 2, N(T), 0, 0 } \
  }
#define HALVES_FROM_FLOATS(R, kRound)                                                            \
  HALVES_FROM(R, kRound, f64, f64), {"cvt." R ".f16.f32", to_half<Half, Round::kRound>, {2, 4}}, \
      {"cvt." R ".bf16.f32", to_half<Brain, Round::kRound>, {2, 4}},                             \
      {"cvt." R ".relu.f16.f32", to_half<Half, Round::kRound, true>, {2, 4}},                    \
      {"cvt." R ".relu.bf16.f32", to_half<Brain, Round::kRound, true>, {2, 4}},                  \
      {"cvt." R ".f16x2.f32", to_pair<Half, Round::kRound>, {4, 4, 4}},                          \
      {"cvt." R ".bf16x2.f32", to_pair<Brain, Round::kRound>, {4, 4, 4}},                        \
      {"cvt." R ".relu.f16x2.f32", to_pair<Half, Round::kRound, true>, {4, 4, 4}},               \
      {"cvt." R ".relu.bf16x2.f32", to_pair<Brain, Round::kRound, true>, {4, 4, 4}},             \
      {"cvt." R ".bf16.f16", half_to_half<Brain, Half, Round::kRound>, {2, 2}}, {                \
    "cvt." R ".f16.bf16", half_to_half<Half, Brain, Round::kRound>, { 2, 2 }                     \
  }
#define TO_INTEGER(M, kMode, D)                                                     \
  {"cvt." M "." #D ".f32", to_integer<D, f32, kMode>, {N(D), 4, 0, 0}},             \
      {"cvt." M "." #D ".f64", to_integer<D, f64, kMode>, {N(D), 8, 0, 0}},         \
      {"cvt." M "." #D ".f16", half_to_integer<Half, D, kMode>, {N(D), 2, 0, 0}}, { \
    "cvt." M "." #D ".bf16", half_to_integer<Brain, D, kMode>, { N(D), 2, 0, 0 }    \
  }
#define TO_INTEGERS(M, kMode)                                                          \
  TO_INTEGER(M, kMode, u8), TO_INTEGER(M, kMode, s8), TO_INTEGER(M, kMode, u16),       \
      TO_INTEGER(M, kMode, s16), TO_INTEGER(M, kMode, u32), TO_INTEGER(M, kMode, s32), \
      TO_INTEGER(M, kMode, u64), TO_INTEGER(M, kMode, s64),                            \
      {"cvt." M ".f32.f32", to_integral<f32, kMode>, {4, 4, 0, 0}},                    \
      {"cvt." M ".f64.f64", to_integral<f64, kMode>, {8, 8, 0, 0}},                    \
      {"cvt." M ".f16.f16", half_to_integral<Half, kMode>, {2, 2, 0, 0}}, {            \
    "cvt." M ".bf16.bf16", half_to_integral<Brain, kMode>, { 2, 2, 0, 0 }              \
  }

constexpr AluEntry kEntries[] = {
    FROM_INTEGER(u8),
    FROM_INTEGER(s8),
    FROM_INTEGER(u16),
    FROM_INTEGER(s16),
    FROM_INTEGER(u32),
    FROM_INTEGER(s32),
    FROM_INTEGER(u64),
    FROM_INTEGER(s64),
    TO_INTEGERS("rni", Round::kNearest),
    TO_INTEGERS("rzi", Round::kZero),
    TO_INTEGERS("rmi", Round::kDown),
    TO_INTEGERS("rpi", Round::kUp),
    {"cvt.f64.f32", to_float<f64, f32>, {8, 4, 0, 0}},
    {"cvt.rn.f32.f64", to_float<f32, f64>, {4, 8, 0, 0}},
    {"cvt.rz.f32.f64", rounded<Round::kZero, to_float<f32, f64>>, {4, 8, 0, 0}},
    {"cvt.rm.f32.f64", rounded<Round::kDown, to_float<f32, f64>>, {4, 8, 0, 0}},
    {"cvt.rp.f32.f64", rounded<Round::kUp, to_float<f32, f64>>, {4, 8, 0, 0}},
    {"cvt.f32.f32", to_float<f32, f32>, {4, 4, 0, 0}},
    {"cvt.f64.f64", to_float<f64, f64>, {8, 8, 0, 0}},
    {"cvt.f32.f16", from_half<Half>, {4, 2, 0, 0}},
    {"cvt.f32.bf16", from_half<Brain>, {4, 2, 0, 0}},
    {"cvt.f64.f16", half_to_double<Half>, {8, 2, 0, 0}},
    {"cvt.f64.bf16", half_to_double<Brain>, {8, 2, 0, 0}},
    ADO_E1("cvt.rna.tf32.f32", u32, u32, to_tf32<true>(a)),
    ADO_E1("cvt.rn.tf32.f32", u32, u32, to_tf32<false>(a)),
    HALVES_FROM_FLOATS("rn", kNearest),
    HALVES_FROM_FLOATS("rz", kZero),
    HALVES_FROM_FLOATS("rm", kDown),
    HALVES_FROM_FLOATS("rp", kUp),
    EIGHTHS("e4m3x2", E4m3, "", false),
    EIGHTHS("e4m3x2", E4m3, ".relu", true),
    EIGHTHS("e5m2x2", E5m2, "", false),
    EIGHTHS("e5m2x2", E5m2, ".relu", true),
};

}  // namespace

AluTable conversion_entries() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

}  // namespace ado::ADO_ISA
