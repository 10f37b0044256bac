// float32 and float64 instructions.
#include <cmath>

#include "emulator/lanes/lanes.hpp"

namespace ado::ADO_ISA {
namespace {

// float32 instructions return this NaN. float64 instructions keep a NaN operand.
ADO_INLINE f32 canonical(f32 x) { return x == x ? x : __builtin_bit_cast(f32, 0x7fffffffu); }
ADO_INLINE f64 canonical(f64 x) { return x; }
// .ftz: subnormal operands and results become zeros of the same sign.
ADO_INLINE f32 flush(f32 x) {
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_bit_cast(f32, bits(x) & 0x80000000u) : x;
}
ADO_INLINE f64 flush(f64 x) { return x; }

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

enum class Mode : u8 { kDown, kUp, kZero };

// Returns the result in a rounding direction: the rounded result or its neighbour, depending on the
// sign of the rounding error, exact minus rounded. `finite`: the operands are finite, so an
// infinite result is an overflow.
template <Mode kMode, class T>
ADO_INLINE T directed(T rounded, T error, bool finite) {
  constexpr bool kDown = kMode == Mode::kDown, kUp = kMode == Mode::kUp;
  const bool overflow = finite && rounded - rounded != 0;
  const bool positive = bits(rounded) >> (8 * sizeof(T) - 1) == 0;
  const bool lower = overflow ? positive && !kUp : error < 0 && (kDown || (!kUp && positive));
  const bool higher = overflow ? !positive && !kDown : error > 0 && (kUp || (!kDown && !positive));
  const BitsOf<T> step = lower == positive ? BitsOf<T>(-1) : BitsOf<T>(1);
  return lower || higher ? __builtin_bit_cast(T, static_cast<BitsOf<T>>(bits(rounded) + step))
                         : rounded;
}
template <class T>
ADO_INLINE bool is_finite(T a) {
  return a - a == 0;
}
template <class T>
ADO_INLINE T sum_error(T a, T b, T sum) {
  const T part = sum - a;
  return (a - (sum - part)) + (b - part);
}
template <Mode kMode, class T>
ADO_INLINE T directed_sum(T a, T b) {
  const T sum = a + b;
  if (kMode == Mode::kDown && sum == 0 && !(a == 0 && bits(a) == bits(b))) return -T(0);
  return directed<kMode>(sum, sum_error(a, b, sum), is_finite(a) && is_finite(b));
}
// The errors of products of float32 are computed in float64, where they are exact; the error of a
// float64 product is exact unless the product is below 2^-969.
template <Mode kMode>
ADO_INLINE f32 directed_fma(f32 a, f32 b, f32 c) {
  const f64 product = f64{a} * b, sum = product + c, low = sum_error(product, f64{c}, sum);
  const f32 result = fused(a, b, c);
  const f64 error = sum - result;
  const f32 sign = (error != 0 ? error : low) < 0   ? -1.f
                   : (error != 0 ? error : low) > 0 ? 1.f
                                                    : 0.f;
  if (result == 0 && sign != 0) {  // an underflow
    const bool moves = kMode == Mode::kDown ? sign < 0 : kMode == Mode::kUp && sign > 0;
    return moves ? __builtin_copysignf(0x1p-149f, sign) : __builtin_copysignf(0.f, sign);
  }
  if (kMode == Mode::kDown && product == -c && product != 0) return -0.f;
  return directed<kMode>(result, sign, is_finite(a) && is_finite(b) && is_finite(c));
}
// S. Boldo and J.-M. Muller, "Exact and approximated error of the FMA".
template <Mode kMode>
ADO_INLINE f64 directed_fma(f64 a, f64 b, f64 c) {
  const f64 result = fused(a, b, c), product = a * b, low = fused(a, b, -product);
  const f64 alpha = c + low, alpha_error = sum_error(c, low, alpha);
  const f64 beta = product + alpha, beta_error = sum_error(product, alpha, beta);
  const f64 error = ((beta - result) + beta_error) + alpha_error;
  if (kMode == Mode::kDown && product == -c && low == 0 && product != 0) return -0.0;
  return directed<kMode>(result, error, is_finite(a) && is_finite(b) && is_finite(c));
}
template <Mode kMode, class T>
ADO_INLINE T directed_product(T a, T b) {
  // The zero has the sign of the product, so that it does not change the sign of a zero result.
  const bool negative = (bits(a) ^ bits(b)) >> (8 * sizeof(T) - 1);
  return directed_fma<kMode>(a, b, negative ? -T(0) : T(0));
}
template <Mode kMode, class T>
ADO_INLINE T directed_quotient(T a, T b) {
  const T quotient = a / b, rest = fused(-quotient, b, a);
  return directed<kMode>(quotient, b < 0 ? -rest : rest, is_finite(a) && is_finite(b) && b != 0);
}
template <Mode kMode, class T>
ADO_INLINE T directed_root(T a) {
  const T result = root(a);
  return directed<kMode>(result, fused(-result, result, a), false);
}

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

template <class T>
constexpr bool is_nan(T a, T b) {
  return a != a || b != b;
}

// Plain and flushing versions of one operation on T. `expr` uses a, b, c.
#define F1(name, S, T, expr)                                                                      \
  {name "." S, map1<T, T, [](T a) { return canonical(T(expr)); }>, {sizeof(T), sizeof(T), 0, 0}}, \
  {                                                                                               \
    name ".ftz." S,                                                                               \
        map1<T, T,                                                                                \
             [](T given) {                                                                        \
               const T a = flush(given);                                                          \
               return flush(canonical(T(expr)));                                                  \
             }>,                                                                                  \
    {                                                                                             \
      sizeof(T), sizeof(T), 0, 0                                                                  \
    }                                                                                             \
  }
#define F2(name, S, T, expr)                                   \
  {name "." S,                                                 \
   map2<T, T, T, [](T a, T b) { return canonical(T(expr)); }>, \
   {sizeof(T), sizeof(T), sizeof(T), 0}},                      \
  {                                                            \
    name ".ftz." S,                                            \
        map2<T, T, T,                                          \
             [](T x, T y) {                                    \
               const T a = flush(x), b = flush(y);             \
               return flush(canonical(T(expr)));               \
             }>,                                               \
    {                                                          \
      sizeof(T), sizeof(T), sizeof(T), 0                       \
    }                                                          \
  }
#define F3(name, S, T, expr)                                           \
  {name "." S,                                                         \
   map3<T, T, T, T, [](T a, T b, T c) { return canonical(T(expr)); }>, \
   {sizeof(T), sizeof(T), sizeof(T), sizeof(T)}},                      \
  {                                                                    \
    name ".ftz." S,                                                    \
        map3<T, T, T, T,                                               \
             [](T x, T y, T z) {                                       \
               const T a = flush(x), b = flush(y), c = flush(z);       \
               return flush(canonical(T(expr)));                       \
             }>,                                                       \
    {                                                                  \
      sizeof(T), sizeof(T), sizeof(T), sizeof(T)                       \
    }                                                                  \
  }
#define C1(name, S, T, expr)                          \
  ADO_COMPARE(name "." S, T, expr), {                 \
    name ".ftz." S,                                   \
        compare<T,                                    \
                [](T x, T y) {                        \
                  const T a = flush(x), b = flush(y); \
                  return (expr);                      \
                }>,                                   \
    {                                                 \
      1, sizeof(T), sizeof(T), 0                      \
    }                                                 \
  }

#define DIRECTED(R, S, T, kMode)                                  \
  F2("add." R, S, T, (directed_sum<kMode, T>(a, b))),             \
      F2("sub." R, S, T, (directed_sum<kMode, T>(a, -b))),        \
      F2("mul." R, S, T, (directed_product<kMode, T>(a, b))),     \
      F3("fma." R, S, T, directed_fma<kMode>(a, b, c)),           \
      F2("div." R, S, T, (directed_quotient<kMode, T>(a, b))),    \
      F1("rcp." R, S, T, (directed_quotient<kMode, T>(T(1), a))), \
      F1("sqrt." R, S, T, (directed_root<kMode, T>(a)))
#define BOTH(S, T)                                                                               \
  F2("add", S, T, a + b), F2("sub", S, T, a - b), F2("mul", S, T, a* b), F2("div", S, T, a / b), \
      F3("fma", S, T, fused(a, b, c)), F2("min", S, T, smaller(a, b)),                           \
      F2("max", S, T, larger(a, b)), DIRECTED("rm", S, T, Mode::kDown),                          \
      DIRECTED("rp", S, T, Mode::kUp), DIRECTED("rz", S, T, Mode::kZero),                        \
      F1("sqrt", S, T, root(a)), F1("rcp", S, T, 1 / a), ADO_E1("neg." S, T, T, -a),             \
      ADO_E1("abs." S, T, T, a < 0 || bits(a) >> (8 * sizeof(T) - 1) ? -a : a),                  \
      ADO_E1("mov." S, T, T, a),                                                                 \
      {"selp." S, select<BitsOf<T>>, {sizeof(T), sizeof(T), sizeof(T), 1}},                      \
      ADO_E2("copysign." S, T, T, T, __builtin_copysign(b, a)),                                  \
      ADO_E1("sat." S, T, T, a > 0 ? (a < 1 ? a : T(1)) : T(0)), C1("setp.eq", S, T, a == b),    \
      C1("setp.ne", S, T, a<b || a> b), C1("setp.lt", S, T, a < b), C1("setp.le", S, T, a <= b), \
      C1("setp.gt", S, T, a > b), C1("setp.ge", S, T, a >= b),                                   \
      C1("setp.equ", S, T, !(a < b || a > b)), C1("setp.neu", S, T, !(a == b)),                  \
      C1("setp.ltu", S, T, !(a >= b)), C1("setp.leu", S, T, !(a > b)),                           \
      C1("setp.gtu", S, T, !(a <= b)), C1("setp.geu", S, T, !(a < b)),                           \
      C1("setp.num", S, T, a == a && b == b), C1("setp.nan", S, T, a != a || b != b)

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
    ADO_E1("rcp.approx.ftz.f64", f64, f64, 1 / a),
    ADO_E1("rsqrt.approx.f64", f64, f64, 1 / root(a)),
    ADO_E1("rsqrt.approx.ftz.f64", f64, f64, 1 / root(a)),
    F1("ex2.approx", "f32", f32, power_of_two(a)),
    F1("lg2.approx", "f32", f32, __builtin_log2f(a)),
    F1("sin.approx", "f32", f32, __builtin_sinf(a)),
    F1("cos.approx", "f32", f32, __builtin_cosf(a)),
    F1("tanh.approx", "f32", f32, __builtin_tanhf(a)),
};

}  // namespace

AluTable float_entries() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

}  // namespace ado::ADO_ISA
