// The Gaussian blur on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/gaussian_blur.hpp"

#include "core/isa.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/common/streaming.hpp"
#include "cpu/image/rows.hpp"
#include "cpu/image/view.hpp"

namespace ado::ADO_ISA {
namespace {

constexpr int kTaps = GaussianBlur::kTaps, kRadius = GaussianBlur::kRadius;

void textbook(const GaussianBlur& p, const Launch&) {
  const int square = p.tap_sum() * p.tap_sum();
  for (int64_t i = 0; i < p.images(); ++i) {
    const Image gray = image_of(p.gray, i), out = image_of(p.out, i);
    for (int64_t row = 0; row < p.rows(); ++row) {
      for (int64_t col = 0; col < p.cols(); ++col) {
        int sum = 0;
        for (int down = 0; down < kTaps; ++down) {
          const int64_t r = inside(p.border, row + down - kRadius, p.rows());
          for (int right = 0; right < kTaps; ++right) {
            const int64_t c = inside(p.border, col + right - kRadius, p.cols());
            if (r >= 0 && c >= 0) sum += p.taps[down] * p.taps[right] * gray.pixel(r, c);
          }
        }
        out.pixel(row, col) = static_cast<Pixel>(sum / square);
      }
    }
  }
}

// ---------------------------------------------------------------------------------- separated sums

// The compiler makes vectors of this: weighted sums of seven rows, each for finish(col, sum).
template <class Element, class Finish>
ADO_INLINE void weigh(const GaussianBlur& p, const Element* const (&rows)[kTaps], int64_t begin,
                      int64_t end, Finish finish) {
  int taps[kTaps];
  for (int i = 0; i < kTaps; ++i) taps[i] = p.taps[i];
  for (int64_t col = begin; col < end; ++col) {
    int sum = 0;
    for (int i = 0; i < kTaps; ++i) sum += taps[i] * rows[i][col];
    finish(col, sum);
  }
}

// The same along one row, whose columns are those of seven rows, each shifted by one more.
template <class Element, class Finish>
ADO_INLINE void weigh_along(const GaussianBlur& p, const Element* row, int64_t begin, int64_t end,
                            Finish finish) {
  const Element* rows[kTaps];
  for (int i = 0; i < kTaps; ++i) rows[i] = row + i - kRadius;
  weigh(p, rows, begin, end, finish);
}

// Sums of seven bytes fit 16 bits, and those of 49 a float. So does their quotient, as far as its
// floor needs: if it is not whole, it is at least 2^-16 below the next whole number, and rounding
// moves what is below 256 by 2^-17 at most.
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

using Sum = std::uint16_t;

void two_pass(const GaussianBlur& p, const Launch& go) {
  auto* const sums = reinterpret_cast<Sum*>(go.scratch);
  const Sum zeros[kStrip] = {};
  const Quotient quotient(p);
  for (int64_t i = 0; i < p.images(); ++i) {
    const Image gray = image_of(p.gray, i), out = image_of(p.out, i);
    for_each_band(1, p.rows(), p.cols(), 0, 1, [&](const Band& band) {
      auto pixels = rows_of(gray, p.border, band, kRadius);
      pixels.row = band.top;
      alignas(kLine) Pixel line[kPitch];
      for (int64_t row = band.top; row < band.bottom; ++row) {
        pixels.next(line + kMargin);
        Sum* to = sums + row * p.cols() + band.left;
        weigh_along(p, line + kMargin, 0, band.width(),
                    [&](int64_t col, int sum) { to[col] = static_cast<Sum>(sum); });
      }
    });
    for_each_band(1, p.rows(), p.cols(), 0, 1, [&](const Band& band) {
      Pixel line[kStrip];
      for (int64_t row = band.top; row < band.bottom; ++row) {
        const Sum* rows[kTaps];
        for (int tap = 0; tap < kTaps; ++tap) {
          const int64_t from = inside(p.border, row + tap - kRadius, p.rows());
          rows[tap] = from < 0 ? zeros : sums + from * p.cols() + band.left;
        }
        weigh(p, rows, 0, band.width(), [&](int64_t col, int sum) { line[col] = quotient(sum); });
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

// ------------------------------------------------------------------------------------- row by row

// Any taps. Down the columns first, so that the sums to be kept are those of one row.
struct AnyTapsRow {
  const GaussianBlur& p;
  Quotient quotient{p};

  ADO_INLINE void operator()(const Pixel* const (&rows)[kTaps], int64_t begin, int64_t end,
                             Pixel* to, Ahead) const {
    Sum sums[kPitch];
    weigh(p, rows, begin - kRadius, end + kRadius,
          [&](int64_t col, int sum) { sums[kMargin + col] = static_cast<Sum>(sum); });
    weigh_along(p, sums + kMargin, begin, end,
                [&](int64_t col, int sum) { to[col] = quotient(sum); });
  }
};

template <class Row>
ADO_INLINE void blur_share(const GaussianBlur& p, const Row& blur_row, int thread, int threads,
                           bool streaming) {
  Ring<8> ring;
  for_each_band(p.images(), p.rows(), p.cols(), thread, threads, [&](const Band& band) {
    auto gray = rows_of(image_of(p.gray, band.image), p.border, band, kRadius);
    Stencil<kRadius, decltype(gray), Row> blur{gray, ring, blur_row, 0, band.width()};
    put_rows(image_of(p.out, band.image), band, blur, streaming);
  });
  if (streaming) finish_streaming();
}

void row_ring(const GaussianBlur& p, const Launch&) { blur_share(p, AnyTapsRow{p}, 0, 1, false); }

void vector_share(const GaussianBlur& p, int thread, int threads, bool streaming) {
  if (p.default_taps())
    blur_share(p, BlurRow{}, thread, threads, streaming);
  else
    blur_share(p, AnyTapsRow{p}, thread, threads, streaming);
}

void simd(const GaussianBlur& p, const Launch&) { vector_share(p, 0, 1, false); }

void threaded(const GaussianBlur& p, const Launch&) {
  const int64_t bytes = 2 * p.out.bytes();
  in_parallel(threads_for(p.default_taps() ? bytes : 4 * bytes), [&](int thread, int threads) {
    vector_share(p, thread, threads, worth_streaming(bytes));
  });
}

constexpr Variant<GaussianBlur> kVariants[] = {
    stream_copy_row<GaussianBlur>(),
    {.name = "textbook", .changes = "Adds up 49 products for every pixel.", .run = textbook},
    {.name = "two_pass",
     .changes = "Sums along the rows first, into an image of their own, then down its columns.",
     .scratch_bytes = sums_bytes,
     .bytes = bytes_with_sums,
     .run = two_pass},
    {.name = "row_ring",
     .changes =
         "Sums down the columns first, one row at a time, so that all stays in the L1 cache.",
     .run = row_ring},
    {.name = "simd",
     .changes = "Adds shifted vector registers of 16-bit sums, without a product along the row.",
     .run = simd},
    {.name = "threaded",
     .changes =
         "Shares the rows out over the cores; an output larger than the cache is written past it.",
     .run = threaded},
};

}  // namespace

Ladder<GaussianBlur> gaussian_blur_ladder() { return ladder_of(kVariants); }

}  // namespace ado::ADO_ISA
