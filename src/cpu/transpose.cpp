// The transpose on the CPU. One source, compiled once per instruction set (core/isa.hpp).
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

// ------------------------------------------------------------------------------------- the problem

// out[col][row] = a[row][col] with strides in bytes: out_row leads from one row of out to the next.
struct Problem {
  int64_t rows, cols;
  const std::byte* a;
  int64_t a_row, a_col;
  std::byte* out;
  int64_t out_row, out_col;
  bool in_place;

  const std::byte* from(int64_t row, int64_t col) const { return a + row * a_row + col * a_col; }
  std::byte* to(int64_t row, int64_t col) const { return out + col * out_row + row * out_col; }
};

Problem problem_of(const Transpose& p) {
  const int64_t size = p.a.type.size;
  Problem q{p.rows(),   p.cols(),        p.a.data,        p.a.stride[0], p.a.stride[1],
            p.out.data, p.out.stride[0], p.out.stride[1], p.in_place()};
  // Transposing is the same the other way round; choose the way in which out's rows are contiguous.
  if (q.rows == 1 || (q.out_col != size && q.out_row == size)) {
    std::swap(q.rows, q.cols);
    std::swap(q.a_row, q.a_col);
    std::swap(q.out_row, q.out_col);
  }
  return q;
}

template <class Rung>
void run(const Transpose& p, const Launch&) {
  if (p.a.elements() == 0) return;
  const Problem q = problem_of(p);
  switch (p.a.type.size) {
    case 1:
      return Rung::template run<1>(q);
    case 2:
      return Rung::template run<2>(q);
    case 4:
      return Rung::template run<4>(q);
    case 8:
      return Rung::template run<8>(q);
    case 16:
      return Rung::template run<16>(q);
  }
}

// Elements are moved as bytes: they may be of any type and, with odd strides, unaligned.
template <int kSize>
ADO_INLINE void move(std::byte* to, const std::byte* from) {
  std::memcpy(to, from, kSize);
}

template <int kSize>
ADO_INLINE void exchange(std::byte* x, std::byte* y) {
  std::byte held[kSize];
  move<kSize>(held, x);
  move<kSize>(x, y);
  move<kSize>(y, held);
}

// ----------------------------------------------------------------------------------- scalar rungs

struct Textbook {
  template <int kSize>
  static void run(const Problem& p) {
    for (int64_t row = 0; row < p.rows; ++row) {
      if (p.in_place) {
        for (int64_t col = row + 1; col < p.cols; ++col)
          exchange<kSize>(p.to(row, col), p.to(col, row));
      } else {
        for (int64_t col = 0; col < p.cols; ++col) move<kSize>(p.to(row, col), p.from(row, col));
      }
    }
  }
};

// A tile is two cache lines wide and two high: a pair of lines is what the prefetchers of x86 fetch
// together, and with rows a power of two apart no more than that fits the few cache sets on which
// the rows fall. At 8192x8192, 4 by 4 lines are 0.7 to 0.9 times as fast (Zen 5, 2 cores).
constexpr int64_t kTileBytes = 2 * kLine;
template <int kSize>
constexpr int64_t kEdge = kTileBytes / kSize;

struct Blocked {
  template <int kSize>
  static void run(const Problem& p) {
    for (int64_t top = 0; top < p.rows; top += kEdge<kSize>) {
      for (int64_t left = p.in_place ? top : 0; left < p.cols; left += kEdge<kSize>) {
        const int64_t bottom = min(top + kEdge<kSize>, p.rows);
        const int64_t right = min(left + kEdge<kSize>, p.cols);
        for (int64_t row = top; row < bottom; ++row) {
          if (p.in_place) {
            for (int64_t col = max(left, row + 1); col < right; ++col)
              exchange<kSize>(p.to(row, col), p.to(col, row));
          } else {
            for (int64_t col = left; col < right; ++col)
              move<kSize>(p.to(row, col), p.from(row, col));
          }
        }
      }
    }
  }
};

// ------------------------------------------------------------------------------------ in registers

// One vector of kBytes from 16-byte pieces `stride` bytes apart.
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
// holds row i + l * 16/kSize, so that log2(16/kSize) rounds of unpack inside the lanes do it all.
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

