// Transposes blocks in vector registers.
#pragma once

#include "cpu/common/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- naive_loops, blocked, simd, streaming, prefetch, threaded, direct --------------------------
// Copies an element as bytes, because elements may have any type and may be unaligned.
template <int kSize>
ADO_INLINE void copy_element(std::byte* to, const std::byte* from) {
  std::memcpy(to, from, kSize);
}

// ---- simd, streaming, prefetch, threaded, direct ------------------------------------------------
// Loads one vector of kBytes from 16-byte pieces that are `stride` bytes apart.
template <int kSize, int kBytes>
ADO_INLINE Vector<kSize, kBytes> load_lanes(const std::byte* from, int64_t stride) {
  if constexpr (kBytes == 16) {
    Vector<kSize, 16> lane;
    std::memcpy(&lane, from, 16);
    return lane;
  } else {
    const auto low = load_lanes<kSize, kBytes / 2>(from, stride);
    const auto high = load_lanes<kSize, kBytes / 2>(from + kBytes / 32 * stride, stride);
    return [&]<int... kAt>(std::integer_sequence<int, kAt...>) __attribute__((always_inline)) {
      return __builtin_shufflevector(low, high, kAt...);
    }
    (typename VectorOf<kSize, kBytes>::Indices{});
  }
}

// Transposes kCount vectors of kCount elements in each 16-byte lane, in log2(kCount) rounds of
// unpack instructions. For one lane and 4 elements per lane (each letter is a vector):
//
//            before         round 1        round 2
//   v[0]     a0 a1 a2 a3    a0 c0 a1 c1    a0 b0 c0 d0
//   v[1]     b0 b1 b2 b3    a2 c2 a3 c3    a1 b1 c1 d1
//   v[2]     c0 c1 c2 c3    b0 d0 b1 d1    a2 b2 c2 d2
//   v[3]     d0 d1 d2 d3    b2 d2 b3 d3    a3 b3 c3 d3
template <int kCount, class V>
ADO_INLINE void transpose_lanes(V* v) {
  constexpr int kSize = 16 / kCount;
  constexpr typename VectorOf<kSize, sizeof(V)>::Indices kIndices;
  V w[kCount];
#pragma GCC unroll 4
  for (int done = 1; done < kCount; done *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) {
      w[2 * i] = interleave<kSize, false>(v[i], v[i + kCount / 2], kIndices);
      w[2 * i + 1] = interleave<kSize, true>(v[i], v[i + kCount / 2], kIndices);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) v[i] = w[i];
  }
}

// reorder() permutes the bytes of each 16-byte lane. AVX2, AVX-512 and NEON have one instruction
// for this permutation.
#if defined(__AVX2__) || defined(__aarch64__)
constexpr bool kReorders = true;
#else
constexpr bool kReorders = false;
#endif
template <int kBytes>
struct Order {
  Vector<1, kBytes> bytes = {};
};
template <class V>
ADO_INLINE V reorder(V v, Order<sizeof(V)> order) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(V) == 64)
    return reinterpret_cast<V>(
        _mm512_shuffle_epi8(reinterpret_cast<__m512i>(v), reinterpret_cast<__m512i>(order.bytes)));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32)
    return reinterpret_cast<V>(
        _mm256_shuffle_epi8(reinterpret_cast<__m256i>(v), reinterpret_cast<__m256i>(order.bytes)));
  if constexpr (sizeof(V) == 16)
    return reinterpret_cast<V>(
        _mm_shuffle_epi8(reinterpret_cast<__m128i>(v), reinterpret_cast<__m128i>(order.bytes)));
#elif defined(__aarch64__)
  return reinterpret_cast<V>(vqtbl1q_u8(reinterpret_cast<uint8x16_t>(v), order.bytes));
#endif
  return v;
}

