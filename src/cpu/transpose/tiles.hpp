// Transposes matrices of any strides in tiles, through a buffer in L1.
#pragma once

#include "core/streaming.hpp"
#include "core/threads.hpp"
#include "cpu/common/loops.hpp"
#include "cpu/transpose/registers.hpp"
#include "routines/transpose.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- naive_loops, blocked, simd, streaming, prefetch, threaded, direct --------------------------
// out[col][row] = a[row][col], with strides in bytes: out_row is the distance between rows of out.
struct Matrices {
  int64_t rows, cols;
  const std::byte* a;
  int64_t a_row, a_col;
  std::byte* out;
  int64_t out_row, out_col;
  bool in_place;

  // Return the addresses of element (row, col) of a, in a and in out.
  const std::byte* from(int64_t row, int64_t col) const { return a + row * a_row + col * a_col; }
  std::byte* to(int64_t row, int64_t col) const { return out + col * out_row + row * out_col; }
};

Matrices matrices_of(const Transpose& p) {
  Matrices m{p.rows(),   p.cols(),        p.a.data,        p.a.stride[0], p.a.stride[1],
             p.out.data, p.out.stride[0], p.out.stride[1], p.in_place()};
  // Swapping the roles of rows and columns in both matrices gives the same result. Choose the roles
  // that give one column rather than one row, and the shorter stride along the rows of out.
  const auto length = [](int64_t stride) { return stride < 0 ? -stride : stride; };
  if (m.rows == 1 || (m.cols != 1 && length(m.out_col) > length(m.out_row))) {
    std::swap(m.rows, m.cols);
    std::swap(m.a_row, m.a_col);
    std::swap(m.out_row, m.out_col);
  }
  return m;
}

template <int kSize>
ADO_INLINE void swap_elements(std::byte* x, std::byte* y) {
  std::byte old_x[kSize];
  copy_element<kSize>(old_x, x);
  copy_element<kSize>(x, y);
  copy_element<kSize>(y, old_x);
}

// ---- blocked, simd, streaming, prefetch, threaded -----------------------------------------------
// A tile is two cache lines wide and two high. The prefetchers of x86 fetch lines in pairs. If rows
// are a power of two bytes apart, larger tiles do not fit into the few cache sets to which their
// rows map: for 8192x8192, 4 by 4 lines are 0.7 to 0.9 times as fast (Zen 5, 2 cores).
constexpr int64_t kTileBytes = 2 * kLine;
template <int kSize>
constexpr int64_t kEdge = kTileBytes / kSize;

// ---- simd, streaming, prefetch, threaded --------------------------------------------------------
// A transposed tile is buffered in L1 in rows of kPitch bytes. The pitch is an odd number of lines,
// so that the first lines of the rows are distributed over the cache sets. For elements of 1 byte,
// this is 1.25 times as fast as 4 lines (Zen 5, 2 cores). If lines start at the same elements in
// all rows of out, two of the five lines are used, otherwise all.
constexpr int64_t kPitch = 5 * kLine;
template <int kSize>
constexpr int64_t kBuffer = kEdge<kSize>* kPitch;

// Order of magnitude of the time per tile.
template <int kSize>
int64_t tile_nanoseconds(const Matrices& m) {
  return 2'000 + kEdge<kSize> * touch_nanoseconds(m.out_row);
}

struct Tile {
  int64_t row, col, height, width;
};

// Loads a tile of a into `buffer`, transposed. Whole lines are copied first: a register block
// takes 16 bytes of a row at a time, and if rows are a power of two bytes apart, a line would be
// evicted from L1 before its last 16 bytes are used. With the copy, elements of 1 byte are
// transposed 1.5 times as fast (Zen 5, 2 cores). All strides are supported. In incomplete tiles,
// undefined elements beyond the edge are also transposed but not stored.
template <int kSize>
ADO_INLINE void load_tile(const Matrices& m, const Tile& tile, std::byte* buffer) {
  for (int64_t top = 0; top < tile.height; top += kEdge<kSize>) {
    alignas(kLine) std::byte rows[kEdge<kSize>][kTileBytes];
    const int64_t height = min(kEdge<kSize>, tile.height - top);
    const std::byte* from = m.from(tile.row + top, tile.col);
    if (m.a_col == kSize && tile.width == kEdge<kSize> && height == kEdge<kSize>) {
#pragma GCC unroll 4
      for (int64_t row = 0; row < kEdge<kSize>; ++row)
        std::memcpy(rows[row], from + row * m.a_row, kTileBytes);
    } else if (m.a_col == kSize) {
      for (int64_t row = 0; row < height; ++row)
        copy_short(rows[row], from + row * m.a_row, tile.width * kSize);
    } else {
      for (int64_t row = 0; row < height; ++row)
        for (int64_t col = 0; col < tile.width; ++col)
          copy_element<kSize>(rows[row] + col * kSize, from + row * m.a_row + col * m.a_col);
    }
    for (int64_t row = 0; row < height; row += kWidth / kSize)
      for (int64_t col = 0; col < tile.width; col += 16 / kSize)
        TallBlock<kSize, kWidth, 16 / kSize>::transpose(rows[row] + col * kSize, kTileBytes, {},
                                                        buffer + col * kPitch + (top + row) * kSize,
                                                        kPitch, 16 / kSize);
  }
}

