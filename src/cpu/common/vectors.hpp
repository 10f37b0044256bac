// Vectors of the width of the instruction set's registers, and the instructions that GCC's vector
// extensions cannot express.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

#include "core/unsigned.hpp"

namespace ado::ADO_ISA {
namespace {

// Bytes per vector register, the widest of the instruction set.
#if defined(__AVX512BW__)
constexpr int kWidth = 64;
#elif defined(__AVX2__)
constexpr int kWidth = 32;
#else
constexpr int kWidth = 16;
#endif

template <int kSize, int kBytes>
struct VectorOf {
  // The element type of unpack instructions. An element of 16 bytes fills a lane and is not split.
  using Element = typename UnsignedOf<(kSize < 16 ? kSize : 8)>::Type;
  typedef Element type __attribute__((vector_size(kBytes)));
  using Indices = std::make_integer_sequence<int, kBytes / sizeof(Element)>;
};
template <int kSize, int kBytes>
using Vector = typename VectorOf<kSize, kBytes>::type;

// Element types of loops that only move elements, which are compiled per element size, not per
// type. An element of 16 bytes is a vector.
template <int kSize>
struct ElementOf : UnsignedOf<kSize> {};
template <>
struct ElementOf<16> {
  using Type = Vector<16, 16>;
};

// Unpack: within each 16-byte lane, alternating elements of the low (or high) halves of x and y.
//
//   x  x0 x1 x2 x3      low   x0 y0 x1 y1
//   y  y0 y1 y2 y3      high  x2 y2 x3 y3
template <int kSize, bool kHigh, class V, int... kAt>
ADO_INLINE V interleave(V x, V y, std::integer_sequence<int, kAt...>) {
  constexpr int kLane = 16 / kSize;
  return __builtin_shufflevector(x, y,
                                 (kAt / kLane * kLane + kAt % kLane / 2 + (kHigh ? kLane / 2 : 0) +
                                  kAt % 2 * static_cast<int>(sizeof...(kAt)))...);
}

using Bytes = Vector<1, kWidth>;
using Uint16s = Vector<2, kWidth>;
using Int16s = std::int16_t __attribute__((vector_size(kWidth)));
using Int32s = std::int32_t __attribute__((vector_size(kWidth)));
using Floats = float __attribute__((vector_size(kWidth)));

template <class T>
struct RealsOf {
  typedef T type __attribute__((vector_size(kWidth)));
};
template <class T>
using Reals = typename RealsOf<T>::type;
template <class T>
constexpr int kLanes = kWidth / sizeof(T);

template <class V>
ADO_INLINE V load_vector(const void* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}
// One element, which may be unaligned.
template <class T>
ADO_INLINE T load(const std::byte* from) {
  return load_vector<T>(from);
}
template <class V>
ADO_INLINE void store_vector(void* to, V value) {
  std::memcpy(to, &value, sizeof(V));
}

// ---- instructions that work within 16-byte lanes ----

#if defined(__AVX512BW__)
#define ADO_X86(name) _mm512_##name
using Register = __m512i;
#elif defined(__AVX2__)
#define ADO_X86(name) _mm256_##name
using Register = __m256i;
#elif defined(__x86_64__)
#define ADO_X86(name) _mm_##name
using Register = __m128i;
#endif

// x[2i] * y[2i] + x[2i+1] * y[2i+1]
ADO_INLINE Int32s multiply_add(Int16s x, Int16s y) {
#if defined(__x86_64__)
  return reinterpret_cast<Int32s>(
      ADO_X86(madd_epi16)(reinterpret_cast<Register>(x), reinterpret_cast<Register>(y)));
#else
  return vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
#endif
}

// Two vectors as one with elements half as wide, each saturated.
ADO_INLINE Int16s narrow(Int32s low, Int32s high) {
#if defined(__x86_64__)
  return reinterpret_cast<Int16s>(
      ADO_X86(packs_epi32)(reinterpret_cast<Register>(low), reinterpret_cast<Register>(high)));
#else
  return vqmovn_high_s32(vqmovn_s32(low), high);
#endif
}
ADO_INLINE Bytes narrow(Int16s low, Int16s high) {
#if defined(__x86_64__)
  return reinterpret_cast<Bytes>(
      ADO_X86(packus_epi16)(reinterpret_cast<Register>(low), reinterpret_cast<Register>(high)));
#else
  return vqmovun_high_s16(vqmovun_s16(low), high);
#endif
}

// Within each 16-byte lane, the last kCount elements of x and then the first elements of y.
template <int kCount, int... kAt>
ADO_INLINE Uint16s join(Uint16s x, Uint16s y, std::integer_sequence<int, kAt...>) {
#if defined(__AVX2__)
  return reinterpret_cast<Uint16s>(ADO_X86(alignr_epi8)(
      reinterpret_cast<Register>(y), reinterpret_cast<Register>(x), 16 - 2 * kCount));
#elif defined(__x86_64__)
  return reinterpret_cast<Uint16s>(_mm_srli_si128(reinterpret_cast<Register>(x), 16 - 2 * kCount) |
                                   _mm_slli_si128(reinterpret_cast<Register>(y), 2 * kCount));
#else
  static_assert(kWidth == 16);
  return __builtin_shufflevector(x, y, (8 - kCount + kAt)...);
#endif
}

// The last 16-byte lane of x and then all lanes of y but the last.
template <int... kAt>
ADO_INLINE Uint16s join_lanes(Uint16s x, Uint16s y, std::integer_sequence<int, kAt...>) {
  using Halves = Vector<8, kWidth>;
  return reinterpret_cast<Uint16s>(
      __builtin_shufflevector(reinterpret_cast<Halves>(x), reinterpret_cast<Halves>(y),
                              (static_cast<int>(sizeof...(kAt)) - 2 + kAt)...));
}

ADO_INLINE Floats square_root(Floats x) {
#if defined(__AVX512BW__)
  return _mm512_maskz_sqrt_ps(0xffff, x);  // without a mask, g++ 12 warns (GCC bug 105593)
#elif defined(__x86_64__)
  return ADO_X86(sqrt_ps)(x);
#else
  return vsqrtq_f32(x);
#endif
}

// ---- bytes widened to 16 bits ----

// A vector of bytes widened to 16 bits, in the order of the unpack instruction: `low` has the first
// eight elements of each 16-byte lane and `high` the last eight. So widening and narrowing need no
// lane-crossing instruction.
struct Widened {
  Uint16s low, high;

