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

template <class Format, class F>
constexpr AluEntry half_comparison(const char* name, F) {
  return entry(name, compare_halves<Format, F{}>, 1, 2, 2);
}
// One or two elements per lane.
template <class Format, int kBytes, class F>
constexpr AluEntry half1(const char* name, F) {
  return entry(name, op1<Format, kLanes * kBytes / 2, F{}>, kBytes, kBytes);
}
template <class Format, int kBytes, class F>
constexpr AluEntry half2(const char* name, F) {
  return entry(name, op2<Format, kLanes * kBytes / 2, F{}>, kBytes, kBytes, kBytes);
}

#define COMPARE(name, S, F, expr) \
  half_comparison<F>(name "." S, [](f32 a, f32 b) { return (expr); })
#define HALF1(name, F, kBytes, expr) half1<F, kBytes>(name, [](f32 a) -> f32 { return (expr); })
#define HALF2(name, F, kBytes, expr) \
  half2<F, kBytes>(name, [](f32 a, f32 b) -> f32 { return (expr); })
#define HALVES(S, F, kBytes)                                                                       \
  HALF2("add." S, F, kBytes, a + b), HALF2("sub." S, F, kBytes, a - b),                            \
      HALF2("mul." S, F, kBytes, a* b), HALF2("min." S, F, kBytes, smaller(a, b)),                 \
      HALF2("max." S, F, kBytes, larger(a, b)),                                                    \
      HALF2("min.NaN." S, F, kBytes, a != a || b != b ? a + b : smaller(a, b)),                    \
      HALF2("max.NaN." S, F, kBytes, a != a || b != b ? a + b : larger(a, b)),                     \
      HALF1("sat." S, F, kBytes, a > 0 ? (a < 1 ? a : 1) : 0),                                     \
      HALF1("flush." S, F, kBytes, __builtin_fabsf(a) < 0x1p-14f ? __builtin_copysignf(0, a) : a), \
      HALF1("ex2.approx." S, F, kBytes, __builtin_exp2f(a)),                                       \
      HALF1("tanh.approx." S, F, kBytes, __builtin_tanhf(a)),                                      \
      entry("fma." S, fma<F, kLanes * kBytes / 2, false>, kBytes, kBytes, kBytes, kBytes),         \
      entry("fma.relu." S, fma<F, kLanes * kBytes / 2, true>, kBytes, kBytes, kBytes, kBytes),     \
      entry("neg." S, sign<kLanes * kBytes / 2, true>, kBytes, kBytes),                            \
      entry("abs." S, sign<kLanes * kBytes / 2, false>, kBytes, kBytes)

constexpr AluEntry kEntries[] = {
    HALVES("f16", Half, 2),
    HALVES("f16x2", Half, 4),
    HALVES("bf16", Brain, 2),
    HALVES("bf16x2", Brain, 4),
    ADO_FLOAT_COMPARISONS(COMPARE, "f16", Half),
    ADO_FLOAT_COMPARISONS(COMPARE, "bf16", Brain),
};

}  // namespace

AluTable half_entries() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

}  // namespace ado::ADO_ISA
