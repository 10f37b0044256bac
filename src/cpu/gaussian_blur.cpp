// The Gaussian blur on the CPU. One source, compiled once per instruction set (core/isa.hpp).
//
// Read this file, then image/sliding_window.hpp (vector_columns). image/stages.hpp and
// image/engine_window_rows.hpp supply and store the rows.
#include "routines/gaussian_blur.hpp"

#include "cpu/image/engine_window_rows.hpp"
#include "cpu/image/sliding_window.hpp"
#include "cpu/image/stages.hpp"

namespace ado::ADO_ISA {
namespace {

constexpr int kTaps = GaussianBlur::kTaps, kRadius = GaussianBlur::kRadius;

// ---- stream_copy --------------------------------------------------------------------------------
constexpr auto kStreamCopy = stream_copy_variant<GaussianBlur>();

// ---- naive_loops, interior ----------------------------------------------------------------------
// One output pixel, with a border test for each row and each of the 49 products.
ADO_INLINE Pixel blur_at_border(const GaussianBlur& p, const Image& gray, int square, int64_t row,
                                int64_t col) {
  int sum = 0;
  for (int down = 0; down < kTaps; ++down) {
    const int64_t r = source_index(p.border, row + down - kRadius, p.rows());
    for (int right = 0; right < kTaps; ++right) {
      const int64_t c = source_index(p.border, col + right - kRadius, p.cols());
      if (r >= 0 && c >= 0) sum += p.taps[down] * p.taps[right] * gray.pixel(r, c);
    }
  }
  return static_cast<Pixel>(sum / square);
}

// ---- naive_loops --------------------------------------------------------------------------------
void naive_loops(const GaussianBlur& p, const Launch&) {
  const int square = p.tap_sum() * p.tap_sum();
  Checkpoints checkpoints;
  for (int64_t i = 0; i < p.images(); ++i) {
    const Image gray = image_of(p.gray, i), out = image_of(p.out, i);
    for (int64_t row = 0; row < p.rows(); ++row)
      checkpoints.in_pieces<kPixelNanoseconds>(0, p.cols(), [&](int64_t begin, int64_t end) {
        for (int64_t col = begin; col < end; ++col)
          out.pixel(row, col) = blur_at_border(p, gray, square, row, col);
      });
  }
}

constexpr Variant<GaussianBlur> kNaiveLoops = {
    .name = "naive_loops",
    .changes = "Sums 49 products per pixel, with a border test for each.",
    .run = naive_loops};

// ---- interior -----------------------------------------------------------------------------------
void interior(const GaussianBlur& p, const Launch&) {
  const int square = p.tap_sum() * p.tap_sum();
  for (int64_t i = 0; i < p.images(); ++i) {
    const Image gray = image_of(p.gray, i), out = image_of(p.out, i);
    for_each_pixel(
        p.rows(), p.cols(), kRadius,
        [&](int64_t row, int64_t col) {
          out.pixel(row, col) = blur_at_border(p, gray, square, row, col);
        },
        [&](int64_t row, int64_t col) {
          int sum = 0;
          for (int down = 0; down < kTaps; ++down)
            for (int right = 0; right < kTaps; ++right)
              sum += p.taps[down] * p.taps[right] *
                     gray.pixel(row + down - kRadius, col + right - kRadius);
          out.pixel(row, col) = static_cast<Pixel>(sum / square);
        });
  }
}

constexpr Variant<GaussianBlur> kInterior = {
    .name = "interior",
    .changes = {"Tests for the border only where a window crosses it.", Step::kDivergence},
    .run = interior};

// ---- auto_vectorised, two_pass, row_ring, vector_columns, streaming, threaded -------------------
// Weighted sums of kCount rows. Each sum is passed to finish(col, sum). The compiler vectorises the
// loop over columns, because rows are contiguous and the weights are local.
template <int kCount, class Element, class Finish>
ADO_INLINE void weighted_sums(const int (&taps)[kCount], const Element* const (&rows)[kCount],
                              int64_t begin, int64_t end, Finish finish) {
  int weights[kCount];
  for (int i = 0; i < kCount; ++i) weights[i] = taps[i];
  for (int64_t col = begin; col < end; ++col) {
    int sum = 0;
#pragma GCC unroll 49
    for (int i = 0; i < kCount; ++i) sum += weights[i] * rows[i][col];
    finish(col, sum);
  }
}

// Weighted sums of seven neighbours along one row: the sums of seven copies of the row, each
// shifted by one more column.
template <class Element, class Finish>
ADO_INLINE void weighted_sums_along(const int (&taps)[kTaps], const Element* row, int64_t begin,
                                    int64_t end, Finish finish) {
  const Element* rows[kTaps];
  for (int i = 0; i < kTaps; ++i) rows[i] = row + i - kRadius;
  weighted_sums(taps, rows, begin, end, finish);
}

// Divides by the square of the taps' sum. Sums of seven weighted pixels fit into 16 bits, and sums
// of 49 into a float. The float quotient has the exact floor: if the exact quotient is not an
// integer, it is at least 2^-16 below the next integer, and rounding changes a number below 256 by
// at most 2^-17.
class Quotient {
 public:
  explicit Quotient(const GaussianBlur& p)
      : divisor_(static_cast<float>(p.tap_sum() * p.tap_sum())) {}
  ADO_INLINE Pixel operator()(int sum) const {
    return static_cast<Pixel>(static_cast<int>(static_cast<float>(sum) / divisor_));
  }

