// Loops over the 32 lanes of a warp, as templates of the operation on one lane.
#pragma once

#include <cstdint>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "emulator/lanes/table.hpp"

#define ADO_LANES _Pragma("GCC ivdep") for (int i = 0; i < ::ado::emulator::kLanes; ++i)

namespace ado::ADO_ISA {
namespace {

using namespace emulator;
using f32 = float;
using f64 = double;

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, u32, u64>;

// Numbered like the processors' directions on x86-64.
enum class Round : u8 { kNearest, kDown, kUp, kZero };

// Operations on memory in this scope round in a direction.
class Rounding {
 public:
#if defined(__x86_64__)
  ADO_INLINE explicit Rounding(Round direction) {
    asm volatile("stmxcsr %0" : "=m"(saved_) : : "memory");
    const u32 next = (saved_ & ~0x6000u) | static_cast<u32>(direction) << 13;
    asm volatile("ldmxcsr %0" : : "m"(next) : "memory");
  }
  ADO_INLINE ~Rounding() { asm volatile("ldmxcsr %0" : : "m"(saved_) : "memory"); }

 private:
  u32 saved_;
#else
  ADO_INLINE explicit Rounding(Round direction) {
    constexpr u64 kModes[] = {0, 2, 1, 3};
    asm volatile("mrs %0, fpcr" : "=r"(saved_) : : "memory");
    const u64 next = (saved_ & ~u64{3 << 22}) | kModes[static_cast<int>(direction)] << 22;
    asm volatile("msr fpcr, %0" : : "r"(next) : "memory");
  }
  ADO_INLINE ~Rounding() { asm volatile("msr fpcr, %0" : : "r"(saved_) : "memory"); }

 private:
  u64 saved_;
#endif
};
template <Round kRound, AluFunction kF>
void rounded(void* d, const void* a, const void* b, const void* c) {
  const Rounding direction(kRound);
  kF(d, a, b, c);
}
template <Round kRound, AluFunction kF>
constexpr AluFunction in_direction = kRound == Round::kNearest ? kF : rounded<kRound, kF>;

template <class T>
ADO_INLINE BitsOf<T> bits(T x) {
  return __builtin_bit_cast(BitsOf<T>, x);
}
// The minimum and the maximum, where -0 is less than 0. A NaN is ignored.
template <class T>
ADO_INLINE T smaller(T a, T b) {
  return b != b || a < b || (a == b && bits(a) > bits(b)) ? a : b;
}
template <class T>
ADO_INLINE T larger(T a, T b) {
  return b != b || a > b || (a == b && bits(a) < bits(b)) ? a : b;
}

// A mask of the lanes whose element is not 0; elements are 0 or ~0.
ADO_INLINE u32 mask_of(const u32* lanes) {
#if defined(__AVX512DQ__)
  return _mm512_movepi32_mask(_mm512_loadu_si512(lanes)) |
         u32{_mm512_movepi32_mask(_mm512_loadu_si512(lanes + 16))} << 16;
#elif defined(__AVX2__)
  u32 mask = 0;
  for (int i = 0; i < kLanes; i += 8)
    mask |= static_cast<u32>(
                _mm256_movemask_ps(_mm256_loadu_ps(reinterpret_cast<const float*>(lanes + i))))
            << i;
  return mask;
#else
  u32 mask = 0;
  for (int i = 0; i < kLanes; ++i) mask |= (lanes[i] & 1) << i;
  return mask;
#endif
}

template <class D, class A, auto kF>
void map1(void* d, const void* a, const void*, const void*) {
  auto* out = static_cast<D*>(d);
  const auto* x = static_cast<const A*>(a);
  ADO_LANES out[i] = static_cast<D>(kF(x[i]));
}
template <class D, class A, class B, auto kF>
void map2(void* d, const void* a, const void* b, const void*) {
  auto* out = static_cast<D*>(d);
  const auto* x = static_cast<const A*>(a);
  const auto* y = static_cast<const B*>(b);
  ADO_LANES out[i] = static_cast<D>(kF(x[i], y[i]));
}
template <class D, class A, class B, class C, auto kF>
void map3(void* d, const void* a, const void* b, const void* c) {
  auto* out = static_cast<D*>(d);
  const auto* x = static_cast<const A*>(a);
  const auto* y = static_cast<const B*>(b);
  const auto* z = static_cast<const C*>(c);
  ADO_LANES out[i] = static_cast<D>(kF(x[i], y[i], z[i]));
}
// The predicate kF(a, b).
template <class A, auto kF>
void compare(void* d, const void* a, const void* b, const void*) {
  const auto* x = static_cast<const A*>(a);
  const auto* y = static_cast<const A*>(b);
  alignas(64) u32 lanes[kLanes];
  ADO_LANES lanes[i] = kF(x[i], y[i]) ? ~0u : 0u;
  *static_cast<u32*>(d) = mask_of(lanes);
}
template <class T>
void select(void* d, const void* a, const void* b, const void* c) {
  auto* out = static_cast<T*>(d);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  const u32 mask = *static_cast<const u32*>(c);
  ADO_LANES out[i] = (mask >> i) & 1 ? x[i] : y[i];
}

constexpr AluEntry entry(const char* name, AluFunction function, std::size_t d, std::size_t a,
                         std::size_t b = 0, std::size_t c = 0) {
  return {name,
          function,
          {static_cast<u8>(d), static_cast<u8>(a), static_cast<u8>(b), static_cast<u8>(c)}};
}
// Entries of a table. The types give the sizes of result and operands.
template <class D, class A, Round kRound = Round::kNearest, class F>
constexpr AluEntry entry1(const char* name, F) {
  return entry(name, in_direction<kRound, map1<D, A, F{}>>, sizeof(D), sizeof(A));
}
template <class D, class A, class B, Round kRound = Round::kNearest, class F>
constexpr AluEntry entry2(const char* name, F) {
  return entry(name, in_direction<kRound, map2<D, A, B, F{}>>, sizeof(D), sizeof(A), sizeof(B));
}
template <class D, class A, class B, class C, Round kRound = Round::kNearest, class F>
constexpr AluEntry entry3(const char* name, F) {
  return {name,
          in_direction<kRound, map3<D, A, B, C, F{}>>,
          {sizeof(D), sizeof(A), sizeof(B), sizeof(C)}};
}
template <class T, class F>
constexpr AluEntry comparison(const char* name, F) {
  return entry(name, compare<T, F{}>, 1, sizeof(T), sizeof(T));
}

}  // namespace
}  // namespace ado::ADO_ISA

