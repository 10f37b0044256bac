// Transpose on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/transpose.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/isa.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/common/streaming.hpp"
#include "cpu/common/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

// ------------------------------------------------------------------------------------ the operands

// out[col][row] = a[row][col], with strides in bytes: out_row is the distance between rows of out.
struct Matrices {
  int64_t rows, cols;
  const std::byte* a;
  int64_t a_row, a_col;
  std::byte* out;
  int64_t out_row, out_col;
  bool in_place;

  // Addresses of the element (row, col) of a in a and in out.
  const std::byte* from(int64_t row, int64_t col) const { return a + row * a_row + col * a_col; }
  std::byte* to(int64_t row, int64_t col) const { return out + col * out_row + row * out_col; }
};

Matrices matrices_of(const Transpose& p) {
  const int64_t size = p.a.type.size;
  Matrices m{p.rows(),   p.cols(),        p.a.data,        p.a.stride[0], p.a.stride[1],
             p.out.data, p.out.stride[0], p.out.stride[1], p.in_place()};
  // Swapping the roles of rows and columns in both matrices gives the same result. Choose the roles
  // with contiguous rows of out.
  if (m.rows == 1 || (m.out_col != size && m.out_row == size)) {
    std::swap(m.rows, m.cols);
    std::swap(m.a_row, m.a_col);
    std::swap(m.out_row, m.out_col);
  }
  return m;
}

template <class Step>
void run(const Transpose& p, const Launch&) {
  if (p.a.elements() == 0) return;
  const Matrices m = matrices_of(p);
  switch (p.a.type.size) {
    case 1:
      return Step::template run<1>(m);
    case 2:
      return Step::template run<2>(m);
    case 4:
      return Step::template run<4>(m);
    case 8:
      return Step::template run<8>(m);
    case 16:
      return Step::template run<16>(m);
  }
}

// Copies an element as bytes, because elements may have any type and may be unaligned.
template <int kSize>
ADO_INLINE void copy_element(std::byte* to, const std::byte* from) {
  std::memcpy(to, from, kSize);
}

template <int kSize>
ADO_INLINE void swap_elements(std::byte* x, std::byte* y) {
  std::byte old_x[kSize];
  copy_element<kSize>(old_x, x);
  copy_element<kSize>(x, y);
  copy_element<kSize>(y, old_x);
}

// ------------------------------------------------------------------------------ element by element

struct NaiveLoops {
  template <int kSize>
  static void run(const Matrices& m) {
    for (int64_t row = 0; row < m.rows; ++row) {
      if (m.in_place) {
        for (int64_t col = row + 1; col < m.cols; ++col)
          swap_elements<kSize>(m.to(row, col), m.to(col, row));
      } else {
        for (int64_t col = 0; col < m.cols; ++col)
          copy_element<kSize>(m.to(row, col), m.from(row, col));
      }
    }
  }
};

// A tile is two cache lines wide and two high. The prefetchers of x86 fetch lines in pairs. If rows
// are a power of two bytes apart, larger tiles do not fit into the few cache sets to which their
// rows map: for 8192x8192, 4 by 4 lines are 0.7 to 0.9 times as fast (Zen 5, 2 cores).
constexpr int64_t kTileBytes = 2 * kLine;
template <int kSize>
constexpr int64_t kEdge = kTileBytes / kSize;

struct Blocked {
  template <int kSize>
  static void run(const Matrices& m) {
    for (int64_t top = 0; top < m.rows; top += kEdge<kSize>) {
      for (int64_t left = m.in_place ? top : 0; left < m.cols; left += kEdge<kSize>) {
        const int64_t bottom = min(top + kEdge<kSize>, m.rows);
        const int64_t right = min(left + kEdge<kSize>, m.cols);
        for (int64_t row = top; row < bottom; ++row) {
          if (m.in_place) {
            for (int64_t col = max(left, row + 1); col < right; ++col)
              swap_elements<kSize>(m.to(row, col), m.to(col, row));
          } else {
            for (int64_t col = left; col < right; ++col)
              copy_element<kSize>(m.to(row, col), m.from(row, col));
          }
        }
      }
    }
  }
};

// ------------------------------------------------------------------------------------ in registers

// Loads one vector of kBytes from 16-byte pieces that are `stride` bytes apart.
template <int kSize, int kBytes>
ADO_INLINE Vector<kSize, kBytes> load_lanes(const std::byte* from, int64_t stride) {
  if constexpr (kBytes == 16) {
    Vector<kSize, 16> lane;
    std::memcpy(&lane, from, 16);
    return lane;
  } else {
    const auto low = load_lanes<kSize, kBytes / 2>(from, stride);
    const auto high = load_lanes<kSize, kBytes / 2>(from + kBytes / 32 * stride, stride);
    return [&]<int... kAt>(std::integer_sequence<int, kAt...>) __attribute__((always_inline)) {
      return __builtin_shufflevector(low, high, kAt...);
    }
    (typename VectorOf<kSize, kBytes>::Indices{});
  }
}