 private:
  float divisor_;
};

// Executed FLOPs: the division by Quotient.
double one_division(const GaussianBlur& p) { return static_cast<double>(p.out.elements()); }
double one_division_for_any_taps(const GaussianBlur& p) {
  return p.default_taps() ? 0 : one_division(p);
}

// ---- auto_vectorised ----------------------------------------------------------------------------
// Computes all 49 products, from seven padded rows.
struct FullWindowRow {
  const GaussianBlur& p;
  Quotient quotient{p};

  ADO_INLINE void operator()(const Pixel* const (&rows)[kTaps], int64_t begin, int64_t end,
                             Pixel* to, Ahead) const {
    int weights[kTaps * kTaps];
    const Pixel* shifted[kTaps * kTaps];
    for (int i = 0; i < kTaps * kTaps; ++i) {
      weights[i] = p.taps[i / kTaps] * p.taps[i % kTaps];
      shifted[i] = rows[i / kTaps] + i % kTaps - kRadius;
    }
    weighted_sums(weights, shifted, begin, end,
                  [&](int64_t col, int sum) { to[col] = quotient(sum); });
  }
};

void auto_vectorised(const GaussianBlur& p, const Launch&) {
  filter_share<kRadius>(p, p.border, FullWindowRow{p});
}

constexpr Variant<GaussianBlur> kAutoVectorised = {
    .name = "auto_vectorised",
    .changes = {"Copies the rows to contiguous padded buffers in the L1 cache, so that the "
                "compiler can vectorise the 49 products.",
                Step::kWider},
    .flops = one_division,
    .run = auto_vectorised};

// ---- two_pass, row_ring, constant_taps, vector_columns, streaming, threaded ---------------------
using Sum = std::uint16_t;

// ---- two_pass -----------------------------------------------------------------------------------
void two_pass(const GaussianBlur& p, const Launch& go) {
  auto* const sums = reinterpret_cast<Sum*>(go.scratch);
  const Sum zeros[kBandWidth] = {};
  const Quotient quotient(p);
  Checkpoints checkpoints;
  for (int64_t i = 0; i < p.images(); ++i) {
    const Image gray = image_of(p.gray, i), out = image_of(p.out, i);
    for_each_band(1, p.rows(), p.cols(), 0, 1, [&](const Band& band) {
      ImageRows pixels{gray, p.border, band, kRadius};
      pixels.row = band.top;
      alignas(kLine) Pixel line[kPitch];
      for (int64_t row = band.top; row < band.bottom; ++row) {
        checkpoints.add(kRowNanoseconds + touch_nanoseconds(p.cols() * sizeof(Sum)));
        pixels.next(line + kMargin);
        Sum* to = sums + row * p.cols() + band.left;
        weighted_sums_along(p.taps, line + kMargin, 0, band.width(),
                            [&](int64_t col, int sum) { to[col] = static_cast<Sum>(sum); });
      }
    });
    for_each_band(1, p.rows(), p.cols(), 0, 1, [&](const Band& band) {
      Pixel line[kBandWidth];
      for (int64_t row = band.top; row < band.bottom; ++row) {
        checkpoints.add(kRowNanoseconds + touch_nanoseconds(out.to_row));
        const Sum* rows[kTaps];
        for (int tap = 0; tap < kTaps; ++tap) {
          const int64_t from = source_index(p.border, row + tap - kRadius, p.rows());
          rows[tap] = from < 0 ? zeros : sums + from * p.cols() + band.left;
        }
        weighted_sums(p.taps, rows, 0, band.width(),
                      [&](int64_t col, int sum) { line[col] = quotient(sum); });
        put_row(out, row, band, line, false);
      }
    });
  }
}

std::size_t sums_bytes(const GaussianBlur& p) {
  return static_cast<std::size_t>(p.rows() * p.cols()) * sizeof(Sum);
}
double bytes_with_sums(const GaussianBlur& p) {
  return 2 * static_cast<double>(p.out.bytes()) * (1 + sizeof(Sum));
}

constexpr Variant<GaussianBlur> kTwoPass = {
    .name = "two_pass",
    .changes = {"Separates the sum: seven products along the rows, stored to an intermediate "
                "image, then seven down its columns.",
                Step::kOperations},
    .scratch_bytes = sums_bytes,
    .flops = one_division,
    .bytes = bytes_with_sums,
    .run = two_pass};

// ---- row_ring, vector_columns, streaming, threaded ----------------------------------------------
// Two passes with any taps: down the columns first, so that only one row of intermediate sums is
// stored.
struct AnyTapsRow {
  const GaussianBlur& p;
  Quotient quotient{p};

