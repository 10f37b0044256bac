// Applies stencils row by row. Rows of gray images with any strides are copied to padded rows in
// the L1 cache, processed by a kernel, and written to the output.
#pragma once

#include "cpu/common/ceilings.hpp"
#include "cpu/common/strided.hpp"
#include "routines/gaussian_blur.hpp"

namespace ado::ADO_ISA {
namespace {

using Pixel = std::uint8_t;

// One 8-bit image of a batch. Strides are in bytes. to_channel and channels are meaningful for
// colour images only.
struct Image {
  std::byte* data;
  int64_t rows, cols;
  int64_t to_row, to_col, to_channel;
  int64_t channels;

  std::byte* at(int64_t row, int64_t col) const { return data + row * to_row + col * to_col; }
  Pixel& pixel(int64_t row, int64_t col) const { return *reinterpret_cast<Pixel*>(at(row, col)); }
};

ADO_INLINE Image image_of(const Array& a, int64_t i) {
  const int row = a.rank - 2, col = a.rank - 1;
  return {a.slice(2, i), a.shape[row], a.shape[col], a.stride[row], a.stride[col], 0, 1};
}
ADO_INLINE Image colour_image_of(const Array& a, int64_t i) {
  const int row = a.rank - 3, col = a.rank - 2, channel = a.rank - 1;
  return {a.slice(3, i), a.shape[row],      a.shape[col],    a.stride[row],
          a.stride[col], a.stride[channel], a.shape[channel]};
}

// The row (or column) of an image with `length` rows that replaces row i, if row i is outside the
// image. -1 if zeros replace it.
ADO_INLINE int64_t source_index(Border border, int64_t i, int64_t length) {
  if (i >= 0 && i < length) return i;
  if (border == Border::kConstant) return -1;
  if (border == Border::kReplicate || length == 1) return i < 0 ? 0 : length - 1;
  while (i < 0 || i >= length) i = i < 0 ? -i : 2 * (length - 1) - i;
  return i;
}

// A rectangle of one image that one thread computes from top to bottom.
struct Band {
  int64_t image, top, bottom, left, right;
  int64_t width() const { return right - left; }
};

// Order of magnitude of the time per row of a band.
constexpr int64_t kRowNanoseconds = 2'000;

// Maximum width of a band, so that the rows that a stencil needs at the same time stay in the L1
// cache.
constexpr int64_t kBandWidth = 2048;

// Divides images into columns of bands of similar widths, at most kMaxWidth. Bands begin at
// multiples of a cache line. Calls work(band) for this thread's share of the rows of all columns of
// all images. All threads have equal shares, for images of any shape.
template <int64_t kMaxWidth = kBandWidth, class Work>
ADO_INLINE void for_each_band(int64_t images, int64_t rows, int64_t cols, int thread, int threads,
                              Work work) {
  const int64_t lines = (cols + kLine - 1) / kLine, columns = (cols + kMaxWidth - 1) / kMaxWidth;
  const auto left_of = [&](int64_t column) { return min(column * lines / columns * kLine, cols); };
  const int64_t all = images * columns * rows;
  int64_t at = all * thread / threads;
  for (const int64_t end = all * (thread + 1) / threads; at < end;) {
    const int64_t at_column = at / rows, top = at % rows, column = at_column % columns;
    const Band band{at_column / columns, top, min(top + end - at, rows), left_of(column),
                    left_of(column + 1)};
    work(band);
    at += band.bottom - band.top;
  }
}

// Returns true if non-temporal stores are worthwhile for this number of bytes of inputs and output.
// For 3840x2160 pixels, they make blur and Sobel 1.4 to 1.6 times as fast on one thread (Zen 5, L3
// of 32 MiB). For 1920x1080 pixels, they make grayscale 6 % slower.
ADO_INLINE bool worth_streaming(int64_t bytes_moved) { return bytes_moved >= 12 << 20; }

// Writes a finished row of a band.
ADO_INLINE void put_row(const Image& out, int64_t row, const Band& band, const Pixel* from,
                        bool streaming) {
  scatter(from, band.width(), out.at(row, band.left), out.to_col, streaming);
}

// Returns the magnitudes of gradients, rounded down. Every n = x^2 + y^2 is below 2^24, so a float
// represents it exactly. The square root r of n is at least 1 / (2 r + 2) below the next integer.
// Rounding changes r by at most r 2^-24, which is too little to reach that integer, because r is
// below 2^11.
ADO_INLINE Int16s magnitude_by_root(Uint16s x, Uint16s y) {
  constexpr VectorOf<2, kWidth>::Indices kIndices;
  const auto root = [](Uint16s pairs) __attribute__((always_inline)) {
    const auto both = reinterpret_cast<Int16s>(pairs);
    const Floats squared = __builtin_convertvector(multiply_add(both, both), Floats);
    return __builtin_convertvector(square_root(squared), Int32s);
  };
  return narrow(root(interleave<2, false>(x, y, kIndices)),
                root(interleave<2, true>(x, y, kIndices)));
}

// ---- naive_loops, interior ----------------------------------------------------------------------
// Order of magnitude of the time per pixel, if pixels are computed one at a time.
constexpr int64_t kPixelNanoseconds = 20;

// Calls interior(row, col) for the pixels whose neighbours up to `radius` away are all inside the
// image, and border(row, col) for all other pixels.
template <class AtBorder, class InInterior>
ADO_INLINE void for_each_pixel(int64_t rows, int64_t cols, int64_t radius, AtBorder border,
                               InInterior interior) {
  Checkpoints checkpoints;
  const auto for_each = [&](int64_t row, int64_t begin, int64_t end, const auto& pixel) {
    checkpoints.in_pieces<kPixelNanoseconds>(begin, end, [&](int64_t from, int64_t to) {
      for (int64_t col = from; col < to; ++col) pixel(row, col);
    });
  };
  for (int64_t row = 0; row < rows; ++row) {
    const bool inner_row = row >= radius && row < rows - radius;
    const int64_t begin = inner_row ? min(radius, cols) : cols;
    const int64_t end = max(begin, cols - radius);
    for_each(row, 0, begin, border);
    for_each(row, begin, end, interior);
    for_each(row, end, cols, border);
  }
}

// ---- auto_vectorised, two_pass, row_ring, constant_taps, simd, padded_rows, separable -----------
// Layout of a padded row:
//
//   | kMargin | the band, up to kBandWidth | kMargin | one line |
//
// Vectors may start kMargin before the band's first column and end kMargin after its last one, so
// only the copies into padded rows handle the image's border. The pitch is an odd number of cache
// lines, so that the rows of a ring do not compete for the same cache sets.
constexpr int64_t kMargin = 2 * kLine;
constexpr int64_t kPitch = kMargin + kBandWidth + kMargin + kLine;
static_assert(kPitch / kLine % 2 == 1);

template <int kSize>
class Ring {
 public:
  static_assert((kSize & (kSize - 1)) == 0);
  // The band's first column in the i-th row, which replaces row i - kSize.
  ADO_INLINE Pixel* row(int64_t i) { return rows_[i & (kSize - 1)] + kMargin; }

