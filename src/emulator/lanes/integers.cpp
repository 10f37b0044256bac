// Integer, logic and predicate instructions.
#include "emulator/lanes/lanes.hpp"

namespace ado::ADO_ISA {
namespace {

using u128 = unsigned __int128;
using s128 = __int128;

template <class T>
ADO_INLINE T high(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using Wide = std::conditional_t<(T(-1) < T(0)), s128, u128>;
    return static_cast<T>((static_cast<Wide>(a) * b) >> 64);
  } else {
    using Wide = std::conditional_t<(T(-1) < T(0)), s64, u64>;
    return static_cast<T>((static_cast<Wide>(a) * b) >> (8 * sizeof(T)));
  }
}
// The hardware returns all ones for a division by zero.
template <class T>
ADO_INLINE T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (T(-1) < T(0))
    if (b == T(-1)) return static_cast<T>(-static_cast<std::make_unsigned_t<T>>(a));
  return static_cast<T>(a / b);
}
template <class T>
ADO_INLINE T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (T(-1) < T(0))
    if (b == T(-1)) return 0;
  return static_cast<T>(a % b);
}
// Shift counts are clamped to the size of the type.
template <class T>
ADO_INLINE T left(T a, u32 n) {
  constexpr u32 kBits = 8 * sizeof(T);
  return n < kBits ? static_cast<T>(a << (n & (kBits - 1))) : T{0};
}
template <class T>
ADO_INLINE T right(T a, u32 n) {
  constexpr u32 kBits = 8 * sizeof(T);
  const u32 count = n < kBits ? n : kBits - 1;
  const T shifted = static_cast<T>(a >> count);
  if constexpr (T(-1) < T(0)) return shifted;
  return n < kBits ? shifted : T{0};
}
ADO_INLINE u32 funnel_left(u32 low, u32 high, u32 n) {
  return static_cast<u32>((((u64{high} << 32) | low) << n) >> 32);
}
ADO_INLINE u32 funnel_right(u32 low, u32 high, u32 n) {
  return static_cast<u32>(((u64{high} << 32) | low) >> n);
}
ADO_INLINE u32 clamp32(u32 n) { return n < 32 ? n : 32; }

