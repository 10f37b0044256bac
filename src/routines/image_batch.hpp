// Batches of gray images. A colour image has the shape of a batch of images with three or four
// columns, so the filters of gray images reject such a batch unless the caller confirms it.
#pragma once

#include "core/operand.hpp"

namespace ado {

inline constexpr Option kBatchOption{
    "batch",
    "Whether ``gray`` may be a batch of images with 3 or 4 columns. Without it, an array with "
    "three or more dimensions and a last axis of 3 or 4 is rejected, because a colour image has "
    "this shape."};

// Returns the reason why `gray` is rejected, or nullptr.
constexpr const char* why_not_gray(const Array& gray, bool batch) {
  if (batch || gray.rank < 3) return nullptr;
  const std::int64_t cols = gray.shape[gray.rank - 1];
  if (cols != 3 && cols != 4) return nullptr;
  return "gray must be (..., rows, cols) with one channel: it looks like a colour image, so "
         "convert it with ado.grayscale, or pass batch=True if it is a batch of images with 3 or 4 "
         "columns";
}

}  // namespace ado