// A transposed tile in L1 has rows of kPitch bytes; an odd number of lines, so that the first lines
// of all rows do not fall on a few cache sets: 1.25 times the speed of 4 lines for elements of 1
// byte (Zen 5, 2 cores). Two of the lines are used where out's rows lie alike on the lines, else
// all.
constexpr int64_t kPitch = 5 * kLine;
template <int kSize>
constexpr int64_t kBuffer = kEdge<kSize>* kPitch;

struct Tile {
  int64_t row, col, height, width;
};

// Reads a tile of the input, transposed. Whole lines are copied first: the registers take 16 bytes
// of a row at a time, and with rows a power of two apart a line would not survive in L1 until its
// last 16 bytes (1.5 times the speed for elements of 1 byte, Zen 5, 2 cores). Any strides will do.
// Incomplete tiles are transposed with whatever is in the buffer beyond their edge.
template <int kSize>
ADO_INLINE void fetch(const Problem& p, const Tile& tile, std::byte* buffer) {
  for (int64_t top = 0; top < tile.height; top += kEdge<kSize>) {
    alignas(kLine) std::byte rows[kEdge<kSize>][kTileBytes];
    const int64_t height = min(kEdge<kSize>, tile.height - top);
    const std::byte* from = p.from(tile.row + top, tile.col);
    if (p.a_col == kSize && tile.width == kEdge<kSize> && height == kEdge<kSize>) {
#pragma GCC unroll 4
      for (int64_t row = 0; row < kEdge<kSize>; ++row)
        std::memcpy(rows[row], from + row * p.a_row, kTileBytes);
    } else if (p.a_col == kSize) {
      for (int64_t row = 0; row < height; ++row)
        copy_short(rows[row], from + row * p.a_row, tile.width * kSize);
    } else {
      for (int64_t row = 0; row < height; ++row)
        for (int64_t col = 0; col < tile.width; ++col)
          move<kSize>(rows[row] + col * kSize, from + row * p.a_row + col * p.a_col);
    }
    for (int64_t row = 0; row < height; row += kWidth / kSize)
      for (int64_t col = 0; col < tile.width; col += 16 / kSize)
        transpose_in_registers<kSize>(rows[row] + col * kSize, kTileBytes,
                                      buffer + col * kPitch + (top + row) * kSize, kPitch);
  }
}

// While a row of this tile is written, the same row of a tile to be read soon is on its way to L2,
// so that reading and writing overlap: 1.1 times the speed for elements of 8 bytes, 1.4 for 4, 1.5
// for 1 (Zen 5, 2 cores).
ADO_INLINE void prefetch(const std::byte* from) {
  constexpr int kIntoL2 = 2;
  __builtin_prefetch(from, 0, kIntoL2);
  __builtin_prefetch(from + kLine, 0, kIntoL2);
}

template <int kSize>
ADO_INLINE void store(const Problem& p, const Tile& tile, const std::byte* buffer,
                      const std::byte* next) {
  for (int64_t col = 0; col < tile.width; ++col) {
    prefetch(next + col * p.a_row);
    std::byte* to = p.to(tile.row, tile.col + col);
    const std::byte* from = buffer + col * kPitch;
    if (p.out_col != kSize) {
      for (int64_t row = 0; row < tile.height; ++row)
        move<kSize>(to + row * p.out_col, from + row * kSize);
    } else if (tile.height == kEdge<kSize>) {
      std::memcpy(to, from, kTileBytes);
    } else {
      copy_short(to, from, tile.height * kSize);
    }
  }
}

