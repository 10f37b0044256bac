// Sobel gradients on the CPU. One source, compiled once per instruction set (core/isa.hpp). The
// reading order is the same as in gaussian_blur.cpp.
#include "routines/sobel.hpp"

#include "cpu/image/engine_window_rows.hpp"
#include "cpu/image/sliding_window.hpp"
#include "cpu/image/stages.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- stream_copy --------------------------------------------------------------------------------
constexpr auto kStreamCopy = stream_copy_variant<Sobel>();

// ---- naive_loops, interior, padded_rows, separable ----------------------------------------------
ADO_INLINE Pixel magnitude_of(int x, int y) {
  const int root = static_cast<int>(__builtin_sqrtf(static_cast<float>(x * x + y * y)));
  return static_cast<Pixel>(min(root, UINT8_MAX));
}

// The gradient's magnitude from eight neighbours: at(down, right) is the pixel that is `down` rows
// below and `right` columns to the right.
template <class At>
ADO_INLINE Pixel gradient(At at) {
  const int x = at(-1, 1) - at(-1, -1) + 2 * (at(0, 1) - at(0, -1)) + at(1, 1) - at(1, -1);
  const int y = at(1, -1) - at(-1, -1) + 2 * (at(1, 0) - at(-1, 0)) + at(1, 1) - at(-1, 1);
  return magnitude_of(x, y);
}

// Executed FLOPs: one square root per pixel. All other operations are on integers.
double roots_of_pixels(const Sobel& p) { return static_cast<double>(p.out.elements()); }

// ---- naive_loops, interior ----------------------------------------------------------------------
// One output pixel, with a border test for each neighbour.
ADO_INLINE Pixel gradient_at_border(const Sobel& p, const Image& gray, int64_t row, int64_t col) {
  return gradient([&](int down, int right) {
    const int64_t r = row + down, c = col + right;
    return r < 0 || c < 0 || r >= p.rows() || c >= p.cols() ? 0 : int{gray.pixel(r, c)};
  });
}

// ---- naive_loops --------------------------------------------------------------------------------
void naive_loops(const Sobel& p, const Launch&) {
  Checkpoints checkpoints;
  for (int64_t i = 0; i < p.images(); ++i) {
    const Image gray = image_of(p.gray, i), out = image_of(p.out, i);
    for (int64_t row = 0; row < p.rows(); ++row)
      checkpoints.in_pieces<kPixelNanoseconds>(0, p.cols(), [&](int64_t begin, int64_t end) {
        for (int64_t col = begin; col < end; ++col)
          out.pixel(row, col) = gradient_at_border(p, gray, row, col);
      });
  }
}

constexpr Variant<Sobel> kNaiveLoops = {
    .name = "naive_loops",
    .changes = "Loads eight neighbours per pixel, with a border test for each.",
    .flops = roots_of_pixels,
    .run = naive_loops};

// ---- interior -----------------------------------------------------------------------------------
void interior(const Sobel& p, const Launch&) {
  for (int64_t i = 0; i < p.images(); ++i) {
    const Image gray = image_of(p.gray, i), out = image_of(p.out, i);
    for_each_pixel(
        p.rows(), p.cols(), 1,
        [&](int64_t row, int64_t col) {
          out.pixel(row, col) = gradient_at_border(p, gray, row, col);
        },
        [&](int64_t row, int64_t col) {
          out.pixel(row, col) = gradient(
              [&](int down, int right) { return int{gray.pixel(row + down, col + right)}; });
        });
  }
}

constexpr Variant<Sobel> kInterior = {
    .name = "interior",
    .changes = {"Tests for the border only at the outermost pixels.", Step::kDivergence},
    .flops = roots_of_pixels,
    .run = interior};

// ---- padded_rows, separable, simd ---------------------------------------------------------------
template <class Kernel>
void by_rows(const Sobel& p, const Launch&) {
  filter_share<1>(p, Border::kConstant, Kernel{});
}

// ---- padded_rows --------------------------------------------------------------------------------
// Computes the gradient from all eight neighbours, in three padded rows.
struct FullWindowRow {
  void operator()(const Pixel* const (&rows)[3], int64_t begin, int64_t end, Pixel* to,
                  Ahead) const {
    for (int64_t col = begin; col < end; ++col)
      to[col] = gradient([&](int down, int right) { return int{rows[down + 1][col + right]}; });
  }
};

constexpr Variant<Sobel> kPaddedRows = {
    .name = "padded_rows",
    .changes = {"Copies the rows to contiguous buffers in the L1 cache, padded with zeros.",
                Step::kDivergence},
    .flops = roots_of_pixels,
    .run = by_rows<FullWindowRow>};