#define ADO_E1(name, D, A, expr) entry1<D, A>(name, [](A a) { return (expr); })
#define ADO_E2(name, D, A, B, expr) entry2<D, A, B>(name, [](A a, B b) { return (expr); })
#define ADO_E3(name, D, A, B, C, expr) \
  entry3<D, A, B, C>(name, [](A a, B b, C c) { return (expr); })
#define ADO_COMPARE(name, T, expr) comparison<T>(name, [](T a, T b) { return (expr); })
// The comparisons of floats. ONE(name, S, T, expr): an entry, or several.
#define ADO_FLOAT_COMPARISONS(ONE, S, T)                                                        \
  ONE("setp.eq", S, T, a == b), ONE("setp.ne", S, T, a<b || a> b), ONE("setp.lt", S, T, a < b), \
      ONE("setp.le", S, T, a <= b), ONE("setp.gt", S, T, a > b), ONE("setp.ge", S, T, a >= b),  \
      ONE("setp.equ", S, T, !(a < b || a > b)), ONE("setp.neu", S, T, !(a == b)),               \
      ONE("setp.ltu", S, T, !(a >= b)), ONE("setp.leu", S, T, !(a > b)),                        \
      ONE("setp.gtu", S, T, !(a <= b)), ONE("setp.geu", S, T, !(a < b)),                        \
      ONE("setp.num", S, T, a == a && b == b), ONE("setp.nan", S, T, a != a || b != b)
// Entries of all types of integers: ONE(type, ...).
#define ADO_INTEGERS(ONE, ...)                                                              \
  ONE(u8, __VA_ARGS__), ONE(s8, __VA_ARGS__), ONE(u16, __VA_ARGS__), ONE(s16, __VA_ARGS__), \
      ONE(u32, __VA_ARGS__), ONE(s32, __VA_ARGS__), ONE(u64, __VA_ARGS__), ONE(s64, __VA_ARGS__)