// Prefetches two lines into L2. While a row of a tile is stored, the same row of a later tile is
// prefetched, so that loads and stores overlap: 1.1 times as fast for elements of 8 bytes, 1.4
// times for 4, 1.5 times for 1 (Zen 5, 2 cores).
ADO_INLINE void prefetch(const std::byte* from) {
  constexpr int kIntoL2 = 2;
  __builtin_prefetch(from, 0, kIntoL2);
  __builtin_prefetch(from + kLine, 0, kIntoL2);
}

// Stores a loaded tile to out. `next` is the start of the tile to prefetch.
template <int kSize, bool kPrefetch>
ADO_INLINE void store_tile(const Matrices& m, const Tile& tile, const std::byte* buffer,
                           const std::byte* next) {
  for (int64_t col = 0; col < tile.width; ++col) {
    if constexpr (kPrefetch) prefetch(next + col * m.a_row);
    std::byte* to = m.to(tile.row, tile.col + col);
    const std::byte* from = buffer + col * kPitch;
    if (m.out_col != kSize) {
      for (int64_t row = 0; row < tile.height; ++row)
        copy_element<kSize>(to + row * m.out_col, from + row * kSize);
    } else if (tile.height == kEdge<kSize>) {
      std::memcpy(to, from, kTileBytes);
    } else {
      copy_short(to, from, tile.height * kSize);
    }
  }
}

// Stores a loaded tile by whole lines with non-temporal stores. If the rows of out start at
// different positions within a line (not `lines_align`), the loaded tile is up to one line higher
// than the stored one, and each of its rows starts and ends at a line boundary. So no line is
// stored in two pieces or by two threads, except at the ends of the rows of out.
template <int kSize, bool kPrefetch>
ADO_INLINE void stream_tile(const Matrices& m, const Tile& tile, bool lines_align,
                            const std::byte* buffer, const std::byte* next) {
  // The common case. The loop below gives the same result; this one is 1.05 to 1.25 times as fast.
  if (lines_align && tile.height == kEdge<kSize>) {
    for (int64_t col = 0; col < tile.width; ++col) {
      if constexpr (kPrefetch) prefetch(next + col * m.a_row);
      std::byte* to = m.to(tile.row, tile.col + col);
      stream_line(to, buffer + col * kPitch);
      stream_line(to + kLine, buffer + col * kPitch + kLine);
    }
    return;
  }
  const int64_t left = (m.rows - tile.row) * kSize;
  for (int64_t col = 0; col < tile.width; ++col) {
    if constexpr (kPrefetch)
      for (int64_t row = col; row < tile.height; row += kEdge<kSize>)
        prefetch(next + row * m.a_row);
    std::byte* to = m.to(tile.row, tile.col + col);
    const int64_t height = tile.height * kSize;
    const int64_t begin = tile.row == 0 ? 0 : min(to_next_line(to), left);
    const int64_t end = min(height + to_next_line(to + height), left);
    stream(to + begin, buffer + col * kPitch + begin, end - begin);
  }
}