template <class T>
ADO_INLINE u32 leading_zeros(T a) {
  if constexpr (sizeof(T) == 8) return a == 0 ? 64 : __builtin_clzll(a);
  return a == 0 ? 32 : __builtin_clz(static_cast<u32>(a));
}
// The position of the highest bit that differs from the sign, or ~0.
template <class T>
ADO_INLINE u32 highest_bit(T a) {
  using U = std::make_unsigned_t<T>;
  U bits = static_cast<U>(a);
  if constexpr (T(-1) < T(0))
    if (a < 0) bits = ~bits;
  return bits == 0 ? ~0u : 8 * sizeof(T) - 1 - leading_zeros(bits);
}
template <class T>
ADO_INLINE u32 shift_amount(T a) {
  const u32 bit = highest_bit(a);
  return bit == ~0u ? bit : 8 * sizeof(T) - 1 - bit;
}
template <class T>
ADO_INLINE T reverse_bits(T a) {
  T out = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); ++i) out |= ((a >> i) & 1) << (8 * sizeof(T) - 1 - i);
  return out;
}
template <class T>
ADO_INLINE T extract(T a, u32 position, u32 length) {
  using U = std::make_unsigned_t<T>;
  constexpr u32 kBits = 8 * sizeof(T);
  position &= 0xff, length &= 0xff;
  // Bits beyond the field and beyond the end of `a` are copies of the field's last bit in `a`.
  const u32 left = position < kBits ? kBits - position : 0, count = length < left ? length : left;
  const U bits = count != 0 ? static_cast<U>(a) >> position : U{0};
  const U mask = count < kBits ? (U{1} << count) - 1 : ~U{0};
  const u32 last = length <= left ? position + length - 1 : kBits - 1;
  const bool sign = T(-1) < T(0) && length != 0 && (static_cast<U>(a) >> last) & 1;
  return static_cast<T>((bits & mask) | (sign ? ~mask : U{0}));
}
template <class T>
ADO_INLINE T permute(T a, T b, T selector) {
  const u64 bytes = (u64{b} << 32) | a;
  u32 out = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 s = (selector >> (4 * i)) & 0xf;
    u32 byte = static_cast<u32>(bytes >> (8 * (s & 7))) & 0xff;
    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
    out |= byte << (8 * i);
  }
  return out;
}
// prmt with a selector without sign bits, which nearly all kernels use: shifts that vectorise.
void permute_bytes(void* d, const void* a, const void* b, const void* c) {
  auto* out = static_cast<u32*>(d);
  const auto *x = static_cast<const u32*>(a), *y = static_cast<const u32*>(b),
             *s = static_cast<const u32*>(c);
  u32 signs = 0;
  for (int i = 0; i < kLanes; ++i) signs |= s[i] & 0x8888;
  if (signs != 0) {
    for (int i = 0; i < kLanes; ++i) out[i] = permute(x[i], y[i], s[i]);
    return;
  }
  ADO_LANES {
    const u32 low = x[i], high = y[i], selector = s[i];
    u32 result = 0;
#pragma GCC unroll 4
    for (int byte = 0; byte < 4; ++byte) {
      const u32 pick = (selector >> (4 * byte)) & 7;
      const u32 word = pick & 4 ? high : low;
      result |= ((word >> (8 * (pick & 3))) & 0xff) << (8 * byte);
    }
    out[i] = result;
  }
}
// c + the products of the parts of a, of type A, and bytes of b from kFirst on, of type B.
template <class A, class B, int kFirst>
ADO_INLINE u32 dot(u32 a, u32 b, u32 c) {
  constexpr int kBits = 8 * sizeof(A);
  u32 sum = c;
  for (int i = 0; i < 32 / kBits; ++i)
    sum += static_cast<u32>(static_cast<s32>(static_cast<A>(a >> (kBits * i))) *
                            static_cast<s32>(static_cast<B>(b >> (8 * (i + kFirst)))));
  return sum;
}
// bfi has four operands, so the decoder packs position and length: position | length << 8.
template <class T>
ADO_INLINE T insert_packed(T a, T b, u32 where) {
  constexpr u32 kBits = 8 * sizeof(T);
  const u32 position = where & 0xff, length = where >> 8 & 0xff;
  if (length == 0 || position >= kBits) return b;
  const T field = length < kBits ? (T{1} << length) - 1 : ~T{0};
  return (b & ~(field << position)) | ((a & field) << position);
}
// `width` bits from `position` on.
ADO_INLINE u32 bit_mask(u32 position, u32 width) {
  const u32 bits = width < 32 ? (u32{1} << (width & 31)) - 1 : ~0u;
  return position < 32 ? bits << (position & 31) : 0;
}
ADO_INLINE u32 find_nth(u32 mask, u32 base, s32 offset) {
  if (offset == 0) return base < 32 && (mask >> base) & 1 ? base : ~0u;
  for (s64 at = base, found = 0; at >= 0 && at<32; at += offset> 0 ? 1 : -1)
    if ((mask >> at) & 1 && ++found == (offset > 0 ? offset : -s64{offset}))
      return static_cast<u32>(at);
  return ~0u;
}
template <class T>
ADO_INLINE T saturate(s64 x) {
  return static_cast<T>(x > 0x7fffffff ? 0x7fffffff : x < -0x7fffffff - 1 ? -0x7fffffff - 1 : x);
}
template <class T>
ADO_INLINE u64 distance(T a, T b) {
  return a < b ? u64(b) - u64(a) : u64(a) - u64(b);
}
// Applies an operation to the parts of type T of words.
template <class T, auto kF>
ADO_INLINE u32 parts(u32 a, u32 b) {
  u32 out = 0;
  for (unsigned i = 0; i < 32; i += 8 * sizeof(T)) {
    const auto part = kF(static_cast<T>(a >> i), static_cast<T>(b >> i));
    out |= u32{static_cast<std::make_unsigned_t<T>>(part)} << i;
  }
  return out;
}
template <class A, class B>
ADO_INLINE u32 byte_distances(u32 a, u32 b, bool sum, u32 c) {
  u32 out = sum ? c : 0;
  for (int i = 0; i < 32; i += 8) {
    const s32 d = static_cast<A>(a >> i) - static_cast<B>(b >> i);
    out += static_cast<u32>(d < 0 ? -d : d) << (sum ? 0 : i);
  }
  return out;
}
ADO_INLINE s64 signed24(s32 a) { return static_cast<s32>(static_cast<u32>(a) << 8) >> 8; }
ADO_INLINE u64 unsigned24(u32 a) { return a & 0xffffff; }