 private:
  alignas(kLine) Pixel rows_[kSize][kPitch] = {};
};

// Memory that will be read soon. Kernels prefetch one cache line of it per vector, so that memory
// accesses overlap with the arithmetic.
struct Ahead {
  const std::byte* at;
  int64_t bytes;

  ADO_INLINE void fetch_some() {
    if (bytes <= 0) return;
    __builtin_prefetch(at);
    at += kLine;
    bytes -= kLine;
  }
};

// Reads the rows of a band from top to bottom, starting `reach` rows above the band, and extends
// them beyond the border of the image.
struct ImageRows {
  Image image;
  Border border;
  Band band;
  int64_t reach;  // extra rows and columns on each side
  int64_t row = band.top - reach;
  Ahead soon = {};  // the next row

  // Reads the next row, with the extra columns on either side.
  ADO_INLINE void next(Pixel* to) {
    const int64_t from = source_index(border, row++, image.rows);
    if (from < 0) {
      std::memset(to - reach, 0, band.width() + 2 * reach);
      return;
    }
    const int64_t begin = max(band.left - reach, 0), end = min(band.right + reach, image.cols);
    const std::byte* const first = image.at(from, begin);
    if (image.to_col == 1)
      std::memcpy(to + begin - band.left, first, end - begin);
    else
      gather(first, image.to_col, end - begin, to + begin - band.left);
    const auto extend = [&](int64_t col) {
      const int64_t source = source_index(border, col, image.cols);
      to[col - band.left] = source < 0 ? 0 : to[source - band.left];
    };
    for (int64_t col = band.left - reach; col < begin; ++col) extend(col);
    for (int64_t col = end; col < band.right + reach; ++col) extend(col);
    // Prefetching is useful only if the pixels are close together.
    if (row < image.rows && image.to_col == 1) soon = {image.at(row, begin), end - begin};
  }
};

// Applies a kernel to each row of a band, with the kRadius rows above and below it. kernel(rows,
// begin, end, to, ahead) may overwrite pixels of its output row outside [begin, end), up to one
// vector away.
template <int kRadius, class Kernel>
struct Stencil {
  static constexpr int kHeight = 2 * kRadius + 1;
  using InputRing = Ring<kRadius == 1 ? 4 : 8>;
  static_assert(kRadius <= 3);