// Transposes the tiles of one thread: band by band of rows, and along each band.
template <int kSize, bool kStream, bool kPrefetch>
void transpose_tiles(const Matrices& m, int thread, int threads) {
  // If lines start at the same elements in all rows of out, tiles also start at these elements.
  const std::intptr_t a = reinterpret_cast<std::intptr_t>(m.a);
  const std::intptr_t out = reinterpret_cast<std::intptr_t>(m.out);
  const bool lines_align = m.out_row % kLine == 0 && out % kSize == 0;
  const int64_t below = kStream && !lines_align ? kLine / kSize : 0;
  const int64_t step = kStream && !lines_align ? kPitch / kSize - below : kEdge<kSize>;
  const int64_t above = kStream && lines_align ? out % kTileBytes / kSize : 0;
  const int64_t before = kStream ? a % kTileBytes / kSize : 0;
  const int64_t bands = (above + m.rows + step - 1) / step;
  const int64_t columns = (before + m.cols + kEdge<kSize> - 1) / kEdge<kSize>;
  alignas(kLine) std::byte buffer[kBuffer<kSize>];
  const int64_t nanoseconds = tile_nanoseconds<kSize>(m);
  Checkpoints checkpoints;
  for (int64_t i = bands * columns * thread / threads,
               end = bands * columns * (thread + 1) / threads;
       i < end; ++i) {
    checkpoints.add(nanoseconds);
    const int64_t bottom = (i / columns + 1) * step - above;
    const int64_t right = (i % columns + 1) * kEdge<kSize> - before;
    const int64_t row = max(bottom - step, 0), col = max(right - kEdge<kSize>, 0);
    Tile tile{row, col, min(bottom + below, m.rows) - row, min(right, m.cols) - col};
    load_tile<kSize>(m, tile, buffer);
    const std::byte* next = m.from(tile.row, tile.col) + 2 * kTileBytes;
    if constexpr (kStream) {
      tile.height = min(bottom, m.rows) - tile.row;
      stream_tile<kSize, kPrefetch>(m, tile, lines_align, buffer, next);
    } else {
      store_tile<kSize, kPrefetch>(m, tile, buffer, next);
    }
  }
  if constexpr (kStream) finish_streaming();
}

// In place: swaps each tile with its mirror image. Both have just been loaded, so ordinary stores
// hit the cache.
template <int kSize, bool kPrefetch>
void swap_tiles(const Matrices& m, int thread, int threads) {
  const int64_t before = reinterpret_cast<std::intptr_t>(m.a) % kTileBytes / kSize;
  const int64_t bands = (before + m.rows + kEdge<kSize> - 1) / kEdge<kSize>;
  alignas(kLine) std::byte upper[kBuffer<kSize>], lower[kBuffer<kSize>];
  const auto tile_at = [&](int64_t i, int64_t j) {
    const int64_t row = max(i * kEdge<kSize> - before, 0);
    const int64_t col = max(j * kEdge<kSize> - before, 0);
    return Tile{row, col, min((i + 1) * kEdge<kSize> - before, m.rows) - row,
                min((j + 1) * kEdge<kSize> - before, m.cols) - col};
  };
  const int64_t nanoseconds = 2 * tile_nanoseconds<kSize>(m);
  Checkpoints checkpoints;
  for (int64_t i = thread; i < bands; i += threads) {
    for (int64_t j = i; j < bands; ++j) {
      checkpoints.add(nanoseconds);
      const Tile above = tile_at(i, j), below = tile_at(j, i);  // the diagonal
      load_tile<kSize>(m, above, upper);
      if (i != j) load_tile<kSize>(m, below, lower);
      store_tile<kSize, kPrefetch>(m, above, upper, m.from(below.row + below.height, below.col));
      if (i != j)
        store_tile<kSize, kPrefetch>(m, below, lower, m.from(above.row, above.col + above.width));
    }
  }
}

// If the columns of a are also contiguous, the rows of out are copies of them. Copies the rows of
// one thread.
void copy_rows(const Matrices& m, int64_t size, bool streaming, int thread, int threads) {
  constexpr int64_t kPiece = 64 << 10;
  int64_t count = m.cols, bytes = m.rows * size;
  if (m.a_col == bytes && m.out_row == bytes) {
    bytes *= count;
    count = 1;
  }
  const int64_t pieces = (bytes + kPiece - 1) / kPiece;
  Checkpoints checkpoints;
  for (int64_t i = count * pieces * thread / threads, end = count * pieces * (thread + 1) / threads;
       i < end; ++i) {
    const int64_t at = i % pieces * kPiece;
    std::byte* to = m.to(0, i / pieces) + at;
    const std::byte* from = m.from(0, i / pieces) + at;
    const int64_t length = min(kPiece, bytes - at);
    checkpoints.add(length);
    if (streaming)
      stream(to, from, length);
    else
      std::memcpy(to, from, length);
  }
  if (streaming) finish_streaming();
}

// The work of one thread, for any strides.
template <int kSize, bool kPrefetch>
void transpose_share(const Matrices& m, bool streaming, int thread, int threads) {
  if (m.in_place)
    swap_tiles<kSize, kPrefetch>(m, thread, threads);
  else if (m.a_row == kSize && m.out_col == kSize)
    copy_rows(m, kSize, streaming, thread, threads);
  else if (streaming && m.out_col == kSize)
    transpose_tiles<kSize, true, kPrefetch>(m, thread, threads);
  else
    transpose_tiles<kSize, false, kPrefetch>(m, thread, threads);
}

}  // namespace
}  // namespace ado::ADO_ISA
