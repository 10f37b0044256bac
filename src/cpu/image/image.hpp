// One 8-bit image of a batch, with any strides, and the pixels beyond its border.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/array.hpp"
#include "core/isa.hpp"
#include "cpu/common/checkpoints.hpp"
#include "cpu/common/parallel.hpp"
#include "routines/gaussian_blur.hpp"

namespace ado::ADO_ISA {
namespace {

using Pixel = std::uint8_t;

// Strides are in bytes. to_channel and channels are meaningful for colour images only.
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

// Time of a pixel that is computed alone; an order of magnitude.
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

}  // namespace
}  // namespace ado::ADO_ISA
