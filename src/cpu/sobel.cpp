// Sobel gradients on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/sobel.hpp"

#include "cpu/image/row_kernels.hpp"
#include "cpu/image/sliding_window.hpp"

namespace ado::ADO_ISA {
namespace {

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

// One output pixel, with a border test for each neighbour.
ADO_INLINE Pixel gradient_at_border(const Sobel& p, const Image& gray, int64_t row, int64_t col) {
  return gradient([&](int down, int right) {
    const int64_t r = row + down, c = col + right;
    return r < 0 || c < 0 || r >= p.rows() || c >= p.cols() ? 0 : int{gray.pixel(r, c)};
  });
}

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

// Computes the gradient from all eight neighbours, in three padded rows.
struct FullWindowRow {
  void operator()(const Pixel* const (&rows)[3], int64_t begin, int64_t end, Pixel* to,
                  Ahead) const {
    for (int64_t col = begin; col < end; ++col)
      to[col] = gradient([&](int down, int right) { return int{rows[down + 1][col + right]}; });
  }
};

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

template <class Kernel>
void by_rows(const Sobel& p, const Launch&) {
  filter_share<1>(p, Border::kConstant, Kernel{});
}

template <bool kStreaming>
void by_windows(const Sobel& p, const Launch&) {
  window_share<SobelWindow>(p, Border::kConstant, 0, 1, kStreaming);
}

void threaded(const Sobel& p, const Launch&) {
  // The kernel takes about the time of moving twice its number of bytes.
  in_parallel(threads_for(4 * p.out.bytes()), [&](int thread, int threads) {
    window_share<SobelWindow>(p, Border::kConstant, thread, threads,
                              worth_streaming(2 * p.out.bytes()));
  });
}

// Executed FLOPs: one square root per pixel. All other operations are on integers.
double roots_of_pixels(const Sobel& p) { return static_cast<double>(p.out.elements()); }

constexpr Variant<Sobel> kVariants[] = {
    stream_copy_variant<Sobel>(),
    {.name = "naive_loops",
     .changes = "Loads eight neighbours per pixel, with a border test for each.",
     .flops = roots_of_pixels,
     .run = naive_loops},
    {.name = "interior",
     .changes = {"Tests for the border only at the outermost pixels.", Step::kDivergence},
     .flops = roots_of_pixels,
     .run = interior},
    {.name = "padded_rows",
     .changes = {"Copies the rows to contiguous buffers in the L1 cache, padded with zeros.",
                 Step::kDivergence},
     .flops = roots_of_pixels,
     .run = by_rows<FullWindowRow>},
    {.name = "separable",
     .changes = {"Sums down each column once for three output pixels, then along the row.",
                 Step::kOperations},
     .flops = roots_of_pixels,
     .run = by_rows<SeparableRow>},
    {.name = "simd",
     .changes = {"Vectorised, including the square root.", Step::kWider},
     .flops = roots_of_rows<Sobel>,
     .run = by_rows<SobelRow>},
    {.name = "vector_columns",
     .changes = {"Processes vector-wide columns from top to bottom and keeps the sums of earlier "
                 "rows in registers; computes every other square root from a hardware estimate.",
                 Step::kReuse, Step::kOperations},
     .flops = flops_of_windows<Sobel, &Sobel::gray>,
     .run = by_windows<false>},
    {.name = "streaming",
     .changes = {"Stores the output with non-temporal stores, which do not read cache lines first.",
                 Step::kDramReuse},
     .flops = flops_of_windows<Sobel, &Sobel::gray>,
     .run = by_windows<true>},
    {.name = "threaded",
     .changes = {"Splits the rows among threads; small images are stored with ordinary stores.",
                 Step::kParallelism},
     .flops = flops_of_windows<Sobel, &Sobel::gray>,
     .run = threaded},
};

}  // namespace

Ladder<Sobel> sobel_ladder() { return ladder_of(kVariants); }

}  // namespace ado::ADO_ISA