  ADO_INLINE void operator()(const Pixel* const (&rows)[kTaps], int64_t begin, int64_t end,
                             Pixel* to, Ahead) const {
    Sum sums[kPitch];
    weighted_sums(p.taps, rows, begin - kRadius, end + kRadius,
                  [&](int64_t col, int sum) { sums[kMargin + col] = static_cast<Sum>(sum); });
    weighted_sums_along(p.taps, sums + kMargin, begin, end,
                        [&](int64_t col, int sum) { to[col] = quotient(sum); });
  }
};

// ---- row_ring -----------------------------------------------------------------------------------
void row_ring(const GaussianBlur& p, const Launch&) {
  filter_share<kRadius>(p, p.border, AnyTapsRow{p});
}

constexpr Variant<GaussianBlur> kRowRing = {
    .name = "row_ring",
    .changes = {"Runs both passes row by row, columns first, so that the intermediate sums stay in "
                "the L1 cache.",
                Step::kReuse},
    .flops = one_division,
    .run = row_ring};

// ---- constant_taps, simd, vector_columns --------------------------------------------------------
const char* default_taps_only(const GaussianBlur& p) {
  return p.default_taps() ? nullptr
                          : "only the default taps are compiled in; `row_ring` takes any taps";
}

template <class Kernel>
void on_default_taps(const GaussianBlur& p, const Launch&) {
  filter_share<kRadius>(p, p.border, Kernel{});
}

// ---- constant_taps ------------------------------------------------------------------------------
// The default taps as constants. No sum exceeds 255 * 16 * 16 = 65280, so sums have 16 bits. A
// vector holds twice the number of sums compared with 32 bits, and the division is a shift.
struct DefaultTapsRow {
  ADO_INLINE void operator()(const Pixel* const (&rows)[kTaps], int64_t begin, int64_t end,
                             Pixel* to, Ahead) const {
    Sum sums[kPitch];
    for (int64_t col = begin - kRadius; col < end + kRadius; ++col)
      sums[kMargin + col] = weighted_sum(rows, col);
    const Sum* shifted[kTaps];
    for (int i = 0; i < kTaps; ++i) shifted[i] = sums + kMargin + i - kRadius;
    for (int64_t col = begin; col < end; ++col)
      to[col] = static_cast<Pixel>(weighted_sum(shifted, col) >> 8);
  }

