// Sobel gradients on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/sobel.hpp"

#include "core/isa.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/common/streaming.hpp"
#include "cpu/image/rows.hpp"
#include "cpu/image/view.hpp"

namespace ado::ADO_ISA {
namespace {

ADO_INLINE Pixel magnitude_of(int x, int y) {
  const int root = static_cast<int>(__builtin_sqrtf(static_cast<float>(x * x + y * y)));
  return static_cast<Pixel>(min(root, UINT8_MAX));
}

void textbook(const Sobel& p, const Launch&) {
  for (int64_t i = 0; i < p.images(); ++i) {
    const Image gray = image_of(p.gray, i), out = image_of(p.out, i);
    for (int64_t row = 0; row < p.rows(); ++row) {
      for (int64_t col = 0; col < p.cols(); ++col) {
        const auto at = [&](int down, int right) {
          const int64_t r = row + down, c = col + right;
          return r < 0 || c < 0 || r >= p.rows() || c >= p.cols() ? 0 : int{gray.pixel(r, c)};
        };
        const int x = at(-1, 1) - at(-1, -1) + 2 * (at(0, 1) - at(0, -1)) + at(1, 1) - at(1, -1);
        const int y = at(1, -1) - at(-1, -1) + 2 * (at(1, 0) - at(-1, 0)) + at(1, 1) - at(-1, 1);
        out.pixel(row, col) = magnitude_of(x, y);
      }
    }
  }
}

// First down the columns, then along the row.
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

template <class Row>
ADO_INLINE void sobel_share(const Sobel& p, int thread, int threads, bool streaming) {
  Ring<4> ring;
  for_each_band(p.images(), p.rows(), p.cols(), thread, threads, [&](const Band& band) {
    auto gray = rows_of(image_of(p.gray, band.image), Border::kConstant, band, 1);
    Stencil<1, decltype(gray), Row> sobel{gray, ring, {}, 0, band.width()};
    put_rows(image_of(p.out, band.image), band, sobel, streaming);
  });
  if (streaming) finish_streaming();
}

template <class Row>
void on_one_thread(const Sobel& p, const Launch&) {
  sobel_share<Row>(p, 0, 1, false);
}

void threaded(const Sobel& p, const Launch&) {
  // Takes about as long as moving twice the bytes.
  in_parallel(threads_for(4 * p.out.bytes()), [&](int thread, int threads) {
    sobel_share<SobelRow>(p, thread, threads, worth_streaming(2 * p.out.bytes()));
  });
}

constexpr Variant<Sobel> kVariants[] = {
    stream_copy_row<Sobel>(),
    {.name = "textbook", .changes = "Eight neighbours for every pixel.", .run = textbook},
    {.name = "separable",
     .changes = "First down the columns, each once for three pixels, then along the row.",
     .run = on_one_thread<SeparableRow>},
    {.name = "simd",
     .changes = "Does so in vector registers, roots included.",
     .run = on_one_thread<SobelRow>},
    {.name = "threaded",
     .changes =
         "Shares the rows out over the cores; an output larger than the cache is written past it.",
     .run = threaded},
};

}  // namespace

Ladder<Sobel> sobel_ladder() { return ladder_of(kVariants); }

}  // namespace ado::ADO_ISA