  ImageRows above;
  InputRing& ring;
  Kernel kernel;
  int64_t read = 0;

  ADO_INLINE void next(Pixel* to) {
    while (read < kHeight - 1) above.next(ring.row(read++));
    above.next(ring.row(read++));
    const Pixel* rows[kHeight];
    for (int i = 0; i < kHeight; ++i) rows[i] = ring.row(read - kHeight + i);
    kernel(rows, 0, above.band.width(), to, above.soon);
  }
};

// Computes this thread's share of a filter of gray images.
template <int kRadius, class Filter, class Kernel>
ADO_INLINE void filter_share(const Filter& p, Border border, const Kernel& kernel, int thread = 0,
                             int threads = 1, bool streaming = false) {
  Ring<kRadius == 1 ? 4 : 8> ring;
  Checkpoints checkpoints;
  for_each_band(p.images(), p.rows(), p.cols(), thread, threads, [&](const Band& band) {
    Stencil<kRadius, Kernel> stencil{
        {image_of(p.gray, band.image), border, band, kRadius}, ring, kernel};
    const Image out = image_of(p.out, band.image);
    alignas(kLine) Pixel line[kPitch];
    for (int64_t row = band.top; row < band.bottom; ++row) {
      checkpoints.add(kRowNanoseconds + touch_nanoseconds(out.to_row));
      stencil.next(line + kMargin);
      put_row(out, row, band, line + kMargin, streaming);
    }
  });
  if (streaming) finish_streaming();
}

// ---- stream_copy --------------------------------------------------------------------------------
// The ceiling of a filter that reads and writes one image.
template <class Filter>
void copy_image(const Filter& p, const Launch&) {
  stream_copy(p.out.data, p.gray.data, p.out.bytes());
}
template <class Filter>
const char* copy_why_not(const Filter& p) {
  if (!p.gray.packed()) return "gray is not packed";
  if (!p.out.packed()) return "out is not packed";
  return nullptr;
}
template <class Filter>
constexpr Variant<Filter> stream_copy_variant() {
  return {.name = "stream_copy",
          .changes = "Copies the bytes with all threads and non-temporal stores.",
          .ceiling = true,
          .why_not = copy_why_not<Filter>,
          .run = copy_image<Filter>};
}

}  // namespace
}  // namespace ado::ADO_ISA