// Returns the order with which reorder() transposes a matrix of rows x cols elements at the start
// of each lane. Rows of the matrix are `from_pitch` bytes apart, and rows of the result `to_pitch`
// bytes.
template <int kSize, int kBytes>
ADO_INLINE Order<kBytes> transposing_order(int64_t rows, int64_t cols, int64_t from_pitch,
                                           int64_t to_pitch) {
  std::uint8_t order[16] = {};
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col)
      for (int byte = 0; byte < kSize; ++byte)
        order[col * to_pitch + row * kSize + byte] =
            static_cast<std::uint8_t>(row * from_pitch + col * kSize + byte);
  return {load_lanes<1, kBytes>(reinterpret_cast<const std::byte*>(order), 0)};
}

// Transposes a block of kBytes / kSize rows and up to kCols columns, where kCols * kSize <= 16.
// Each load reads 16 bytes of a: a piece of kGroup rows, which are contiguous. Lane l of vector i
// contains piece i + l * kCols. If a piece has several rows, it is transposed first, so that the
// bytes of a column are contiguous. Rows of out are stored as vectors of kBytes.
template <int kSize, int kBytes, int kCols>
struct TallBlock {
  static constexpr int kRows = kBytes / kSize;
  static constexpr int kGroup = 16 / (kCols * kSize);
  using V = Vector<16 / kCols, kBytes>;

  // `piece` is the distance between pieces in bytes.
  static ADO_INLINE void transpose(const std::byte* from, int64_t piece, Order<kBytes> order,
                                   std::byte* to, int64_t to_row, int64_t cols) {
    V v[kCols];
#pragma GCC unroll 16
    for (int i = 0; i < kCols; ++i) {
      v[i] = load_lanes<16 / kCols, kBytes>(from + i * piece, kCols * piece);
      if constexpr (kGroup > 1) v[i] = reorder(v[i], order);
    }
    transpose_lanes<kCols>(v);
#pragma GCC unroll 16
    for (int i = 0; i < kCols; ++i)
      if (i < cols) std::memcpy(to + i * to_row, &v[i], kBytes);
  }
};

// Transposes a block of kBytes / kSize columns and up to kRows rows. Rows of a are loaded as
// vectors of kBytes. Each store writes 16 bytes of out: a piece of kGroup rows of out. Pieces are
// stored in ascending order, because the store of a piece with less than 16 bytes also writes
// undefined bytes after the piece.
template <int kSize, int kBytes, int kRows>
struct WideBlock {
  static constexpr int kCols = kBytes / kSize;
  static constexpr int kGroup = 16 / (kRows * kSize);
  using V = Vector<16 / kRows, kBytes>;

  static ADO_INLINE void transpose(const std::byte* from, int64_t from_row, int64_t rows,
                                   Order<kBytes> order, std::byte* to, int64_t piece) {
    V v[kRows];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
      std::memcpy(&v[i], from + (i < rows ? i : 0) * from_row, kBytes);
    transpose_lanes<kRows>(v);
    if constexpr (kGroup > 1) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) v[i] = reorder(v[i], order);
    }
    store_pieces(v, to, piece, std::make_integer_sequence<int, kBytes / 16>{});
  }

 private:
  template <int... kLane>
  static ADO_INLINE void store_pieces(const V* v, std::byte* to, int64_t piece,
                                      std::integer_sequence<int, kLane...>) {
    (store_lane<kLane>(v, to + kLane * kRows * piece, piece), ...);
  }
  template <int kLane>
  static ADO_INLINE void store_lane(const V* v, std::byte* to, int64_t piece) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const auto lane = lane_of<kLane>(v[i]);
      std::memcpy(to + i * piece, &lane, 16);
    }
  }
  template <int kLane>
  static ADO_INLINE Vector<8, 16> lane_of(V v) {
    const auto longs = reinterpret_cast<Vector<8, kBytes>>(v);
    return __builtin_shufflevector(longs, longs, 2 * kLane, 2 * kLane + 1);
  }
};

}  // namespace
}  // namespace ado::ADO_ISA