// Transposes kWidth/kSize rows of 16 bytes into 16/kSize rows of kWidth bytes. Lane l of vector i
// holds row i + l * 16/kSize. Then log2(16/kSize) rounds of unpack instructions, which work within
// 16-byte lanes, are enough. For one lane and 4 elements per lane (each letter is a row):
//
//            loaded         round 1        round 2
//   v[0]     a0 a1 a2 a3    a0 c0 a1 c1    a0 b0 c0 d0
//   v[1]     b0 b1 b2 b3    a2 c2 a3 c3    a1 b1 c1 d1
//   v[2]     c0 c1 c2 c3    b0 d0 b1 d1    a2 b2 c2 d2
//   v[3]     d0 d1 d2 d3    b2 d2 b3 d3    a3 b3 c3 d3
template <int kSize>
ADO_INLINE void transpose_in_registers(const std::byte* from, int64_t from_row, std::byte* to,
                                       int64_t to_row) {
  constexpr int kCount = 16 / kSize;
  constexpr typename VectorOf<kSize, kWidth>::Indices kIndices;
  Vector<kSize, kWidth> v[kCount], w[kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i)
    v[i] = load_lanes<kSize, kWidth>(from + i * from_row, kCount * from_row);
#pragma GCC unroll 4
  for (int done = 1; done < kCount; done *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) {
      w[2 * i] = interleave<kSize, false>(v[i], v[i + kCount / 2], kIndices);
      w[2 * i + 1] = interleave<kSize, true>(v[i], v[i + kCount / 2], kIndices);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) v[i] = w[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) std::memcpy(to + i * to_row, &v[i], kWidth);
}

// ------------------------------------------------------------------------------------------ tiles

// A transposed tile is buffered in L1 in rows of kPitch bytes. The pitch is an odd number of lines,
// so that the first lines of the rows are distributed over the cache sets. For elements of 1 byte,
// this is 1.25 times as fast as 4 lines (Zen 5, 2 cores). If lines start at the same elements in
// all rows of out, two of the five lines are used, otherwise all.
constexpr int64_t kPitch = 5 * kLine;
template <int kSize>
constexpr int64_t kBuffer = kEdge<kSize>* kPitch;

struct Tile {
  int64_t row, col, height, width;
};

// Loads a tile of a into `buffer`, transposed. Whole lines are copied first: transpose_in_registers
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
        transpose_in_registers<kSize>(rows[row] + col * kSize, kTileBytes,
                                      buffer + col * kPitch + (top + row) * kSize, kPitch);
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
  for (int64_t i = bands * columns * thread / threads,
               end = bands * columns * (thread + 1) / threads;
       i < end; ++i) {
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
  for (int64_t i = thread; i < bands; i += threads) {
    for (int64_t j = i; j < bands; ++j) {
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
  for (int64_t i = count * pieces * thread / threads, end = count * pieces * (thread + 1) / threads;
       i < end; ++i) {
    const int64_t at = i % pieces * kPiece;
    std::byte* to = m.to(0, i / pieces) + at;
    const std::byte* from = m.from(0, i / pieces) + at;
    const int64_t length = min(kPiece, bytes - at);
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

// --------------------------------------------------------------------------------------- the steps

// Outputs of at least this size are stored with non-temporal stores. a and out of 8 MiB each fill
// half of an L3 of 32 MiB, and a larger output would be evicted before it is read. In repeated
// calls on one thread (Zen 5, float32), ordinary stores are 10 % faster at 8 MiB, equal at 11 MiB,
// and 50 % slower at 16 MiB. For arrays that are not in the cache at the start, non-temporal stores
// are faster from 2 MiB on.
constexpr int64_t kStreamFrom = 8 << 20;

template <int kSize>
bool worth_streaming(const Matrices& m) {
  return m.rows * m.cols * kSize >= kStreamFrom;
}

struct StreamCopy {
  template <int kSize>
  static void run(const Matrices& m) {
    stream_copy(m.out, m.a, m.rows * m.cols * kSize);
  }
};

struct Simd {
  template <int kSize>
  static void run(const Matrices& m) {
    transpose_share<kSize, false>(m, false, 0, 1);
  }
};

struct Streaming {
  template <int kSize>
  static void run(const Matrices& m) {
    transpose_share<kSize, false>(m, worth_streaming<kSize>(m), 0, 1);
  }
};

struct Prefetched {
  template <int kSize>
  static void run(const Matrices& m) {
    transpose_share<kSize, true>(m, worth_streaming<kSize>(m), 0, 1);
  }
};

struct Threaded {
  template <int kSize>
  static void run(const Matrices& m) {
    in_parallel(threads_for(2 * m.rows * m.cols * kSize), [&](int thread, int threads) {
      transpose_share<kSize, true>(m, worth_streaming<kSize>(m), thread, threads);
    });
  }
};

const char* why_not_copy(const Transpose& p) {
  if (!p.a.packed()) return "a is not packed";
  if (!p.out.packed()) return "out is not packed";
  return nullptr;
}

constexpr Variant<Transpose> kVariants[] = {
    {.name = "stream_copy",
     .changes =
         "Copies the same number of bytes in order, with all threads and non-temporal stores.",
     .ceiling = true,
     .why_not = why_not_copy,
     .run = run<StreamCopy>},
    {.name = "naive_loops",
     .changes = "Uses two nested loops, along the rows of the input.",
     .run = run<NaiveLoops>},
    {.name = "blocked",
     .changes = "Transposes square blocks that fit into the L1 cache.",
     .run = run<Blocked>},
    {.name = "simd", .changes = "Transposes each block in vector registers.", .run = run<Simd>},
    {.name = "streaming",
     .changes = "Stores an output larger than the cache in whole lines with non-temporal stores.",
     .run = run<Streaming>},
    {.name = "prefetch",
     .changes = "Prefetches a later block while it stores the current one.",
     .run = run<Prefetched>},
    {.name = "threaded",
     .changes = "Distributes the blocks over the threads.",
     .run = run<Threaded>},
};

}  // namespace

Ladder<Transpose> transpose_ladder() { return ladder_of(kVariants); }

}  // namespace ado::ADO_ISA