// Predicates are masks: one operation for all lanes.
template <auto kF>
void masks(void* d, const void* a, const void* b, const void* c) {
  const auto of = [](const void* p) { return p == nullptr ? 0u : *static_cast<const u32*>(p); };
  *static_cast<u32*>(d) = kF(of(a), of(b), of(c));
}
// add.cc, addc, sub.cc and others: the carry out of a + b + carry.
template <class T, class Wide>
void carry_of_sum(void* d, const void* a, const void* b, const void* c) {
  const auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  const u32 carry = *static_cast<const u32*>(c);
  u32 out = 0;
  for (int i = 0; i < kLanes; ++i)
    out |= static_cast<u32>((Wide{x[i]} + y[i] + ((carry >> i) & 1)) >> (8 * sizeof(T))) << i;
  *static_cast<u32*>(d) = out;
}
template <class T>
void add_carry(void* d, const void* a, const void* b, const void* c) {
  auto* out = static_cast<T*>(d);
  const auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  const u32 carry = *static_cast<const u32*>(c);
  ADO_LANES out[i] = x[i] + y[i] + ((carry >> i) & 1);
}

template <class T>
ADO_INLINE T times(T a, T b) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) *
                        u64{static_cast<std::make_unsigned_t<T>>(b)});
}

#define ARITHMETIC(S, T)                                                                           \
  ADO_E2("add." S, T, T, T, static_cast<T>(u64(a) + u64(b))),                                      \
      ADO_E2("sub." S, T, T, T, static_cast<T>(u64(a) - u64(b))),                                  \
      ADO_E2("mul.lo." S, T, T, T, times<T>(a, b)), ADO_E2("mul.hi." S, T, T, T, high<T>(a, b)),   \
      ADO_E3("mad.lo." S, T, T, T, T, static_cast<T>(u64(times<T>(a, b)) + u64(c))),               \
      ADO_E3("mad.hi." S, T, T, T, T, static_cast<T>(u64(high<T>(a, b)) + u64(c))),                \
      ADO_E2("min." S, T, T, T, a < b ? a : b), ADO_E2("max." S, T, T, T, a > b ? a : b),          \
      ADO_E2("div." S, T, T, T, quotient<T>(a, b)), ADO_E2("rem." S, T, T, T, remainder<T>(a, b)), \
      ADO_E3("sad." S, T, T, T, T, static_cast<T>(u64(c) + distance<T>(a, b))),                    \
      ADO_E2("shr." S, T, T, u32, right<T>(a, b)), ADO_COMPARE("setp.eq." S, T, a == b),           \
      ADO_COMPARE("setp.ne." S, T, a != b), ADO_COMPARE("setp.lt." S, T, a < b),                   \
      ADO_COMPARE("setp.le." S, T, a <= b), ADO_COMPARE("setp.gt." S, T, a > b),                   \
      ADO_COMPARE("setp.ge." S, T, a >= b)
#define SIGNED(S, T)                               \
  ADO_E1("neg." S, T, T, static_cast<T>(-u64(a))), \
      ADO_E1("abs." S, T, T, static_cast<T>(a < 0 ? -u64(a) : u64(a)))
