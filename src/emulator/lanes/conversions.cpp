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
ADO_INLINE D saturated(S x) {
  using Wide = __int128;
  return x < Wide{kLowest<D>}    ? kLowest<D>
         : x > Wide{kHighest<D>} ? kHighest<D>
                                 : static_cast<D>(x);
}
// Sums inside a conversion of integers may be -0 if they round down.
template <class D, class S, Round kRound = Round::kNearest>
constexpr AluFunction to_float =
    in_direction<kRound, map1<D, Stored<S>, [](Stored<S> x) {
                   const bool zero =
                       kRound != Round::kNearest && std::is_integral_v<S> && static_cast<S>(x) == 0;
                   return zero ? D(0) : static_cast<D>(static_cast<S>(x));
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
template <class D, Round kMode, class S>
ADO_INLINE D to_integer(S x) {
  constexpr f64 kEnd = 2.0 * static_cast<f64>(u64{1} << (8 * sizeof(D) - 1 - (D(-1) < D(0))));
  constexpr f64 kBegin = static_cast<f64>(kLowest<D>);
  constexpr D kOfNan =
      sizeof(D) == 8 || sizeof(S) == 8 ? static_cast<D>(u64{1} << (8 * sizeof(D) - 1)) : D(0);
  const f64 value = integral<kMode>(x);
  return value != value   ? kOfNan
         : value < kBegin ? kLowest<D>
         : value >= kEnd  ? kHighest<D>
                          : static_cast<D>(value);
}

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
template <class Format, Round kRound, class S>
ADO_INLINE u16 half_from(S x) {
  return Format::template narrow<kRound>(odd_of(before_rounding(x)));
}

template <class Format>
ADO_INLINE u32 eighths(f32 high, f32 low) {
  return Format::narrow(high) << 8 | Format::narrow(low);
}
template <class Format>
ADO_INLINE u32 halves_of_eighths(u16 x) {
  const auto part = [](u32 code) { return Half::narrow<Round::kNearest>(Format::widen(code)); };
  return u32{part(x >> 8)} << 16 | part(x & 0xff);
}
#define EIGHTHS(S, F)                                                             \
  ADO_E2("cvt.rn.satfinite." S ".f32", u16, f32, f32, eighths<F>(a, b)),          \
      ADO_E1("cvt.rn.satfinite." S ".f16x2", u16, u32,                            \
             eighths<F>(Half::widen(a >> 16), Half::widen(static_cast<u16>(a)))), \
      ADO_E1("cvt.rn.f16x2." S, u32, u16, halves_of_eighths<F>(a))
// TensorFloat-32: 10 bits after the point; halves are rounded away from 0, or to even.
template <bool kAway>
ADO_INLINE u32 to_tf32(u32 x) {
  const bool is_number = (x & 0x7fffffff) < 0x7f800000u;
  return is_number ? (x + (kAway ? 0x1000 : 0xfff + ((x >> 13) & 1))) & ~0x1fffu : x;
}

#define N(T) sizeof(Stored<T>)
#define INTEGER(D, S)                                 \
  entry("cvt." #D "." #S, integer<D, S>, N(D), N(S)), \
      ADO_E1("cvt.sat." #D "." #S, Stored<D>, Stored<S>, saturated<D>(static_cast<S>(a)))
// ROUNDED(name of a rounding, rounding, ...): entries of each rounding.
#define ROUNDINGS(ROUNDED, ...)                                                          \
  ROUNDED("rn", Round::kNearest, __VA_ARGS__), ROUNDED("rz", Round::kZero, __VA_ARGS__), \
      ROUNDED("rm", Round::kDown, __VA_ARGS__), ROUNDED("rp", Round::kUp, __VA_ARGS__)
#define HALVES_FROM(R, kRound, S)                                                            \
  ADO_E1("cvt." R ".f16." #S, u16, Stored<S>, (half_from<Half, kRound>(static_cast<S>(a)))), \
      ADO_E1("cvt." R ".bf16." #S, u16, Stored<S>, (half_from<Brain, kRound>(static_cast<S>(a))))
#define FLOATS_FROM(R, kRound, S)                                \
  entry("cvt." R ".f32." #S, to_float<f32, S, kRound>, 4, N(S)), \
      entry("cvt." R ".f64." #S, to_float<f64, S, kRound>, 8, N(S)), HALVES_FROM(R, kRound, S)
#define FROM_INTEGER(S, ...)                                                         \
  INTEGER(u8, S), INTEGER(s8, S), INTEGER(u16, S), INTEGER(s16, S), INTEGER(u32, S), \
      INTEGER(s32, S), INTEGER(u64, S), INTEGER(s64, S), ROUNDINGS(FLOATS_FROM, S)
#define FROM_FLOATS(R, kRound, ...)                                                          \
  HALVES_FROM(R, kRound, f64), entry("cvt." R ".f32.f64", to_float<f32, f64, kRound>, 4, 8), \
      TO_HALF(R, kRound, "f16", Half), TO_HALF(R, kRound, "bf16", Brain),                    \
      ADO_E1("cvt." R ".bf16.f16", u16, u16, Brain::narrow<kRound>(Half::widen(a))),         \
      ADO_E1("cvt." R ".f16.bf16", u16, u16, Half::narrow<kRound>(Brain::widen(a)))
#define TO_HALF(R, kRound, D, F)                                         \
  entry("cvt." R "." D ".f32", to_half<F, kRound>, 2, 4),                \
      entry("cvt." R ".relu." D ".f32", to_half<F, kRound, true>, 2, 4), \
      entry("cvt." R "." D "x2.f32", to_pair<F, kRound>, 4, 4, 4),       \
      entry("cvt." R ".relu." D "x2.f32", to_pair<F, kRound, true>, 4, 4, 4)
#define TO_INTEGER(D, M, kMode)                                                               \
  ADO_E1("cvt." M "." #D ".f32", Stored<D>, f32, (to_integer<D, kMode>(a))),                  \
      ADO_E1("cvt." M "." #D ".f64", Stored<D>, f64, (to_integer<D, kMode>(a))),              \
      ADO_E1("cvt." M "." #D ".f16", Stored<D>, u16, (to_integer<D, kMode>(Half::widen(a)))), \
      ADO_E1("cvt." M "." #D ".bf16", Stored<D>, u16, (to_integer<D, kMode>(Brain::widen(a))))
#define TO_INTEGERS(R, kMode, ...)                                            \
  ADO_INTEGERS(TO_INTEGER, R "i", kMode),                                     \
      ADO_E1("cvt." R "i.f32.f32", f32, f32, integral<kMode>(a)),             \
      ADO_E1("cvt." R "i.f64.f64", f64, f64, integral<kMode>(a)),             \
      ADO_E1("cvt." R "i.f16.f16", u16, u16,                                  \
             Half::narrow<Round::kNearest>(integral<kMode>(Half::widen(a)))), \
      ADO_E1("cvt." R "i.bf16.bf16", u16, u16,                                \
             Brain::narrow<Round::kNearest>(integral<kMode>(Brain::widen(a))))

constexpr AluEntry kEntries[] = {
    ADO_INTEGERS(FROM_INTEGER, ),
    ROUNDINGS(TO_INTEGERS, ),
    ROUNDINGS(FROM_FLOATS, ),
    {"cvt.f64.f32", to_float<f64, f32>, {8, 4, 0, 0}},
    {"cvt.f32.f32", to_float<f32, f32>, {4, 4, 0, 0}},
    {"cvt.f64.f64", to_float<f64, f64>, {8, 8, 0, 0}},
    {"cvt.f32.f16", from_half<Half>, {4, 2, 0, 0}},
    {"cvt.f32.bf16", from_half<Brain>, {4, 2, 0, 0}},
    ADO_E1("cvt.f64.f16", f64, u16, Half::widen(a)),
    ADO_E1("cvt.f64.bf16", f64, u16, Brain::widen(a)),
    ADO_E1("cvt.rna.tf32.f32", u32, u32, to_tf32<true>(a)),
    ADO_E1("cvt.rn.tf32.f32", u32, u32, to_tf32<false>(a)),
    EIGHTHS("e4m3x2", E4m3),
    EIGHTHS("e5m2x2", E5m2),
};

}  // namespace

AluTable conversion_entries() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

}  // namespace ado::ADO_ISA