  template <class Element>
  static ADO_INLINE Sum weighted_sum(const Element* const (&rows)[kTaps], int64_t col) {
    Sum sum = 0;
    for (int i = 0; i < kTaps; ++i) {
      const auto tap = static_cast<Sum>(GaussianBlur::kDefaultTaps[i]);
      sum = static_cast<Sum>(sum + static_cast<Sum>(tap * rows[i][col]));
    }
    return sum;
  }
};

constexpr Variant<GaussianBlur> kConstantTaps = {
    .name = "constant_taps",
    .changes = {"Compiles the default taps in as constants and keeps all sums in 16 bits.",
                Step::kOperations},
    .why_not = default_taps_only,
    .run = on_default_taps<DefaultTapsRow>};

// ---- simd ---------------------------------------------------------------------------------------
// Default taps. 1 2 3 4 3 2 1 is 1 2 1 convolved with 1 0 2 0 1, and no sum exceeds 65280. So
// 16-bit numbers, shifts by whole elements and additions are sufficient. Two convolutions with two
// independent shifts each are 1.05 to 1.1 times as fast as a chain of four (twice 1 1, twice 1 0 1;
// Zen 5).
struct BlurRow {
  ADO_INLINE void operator()(const Pixel* const (&rows)[7], int64_t, int64_t end, Pixel* to,
                             Ahead soon) const {
    // The sum of an element and the elements before it is the output pixel 3 columns to the left.
    constexpr int kBehind = 3;
    Neighbourhood down, pairs;
    for (int64_t col = -kWidth; col < end + kBehind; col += kWidth) {
      soon.fetch_some();
      const auto at = [&](int row) { return load_vector<Bytes>(rows[row] + col); };
      Widened sum = weighted<1>(at(0), at(6)) + weighted<2>(at(1), at(5)) +
                    weighted<3>(at(2), at(4)) + weighted<2>(at(3), at(3));
      const Neighbours x = down(sum);
      const Widened x1 = x.before<1>();
      const Neighbours y = pairs(x.now + x.before<2>() + x1 + x1);
      const Widened y2 = y.before<2>();
      sum = y.now + y.before<4>() + y2 + y2;
      store_vector(to + col - kBehind, narrow(reinterpret_cast<Int16s>(sum.low >> 8),
                                              reinterpret_cast<Int16s>(sum.high >> 8)));
    }
  }
};

constexpr Variant<GaussianBlur> kSimd = {
    .name = "simd",
    .changes = {"Shifts and adds vector registers explicitly, without products along the row.",
                Step::kWider, Step::kOperations},
    .why_not = default_taps_only,
    .run = on_default_taps<BlurRow>};

// ---- vector_columns, streaming, threaded --------------------------------------------------------
void blur_share(const GaussianBlur& p, int thread, int threads, bool streaming) {
  if (p.default_taps())
    window_share<BlurWindow>(p, p.border, thread, threads, streaming);
  else
    filter_share<kRadius>(p, p.border, AnyTapsRow{p}, thread, threads, streaming);
}

// ---- vector_columns -----------------------------------------------------------------------------
void by_windows(const GaussianBlur& p, const Launch&) { blur_share(p, 0, 1, false); }

constexpr Variant<GaussianBlur> kVectorColumns = {
    .name = "vector_columns",
    .changes = {"Processes vector-wide columns from top to bottom and keeps the sums of earlier "
                "rows in registers; weights pairs of pixels without shuffles.",
                Step::kReuse, Step::kOperations},
    .why_not = default_taps_only,
    .run = by_windows};

// ---- streaming ----------------------------------------------------------------------------------
void streaming(const GaussianBlur& p, const Launch&) { blur_share(p, 0, 1, true); }

constexpr Variant<GaussianBlur> kStreaming = {
    .name = "streaming",
    .changes = {"Stores the output with non-temporal stores, which do not read cache lines first.",
                Step::kDramReuse},
    .flops = one_division_for_any_taps,
    .run = streaming};

// ---- threaded -----------------------------------------------------------------------------------
void threaded(const GaussianBlur& p, const Launch&) {
  const int64_t bytes = 2 * p.out.bytes();
  in_parallel(threads_for(p.default_taps() ? bytes : 4 * bytes), [&](int thread, int threads) {
    blur_share(p, thread, threads, worth_streaming(bytes));
  });
}

constexpr Variant<GaussianBlur> kThreaded = {
    .name = "threaded",
    .changes = {"Splits the rows among threads; small images are stored with ordinary stores.",
                Step::kParallelism},
    .flops = one_division_for_any_taps,
    .run = threaded};

// -------------------------------------------------------------------------------------------------

constexpr Variant<GaussianBlur> kSteps[] = {
    kStreamCopy,   kNaiveLoops, kInterior,      kAutoVectorised, kTwoPass, kRowRing,
    kConstantTaps, kSimd,       kVectorColumns, kStreaming,      kThreaded};

}  // namespace

Ladder<GaussianBlur> gaussian_blur_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA
