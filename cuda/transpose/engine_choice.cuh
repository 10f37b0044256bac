// Transpose, engine: why a variant cannot solve a problem, and why another variant is faster. The
// default is the last variant that has neither reason.
#pragma once

#include <bit>

#include "transpose/element_steps.cuh"
#include "transpose/engine_index.cuh"
#include "transpose/engine_thin.cuh"
#include "transpose/engine_tiles.cuh"
#include "transpose/tma_step.cuh"

namespace ado::cuda {
namespace {

constexpr const char* kNotInPlace =
    "out is a, so blocks would overwrite elements that other blocks have not read yet; use "
    "`in_place`";
const char* why_not_elements(const Transpose& p) { return p.in_place() ? kNotInPlace : nullptr; }

// Crossover points, measured with L2 flushed: one per element size of 1, 2, 4, 8 and 16 bytes.
using PerSize = std::array<int, 5>;
int of_size(const Transpose& p, const PerSize& limits) {
  return with_size(p, [&](auto size) { return limits[std::countr_zero(unsigned{size})]; });
}

// Tiles of `coarsened` per multiprocessor, and the number from which larger tiles are faster.
double element_tiles(const Transpose& p, const Hardware& gpu) {
  return static_cast<double>(grid_over(p, kTile, kTile).volume()) /
         std::max(gpu.multiprocessors, 1);
}
constexpr Tuned<PerSize> kTilesForWide{.value = {24, 12, 12, 12, 12}, .device = "H200"};
constexpr Tuned<PerSize> kTilesForUnaligned{.value = {24, 28, 16, 10, 10}, .device = "H200"};
constexpr Tuned<int> kTilesForFew{.value = 8, .device = "H200"};

// Elements per multiprocessor up to which variants with a tile are slower, because they need a
// barrier between load and store.
constexpr Tuned<PerSize> kForNarrow{.value = {800, 800, 800, 0, 0}, .device = "H100"};
const char* why_slower_tile(const Transpose& p, const Hardware& gpu) {
  return p.a.elements() <= std::int64_t{of_size(p, kForNarrow.on(gpu))} * gpu.multiprocessors
             ? "a is small and latency dominates, so variants without a barrier are faster"
             : nullptr;
}

bool aligned_for_wide(const Transpose& p) {
  return rows_aligned(p.a, kVectorBytes) && rows_aligned(p.out, kVectorBytes);
}

constexpr const char* kSmallReason =
    "a is small, so the small tiles of `coarsened` keep more multiprocessors busy";
constexpr const char* kThinReason =
    "a has so few rows or columns that large tiles are mostly outside the matrix";

const char* why_not_wide(const Transpose& p) {
  if (p.in_place()) return kNotInPlace;
  return aligned_for_wide(p) ? nullptr : "rows are not aligned to 16 bytes";
}

// Rows or columns of 8-byte elements, and columns of 16-byte elements.
constexpr Tuned<std::int64_t> kThinSide{.value = 96, .device = "H200"};
constexpr Tuned<std::int64_t> kThinCols{.value = 48, .device = "H200"};

const char* why_slower_wide(const Transpose& p, const Hardware& gpu) {
  if (element_tiles(p, gpu) < of_size(p, kTilesForWide.on(gpu))) return kSmallReason;
  if (p.a.type.size == 8 && std::min(p.rows(), p.cols()) <= kThinSide.on(gpu)) return kThinReason;
  return p.a.type.size == 16 && p.cols() <= kThinCols.on(gpu) ? kThinReason : nullptr;
}

// Coordinates of boxes are 32-bit integers, and strides of tensor maps have 40 bits.
const char* why_not_tma(const Transpose& p) {
  if (const char* reason = why_not_wide(p)) return reason;
  constexpr std::int64_t kMaxCoordinate = (std::int64_t{1} << 31) - 1 - kBoxLine;
  return std::max(p.cols() * p.a.type.size, p.rows()) > kMaxCoordinate ||
                 p.a.stride[0] >= std::int64_t{1} << 40
             ? "rows are too many, too long or too far apart for a tensor map"
             : nullptr;
}

// Boxes are faster only if the problem is too small to be limited by DRAM and large enough for many
// blocks. The first limit is in bytes per multiprocessor.
constexpr Tuned<std::int64_t> kBytesForTma{.value = 112 << 10, .device = "H100"};
constexpr Tuned<std::int64_t> kSideForTma{.value = 512, .device = "H100"};
const char* why_slower_tma(const Transpose& p, const Hardware& gpu) {
  if (p.a.type.size != 4 && p.a.type.size != 16)
    return "only for elements of 4 and 16 bytes, `wide` was found to be slower";
  if (p.a.bytes() < kBytesForTma.on(gpu) * gpu.multiprocessors)
    return "a is small, so the smaller tiles of other variants keep more multiprocessors busy";
  if (std::min(p.rows(), p.cols()) < kSideForTma.on(gpu)) return kThinReason;
  return 2 * p.a.bytes() > gpu.l2_bytes
             ? "a and out together do not fit into L2, so that DRAM limits `wide` as well"
             : nullptr;
}

const char* why_slower_unaligned_rows(const Transpose& p, const Hardware& gpu) {
  if (rows_aligned(p.a, kVectorBytes) && rows_aligned(p.out, kSectorBytes))
    return "rows of a are aligned to 16 bytes and rows of out to 32 bytes, so `wide` already uses "
           "whole vectors and sectors";
  if (element_tiles(p, gpu) < of_size(p, kTilesForUnaligned.on(gpu))) return kSmallReason;
  return p.a.type.size == 16 && p.cols() <= kThinCols.on(gpu) ? kThinReason : nullptr;
}

// Parts of long rows per multiprocessor, and the bytes of short rows from which other variants are
// faster: if `wide` can be used, and otherwise.
constexpr Tuned<double> kPartsForFew{.value = 1.5, .device = "H200"};
constexpr Tuned<PerSize> kShortAligned{.value = {192, 192, 256, 512, 256}, .device = "H200"};
constexpr Tuned<PerSize> kShortUnaligned{.value = {257, 352, 512, 512, 256}, .device = "H200"};

// Returns why another variant is faster for a matrix with long rows (of a or out) of `length`
// elements and short rows of `bytes` bytes.
const char* why_slower_few(const Transpose& p, const Hardware& gpu, std::int64_t length,
                           std::int64_t bytes) {
  const double parts = static_cast<double>(length * p.a.type.size) / kPartBytes;
  if (element_tiles(p, gpu) < kTilesForFew.on(gpu) ||
      parts < kPartsForFew.on(gpu) * gpu.multiprocessors)
    return kSmallReason;
  const int limit = of_size(p, (aligned_for_wide(p) ? kShortAligned : kShortUnaligned).on(gpu));
  return bytes < limit ? nullptr : "short rows are long enough for the tiles of other variants";
}

const char* why_not_few_columns(const Transpose& p) {
  if (p.in_place()) return kNotInPlace;
  if (p.cols() > kFew) return "a has more than 256 columns";
  return p.a.packed() ? nullptr : "rows of a are padded, so whole rows are not contiguous";
}

const char* why_slower_few_columns(const Transpose& p, const Hardware& gpu) {
  return why_slower_few(p, gpu, p.rows(), p.cols() * p.a.type.size);
}

const char* why_not_few_rows(const Transpose& p) {
  if (p.in_place()) return kNotInPlace;
  if (p.rows() > kFew) return "a has more than 256 rows";
  return p.out.packed() ? nullptr : "rows of out are padded, so whole rows are not contiguous";
}

const char* why_slower_few_rows(const Transpose& p, const Hardware& gpu) {
  return why_slower_few(p, gpu, p.cols(), p.rows() * p.a.type.size);
}

const char* why_not_as_copy(const Transpose& p) {
  if (p.in_place()) return kNotInPlace;
  if (p.rows() != 1 && p.cols() != 1) return "a has more than one row and more than one column";
  if (!p.a.packed() || !p.out.packed()) return "elements are not contiguous";
  return nullptr;
}

const char* why_not_linear_index(const Transpose& p) {
  if (p.in_place()) return kNotInPlace;
  constexpr std::int64_t kMax = std::int64_t{1} << 31;
  if (p.a.elements() >= kMax) return "a has 2^31 elements or more";
  return std::max(p.a.stride[0], p.out.stride[0]) >= kMax ? "rows are 2 GiB or more apart"
                                                          : nullptr;
}

// Elements per multiprocessor up to which one thread per element is fastest, for matrices of 2 to
// 16 rows, of 2 to 8 columns, and others. With fewer rows or columns, a warp accesses fewer
// sectors.
constexpr Tuned<PerSize> kForFewRows{.value = {5120, 5120, 7168, 5120, 4096}, .device = "H100"};
constexpr Tuned<int> kForFewCols{.value = 3072, .device = "H100"};
constexpr Tuned<PerSize> kForOthers{.value = {320, 320, 320, 768, 768}, .device = "H100"};
const char* why_slower_linear_index(const Transpose& p, const Hardware& gpu) {
  std::int64_t limit = of_size(p, kForOthers.on(gpu));
  if (p.rows() > 1 && p.cols() > 1) {
    if (p.rows() <= 16)
      limit = of_size(p, kForFewRows.on(gpu));
    else if (p.cols() <= 8)
      limit = kForFewCols.on(gpu);
  }
  return p.a.elements() > limit * gpu.multiprocessors
             ? "a is large, so variants with more bytes in flight per thread are faster"
             : nullptr;
}

const char* why_not_in_place(const Transpose& p) { return p.in_place() ? nullptr : "out is not a"; }

const char* why_not_copy(const Transpose& p) {
  if (!p.a.packed() || !p.out.packed()) return "rows are padded, so the bytes are not contiguous";
  if (!starts_at_vector(p.a.data) || !starts_at_vector(p.out.data))
    return "the arrays are not aligned to 16 bytes";
  return nullptr;
}

}  // namespace
}  // namespace ado::cuda
