// Engine: the rows of images of any strides and border for sliding_window.hpp, and where its
// results are stored.
#pragma once

#include "cpu/image/sliding_window.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- vector_columns, streaming, threaded, fused_bands -------------------------------------------
// Provides the rows of a block of a gray image, extended by kRadius columns beyond its border. Rows
// with contiguous pixels are read in place, and only the vectors at the border are copied.
template <int kRadius>
class GrayRows {
 public:
  ADO_INLINE GrayRows(const Image& image, Border border, const Band& band)
      : image_(image), border_(border), band_(band) {
    for (int i = 0; i < kRadius; ++i) {
      before_[i] = source_index(border, i - kRadius, image.cols);
      after_[i] = source_index(border, image.cols + i, image.cols);
    }
  }

  ADO_INLINE const WindowRow* read(int64_t row, int64_t count) {
    const bool in_place = image_.to_col == 1 && band_.width() >= kWidth + 2 * kRadius;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t from = source_index(border_, row + i, image_.rows);
      if (from < 0)
        rows_[i] = WindowRow::padded(kZeros + kLine, band_.width());
      else if (in_place)
        rows_[i] = extended_at_edges(&image_.pixel(from, 0), i);
      else
        rows_[i] = extended(from, i);
    }
    return rows_;
  }

 private:
  // Copies at the border have kWidth columns and kRadius columns on either side. kInside of these
  // columns are inside the image.
  static constexpr int kInside = kWidth + kRadius;
  static constexpr int kEdge = kWidth + kLine;

  ADO_INLINE WindowRow extended_at_edges(const Pixel* row, int64_t i) {
    WindowRow at = WindowRow::padded(row + band_.left, band_.width());
    if (band_.left == 0) {
      Pixel* const edge = left_[i];
      std::memcpy(edge + kRadius, row, kInside);
      for (int k = 0; k < kRadius; ++k) edge[k] = before_[k] < 0 ? 0 : row[before_[k]];
      at.first = edge + kRadius;
    }
    if (band_.right == image_.cols) {
      Pixel* const edge = right_[i];
      std::memcpy(edge, row + image_.cols - kInside, kInside);
      for (int k = 0; k < kRadius; ++k) edge[kInside + k] = after_[k] < 0 ? 0 : row[after_[k]];
      at.last = edge + kRadius;
    }
    return at;
  }

  ADO_INLINE WindowRow extended(int64_t row, int64_t i) {
    Pixel* const to = buffer_.row(i);
    const int64_t begin = max(band_.left - kRadius, 0);
    const int64_t end = min(band_.right + kRadius, image_.cols);
    const std::byte* from = image_.at(row, begin);
    if (image_.to_col != 1) {
      if (band_.width() < kWidth) std::memset(to, 0, kWidth + kRadius);
      gather(from, image_.to_col, end - begin, to + begin - band_.left);
    } else if (image_.to_row >= image_.cols &&
               (image_.rows - 1 - row) * image_.to_row + image_.cols >= kWidth + 2 * kRadius) {
      // The image is narrower than the copy, which also reads bytes of the rows below.
      std::memcpy(to, from, kWidth + 2 * kRadius);
    } else {
      if (band_.width() < kWidth) std::memset(to, 0, kWidth + kRadius);
      std::memcpy(to, from, image_.cols);
    }
    const auto outside = [&](int64_t source) {
      return source < 0 ? Pixel{0} : image_.pixel(row, source);
    };
    if (band_.left == 0)
      for (int k = 0; k < kRadius; ++k) to[k - kRadius] = outside(before_[k]);
    if (band_.right == image_.cols)
      for (int k = 0; k < kRadius; ++k) to[band_.width() + k] = outside(after_[k]);
    return WindowRow::padded(to, band_.width());
  }

  const Image image_;
  const Border border_;
  const Band band_;
  int64_t before_[kRadius], after_[kRadius];  // columns that replace columns outside the image
  WindowRow rows_[kBlockRows];
  alignas(kLine) Pixel left_[kBlockRows][kEdge];
  alignas(kLine) Pixel right_[kBlockRows][kEdge];
  RowBuffer buffer_;
};

// Destination of the rows of a band. Rows are stored directly in the image if its pixels are
// contiguous, stores are ordinary and the band has at least kWidth columns. Otherwise, they are
// stored in a buffer and copied from there.
class OutputRows {
 public:
  ADO_INLINE OutputRows(const Image& out, const Band& band, bool streaming)
      : out_(out),
        band_(band),
        streaming_(streaming),
        in_place_(out.to_col == 1 && !streaming && band.width() >= kWidth),
        row_(band.top) {}