  friend ADO_INLINE Widened operator+(Widened x, Widened y) {
    return {x.low + y.low, x.high + y.high};
  }
  friend ADO_INLINE Widened operator-(Widened x, Widened y) {
    return {x.low - y.low, x.high - y.high};
  }
};

ADO_INLINE Widened widen(Bytes v) {
  constexpr VectorOf<1, kWidth>::Indices kIndices;
  return {reinterpret_cast<Uint16s>(interleave<1, false>(v, Bytes{}, kIndices)),
          reinterpret_cast<Uint16s>(interleave<1, true>(v, Bytes{}, kIndices))};
}

// (x + y) * kWeight, which must fit 16 bits. With AVX2, one instruction multiplies and adds pairs
// of bytes. With it, a blur takes 0.8 to 0.9 times as long (Zen 5).
template <int kWeight>
ADO_INLINE Widened weighted(Bytes x, Bytes y) {
#if defined(__AVX2__)
  constexpr VectorOf<1, kWidth>::Indices kIndices;
  const auto weights = reinterpret_cast<Register>(Bytes{} + std::uint8_t{kWeight});
  const auto half = [&](Bytes pairs) {
    return reinterpret_cast<Uint16s>(
        ADO_X86(maddubs_epi16)(reinterpret_cast<Register>(pairs), weights));
  };
  return {half(interleave<1, false>(x, y, kIndices)), half(interleave<1, true>(x, y, kIndices))};
#else
  const Widened sum = widen(x) + widen(y);
  return {sum.low * std::uint16_t{kWeight}, sum.high * std::uint16_t{kWeight}};
#endif
}

// A vector of a row and, for each of its 16-byte lanes, the eight elements before the lane.
struct Neighbours {
  Widened now;
  Uint16s across;

  template <int kPlaces>
  ADO_INLINE Widened before() const {
    constexpr VectorOf<2, kWidth>::Indices kIndices;
    return {join<kPlaces>(across, now.low, kIndices), join<kPlaces>(now.low, now.high, kIndices)};
  }
};

// A function object that is called with the vectors of a row from left to right, and returns each
// vector with its neighbours.
class Neighbourhood {
 public:
  ADO_INLINE Neighbours operator()(Widened now) {
    const Uint16s across = join_lanes(last_, now.high, VectorOf<8, kWidth>::Indices{});
    last_ = now.high;
    return {now, across};
  }

 private:
  Uint16s last_ = {};
};

}  // namespace
}  // namespace ado::ADO_ISA
