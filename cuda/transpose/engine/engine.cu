// Transpose, engine: variants for shapes that no step serves, and the choice among all variants.
// The default is the last variant that can solve the problem and has no reason below.
#include "common/ladder.cuh"
#include "transpose/engine/as_copy.cuh"
#include "transpose/engine/thin.cuh"
#include "transpose/engine/tiles.cuh"

#include <array>
#include <bit>

namespace ado::cuda {

Ladder<Transpose> transpose_steps();

namespace {

// The limits are crossovers, measured with L2 flushed on an H200 (2026), and for kForNarrow and
// `tma` on an H100. There is one limit per element size of 1, 2, 4, 8 and 16 bytes.
using PerSize = std::array<int, 5>;
int of_size(const Transpose& p, const PerSize& limits) {
  return limits[std::countr_zero(static_cast<unsigned>(p.a.type.size))];
}

constexpr const char* kSmallReason =
    "a is small, so the small tiles of `coarsened` keep more multiprocessors busy";
constexpr const char* kThinReason =
    "a has so few rows or columns that large tiles are mostly outside the matrix";

// Tiles of `coarsened` per multiprocessor, and the number from which larger tiles are faster.
double element_tiles(const Transpose& p, const Hardware& gpu) {
  constexpr std::int64_t kTile = 32;
  const std::size_t tiles = grid_of(ceil_div(p.cols(), kTile), ceil_div(p.rows(), kTile)).volume();
  return static_cast<double>(tiles) / std::max(gpu.multiprocessors, 1);
}
constexpr PerSize kTilesForWide = {24, 12, 12, 12, 12};
constexpr PerSize kTilesForUnaligned = {24, 28, 16, 10, 10};
constexpr int kTilesForFew = 8;

// Elements per multiprocessor up to which variants with a tile are slower, because they need a
// barrier between load and store.
constexpr PerSize kForNarrow = {800, 800, 800, 0, 0};
const char* why_slower_tile(const Transpose& p, const Hardware& gpu) {
  return p.a.elements() <= std::int64_t{of_size(p, kForNarrow)} * gpu.multiprocessors
             ? "a is small and latency dominates, so variants without a barrier are faster"
             : nullptr;
}

// Rows or columns of 8-byte elements, and columns of 16-byte elements.
constexpr std::int64_t kThinSide = 96, kThinCols = 48;

const char* why_slower_wide(const Transpose& p, const Hardware& gpu) {
  if (element_tiles(p, gpu) < of_size(p, kTilesForWide)) return kSmallReason;
  if (p.a.type.size == 8 && std::min(p.rows(), p.cols()) <= kThinSide) return kThinReason;
  return p.a.type.size == 16 && p.cols() <= kThinCols ? kThinReason : nullptr;
}

// Boxes are faster only if the problem is too small to be limited by DRAM and large enough for many
// blocks. The first limit is in bytes per multiprocessor.
constexpr std::int64_t kBytesForTma = 112 << 10, kSideForTma = 512;
const char* why_slower_tma(const Transpose& p, const Hardware& gpu) {
  if (p.a.type.size != 4 && p.a.type.size != 16)
    return "only for elements of 4 and 16 bytes, `wide` was found to be slower";
  if (p.a.bytes() < kBytesForTma * gpu.multiprocessors)
    return "a is small, so the smaller tiles of other variants keep more multiprocessors busy";
  if (std::min(p.rows(), p.cols()) < kSideForTma) return kThinReason;
  return 2 * p.a.bytes() > gpu.l2_bytes
             ? "a and out together do not fit into L2, so that DRAM limits `wide` as well"
             : nullptr;
}

const char* why_slower_unaligned_rows(const Transpose& p, const Hardware& gpu) {
  if (Transpose::rows_aligned(p.a, kVectorBytes) && Transpose::rows_aligned(p.out, kSectorBytes))
    return "rows of a are aligned to 16 bytes and rows of out to 32 bytes, so `wide` already uses "
           "whole vectors and sectors";
  if (element_tiles(p, gpu) < of_size(p, kTilesForUnaligned)) return kSmallReason;
  return p.a.type.size == 16 && p.cols() <= kThinCols ? kThinReason : nullptr;
}

// Parts of long rows per multiprocessor, and the bytes of short rows from which other variants are
// faster, for aligned rows (`wide` can be used) and for unaligned rows.
constexpr double kPartsForFew = 1.5;
constexpr PerSize kShortAligned = {192, 192, 256, 512, 256};
constexpr PerSize kShortUnaligned = {257, 352, 512, 512, 256};

// `length`: elements of the long rows. `bytes`: size of the short ones.
const char* why_slower_few(const Transpose& p, const Hardware& gpu, std::int64_t length,
                           std::int64_t bytes) {
  const auto parts = static_cast<double>(length * p.a.type.size) / kPartBytes;
  if (element_tiles(p, gpu) < kTilesForFew || parts < kPartsForFew * gpu.multiprocessors)
    return kSmallReason;
  const bool aligned =
      Transpose::rows_aligned(p.a, kVectorBytes) && Transpose::rows_aligned(p.out, kVectorBytes);
  return bytes < of_size(p, aligned ? kShortAligned : kShortUnaligned)
             ? nullptr
             : "short rows are long enough for the tiles of other variants";
}

const char* why_slower_few_rows(const Transpose& p, const Hardware& gpu) {
  return why_slower_few(p, gpu, p.cols(), p.rows() * p.a.type.size);
}

const char* why_slower_few_columns(const Transpose& p, const Hardware& gpu) {
  return why_slower_few(p, gpu, p.rows(), p.cols() * p.a.type.size);
}

constexpr Choice<Transpose> kChoices[] = {
    {"tiled", why_slower_tile},
    {"padded", why_slower_tile},
    {"coarsened", why_slower_tile},
    {"wide", why_slower_wide},
    {"tma", why_slower_tma},
    {"unaligned_rows", why_slower_unaligned_rows},
    {"few_columns", why_slower_few_columns},
    {"few_rows", why_slower_few_rows},
};

constexpr Variant<Transpose> kEngine[] = {kUnalignedRows, kFewColumns, kFewRows, kAsCopy, kInPlace};

}  // namespace

Ladder<Transpose> transpose_ladder() {
  static const auto ladder = with_engine(transpose_steps(), kEngine, kChoices);
  return {ladder.data(), ladder.size()};
}

}  // namespace ado::cuda