// Writes a fetched tile line by line past the cache. Where out's rows lie differently on the lines,
// each row has its own window: it begins and ends where lines do, up to a line below the tile. So
// no line is written in two pieces, nor by two threads, but for the ends of out's rows.
template <int kSize>
ADO_INLINE void store_lines(const Problem& p, const Tile& tile, bool level, const std::byte* buffer,
                            const std::byte* next) {
  // The common case, which the loop below would do as well; a tight one is 1.05 to 1.25 times as
  // fast.
  if (level && tile.height == kEdge<kSize>) {
    for (int64_t col = 0; col < tile.width; ++col) {
      prefetch(next + col * p.a_row);
      std::byte* to = p.to(tile.row, tile.col + col);
      stream_line(to, buffer + col * kPitch);
      stream_line(to + kLine, buffer + col * kPitch + kLine);
    }
    return;
  }
  const int64_t left = (p.rows - tile.row) * kSize;
  for (int64_t col = 0; col < tile.width; ++col) {
    for (int64_t row = col; row < tile.height; row += kEdge<kSize>) prefetch(next + row * p.a_row);
    std::byte* to = p.to(tile.row, tile.col + col);
    const int64_t height = tile.height * kSize;
    const int64_t begin = tile.row == 0 ? 0 : min(to_next_line(to), left);
    const int64_t end = min(height + to_next_line(to + height), left);
    stream(to + begin, buffer + col * kPitch + begin, end - begin);
  }
}

// The share of one thread in the tiles, band after band of rows and along each band.
template <int kSize, bool kStream>
void transpose_tiles(const Problem& p, int thread, int threads) {
  // Do the lines of all out's rows begin at the same elements? Then tiles begin there as well.
  const std::intptr_t a = reinterpret_cast<std::intptr_t>(p.a);
  const std::intptr_t out = reinterpret_cast<std::intptr_t>(p.out);
  const bool level = p.out_row % kLine == 0 && out % kSize == 0;
  const int64_t below = kStream && !level ? kLine / kSize : 0;
  const int64_t step = kStream && !level ? kPitch / kSize - below : kEdge<kSize>;
  const int64_t above = kStream && level ? out % kTileBytes / kSize : 0;
  const int64_t before = kStream ? a % kTileBytes / kSize : 0;
  const int64_t bands = (above + p.rows + step - 1) / step;
  const int64_t columns = (before + p.cols + kEdge<kSize> - 1) / kEdge<kSize>;
  alignas(kLine) std::byte buffer[kBuffer<kSize>];
  for (int64_t i = bands * columns * thread / threads,
               end = bands * columns * (thread + 1) / threads;
       i < end; ++i) {
    const int64_t bottom = (i / columns + 1) * step - above;
    const int64_t right = (i % columns + 1) * kEdge<kSize> - before;
    const int64_t row = max(bottom - step, 0), col = max(right - kEdge<kSize>, 0);
    Tile tile{row, col, min(bottom + below, p.rows) - row, min(right, p.cols) - col};
    fetch<kSize>(p, tile, buffer);
    const std::byte* next = p.from(tile.row, tile.col) + 2 * kTileBytes;
    if constexpr (kStream) {
      tile.height = min(bottom, p.rows) - tile.row;
      store_lines<kSize>(p, tile, level, buffer, next);
    } else {
      store<kSize>(p, tile, buffer, next);
    }
  }
  if constexpr (kStream) finish_streaming();
}

// In place, a tile changes places with its mirror image. Both have just been read, so ordinary
// stores find the lines in the cache.
template <int kSize>
void exchange_tiles(const Problem& p, int thread, int threads) {
  const int64_t before = reinterpret_cast<std::intptr_t>(p.a) % kTileBytes / kSize;
  const int64_t bands = (before + p.rows + kEdge<kSize> - 1) / kEdge<kSize>;
  alignas(kLine) std::byte upper[kBuffer<kSize>], lower[kBuffer<kSize>];
  const auto tile_at = [&](int64_t i, int64_t j) {
    const int64_t row = max(i * kEdge<kSize> - before, 0);
    const int64_t col = max(j * kEdge<kSize> - before, 0);
    return Tile{row, col, min((i + 1) * kEdge<kSize> - before, p.rows) - row,
                min((j + 1) * kEdge<kSize> - before, p.cols) - col};
  };
  for (int64_t i = thread; i < bands; i += threads) {
    for (int64_t j = i; j < bands; ++j) {
      const Tile over = tile_at(i, j), under = tile_at(j, i);
      fetch<kSize>(p, over, upper);
      if (i != j) fetch<kSize>(p, under, lower);
      store<kSize>(p, over, upper, p.from(under.row + under.height, under.col));
      if (i != j) store<kSize>(p, under, lower, p.from(over.row, over.col + over.width));
    }
  }
}