  ADO_INLINE Pixel* to() { return in_place_ ? &out_.pixel(row_, band_.left) : buffer_.row(0); }
  ADO_INLINE int64_t pitch() const { return in_place_ ? out_.to_row : kWindowPitch; }
  ADO_INLINE void put(int64_t count) {
    if (!in_place_)
      for (int64_t i = 0; i < count; ++i) put_one(row_ + i, buffer_.row(i));
    row_ += count;
  }

 private:
  ADO_INLINE void put_one(int64_t row, const Pixel* from) const {
    if (out_.to_col == 1 && band_.width() < kWidth)
      return copy_short(out_.at(row, band_.left), reinterpret_cast<const std::byte*>(from),
                        band_.width());
    put_row(out_, row, band_, from, streaming_);
  }

  const Image out_;
  const Band band_;
  const bool streaming_, in_place_;
  int64_t row_;
  RowBuffer buffer_;
};

// Exchanges rows and columns of images narrower than kNarrow. The filters are symmetric, so only
// the addresses change. A row of a narrow image takes as long as a whole vector, 15 to 25 ns. If
// rows and columns are exchanged, each of its pixels takes 1 to 1.5 ns, or 0.5 ns if pixels are
// packed (blur and Sobel, AVX2, Emerald Rapids).
constexpr int64_t kNarrow = 12;

template <class Filter>
ADO_INLINE Filter with_long_rows(const Filter& p, Array Filter::*input) {
  Filter q = p;
  if (p.cols() >= min(kNarrow, p.rows())) return q;
  const auto transpose = [](Array& a, int col) {
    const int64_t length = a.shape[col], stride = a.stride[col];
    a.shape[col] = a.shape[col - 1];
    a.stride[col] = a.stride[col - 1];
    a.shape[col - 1] = length;
    a.stride[col - 1] = stride;
  };
  transpose(q.*input, p.out.rank - 1);
  transpose(q.out, p.out.rank - 1);
  return q;
}

// Returns the executed FLOPs of the magnitudes of all bands: one per square root, or three per
// estimate (the estimate, a product and a sum), which is two per pixel on average.
template <class Filter, Array Filter::*kInput>
double flops_of_windows(const Filter& given) {
  const Filter p = with_long_rows(given, kInput);
  int64_t pixels_of_row = 0;
  for_each_band<kWindowWidth>(1, 1, p.cols(), 0, 1, [&](const Band& band) {
    pixels_of_row += vector_columns(band.width()) * kWidth;
  });
  return 2.0 * static_cast<double>(p.images() * p.rows() * pixels_of_row);
}

// Order of magnitude of the time for kBlockRows rows of a band.
ADO_INLINE int64_t block_nanoseconds(const Array& out) {
  return kRowNanoseconds + kBlockRows * touch_nanoseconds(out.stride[out.rank - 2]);
}

// Computes this thread's share of a filter of gray images.
template <class Kernel, class Filter>
ADO_INLINE void window_share(const Filter& given, Border border, int thread, int threads,
                             bool streaming) {
  const Filter p = with_long_rows(given, &Filter::gray);
  constexpr int kRadius = Kernel::kRadius;
  SlidingWindow<Kernel, 1> window;
  Checkpoints checkpoints;
  for_each_band<kWindowWidth>(
      p.images(), p.rows(), p.cols(), thread, threads, [&](const Band& band) {
        const Image image = image_of(p.gray, band.image);
        GrayRows<kRadius> gray(image, border, band);
        OutputRows out(image_of(p.out, band.image), band, streaming);
        int64_t begin = band.top - kRadius;
        if (border == Border::kConstant) begin = max(begin, 0);  // rows of zeros need not be added
        window.start(band.width(), band.top + kRadius - begin);
        const int64_t end = band.bottom + kRadius;
        const int64_t nanoseconds = block_nanoseconds(p.out);
        for (int64_t row = begin; row < end; row += kBlockRows) {
          checkpoints.add(nanoseconds);
          const int64_t count = min(kBlockRows, end - row);
          const NextBlock next{image.at(row + kBlockRows, band.left), image.to_row, image.to_col};
          out.put(window.add(gray.read(row, count), count, next, out.to(), out.pitch()));
        }
      });
  if (streaming) finish_streaming();
}

}  // namespace
}  // namespace ado::ADO_ISA
