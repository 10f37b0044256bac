// Transpose, engine: parts of matrices in registers, directly from memory to memory. average_matvec
// also uses it.
#pragma once

#include "core/streaming.hpp"
#include "cpu/common/loops.hpp"
#include "cpu/transpose/registers.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- direct -------------------------------------------------------------------------------------
// Part of a matrix, with strides as in Matrices.
struct Part {
  int64_t rows, cols;
  const std::byte* from;
  int64_t from_row, from_col;
  std::byte* to;
  int64_t to_row, to_col;
  const std::byte* end;  // of the memory that may be read
};

template <int kSize>
constexpr int64_t kPiece = 16 / kSize;  // elements in 16 bytes

// Prefetches the cache lines of out that are stored next, one per row. Without prefetch, stores of
// whole cache lines to several rows wait for the L2 cache. With prefetch, elements of 4 and 8 bytes
// are transposed 1.3 to 1.8 times as fast (Sapphire Rapids).
ADO_INLINE void prefetch_rows(const std::byte* to, int64_t to_row, int64_t rows) {
  constexpr int64_t kAhead = 8 * kLine;
#pragma GCC unroll 16
  for (int64_t i = 0; i < rows; ++i) __builtin_prefetch(to + i * to_row + kAhead, 1);
}

// Rows of out of at least this number of bytes are stored aligned: the first block overlaps the
// second one, so that no other vector crosses a cache line.
constexpr int64_t kAlignedRow = 2 << 10;

// Transposes rows [0, end) of 16 / kSize columns, in blocks of kBytes / kSize rows. The last block
// may overlap the previous one. Groups of columns are processed one after the other, because
// consecutive stores to a cache line of out are cheaper.
template <int kSize, int kBytes, bool kPrefetch>
ADO_INLINE void tall_column(const Part& p, int64_t col, int64_t end) {
  using Block = TallBlock<kSize, kBytes, kPiece<kSize>>;
  const std::byte* from = p.from + col * kSize;
  std::byte* to = p.to + col * p.to_row;
  const auto block = [&](int64_t row) __attribute__((always_inline)) {
    Block::transpose(from + row * p.from_row, p.from_row, {}, to + row * kSize, p.to_row,
                     kPiece<kSize>);
  };
  int64_t row = 0;
  if (end * kSize >= kAlignedRow) {
    block(0);
    row = (-reinterpret_cast<std::intptr_t>(to) & (kBytes - 1)) / kSize;
  }
  for (; row + Block::kRows <= end; row += Block::kRows) {
    block(row);
    if constexpr (kPrefetch) prefetch_rows(to + row * kSize, p.to_row, kPiece<kSize>);
  }
  if (row < end) block(end - Block::kRows);
}

// Transposes 16 / kSize rows, in blocks of kBytes / kSize columns.
template <int kSize, int kBytes>
ADO_INLINE void wide_row(const Part& p, int64_t row) {
  using Block = WideBlock<kSize, kBytes, kPiece<kSize>>;
  const std::byte* from = p.from + row * p.from_row;
  std::byte* to = p.to + row * kSize;
  const auto block = [&](int64_t col) __attribute__((always_inline)) {
    Block::transpose(from + col * kSize, p.from_row, kPiece<kSize>, {}, to + col * p.to_row,
                     p.to_row);
  };
  int64_t col = 0;
  for (; col + Block::kCols <= p.cols; col += Block::kCols) block(col);
  if (col < p.cols) block(p.cols - Block::kCols);
}

// Transposes a part whose rows have 16 bytes or more, in a and in out.
template <int kSize, bool kPrefetch = true>
void transpose_blocks(const Part& p) {
  constexpr int64_t kTall = kWidth / kSize;
  // If at most half the rows of a tall block remain, wide blocks process them.
  const int64_t rest = p.rows % kTall;
  const int64_t tall = p.rows < kTall ? 0 : rest > kTall / 2 ? p.rows : p.rows - rest;
  if (tall != 0) {
    int64_t col = 0;
    for (; col + kPiece<kSize> <= p.cols; col += kPiece<kSize>)
      tall_column<kSize, kWidth, kPrefetch>(p, col, tall);
    if (col < p.cols) tall_column<kSize, kWidth, kPrefetch>(p, p.cols - kPiece<kSize>, tall);
  }
  for (int64_t row = tall; row < p.rows; row += kPiece<kSize>) {
    const int64_t first = min(row, p.rows - kPiece<kSize>);
    if (p.cols < kTall)
      wide_row<kSize, 16>(p, first);
    else
      wide_row<kSize, kWidth>(p, first);
  }
}

// Moves single elements. It is used for elements that are not contiguous and for elements of 16
// bytes that are not staged. Wider vectors of 16-byte elements would cross cache lines, and stores
// that alternate between several columns take 1.4 to 2 times as long (Sapphire Rapids). While four
// columns (one cache line of each row) are moved, the next cache line of each row is prefetched.
template <int kSize, bool kPacked>
void move_columns(const Part& p) {
  constexpr int64_t kAhead = kLine + kLine / 2;
  const int64_t to_col = kPacked ? kSize : p.to_col;
  for (int64_t col = 0; col < p.cols; ++col) {
    const std::byte* from = p.from + col * p.from_col;
    std::byte* to = p.to + col * p.to_row;
    int64_t row = 0;
    for (; row + 4 <= p.rows; row += 4, from += 4 * p.from_row, to += 4 * to_col) {
      if constexpr (kSize == 16 && kPacked) {
        __builtin_prefetch(from + kAhead + col % 4 * p.from_row);
        prefetch_rows(to, 0, 1);
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) copy_element<kSize>(to + i * to_col, from + i * p.from_row);
    }
    for (; row < p.rows; ++row, from += p.from_row, to += to_col) copy_element<kSize>(to, from);
  }
}

template <int kSize>
ADO_INLINE void move_elements(const Part& p) {
  if (p.to_col == kSize)
    move_columns<kSize, true>(p);
  else
    move_columns<kSize, false>(p);
}

// Transposes a part whose rows in a are packed and have less than 16 bytes.
template <int kSize, int kBytes, int kCols>
void transpose_narrow(const Part& p) {
  if constexpr (2 * kCols * kSize <= 16)
    if (p.cols > kCols) return transpose_narrow<kSize, kBytes, 2 * kCols>(p);
  using Block = TallBlock<kSize, kBytes, kCols>;
  const auto order =
      transposing_order<kSize, kBytes>(Block::kGroup, p.cols, p.from_row, 16 / kCols);
  const int64_t piece = Block::kGroup * p.from_row;
  const int64_t block_bytes = Block::kRows * p.from_row;
  // The load of the last piece extends beyond the end of the block.
  const int64_t beyond = 16 - piece;
  int64_t row = 0;
  const std::byte* from = p.from;
  for (; row + Block::kRows <= p.rows && p.end - from >= block_bytes + beyond;
       row += Block::kRows, from += block_bytes) {
    Block::transpose(from, piece, order, p.to + row * kSize, p.to_row, p.cols);
    prefetch_rows(p.to + row * kSize, p.to_row, p.cols);
  }
  while (row < p.rows) {
    row = min(row, p.rows - Block::kRows);
    std::byte last[Block::kRows * 16 + 16];
    std::memcpy(last, p.from + row * p.from_row, block_bytes);
    Block::transpose(last, piece, order, p.to + row * kSize, p.to_row, p.cols);
    row += Block::kRows;
  }
}

// Transposes a part whose rows in out are packed and have less than 16 bytes.
template <int kSize, int kBytes, int kRows>
void transpose_low(const Part& p) {
  if constexpr (2 * kRows * kSize <= 16)
    if (p.rows > kRows) return transpose_low<kSize, kBytes, 2 * kRows>(p);
  using Block = WideBlock<kSize, kBytes, kRows>;
  const auto order = transposing_order<kSize, kBytes>(p.rows, Block::kGroup, 16 / kRows, p.to_row);
  const int64_t piece = Block::kGroup * p.to_row;
  const int64_t block_bytes = Block::kCols * p.to_row;
  int64_t col = 0;
  // The store of the last piece writes undefined bytes beyond the end of the block.
  const int64_t direct = piece == 16 ? p.cols - Block::kCols : p.cols - Block::kCols - 16;
  for (; col <= direct; col += Block::kCols)
    Block::transpose(p.from + col * kSize, p.from_row, p.rows, order, p.to + col * p.to_row, piece);
  while (col < p.cols) {
    col = min(col, p.cols - Block::kCols);
    std::byte last[Block::kCols * 16 + 16];
    Block::transpose(p.from + col * kSize, p.from_row, p.rows, order, last, piece);
    std::memcpy(p.to + col * p.to_row, last, block_bytes);
    col += Block::kCols;
  }
}

template <int kSize>
void transpose_part(const Part& p) {
  if constexpr (kSize < 16) {
    constexpr int kFewest = kReorders ? 2 : 16 / kSize;
    const bool narrow = p.cols < kPiece<kSize>, low = p.rows < kPiece<kSize>;
    if ((narrow && low) || p.cols == 1 || p.from_col != kSize || p.to_col != kSize)
      return move_elements<kSize>(p);
    if (narrow && p.rows >= kWidth / kSize) return transpose_narrow<kSize, kWidth, kFewest>(p);
    if (narrow) return transpose_narrow<kSize, 16, kFewest>(p);
    if (low && p.cols >= kWidth / kSize) return transpose_low<kSize, kWidth, kFewest>(p);
    if (low) return transpose_low<kSize, 16, kFewest>(p);
  }
  if constexpr (kSize == 16)
    move_elements<kSize>(p);
  else
    transpose_blocks<kSize>(p);
}

// Size of a part that stays in L1: about kPartRows rows and kPartBytes bytes.
constexpr int64_t kPartBytes = 16 << 10;
template <int kSize>
constexpr int64_t kPartRows = kSize == 16 ? 128 : 256;

// Returns true if the first cache lines of `rows` rows do not fit into the sets of L1 to which they
// map. Addresses that are equal modulo kWay map to the same set. Rows that are `period` apart are a
// multiple of kWay apart, plus a remainder. If it is small, they share a set until the remainders
// add up to a line.
bool rows_conflict(int64_t row_bytes, int64_t rows) {
  constexpr int64_t kWay = 4 << 10, kWays = 12;  // Zen 5, Sapphire Rapids
  for (int64_t period = 1; period * kWays < rows; ++period) {
    const int64_t above = period * row_bytes & (kWay - 1);
    const int64_t rest = min(above, kWay - above);
    if ((period + rows * rest / kLine) * kWays < rows) return true;
  }
  return false;
}

// Returns the end of a piece of `bytes` bytes that begins at element `at` of `count`. The first
// piece ends at a cache line, which begins `to_line` bytes after the first element. No piece is
// shorter than 16 bytes.
template <int kSize>
ADO_INLINE int64_t end_of_piece(int64_t at, int64_t bytes, int64_t to_line, int64_t count) {
  const int64_t first = to_line < 16 ? to_line + bytes : to_line;
  const int64_t end = at + (at == 0 ? first : bytes) / kSize;
  return count - end < kPiece<kSize> ? count : end;
}

// Transposes a part whose rows conflict. Copies whole cache lines of a into a packed buffer first,
// because a line would be evicted from L1 before its last 16 bytes are used. Prefetches the lines
// of the next buffer, which makes matrices that are not in the cache 1.1 times as fast (Zen 5).
// Lines of out are not prefetched: the next ones of a row are stored after all columns.
template <int kSize>
void transpose_staged(const Part& p) {
  constexpr int64_t kRows = kSize == 1 ? 256 : kSize == 16 ? 32 : 128;
  constexpr int64_t kBytes = kSize == 16 ? 4 * kLine : 2 * kLine;
  constexpr int64_t kPitch = kBytes + kLine;
  constexpr int kIntoL2 = 2;
  alignas(kLine) std::byte staged[(kRows + kLine / kSize) * kPitch];
  for (int64_t row = 0, below; row < p.rows; row = below) {
    below = end_of_piece<kSize>(row, kRows * kSize, to_next_line(p.to), p.rows);
    for (int64_t col = 0, right; col < p.cols; col = right) {
      right = end_of_piece<kSize>(col, kBytes, to_next_line(p.from), p.cols);
      const std::byte* from = p.from + row * p.from_row + col * kSize;
      for (int64_t i = 0; i < below - row; ++i, from += p.from_row) {
        if (right < p.cols)
#pragma GCC unroll 4
          for (int64_t at = 0; at < kBytes; at += kLine)
            __builtin_prefetch(from + kBytes + at, 0, kIntoL2);
        if (right - col == kBytes / kSize)
          std::memcpy(staged + i * kPitch, from, kBytes);
        else
          copy_short(staged + i * kPitch, from, (right - col) * kSize);
      }
      const Part part{.rows = below - row,
                      .cols = right - col,
                      .from = staged,
                      .from_row = kPitch,
                      .from_col = kSize,
                      .to = p.to + col * p.to_row + row * p.to_col,
                      .to_row = p.to_row,
                      .to_col = p.to_col,
                      .end = staged + sizeof(staged)};
      if (p.to_col != kSize)
        move_elements<kSize>(part);
      else
        transpose_blocks<kSize, false>(part);
    }
  }
}

template <int kSize>
void transpose_parts(const Part& p) {
  if (p.cols * kSize < 16) return transpose_part<kSize>(p);
  constexpr int64_t height = kPartRows<kSize>;
  // If rows are few, whole vectors of kWidth bytes are read, so no copy is needed.
  if (p.from_col == kSize && p.rows > 16 &&
      rows_conflict(p.from_row, p.rows < 2 * height ? p.rows : height))
    return transpose_staged<kSize>(p);
  const int64_t width = max(kPartBytes / (min(p.rows, height) * kSize), 2 * kLine / kSize);
  for (int64_t row = 0, rows; row < p.rows; row += rows) {
    rows = p.rows - row < 2 * height ? p.rows - row : height;
    for (int64_t col = 0, cols; col < p.cols; col += cols) {
      cols = p.cols - col < 2 * width ? p.cols - col : width;
      // The part is not a copy of p, because g++ 12 copies p with a vector register and omits
      // vzeroupper, which slows down the caller's SSE code.
      const Part part{.rows = rows,
                      .cols = cols,
                      .from = p.from + row * p.from_row + col * p.from_col,
                      .from_row = p.from_row,
                      .from_col = p.from_col,
                      .to = p.to + col * p.to_row + row * p.to_col,
                      .to_row = p.to_row,
                      .to_col = p.to_col,
                      .end = p.end};
      transpose_part<kSize>(part);
    }
  }
}

}  // namespace
}  // namespace ado::ADO_ISA
