// Images in bands of rows: the rows' way from arrays with any strides into padded rows in L1,
// through stencils, and out again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/array.hpp"
#include "core/isa.hpp"
#include "core/variant.hpp"
#include "cpu/common/streaming.hpp"
#include "cpu/common/vectors.hpp"
#include "routines/gaussian_blur.hpp"

namespace ado::ADO_ISA {
namespace {

using Pixel = std::uint8_t;

// ------------------------------------------------------------------------------------------ images

// One image of a batch. The strides are in bytes; to_channel is of colour images only.
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

// The row or column to take for one outside of 0 to length - 1, or -1 for zeros.
ADO_INLINE int64_t inside(Border border, int64_t i, int64_t length) {
  if (i >= 0 && i < length) return i;
  if (border == Border::kConstant) return -1;
  if (border == Border::kReplicate || length == 1) return i < 0 ? 0 : length - 1;
  while (i < 0 || i >= length) i = i < 0 ? -i : 2 * (length - 1) - i;
  return i;
}

// ------------------------------------------------------------------------------------------- bands

// A part of one image that one thread computes from the top down.
struct Band {
  int64_t image, top, bottom, left, right;
  int64_t width() const { return right - left; }
};

// No band is wider, so that the rows that a stencil needs at a time stay in the L1 cache: eleven of
// them in the fused edge detection, and a row of colours. It is 1.1 times as fast as with 4096.
constexpr int64_t kStrip = 2048;

// This thread's share of the rows of all strips of all images, whatever their shape.
template <class Work>
ADO_INLINE void for_each_band(int64_t images, int64_t rows, int64_t cols, int thread, int threads,
                              Work work) {
  const int64_t strips = (cols + kStrip - 1) / kStrip;
  const int64_t all = images * strips * rows;
  int64_t at = all * thread / threads;
  for (const int64_t end = all * (thread + 1) / threads; at < end;) {
    const int64_t strip = at / rows, top = at % rows, left = strip % strips * kStrip;
    const Band band{strip / strips, top, min(top + end - at, rows), left, min(left + kStrip, cols)};
    work(band);
    at += band.bottom - band.top;
  }
}

// A row in L1. Vectors may begin kMargin before the band's first column and end as far behind its
// last, so that only the copies into such rows need to care for the image's edges. The pitch is an
// odd number of lines, lest the rows of a ring fall on the same cache sets.
constexpr int64_t kMargin = 2 * kLine;
constexpr int64_t kPitch = kMargin + kStrip + kMargin + kLine;
static_assert(kPitch / kLine % 2 == 1);

template <int kRows>
class Ring {
 public:
  static_assert((kRows & (kRows - 1)) == 0);
  // Where the band's first column is in the i-th row, which replaces row i - kRows.
  ADO_INLINE Pixel* row(int64_t i) { return rows_[i & (kRows - 1)] + kMargin; }

 private:
  alignas(kLine) Pixel rows_[kRows][kPitch] = {};
};

// ------------------------------------------------------------------------------------------ stages

// Memory that is to be read soon. A kernel sends for a little of it with each vector, so that
// memory is not idle during the arithmetic. At 3840x2160 this makes the fused edge detection 1.25
// times as fast as sending for the next row while one is read, and that 1.3 times as fast as no
// prefetch (Zen 5, 2 cores, AVX-512); with narrower vectors, which leave more time, it is the same.
struct Ahead {
  const std::byte* at;
  int64_t bytes;

  ADO_INLINE void fetch_some() {
    constexpr int kLines = kWidth < kLine ? 1 : 2;  // four bytes a pixel, for one of two kernels
    for (int i = 0; i < kLines && bytes > 0; ++i, at += kLine, bytes -= kLine)
      __builtin_prefetch(at);
  }
};

// A stage gives a band's rows one after another, the first some rows above the band: next(to)
// writes one, with some columns more than the band has on either side. ahead(parts) is one of so
// many equal parts of what is left to be sent for before the next row is read.

// The rows of an image, and what lies outside of it. `fill(row, begin, count, to)` is for the
// pixels inside.
template <class Fill>
struct RowsOf {
  Image image;
  Fill fill;
  Border border;
  Band band;
  int64_t reach;  // so many rows and columns more
  int64_t row = band.top - reach;
  Ahead soon = {};

