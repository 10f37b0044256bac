// Transpose, engine: small and thin matrices, without the buffer of a tile.
#pragma once

#include "cpu/transpose/parts.hpp"
#include "cpu/transpose/tiles.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- direct -------------------------------------------------------------------------------------
// Copies `count` runs of 1 to 15 bytes. Each run is copied as two values of kPart bytes, which may
// overlap.
template <int kPart>
ADO_INLINE void copy_runs_of(std::byte* to, int64_t to_run, const std::byte* from, int64_t from_run,
                             int64_t bytes, int64_t count) {
  for (int64_t i = 0; i < count; ++i, to += to_run, from += from_run) {
    std::byte first[kPart], last[kPart];
    std::memcpy(first, from, kPart);
    std::memcpy(last, from + bytes - kPart, kPart);
    std::memcpy(to, first, kPart);
    std::memcpy(to + bytes - kPart, last, kPart);
  }
}
void copy_runs(std::byte* to, int64_t to_run, const std::byte* from, int64_t from_run,
               int64_t bytes, int64_t count) {
  if (bytes >= 8)
    copy_runs_of<8>(to, to_run, from, from_run, bytes, count);
  else if (bytes >= 4)
    copy_runs_of<4>(to, to_run, from, from_run, bytes, count);
  else if (bytes >= 2)
    copy_runs_of<2>(to, to_run, from, from_run, bytes, count);
  else
    copy_runs_of<1>(to, to_run, from, from_run, bytes, count);
}

// Limits of a part that is buffered before it is stored: about kBufferedBytes bytes, and about
// kBufferedRows rows or columns in the shorter dimension of the matrix.
constexpr int64_t kBufferedBytes = 32 << 10;
template <int kSize>
constexpr int64_t kBufferedRows = kSize < 4 ? 128 : 8 * kLine / kSize;

// Returns the part of a matrix that begins at `row` and `col`.
template <int kSize>
Part part_of(const Matrices& m, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  return {.rows = rows,
          .cols = cols,
          .from = m.from(row, col),
          .from_row = m.a_row,
          .from_col = m.a_col,
          .to = m.to(row, col),
          .to_row = m.out_row,
          .to_col = m.out_col,
          .end = m.from(m.rows - 1, m.cols - 1) + kSize};
}

// Transposes a part through buffers. Rows of a of less than 16 bytes are packed first. Rows of out
// of less than 16 bytes are unpacked from the buffer. Other rows of out are stored with
// non-temporal stores if `streaming`.
template <int kSize>
void transpose_buffered(Part p, bool streaming) {
  const int64_t a_bytes = p.cols * kSize, out_bytes = p.rows * kSize;
  alignas(kLine) std::byte packed[2 * kBufferedBytes];
  alignas(kLine) std::byte buffer[2 * kBufferedBytes + 128 * 2 * kLine];
  if (a_bytes < 16 && p.from_row != a_bytes) {
    copy_runs(packed, a_bytes, p.from, p.from_row, a_bytes, p.rows);
    p.from = packed;
    p.from_row = a_bytes;
    p.end = packed + p.rows * a_bytes;
  }
  const bool contiguous = p.to_row == out_bytes;
  const bool unpacks = out_bytes < 16 && !contiguous;
  if (!streaming && !unpacks) return transpose_parts<kSize>(p);
  const Part out = p;
  p.to = buffer;
  // The pitch is an odd number of lines, so that rows are distributed over the cache sets.
  p.to_row =
      contiguous || unpacks ? out_bytes : (out_bytes + 2 * kLine) / (2 * kLine) * 2 * kLine + kLine;
  transpose_parts<kSize>(p);
  if (unpacks)
    copy_runs(out.to, out.to_row, buffer, out_bytes, out_bytes, p.cols);
  else if (contiguous)
    stream(out.to, buffer, p.cols * out_bytes);
  else
    for (int64_t col = 0; col < p.cols; ++col)
      stream(out.to + col * out.to_row, buffer + col * p.to_row, out_bytes);
}

// Transposes the rows of one thread, or its columns. Columns are divided among the threads if each
// thread gets at least one cache line of them, because it then stores and prefetches whole rows of
// out. If rows are divided, two threads write the cache lines of out at the ends of their shares.
template <int kSize>
void transpose_directly(const Matrices& m, bool streaming, int thread, int threads) {
  if (m.a_row == kSize && m.out_col == kSize)
    return copy_rows(m, kSize, streaming, thread, threads);
  const bool contiguous = m.cols != 1 && m.a_col == kSize && m.out_col == kSize;
  const bool by_rows = m.rows >= m.cols && (threads == 1 || m.cols * kSize < threads * kLine);
  const int64_t length = by_rows ? m.rows : m.cols;
  const int64_t others = by_rows ? m.cols : m.rows;
  // Every share has at least one cache line of rows or columns, unless the matrix has less.
  constexpr int64_t kUnit = kLine / kSize;
  const int64_t runs = max(length / kUnit, 1);
  const int64_t begin = runs * thread / threads * kUnit;
  const int64_t end = thread + 1 == threads ? length : runs * (thread + 1) / threads * kUnit;
  const bool packs = m.cols * kSize < 16 && m.a_row != m.cols * kSize;
  const bool unpacks = m.rows * kSize < 16 && m.out_row != m.rows * kSize;
  const bool buffers = contiguous && (streaming || packs || unpacks);
  // Without buffers, parts are large. They are limited only so that calls can be interrupted.
  const int64_t touch = touch_nanoseconds(m.out_row);
  const int64_t most = max(Checkpoints::kBetween / (touch + 1) / kLine * kLine, kLine);
  const int64_t group = min(others, buffers ? kBufferedRows<kSize> : by_rows ? most : others);
  const int64_t step_bytes = buffers ? kBufferedBytes : kBufferedBytes << 8;
  const int64_t step = max(step_bytes / ((buffers ? group : others) * kSize) / kLine * kLine,
                           buffers ? kLine : kPartRows<kSize>);
  Checkpoints checkpoints;
  for (int64_t at = begin, count; at < end; at += count) {
    count = end - at < step + kPiece<kSize> ? end - at : step;
    for (int64_t other = 0, others_now; other < others; other += others_now) {
      others_now = others - other < group + kPiece<kSize> ? others - other : group;
      const Part part = by_rows ? part_of<kSize>(m, at, count, other, others_now)
                                : part_of<kSize>(m, other, others_now, at, count);
      checkpoints.add(part.rows * part.cols + part.cols * touch);
      if (buffers)
        transpose_buffered<kSize>(part, streaming);
      else
        transpose_parts<kSize>(part);
    }
  }
  if (buffers) finish_streaming();
}

}  // namespace
}  // namespace ado::ADO_ISA