// ---- separable ----------------------------------------------------------------------------------
// Computes sums down the columns first, then along the row.
struct SeparableRow {
  void operator()(const Pixel* const (&rows)[3], int64_t begin, int64_t end, Pixel* to,
                  Ahead) const {
    std::int16_t smooth[kPitch], down[kPitch];
    for (int64_t col = begin - 1; col < end + 1; ++col) {
      smooth[col + kMargin] =
          static_cast<std::int16_t>(rows[0][col] + 2 * rows[1][col] + rows[2][col]);
      down[col + kMargin] = static_cast<std::int16_t>(rows[2][col] - rows[0][col]);
    }
    for (int64_t col = begin; col < end; ++col) {
      const std::int16_t* s = smooth + kMargin + col;
      const std::int16_t* d = down + kMargin + col;
      to[col] = magnitude_of(s[1] - s[-1], d[-1] + 2 * d[0] + d[1]);
    }
  }
};

constexpr Variant<Sobel> kSeparable = {
    .name = "separable",
    .changes = {"Sums down each column once for three output pixels, then along the row.",
                Step::kOperations},
    .flops = roots_of_pixels,
    .run = by_rows<SeparableRow>};

// ---- simd ---------------------------------------------------------------------------------------
// The magnitudes of gradients, rounded down and limited to 255.
//
// The loop is bound by the square root, at 4.4 cycles per vector of any width (Zen 5). A Newton
// step from the processor's estimate of 1 / r takes 1.1 to 1.3 times as long. Computing half of the
// roots each way is not faster, because the shorter dependency chain from load to store is more
// important.
ADO_INLINE Bytes magnitude(Widened x, Widened y) {
  return narrow(magnitude_by_root(x.low, y.low), magnitude_by_root(x.high, y.high));
}

struct SobelRow {
  ADO_INLINE void operator()(const Pixel* const (&rows)[3], int64_t, int64_t end, Pixel* to,
                             Ahead soon) const {
    constexpr int kBehind = 1;
    Neighbourhood smooths, downs;
    for (int64_t col = -kWidth; col < end + kBehind; col += kWidth) {
      soon.fetch_some();
      const auto at = [&](int row) { return widen(load_vector<Bytes>(rows[row] + col)); };
      const Widened above = at(0), here = at(1), below = at(2);
      const Neighbours smooth = smooths(above + here + here + below), down = downs(below - above);
      const Widened middle = down.before<1>();
      store_vector(to + col - kBehind, magnitude(smooth.now - smooth.before<2>(),
                                                 down.now + middle + middle + down.before<2>()));
    }
  }
};

// Number of square roots that SobelRow computes for all bands. The first vector of a row precedes
// the band, and the last one covers the column after it.
template <class Filter>
double roots_of_rows(const Filter& p) {
  int64_t roots = 0;
  for_each_band(1, 1, p.cols(), 0, 1, [&](const Band& band) {
    roots += (1 + (band.width() + kWidth) / kWidth) * kWidth;
  });
  return static_cast<double>(p.images() * p.rows() * roots);
}

constexpr Variant<Sobel> kSimd = {
    .name = "simd",
    .changes = {"Vectorised, including the square root.", Step::kWider},
    .flops = roots_of_rows<Sobel>,
    .run = by_rows<SobelRow>};

// ---- vector_columns, streaming ------------------------------------------------------------------
template <bool kStreaming>
void by_windows(const Sobel& p, const Launch&) {
  window_share<SobelWindow>(p, Border::kConstant, 0, 1, kStreaming);
}

// ---- vector_columns -----------------------------------------------------------------------------
constexpr Variant<Sobel> kVectorColumns = {
    .name = "vector_columns",
    .changes = {"Processes vector-wide columns from top to bottom and keeps the sums of earlier "
                "rows in registers; computes every other square root from a hardware estimate.",
                Step::kReuse, Step::kOperations},
    .flops = flops_of_windows<Sobel, &Sobel::gray>,
    .run = by_windows<false>};

// ---- streaming ----------------------------------------------------------------------------------
constexpr Variant<Sobel> kStreaming = {
    .name = "streaming",
    .changes = {"Stores the output with non-temporal stores, which do not read cache lines first.",
                Step::kDramReuse},
    .flops = flops_of_windows<Sobel, &Sobel::gray>,
    .run = by_windows<true>};

// ---- threaded -----------------------------------------------------------------------------------
void threaded(const Sobel& p, const Launch&) {
  // The kernel takes about the time of moving twice its number of bytes.
  in_parallel(threads_for(4 * p.out.bytes()), [&](int thread, int threads) {
    window_share<SobelWindow>(p, Border::kConstant, thread, threads,
                              worth_streaming(2 * p.out.bytes()));
  });
}

constexpr Variant<Sobel> kThreaded = {
    .name = "threaded",
    .changes = {"Splits the rows among threads; small images are stored with ordinary stores.",
                Step::kParallelism},
    .flops = flops_of_windows<Sobel, &Sobel::gray>,
    .run = threaded};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Sobel> kSteps[] = {kStreamCopy,    kNaiveLoops, kInterior,
                                     kPaddedRows,    kSeparable,  kSimd,
                                     kVectorColumns, kStreaming,  kThreaded};

}  // namespace

Ladder<Sobel> sobel_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA
