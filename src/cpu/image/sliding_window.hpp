// Stencils with a sliding window. A vector column is a column of an image, one vector register
// wide. A kernel processes a vector column from top to bottom and keeps sums of earlier rows in
// registers, so it reads each row of pixels once. Rows are processed in blocks, one vector column
// after the other. Between blocks, the registers are saved in the L1 cache.
//
// This file is the step: the window, and what it does to each row for the blur and the gradient.
// engine_window_rows.hpp supplies the rows of images of any strides and border, and stores them.
#pragma once

#include "cpu/image/stages.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- vector_columns, streaming, threaded, fused_bands -------------------------------------------
// Rows per block, and the maximum width of a band. The state of the Gaussian blur has 12 bytes per
// column.
constexpr int kBlockRows = 16;
constexpr int64_t kWindowWidth = 1024;

// Distance between the rows of a buffer. A buffered row of a band has room for the columns on
// either side. The pitch is an odd number of cache lines, so that the rows do not compete for the
// same cache sets.
constexpr int64_t kWindowPitch = kLine + kWindowWidth + 2 * kLine;
static_assert(kWindowPitch / kLine % 2 == 1);

class RowBuffer {
 public:
  // Returns a pointer to the band's first column in row i of the block.
  ADO_INLINE Pixel* row(int64_t i) { return rows_[i] + kLine; }

 private:
  alignas(kLine) Pixel rows_[kBlockRows][kWindowPitch];
};

alignas(kLine) constexpr Pixel kZeros[kWindowPitch] = {};

// One row of a band. The first and the last vector column may be in a copy that extends the image
// beyond its border. The columns next to a vector column, which the kernel needs, can also be read.
struct WindowRow {
  const Pixel* first;   // the first pixel of the first vector column
  const Pixel* middle;  // the band's first pixel, for the other vector columns
  const Pixel* last;    // the first pixel of the last vector column

  // Returns a row that is extended in place.
  static ADO_INLINE WindowRow padded(const Pixel* row, int64_t width) {
    return {row, row, row + width - kWidth};
  }
};

ADO_INLINE int64_t vector_columns(int64_t width) { return (width + kWidth - 1) / kWidth; }

// Memory that will be read for the next block of rows. `to_row` and `to_col` are the distances in
// bytes between its rows and between the pixels of a row. Kernels prefetch it, so that memory
// accesses overlap with the arithmetic.
struct NextBlock {
  const std::byte* at;
  int64_t to_row, to_col;
};

// Moves a window down the vector columns of a band. Kernel::State contains the sums of one vector
// column, which are all zero if the rows above are zero. Kernel::add<phase>(state, from) adds the
// next row and returns the sums of the window. Kernel::finish converts these sums to pixels. kLines
// cache lines are prefetched per vector.
template <class Kernel, int kLines>
class SlidingWindow {
 public:
  static constexpr int kRadius = Kernel::kRadius;

  // Starts a band. The rows above the first one added are zero. The first `skip` rows added do not
  // complete a window.
  ADO_INLINE void start(int64_t width, int64_t skip) {
    width_ = width;
    skip_ = skip;
    started_ = false;
  }

  // Adds `count` rows and stores the rows of pixels that they complete, `pitch` bytes apart.
  // Returns the number of stored rows. If the band is narrower than kWidth, kWidth columns are
  // stored.
  ADO_INLINE int64_t add(const WindowRow* rows, int64_t count, const NextBlock& next, Pixel* to,
                         int64_t pitch) {
    const int64_t columns = vector_columns(width_);
    const Rows block{rows, min(skip_, count), count, next, to, pitch};
    if (columns > 0) add_to_column<&WindowRow::first>(block, 0, 0, states_[0]);
    for (int64_t column = 1; column < columns - 1; ++column) {
      // A vector column that would need pixels beyond the band overlaps its left neighbour.
      const int64_t col = min(column * kWidth, width_ - kWidth - kRadius);
      add_to_column<&WindowRow::middle>(block, col, col, states_[column]);
    }
    if (columns > 1)
      add_to_column<&WindowRow::last>(block, 0, width_ - kWidth, states_[columns - 1]);
    skip_ -= block.skip;
    started_ = true;
    return count - block.skip;
  }

 private:
  using State = typename Kernel::State;

  struct Rows {
    const WindowRow* rows;
    int64_t skip, count;
    NextBlock next;
    Pixel* to;
    int64_t pitch;
  };

  template <const Pixel* WindowRow::*kFrom>
  ADO_INLINE void add_to_column(const Rows& block, int64_t from, int64_t col, State& saved) {
    State state = {};
    if (started_) state = saved;
    const std::byte* next = block.next.at + col * block.next.to_col;
    const auto at = [&](int64_t row) __attribute__((always_inline)) {
      for (int line = 0; line < kLines; ++line) __builtin_prefetch(next + line * kLine);
      next += block.next.to_row;
      return block.rows[row].*kFrom + from;
    };
    in_pairs(
        0, block.skip, state, [&]<int kPhase>(int64_t row) __attribute__((always_inline)) {
          Kernel::template add<kPhase>(state, at(row));
        });
    Pixel* to = block.to + col;
    in_pairs(
        block.skip, block.count,
        state, [&]<int kPhase>(int64_t row) __attribute__((always_inline)) {
          store_vector(to, Kernel::finish(Kernel::template add<kPhase>(state, at(row))));
          to += block.pitch;
        });
    saved = state;
  }

  // Calls step<phase>(row) with alternating phases. The phase is the index of the older one of two
  // saved sums, so that no registers are moved. After an odd number of rows, the sums are
  // exchanged, so that the next phase is 0.
  template <class Step>
  static ADO_INLINE void in_pairs(int64_t begin, int64_t end, State& state, Step step) {
    for (; begin + 1 < end; begin += 2) {
      step.template operator()<0>(begin);
      step.template operator()<1>(begin + 1);
    }
    if (begin < end) {
      step.template operator()<0>(begin);
      state.exchange();
    }
  }

  State states_[kWindowWidth / kWidth + 1];  // an intermediate result may be two columns wider
  int64_t width_, skip_;
  bool started_;
};

// The even and the odd columns of a vector of pixels, as 16-bit integers. Widening to this order
// and narrowing from it need no shuffle.
struct Columns {
  Uint16s even, odd;

  friend ADO_INLINE Columns operator+(const Columns& x, const Columns& y) {
    return {x.even + y.even, x.odd + y.odd};
  }
  friend ADO_INLINE Columns operator-(const Columns& x, const Columns& y) {
    return {x.even - y.even, x.odd - y.odd};
  }
};

ADO_INLINE Columns columns_of(Bytes v) {
  const auto pairs = reinterpret_cast<Uint16s>(v);
  return {pairs & 0xff, pairs >> 8};
}

template <class T>
ADO_INLINE void swap(T (&pair)[2]) {
  const T first = pair[0];
  pair[0] = pair[1];
  pair[1] = first;
}

// Returns kEven * v[2i] + kOdd * v[2i+1] for each i.
template <int kEven, int kOdd>
ADO_INLINE Uint16s weighted_pairs(Bytes v) {
#if defined(__AVX2__)
  const auto weights = reinterpret_cast<Register>(Uint16s{} + std::uint16_t{kEven | kOdd << 8});
  return reinterpret_cast<Uint16s>(ADO_X86(maddubs_epi16)(reinterpret_cast<Register>(v), weights));
#else
  const Columns x = columns_of(v);
  return x.even * std::uint16_t{kEven} + x.odd * std::uint16_t{kOdd};
#endif
}

// Gaussian blur with the default taps. Along the row, four vectors of pixels, two columns apart,
// contain all neighbours of the even and of the odd columns as pairs of bytes. Down the column, the
// taps 1 2 3 4 3 2 1 are the convolution of 1 1, 1 0 1, 1 1 and 1 0 1, so four additions per row
// are sufficient. No sum exceeds 65280.
struct BlurWindow {
  static constexpr int kRadius = 3;

  // Sums of 1, 2, 4 and 5 rows. Two sums of two rows and of five rows are kept.
  struct Sums {
    Uint16s row, pair[2], four, five[2];

    template <int kOlder>
    ADO_INLINE Uint16s add(Uint16s next) {
      const Uint16s two = next + row;
      row = next;
      const Uint16s next_four = two + pair[kOlder];
      pair[kOlder] = two;
      const Uint16s next_five = next_four + four;
      four = next_four;
      const Uint16s seven = next_five + five[kOlder];
      five[kOlder] = next_five;
      return seven;
    }
  };
  struct State {
    Sums even, odd;

    ADO_INLINE void exchange() {
      swap(even.pair);
      swap(even.five);
      swap(odd.pair);
      swap(odd.five);
    }
  };

  template <int kPhase>
  static ADO_INLINE Columns add(State& state, const Pixel* at) {
    const auto a = load_vector<Bytes>(at - 3), b = load_vector<Bytes>(at - 1);
    const auto c = load_vector<Bytes>(at + 1), d = load_vector<Bytes>(at + 3);
    const Uint16s even = state.even.add<kPhase>(weighted_pairs<1, 2>(a) + weighted_pairs<3, 4>(b) +
                                                weighted_pairs<3, 2>(c) + columns_of(d).even);
    const Uint16s odd = state.odd.add<kPhase>(columns_of(a).odd + weighted_pairs<2, 3>(b) +
                                              weighted_pairs<4, 3>(c) + weighted_pairs<2, 1>(d));
    return {even, odd};
  }
  static ADO_INLINE Bytes finish(const Columns& sums) {
    return reinterpret_cast<Bytes>(sums.even >> 8 | (sums.odd & 0xff00));
  }
};

// Returns the magnitudes of gradients, rounded down if they are below 256. They are computed from
// the hardware estimate of 1 / r, whose relative error is below 2^-11. n / r + 1/8 is then between
// r and r + 1/4. Rounded down, it is the result or the result plus 1. The sign of n minus the
// square of this number distinguishes the two cases. Only this difference must fit into 16 bits. If
// n is 0, the estimate is infinite, and the low byte of the result is 0.
ADO_INLINE Int16s magnitude_by_estimate(Uint16s x, Uint16s y) {
#if defined(__x86_64__)
  constexpr VectorOf<2, kWidth>::Indices kIndices;
  const auto root = [](Uint16s pairs) __attribute__((always_inline)) {
    const auto both = reinterpret_cast<Int16s>(pairs);
    const Floats squared = __builtin_convertvector(multiply_add(both, both), Floats);
#if defined(__AVX512BW__)
    const Floats reciprocal = _mm512_maskz_rsqrt14_ps(0xffff, squared);
#else
    const Floats reciprocal = ADO_X86(rsqrt_ps)(squared);
#endif
    return __builtin_convertvector(squared * reciprocal + 0.125F, Int32s);
  };
  const auto high = reinterpret_cast<Uint16s>(narrow(root(interleave<2, false>(x, y, kIndices)),
                                                     root(interleave<2, true>(x, y, kIndices))));
  const auto excess = reinterpret_cast<Int16s>(x * x + y * y - high * high);
  return reinterpret_cast<Int16s>(high) + (excess >> 15);
#else
  return magnitude_by_root(x, y);
#endif
}

// Computes every other square root from an estimate. The throughput of the square root instruction
// alone would limit the loop: the combination is 1.3 times as fast with AVX-512 and 1.1 times with
// AVX2 (Emerald Rapids). With estimates only, the loop takes 1.05 and 1.15 times as long as the
// combination.
struct SobelWindow {
  static constexpr int kRadius = 1;
  // smooth: sums along a row with weights 1 2 1, for the last two rows. difference: differences
  // along the last row. pair: the sum of the differences of the last two rows.
  struct State {
    Columns smooth[2], difference, pair;

    ADO_INLINE void exchange() { swap(smooth); }
  };
  struct Gradients {
    Columns x, y;
  };

  template <int kPhase>
  static ADO_INLINE Gradients add(State& state, const Pixel* at) {
    const auto a = load_vector<Bytes>(at - 1), b = load_vector<Bytes>(at + 1);
    const Columns left = columns_of(a), right = columns_of(b);
    const Columns smooth = {weighted_pairs<1, 2>(a) + right.even,
                            left.odd + weighted_pairs<2, 1>(b)};
    const Columns difference = right - left;
    const Columns pair = difference + state.difference;
    const Gradients gradients = {pair + state.pair, smooth - state.smooth[kPhase]};
    state.difference = difference;
    state.pair = pair;
    state.smooth[kPhase] = smooth;
    return gradients;
  }
  static ADO_INLINE Bytes finish(const Gradients& gradients) {
    const auto at_most_255 = [](Int16s x) {
      return reinterpret_cast<Uint16s>(x > 255 ? Int16s{} + 255 : x);
    };
    const Uint16s even = at_most_255(magnitude_by_root(gradients.x.even, gradients.y.even));
    const Uint16s odd = at_most_255(magnitude_by_estimate(gradients.x.odd, gradients.y.odd));
    return reinterpret_cast<Bytes>(even | odd << 8);
  }
};

}  // namespace
}  // namespace ado::ADO_ISA