#define BITS(S, T)                                                                             \
  ADO_E1("mov." S, T, T, a), ADO_E2("and." S, T, T, T, a& b), ADO_E2("or." S, T, T, T, a | b), \
      ADO_E2("xor." S, T, T, T, a ^ b), ADO_E1("not." S, T, T, ~a),                            \
      ADO_E1("cnot." S, T, T, a == 0), ADO_E2("shl." S, T, T, u32, left<T>(a, b)),             \
      ADO_E2("shr." S, T, T, u32, right<T>(a, b)), ADO_COMPARE("setp.eq." S, T, a == b),       \
      ADO_COMPARE("setp.ne." S, T, a != b),                                                    \
      entry("selp." S, select<T>, sizeof(T), sizeof(T), sizeof(T), 1)
#define WIDE(S, T, W)                                                    \
  ADO_E2("mul.wide." S, W, T, T, static_cast<W>(a) * static_cast<W>(b)), \
      ADO_E3("mad.wide." S, W, T, T, W,                                  \
             static_cast<W>(u64(static_cast<W>(a) * static_cast<W>(b)) + u64(c)))
#define FIELDS(T)                                            \
  ADO_E1("bfind." #T, u32, T, highest_bit(a)),               \
      ADO_E1("bfind.shiftamt." #T, u32, T, shift_amount(a)), \
      ADO_E3("bfe." #T, T, T, u32, u32, extract<T>(a, b, c))
// R and S: the types of a and b in the name. H and A: parts of a with 16 and 8 bits; B: parts of b.
#define DOTS(R, S, H, A, B)                                                      \
  ADO_E3("dp4a." #R "." #S, u32, u32, u32, u32, (dot<A, B, 0>(a, b, c))),        \
      ADO_E3("dp2a.lo." #R "." #S, u32, u32, u32, u32, (dot<H, B, 0>(a, b, c))), \
      ADO_E3("dp2a.hi." #R "." #S, u32, u32, u32, u32, (dot<H, B, 2>(a, b, c)))
#define PARTS(name, S, T, expr) \
  ADO_E2(name "." #S, u32, u32, u32, (parts<T, [](T a, T b) { return (expr); }>(a, b)))
#define DISTANCES(S, R, A, B)                                                                     \
  ADO_E3("vabsdiff4.u32." #S "." #R, u32, u32, u32, u32, (byte_distances<A, B>(a, b, false, c))), \
      ADO_E3("vabsdiff4.u32." #S "." #R ".add", u32, u32, u32, u32,                               \
             (byte_distances<A, B>(a, b, true, c)))

constexpr AluEntry kEntries[] = {
    ARITHMETIC("u16", u16),
    ARITHMETIC("s16", s16),
    ARITHMETIC("u32", u32),
    ARITHMETIC("s32", s32),
    ARITHMETIC("u64", u64),
    ARITHMETIC("s64", s64),
    SIGNED("s16", s16),
    SIGNED("s32", s32),
    SIGNED("s64", s64),
    BITS("b16", u16),
    BITS("b32", u32),
    BITS("b64", u64),
    WIDE("u16", u16, u32),
    WIDE("s16", s16, s32),
    WIDE("u32", u32, u64),
    WIDE("s32", s32, s64),
    ADO_E2("add.sat.s32", s32, s32, s32, saturate<s32>(s64{a} + b)),
    ADO_E2("sub.sat.s32", s32, s32, s32, saturate<s32>(s64{a} - b)),
    ADO_E2("mul24.lo.s32", s32, s32, s32, signed24(a) * signed24(b)),
    ADO_E2("mul24.lo.u32", u32, u32, u32, unsigned24(a) * unsigned24(b)),
    ADO_E1("popc.b32", u32, u32, __builtin_popcount(a)),
    ADO_E1("popc.b64", u32, u64, __builtin_popcountll(a)),
    ADO_E1("clz.b32", u32, u32, leading_zeros(a)),
    ADO_E1("clz.b64", u32, u64, leading_zeros(a)),
    ADO_E1("brev.b32", u32, u32, reverse_bits(a)),
    ADO_E1("brev.b64", u64, u64, reverse_bits(a)),
    FIELDS(u32),
    FIELDS(s32),
    FIELDS(u64),
    FIELDS(s64),
    ADO_E3("bfi.b32", u32, u32, u32, u32, insert_packed<u32>(a, b, c)),
    ADO_E3("bfi.b64", u64, u64, u64, u32, insert_packed<u64>(a, b, c)),
    ADO_E2("bfi.where", u32, u32, u32, (a & 0xff) | (b & 0xff) << 8),
    ADO_E2("bmsk.clamp.b32", u32, u32, u32, bit_mask(a, b)),
    ADO_E2("bmsk.wrap.b32", u32, u32, u32, bit_mask(a & 31, b & 31)),
    ADO_E3("fns.b32", u32, u32, u32, s32, find_nth(a, b, c)),
    ADO_E3("shf.l.wrap.b32", u32, u32, u32, u32, funnel_left(a, b, c & 31)),
    ADO_E3("shf.r.wrap.b32", u32, u32, u32, u32, funnel_right(a, b, c & 31)),
    ADO_E3("shf.l.clamp.b32", u32, u32, u32, u32, funnel_left(a, b, clamp32(c))),
    ADO_E3("shf.r.clamp.b32", u32, u32, u32, u32, funnel_right(a, b, clamp32(c))),
    {"prmt.b32", permute_bytes, {4, 4, 4, 4}},
    PARTS("add", u16x2, u16, a + b),
    PARTS("add", s16x2, s16, a + b),
    PARTS("min", u16x2, u16, a < b ? a : b),
    PARTS("min", s16x2, s16, a < b ? a : b),
    PARTS("max", u16x2, u16, a > b ? a : b),
    PARTS("max", s16x2, s16, a > b ? a : b),
    DISTANCES(u32, u32, u8, u8),
    DISTANCES(u32, s32, u8, s8),
    DISTANCES(s32, u32, s8, u8),
    DISTANCES(s32, s32, s8, s8),
    DOTS(u32, u32, u16, u8, u8),
    DOTS(u32, s32, u16, u8, s8),
    DOTS(s32, u32, s16, s8, u8),
    DOTS(s32, s32, s16, s8, s8),
    // The decoder uses the names below for parts of other instructions.
    ADO_E2("pack.b32", u32, u16, u16, a | u32{b} << 16),
    ADO_E2("pack.b64", u64, u32, u32, a | u64{b} << 32),
    ADO_E1("low.b32", u16, u32, static_cast<u16>(a)),
    ADO_E1("high.b32", u16, u32, a >> 16),
    ADO_E1("low.b64", u32, u64, static_cast<u32>(a)),
    ADO_E1("high.b64", u32, u64, a >> 32),
    {"carry.b32", (carry_of_sum<u32, u64>), {1, 4, 4, 1}},
    {"carry.b64", (carry_of_sum<u64, u128>), {1, 8, 8, 1}},
    {"addc.b32", add_carry<u32>, {4, 4, 4, 1}},
    {"addc.b64", add_carry<u64>, {8, 8, 8, 1}},
    {"mov.pred", masks<[](u32 a, u32, u32) { return a; }>, {1, 1, 0, 0}},
    {"not.pred", masks<[](u32 a, u32, u32) { return ~a; }>, {1, 1, 0, 0}},
    {"and.pred", masks<[](u32 a, u32 b, u32) { return a & b; }>, {1, 1, 1, 0}},
    {"or.pred", masks<[](u32 a, u32 b, u32) { return a | b; }>, {1, 1, 1, 0}},
    {"xor.pred", masks<[](u32 a, u32 b, u32) { return a ^ b; }>, {1, 1, 1, 0}},
    {"selp.pred", masks<[](u32 a, u32 b, u32 c) { return (a & c) | (b & ~c); }>, {1, 1, 1, 1}},
};

}  // namespace

AluTable integer_entries() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

}  // namespace ado::ADO_ISA
