// Matrix products in float64: conversions of elements, and sum += a b.
#include "emulator/lanes/half.hpp"

namespace ado::ADO_ISA {
namespace {

template <class T, auto kF>
void widen_each(double* out, const void* in, int count) {
  const auto* x = static_cast<const T*>(in);
  for (int i = 0; i < count; ++i) out[i] = kF(x[i]);
}
template <class T, auto kF>
void narrow_each(void* out, const double* in, int count) {
  auto* x = static_cast<T*>(out);
  for (int i = 0; i < count; ++i) x[i] = kF(in[i]);
}
template <class T>
constexpr auto kPlain = [](T x) { return static_cast<double>(x); };

// Four columns, because the processor then needs no register of a row more than once.
typedef double Columns __attribute__((vector_size(32)));

}  // namespace

void widen(double* out, const void* in, Number type, int count) {
  switch (type) {
    case Number::kF16:
      for (int i = 0; i < count; i += 8) {  // callers convert at least 8 elements
        f32 x[8];
        widen_all<Half>(x, static_cast<const u16*>(in) + i, 8);
        for (int k = 0; k < 8; ++k) out[i + k] = x[k];
      }
      return;
    case Number::kBf16:
      return widen_each<u16, Brain::widen>(out, in, count);
    case Number::kTf32:  // the last 13 bits are ignored
      return widen_each<u32, [](u32 x) { return f64{float_of(x & ~0x1fffu)}; }>(out, in, count);
    case Number::kF32:
      return widen_each<f32, kPlain<f32>>(out, in, count);
    case Number::kF64:
      return widen_each<f64, kPlain<f64>>(out, in, count);
    case Number::kS8:
      return widen_each<s8, kPlain<s8>>(out, in, count);
    case Number::kU8:
      return widen_each<u8, kPlain<u8>>(out, in, count);
    case Number::kE4m3:
      return widen_each<u8, E4m3::widen>(out, in, count);
    case Number::kE5m2:
      return widen_each<u8, E5m2::widen>(out, in, count);
    case Number::kS32:
      return widen_each<s32, kPlain<s32>>(out, in, count);
  }
}

void narrow(void* out, const double* in, Number type, bool saturates, int count) {
  switch (type) {
    case Number::kF16:
      return narrow_each<u16, [](f64 x) { return Half::narrow<Round::kNearest>(odd_of(x)); }>(
          out, in, count);
    case Number::kF64:
      return narrow_each<f64, kPlain<f64>>(out, in, count);
    case Number::kS32:
      if (saturates)
        return narrow_each<s32, [](f64 x) {
          return static_cast<s32>(x < -0x1p31 ? -0x1p31 : x > 0x1p31 - 1 ? 0x1p31 - 1 : x);
        }>(out, in, count);
      return narrow_each<s32, [](f64 x) { return static_cast<s32>(static_cast<s64>(x)); }>(out, in,
                                                                                           count);
    default:
      return narrow_each<f32, [](f64 x) { return static_cast<f32>(x); }>(out, in, count);
  }
}

// a is stored by rows. Without `tiles`, b and the sum are also stored by rows. With `tiles`, the
// sum consists of tiles of 8 rows and 4 columns. Two tiles hold 8 neighbouring columns: first the
// even columns, then the odd columns. A row of b has the same groups of 4 columns. n is a multiple
// of 8. Products of elements other than float64 are exact.
void multiply(double* sum, const double* a, const double* b, int m, int n, int k, bool tiles,
              bool fused) {
  if (fused || !tiles) {
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column) {
        const int tile = (column / 8 * (m / 8) + row / 8) * 2 + column % 8 / 4;
        double& s = sum[tiles ? tile * 32 + row % 8 * 4 + column % 4 : row * n + column];
        for (int i = 0; i < k; ++i) {
          const double x = a[row * k + i], y = b[i * n + column];
          s = fused ? __builtin_fma(x, y, s) : x * y + s;
        }
      }
    return;
  }
  for (int column = 0; column < n; column += 4)
    for (int row = 0; row < m; row += 8) {
      double* const tile = sum + ((column / 8 * (m / 8) + row / 8) * 2 + column % 8 / 4) * 32;
      Columns s[8];
      __builtin_memcpy(s, tile, sizeof s);
      for (int i = 0; i < k; ++i) {
        Columns y;
        __builtin_memcpy(&y, b + i * n + column, sizeof y);
        for (int r = 0; r < 8; ++r) s[r] += a[(row + r) * k + i] * y;
      }
      __builtin_memcpy(tile, s, sizeof s);
    }
}

}  // namespace ado::ADO_ISA
