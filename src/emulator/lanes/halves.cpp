// float16 and bfloat16 instructions. The elements of f16x2 registers are handled like 64 lanes.
#include "emulator/lanes/half.hpp"

namespace ado::ADO_ISA {
namespace {

// Sums and products of 16-bit numbers, rounded to float32 and then to 16 bits, are correctly
// rounded, because float32 has more than twice as many bits.
template <class Format, int kCount, auto kF>
void op2(void* d, const void* a, const void* b, const void*) {
  f32 x[kCount], y[kCount];
  widen_all<Format>(x, static_cast<const u16*>(a), kCount);
  widen_all<Format>(y, static_cast<const u16*>(b), kCount);
  for (int i = 0; i < kCount; ++i) x[i] = kF(x[i], y[i]);
  narrow_all<Format, Round::kNearest>(static_cast<u16*>(d), x, kCount);
}
template <class Format, int kCount, auto kF>
void op1(void* d, const void* a, const void*, const void*) {
  f32 x[kCount];
  widen_all<Format>(x, static_cast<const u16*>(a), kCount);
  for (int i = 0; i < kCount; ++i) x[i] = kF(x[i]);
  narrow_all<Format, Round::kNearest>(static_cast<u16*>(d), x, kCount);
}
template <class Format, int kCount, bool kRelu>
void fma(void* d, const void* a, const void* b, const void* c) {
  f32 x[kCount], y[kCount], z[kCount];
  widen_all<Format>(x, static_cast<const u16*>(a), kCount);
  widen_all<Format>(y, static_cast<const u16*>(b), kCount);
  widen_all<Format>(z, static_cast<const u16*>(c), kCount);
  for (int i = 0; i < kCount; ++i) {
    x[i] =
        std::is_same_v<Format, Half> ? odd_fma(x[i], y[i], z[i]) : wide_odd_fma(x[i], y[i], z[i]);
    if (kRelu && x[i] <= 0) x[i] = 0;  // also -0
  }
  narrow_all<Format, Round::kNearest>(static_cast<u16*>(d), x, kCount);
}
template <int kCount, bool kNegate>
void sign(void* d, const void* a, const void*, const void*) {
  auto* out = static_cast<u16*>(d);
  const auto* x = static_cast<const u16*>(a);
  for (int i = 0; i < kCount; ++i) out[i] = kNegate ? x[i] ^ 0x8000 : x[i] & 0x7fff;
}
template <class Format, auto kF>
void compare_halves(void* d, const void* a, const void* b, const void*) {
  f32 x[kLanes], y[kLanes];
  widen_all<Format>(x, static_cast<const u16*>(a), kLanes);
  widen_all<Format>(y, static_cast<const u16*>(b), kLanes);
  u32 lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = kF(x[i], y[i]) ? ~0u : 0u;
  *static_cast<u32*>(d) = mask_of(lanes);
}

#define HALF_COMPARE(name, S, Format, expr)                                            \
  {                                                                                    \
    "setp." name "." S, compare_halves<Format, [](f32 a, f32 b) { return (expr); }>, { \
      1, 2, 2, 0                                                                       \
    }                                                                                  \
  }
#define HALF2(name, Format, kCount, kBytes, expr)                                                 \
  {                                                                                               \
    name, op2<Format, kCount, [](f32 a, f32 b) { return (expr); }>, { kBytes, kBytes, kBytes, 0 } \
  }
#define HALF1(name, Format, kCount, kBytes, expr)                                      \
  {                                                                                    \
    name, op1<Format, kCount, [](f32 a) -> f32 { return (expr); }>, { kBytes, kBytes } \
  }
#define HALVES(S, F, kCount, kBytes)                                                               \
  HALF2("add." S, F, kCount, kBytes, a + b), HALF2("sub." S, F, kCount, kBytes, a - b),            \
      HALF2("mul." S, F, kCount, kBytes, a* b), HALF2("min." S, F, kCount, kBytes, smaller(a, b)), \
      HALF2("max." S, F, kCount, kBytes, larger(a, b)),                                            \
      HALF2("min.NaN." S, F, kCount, kBytes,                                                       \
            a != a   ? a                                                                           \
            : b != b ? b                                                                           \
                     : smaller(a, b)),                                                             \
      HALF2("max.NaN." S, F, kCount, kBytes,                                                       \
            a != a   ? a                                                                           \
            : b != b ? b                                                                           \
                     : larger(a, b)),                                                              \
      HALF1("sat." S, F, kCount, kBytes, a > 0 ? (a < 1 ? a : 1) : 0),                             \
      HALF1("flush." S, F, kCount, kBytes,                                                         \
            __builtin_fabsf(a) < 0x1p-14f ? __builtin_copysignf(0, a) : a),                        \
      HALF1("ex2.approx." S, F, kCount, kBytes, __builtin_exp2f(a)),                               \
      HALF1("tanh.approx." S, F, kCount, kBytes, __builtin_tanhf(a)),                              \
      {"fma." S, fma<F, kCount, false>, {kBytes, kBytes, kBytes, kBytes}},                         \
      {"fma.relu." S, fma<F, kCount, true>, {kBytes, kBytes, kBytes, kBytes}},                     \
      {"neg." S, sign<kCount, true>, {kBytes, kBytes, 0, 0}}, {                                    \
    "abs." S, sign<kCount, false>, { kBytes, kBytes, 0, 0 }                                        \
  }
#define HALF_COMPARISONS(S, F)                                                          \
  HALF_COMPARE("eq", S, F, a == b), HALF_COMPARE("ne", S, F, a<b || a> b),              \
      HALF_COMPARE("lt", S, F, a < b), HALF_COMPARE("le", S, F, a <= b),                \
      HALF_COMPARE("gt", S, F, a > b), HALF_COMPARE("ge", S, F, a >= b),                \
      HALF_COMPARE("neu", S, F, !(a == b)), HALF_COMPARE("ltu", S, F, !(a >= b)),       \
      HALF_COMPARE("leu", S, F, !(a > b)), HALF_COMPARE("gtu", S, F, !(a <= b)),        \
      HALF_COMPARE("geu", S, F, !(a < b)), HALF_COMPARE("nan", S, F, a != a || b != b), \
      HALF_COMPARE("equ", S, F, !(a < b || a > b)), HALF_COMPARE("num", S, F, a == a && b == b)

constexpr AluEntry kEntries[] = {
    HALVES("f16", Half, kLanes, 2),   HALVES("f16x2", Half, 2 * kLanes, 4),
    HALVES("bf16", Brain, kLanes, 2), HALVES("bf16x2", Brain, 2 * kLanes, 4),
    HALF_COMPARISONS("f16", Half),    HALF_COMPARISONS("bf16", Brain),
};

}  // namespace

AluTable half_entries() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

}  // namespace ado::ADO_ISA