// Where a's columns are contiguous as well, out's rows are copies of them: this thread's share.
void copy_rows(const Problem& p, int64_t size, bool streaming, int thread, int threads) {
  constexpr int64_t kPiece = 64 << 10;
  int64_t count = p.cols, bytes = p.rows * size;
  if (p.a_col == bytes && p.out_row == bytes) {
    bytes *= count;
    count = 1;
  }
  const int64_t pieces = (bytes + kPiece - 1) / kPiece;
  for (int64_t i = count * pieces * thread / threads, end = count * pieces * (thread + 1) / threads;
       i < end; ++i) {
    const int64_t at = i % pieces * kPiece;
    std::byte* to = p.to(0, i / pieces) + at;
    const std::byte* from = p.from(0, i / pieces) + at;
    const int64_t length = min(kPiece, bytes - at);
    if (streaming)
      stream(to, from, length);
    else
      std::memcpy(to, from, length);
  }
  if (streaming) finish_streaming();
}

// What a thread does, whatever the strides.
template <int kSize>
void transpose_share(const Problem& p, bool streaming, int thread, int threads) {
  if (p.in_place)
    exchange_tiles<kSize>(p, thread, threads);
  else if (p.a_row == kSize && p.out_col == kSize)
    copy_rows(p, kSize, streaming, thread, threads);
  else if (streaming && p.out_col == kSize)
    transpose_tiles<kSize, true>(p, thread, threads);
  else
    transpose_tiles<kSize, false>(p, thread, threads);
}

// ------------------------------------------------------------------------------------ their rungs

// Outputs from this size on are streamed: a and out of 2 x 8 MiB fill half an L3 of 32 MiB, and a
// cached copy of more than that is gone before anyone reads it. Called again and again on one
// thread (Zen 5, float32), ordinary stores win by a tenth at 8 MiB, are equal at 11 MiB, and lose
// by half at 16 MiB; for arrays that are not in the cache at the start, streaming wins from 2 MiB
// on.
constexpr int64_t kStreamFrom = 8 << 20;

template <int kSize>
bool worth_streaming(const Problem& p) {
  return p.rows * p.cols * kSize >= kStreamFrom;
}

struct StreamCopy {
  template <int kSize>
  static void run(const Problem& p) {
    stream_copy(p.out, p.a, p.rows * p.cols * kSize);
  }
};

struct Simd {
  template <int kSize>
  static void run(const Problem& p) {
    transpose_share<kSize>(p, false, 0, 1);
  }
};

struct Streaming {
  template <int kSize>
  static void run(const Problem& p) {
    transpose_share<kSize>(p, worth_streaming<kSize>(p), 0, 1);
  }
};

struct Threaded {
  template <int kSize>
  static void run(const Problem& p) {
    in_parallel(threads_for(2 * p.rows * p.cols * kSize), [&](int thread, int threads) {
      transpose_share<kSize>(p, worth_streaming<kSize>(p), thread, threads);
    });
  }
};

const char* copy_refuses(const Transpose& p) {
  if (!p.a.packed()) return "needs packed a";
  if (!p.out.packed()) return "needs packed out";
  return nullptr;
}

constexpr Variant<Transpose> kVariants[] = {
    {.name = "stream_copy",
     .changes = "Moves the bytes straight across, with all threads and past the cache.",
     .ceiling = true,
     .why_not = copy_refuses,
     .run = run<StreamCopy>},
    {.name = "textbook",
     .changes = "Two loops, along the rows of the input.",
     .run = run<Textbook>},
    {.name = "blocked",
     .changes = "Goes over square blocks that fit the L1 cache.",
     .run = run<Blocked>},
    {.name = "simd", .changes = "Transposes each block in vector registers.", .run = run<Simd>},
    {.name = "streaming",
     .changes = "Writes an output larger than the cache in whole lines with non-temporal stores.",
     .run = run<Streaming>},
    {.name = "threaded", .changes = "Shares the blocks out over the cores.", .run = run<Threaded>},
};

}  // namespace

Ladder<Transpose> transpose_ladder() { return ladder_of(kVariants); }

}  // namespace ado::ADO_ISA