  ADO_INLINE Ahead ahead(int parts) {
    const Ahead part{soon.at, soon.bytes / parts};
    soon = {part.at + part.bytes, soon.bytes - part.bytes};
    return part;
  }
  ADO_INLINE void next(Pixel* to) {
    const int64_t from = inside(border, row++, image.rows);
    if (from < 0) {
      std::memset(to - reach, 0, band.width() + 2 * reach);
      return;
    }
    const int64_t begin = max(band.left - reach, 0), end = min(band.right + reach, image.cols);
    fill(from, begin, end - begin, to + begin - band.left);
    const auto mend = [&](int64_t col) {
      const int64_t as = inside(border, col, image.cols);
      to[col - band.left] = as < 0 ? 0 : to[as - band.left];
    };
    for (int64_t col = band.left - reach; col < begin; ++col) mend(col);
    for (int64_t col = end; col < band.right + reach; ++col) mend(col);
    // Only where the pixels lie close together.
    if (row < image.rows && image.to_col >= 1 && image.to_col <= 4)
      soon = {image.at(row, begin), (end - begin) * image.to_col};
  }
};

// What a kernel makes of each row of the stage above and the kRadius rows on either side of it. Of
// the row that it writes, kernel(rows, begin, end, to, ahead) may spoil what is outside begin to
// end as far as a vector reaches.
template <int kRadius, class Above, class Kernel>
struct Stencil {
  static constexpr int kRows = 2 * kRadius + 1;
  using Rows = Ring<kRadius == 1 ? 4 : 8>;
  static_assert(kRadius <= 3);

  Above& above;
  Rows& ring;
  Kernel kernel;
  int64_t begin, end;  // the columns to be computed, from the band's first
  int parts = 1;       // sends for one of so many parts of what comes next
  int64_t read = 0;

  ADO_INLINE Ahead ahead(int more) { return above.ahead(more); }
  ADO_INLINE void next(Pixel* to) {
    while (read < kRows - 1) above.next(ring.row(read++));
    above.next(ring.row(read++));
    const Pixel* rows[kRows];
    for (int i = 0; i < kRows; ++i) rows[i] = ring.row(read - kRows + i);
    kernel(rows, begin, end, to, above.ahead(parts));
  }
};

// Of a stage that reaches one pixel outside the image, zeros instead.
template <class Above>
struct ZeroOutside {
  Above& above;
  int64_t rows, cols;
  Band band;
  int64_t row = band.top - 1;

  ADO_INLINE Ahead ahead(int parts) { return above.ahead(parts); }
  ADO_INLINE void next(Pixel* to) {
    above.next(to);
    if (row < 0 || row >= rows) std::memset(to - 1, 0, band.width() + 2);
    if (band.left == 0) to[-1] = 0;
    if (band.right == cols) to[band.width()] = 0;
    ++row;
  }
};

// --------------------------------------------------------------------------------------- both ends

// A stage of the rows of an image, packed whatever its strides.
ADO_INLINE auto rows_of(const Image& image, Border border, const Band& band, int64_t reach) {
  const auto fill = [image](int64_t row, int64_t begin, int64_t count, Pixel* to) {
    const std::byte* from = image.at(row, begin);
    if (image.to_col == 1) {
      std::memcpy(to, from, count);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Pixel>(from[i * image.to_col]);
    }
  };
  return RowsOf<decltype(fill)>{image, fill, border, band, reach};
}

// Whether images of so many bytes, inputs and output, are written past the cache. At 3840x2160 that
// makes blur and Sobel 1.4 to 1.6 times as fast on one thread (Zen 5, L3 of 32 MiB); at 1920x1080,
// colours to gray are 6 % slower with it.
ADO_INLINE bool worth_streaming(int64_t bytes_moved) { return bytes_moved >= 12 << 20; }

// Writes a finished row of a band.
ADO_INLINE void put_row(const Image& out, int64_t row, const Band& band, const Pixel* from,
                        bool streaming) {
  std::byte* to = out.at(row, band.left);
  if (out.to_col != 1) {
    for (int64_t i = 0; i < band.width(); ++i) to[i * out.to_col] = std::byte{from[i]};
  } else if (streaming) {
    stream(to, reinterpret_cast<const std::byte*>(from), band.width());
  } else {
    std::memcpy(to, from, band.width());
  }
}

// Writes all rows of a band.
template <class Stage>
ADO_INLINE void put_rows(const Image& out, const Band& band, Stage& stage, bool streaming) {
  alignas(kLine) Pixel line[kPitch];
  for (int64_t row = band.top; row < band.bottom; ++row) {
    stage.next(line + kMargin);
    put_row(out, row, band, line + kMargin, streaming);
  }
}

// The ceiling of a filter that reads and writes one image.
template <class Filter>
void copy_image(const Filter& p, const Launch&) {
  stream_copy(p.out.data, p.gray.data, p.out.bytes());
}
template <class Filter>
const char* copy_refuses(const Filter& p) {
  if (!p.gray.packed()) return "needs packed gray";
  if (!p.out.packed()) return "needs packed out";
  return nullptr;
}
template <class Filter>
constexpr Variant<Filter> stream_copy_row() {
  return {.name = "stream_copy",
          .changes = "Moves the bytes straight across, with all threads and past the cache.",
          .ceiling = true,
          .why_not = copy_refuses<Filter>,
          .run = copy_image<Filter>};
}

}  // namespace
}  // namespace ado::ADO_ISA
