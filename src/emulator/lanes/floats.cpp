// float32 and float64 instructions.
#include <cmath>

#include "emulator/lanes/lanes.hpp"

namespace ado::ADO_ISA {
namespace {

// float32 instructions return this NaN. float64 instructions keep a NaN operand.
ADO_INLINE f32 canonical(f32 x) { return x == x ? x : __builtin_bit_cast(f32, 0x7fffffffu); }
ADO_INLINE f64 canonical(f64 x) { return x; }
ADO_INLINE bool is_small(f32 x) { return __builtin_fabsf(x) < 0x1p-126f; }
ADO_INLINE bool is_small(f64 x) { return __builtin_fabs(x) < 0x1p-1022; }
// .ftz: subnormal operands and results become zeros of the same sign.
ADO_INLINE f32 flush(f32 x) {
  return is_small(x) ? __builtin_bit_cast(f32, bits(x) & 0x80000000u) : x;
}
ADO_INLINE f64 flush(f64 x) { return x; }
ADO_INLINE f64 flush64(f64 x) { return is_small(x) ? __builtin_copysign(0.0, x) : x; }

template <class T>
ADO_INLINE T smaller_nan(T a, T b) {
  return a != a || b != b ? __builtin_nan("") : smaller(a, b);
}
template <class T>
ADO_INLINE T larger_nan(T a, T b) {
  return a != a || b != b ? __builtin_nan("") : larger(a, b);
}
ADO_INLINE f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
ADO_INLINE f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
ADO_INLINE f32 root(f32 a) { return __builtin_sqrtf(a); }
ADO_INLINE f64 root(f64 a) { return __builtin_sqrt(a); }

// 2^x. The integer part becomes the exponent; the polynomial's error is far below half an ulp of a
// float (computed in double).
ADO_INLINE f32 power_of_two(f32 x) {
  const f64 limited = x > 130 ? 130.0 : x < -160 ? -160.0 : static_cast<f64>(x);
  const f64 whole = __builtin_rint(limited), f = (limited - whole) * 0.6931471805599453;
  const f64 p =
      1 +
      f * (1 + f * (0.5 + f * (1 / 6. +
                               f * (1 / 24. +
                                    f * (1 / 120. +
                                         f * (1 / 720. + f * (1 / 5040. + f * (1 / 40320.))))))));
  const f64 scale = __builtin_bit_cast(f64, static_cast<u64>(static_cast<s64>(whole) + 1023) << 52);
  return x != x ? x : static_cast<f32>(p * scale);
}

// Plain and flushing versions of one operation on T. `expr` uses a, b, c. R: the rounding.
#define F1R(R, name, S, T, expr)                                       \
  entry1<T, T, R>(name "." S, [](T a) { return canonical(T(expr)); }), \
      entry1<T, T, R>(name ".ftz." S, [](T x) {                        \
        const T a = flush(x);                                          \
        return flush(canonical(T(expr)));                              \
      })
#define F2R(R, name, S, T, expr)                                               \
  entry2<T, T, T, R>(name "." S, [](T a, T b) { return canonical(T(expr)); }), \
      entry2<T, T, T, R>(name ".ftz." S, [](T x, T y) {                        \
        const T a = flush(x), b = flush(y);                                    \
        return flush(canonical(T(expr)));                                      \
      })
#define FMA(R, name, S, T)                                                                    \
  entry3<T, T, T, T, R>(name "." S, [](T a, T b, T c) { return canonical(fused(a, b, c)); }), \
      entry3<T, T, T, T, R>(name ".ftz." S, [](T a, T b, T c) {                               \
        return flush(canonical(fused(flush(a), flush(b), flush(c))));                         \
      })
#define F1(name, S, T, expr) F1R(Round::kNearest, name, S, T, expr)
#define F2(name, S, T, expr) F2R(Round::kNearest, name, S, T, expr)
#define C1(name, S, T, expr)                                                     \
  ADO_COMPARE(name "." S, T, expr), comparison<T>(name ".ftz." S, [](T x, T y) { \
    const T a = flush(x), b = flush(y);                                          \
    return (expr);                                                               \
  })

// `suffix`: "" or the name of a rounding.
#define ROUNDED(suffix, R, S, T)                                               \
  F2R(R, "add" suffix, S, T, a + b), F2R(R, "sub" suffix, S, T, a - b),        \
      F2R(R, "mul" suffix, S, T, a* b), FMA(R, "fma" suffix, S, T),            \
      F2R(R, "div" suffix, S, T, a / b), F1R(R, "rcp" suffix, S, T, T(1) / a), \
      F1R(R, "sqrt" suffix, S, T, root(a))
#define BOTH(S, T)                                                                                \
  ROUNDED("", Round::kNearest, S, T), ROUNDED(".rm", Round::kDown, S, T),                         \
      ROUNDED(".rp", Round::kUp, S, T), ROUNDED(".rz", Round::kZero, S, T),                       \
      F2("min", S, T, smaller(a, b)), F2("max", S, T, larger(a, b)), ADO_E1("neg." S, T, T, -a),  \
      ADO_E1("abs." S, T, T, a < 0 || bits(a) >> (8 * sizeof(T) - 1) ? -a : a),                   \
      ADO_E1("mov." S, T, T, a),                                                                  \
      entry("selp." S, select<BitsOf<T>>, sizeof(T), sizeof(T), sizeof(T), 1),                    \
      ADO_E2("copysign." S, T, T, T, __builtin_copysign(b, a)),                                   \
      ADO_E1("sat." S, T, T, a > 0 ? (a < 1 ? a : T(1)) : T(0)), ADO_FLOAT_COMPARISONS(C1, S, T), \
      ADO_COMPARE("testp.finite." S, T, a - b == 0),                                              \
      ADO_COMPARE("testp.infinite." S, T, a == b && a - b != 0),                                  \
      ADO_COMPARE("testp.number." S, T, a == b), ADO_COMPARE("testp.notanumber." S, T, a != b),   \
      ADO_COMPARE("testp.normal." S, T, a - b == 0 && !is_small(a)),                              \
      ADO_COMPARE("testp.subnormal." S, T, is_small(a) && b != 0)

constexpr AluEntry kEntries[] = {
    BOTH("f32", f32),
    BOTH("f64", f64),
    F2("min.NaN", "f32", f32, smaller_nan(a, b)),
    F2("max.NaN", "f32", f32, larger_nan(a, b)),
    ADO_E1("neg.ftz.f32", f32, f32, -flush(a)),
    ADO_E1("abs.ftz.f32", f32, f32, __builtin_fabsf(flush(a))),
    F2("div.approx", "f32", f32, a / b),
    F2("div.full", "f32", f32, a / b),
    F1("rcp.approx", "f32", f32, 1 / a),
    F1("sqrt.approx", "f32", f32, root(a)),
    F1("rsqrt.approx", "f32", f32, static_cast<f32>(1 / root(static_cast<f64>(a)))),
    // The hardware rounds to 20 bits and flushes subnormals. Programs refine the result.
    ADO_E1("rcp.approx.ftz.f64", f64, f64, flush64(1 / flush64(a))),
    ADO_E1("rsqrt.approx.f64", f64, f64, 1 / root(a)),
    ADO_E1("rsqrt.approx.ftz.f64", f64, f64, 1 / root(flush64(a))),
    F1("ex2.approx", "f32", f32, power_of_two(a)),
    F1("lg2.approx", "f32", f32, __builtin_log2f(a)),
    F1("sin.approx", "f32", f32, __builtin_sinf(a)),
    F1("cos.approx", "f32", f32, __builtin_cosf(a)),
    F1("tanh.approx", "f32", f32, __builtin_tanhf(a)),
};

}  // namespace

AluTable float_entries() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

}  // namespace ado::ADO_ISA
