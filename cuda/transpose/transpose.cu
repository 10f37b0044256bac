// Transpose on the GPU: out[col][row] = a[row][col], from one strided store an element to the speed
// of a copy.
//
// Nothing is computed, so all that counts is how memory is asked. DRAM and L2 move sectors of 32
// bytes, and a warp is served best when its lanes ask for whole sectors side by side. In a
// transpose either the loads or the stores run across the rows. The rungs repair that: first with a
// tile in shared memory, then with fewer and wider accesses, then for rows that start anywhere.
//
// Shares in the comments are of cudaMemcpy's time for the same bytes on an H200, L2 flushed.
#include "routines/transpose.hpp"

#include <type_traits>

#include "common/grid.cuh"
#include "core/unsigned.hpp"

namespace ado::cuda {
namespace {

constexpr int kSquare = 32;  // the side of the tile of the simple rungs, in elements
constexpr int kSector = 32;  // bytes that DRAM and L2 move at least
constexpr int kVector = 16;  // bytes that a thread moves at most

constexpr const char* kNotInPlace = "not in place: blocks would overwrite what others still read";

// One block for each `cols` by `rows` elements of a, neighbours in x reading neighbouring columns.
Extent grid_over(const Transpose& p, std::int64_t cols, std::int64_t rows) {
  return grid_of(ceil_div(p.cols(), cols), ceil_div(p.rows(), rows));
}

bool aligned(const Array& m, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(m.data) % bytes == 0 && m.stride[0] % bytes == 0;
}

bool aligned(const Transpose& p, std::int64_t bytes) {
  return aligned(p.a, bytes) && aligned(p.out, bytes);
}

// Calls `visit` with the size of an element as a constant.
template <class Visit>
auto with_size(const Transpose& p, Visit visit) {
  switch (p.a.type.size) {
    case 1:
      return visit(std::integral_constant<int, 1>{});
    case 2:
      return visit(std::integral_constant<int, 2>{});
    case 4:
      return visit(std::integral_constant<int, 4>{});
    case 8:
      return visit(std::integral_constant<int, 8>{});
    default:
      return visit(std::integral_constant<int, 16>{});
  }
}

#ifdef __CUDACC__

// An element is moved, never computed with: all types of one size are one type here.
template <int kSize>
struct ElementOf : UnsignedOf<kSize> {};
template <>
struct ElementOf<16> {
  using Type = uint4;
};
template <int kSize>
using Element = typename ElementOf<kSize>::Type;

template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, cols;
  std::int64_t stride;  // from row to row, in units of T

  __device__ T& operator()(std::int64_t row, std::int64_t col) const {
    return data[row * stride + col];
  }
  __device__ bool contains(std::int64_t row, std::int64_t col) const {
    return row < rows && col < cols;
  }
};

template <class T>
Matrix<T> matrix(const Array& m) {
  return {reinterpret_cast<T*>(m.data), m.shape[0], m.shape[1],
          m.stride[0] / static_cast<std::int64_t>(sizeof(T))};
}

// ---------------------------------------------------------------------------------------------
// The ceiling: the same bytes, in order. One vector a thread is the best there is, 4.28 TB/s for
// 2 GiB where cudaMemcpy has 4.27: the blocks in flight then span the least memory, and DRAM pages
// stay open. Slower were 2, 4 or 8 vectors a thread (3 to 6 %), the bulk copy engine (0.5 to 4 %,
// in a persistent ring 8 %) and loads past L1 (3 %); prefetch and evict-first hints changed
// nothing.
__global__ void transpose_copy(const std::byte* a, std::byte* out, std::int64_t bytes) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kVector;
  if (first + kVector <= bytes) {
    *reinterpret_cast<uint4*>(out + first) = *reinterpret_cast<const uint4*>(a + first);
  } else {
    for (std::int64_t i = first; i < bytes; ++i) out[i] = a[i];
  }
}

// ---------------------------------------------------------------------------------------------
// One thread an element. A warp of 32 columns reads sectors whole and writes to 32 of them; blocks
// that are narrow and tall share the damage between loads and stores: (8, 32) is 3.5x (32, 8).
template <class T>
__global__ void transpose_naive(Matrix<const T> a, Matrix<T> out) {
  const std::int64_t row = block_y() * blockDim.y + threadIdx.y;
  const std::int64_t col = block_x() * blockDim.x + threadIdx.x;
  if (a.contains(row, col)) out(col, row) = a(row, col);
}

// ---------------------------------------------------------------------------------------------
// A block reads a square tile along the rows of a and writes it along the rows of out. It turns
// around in shared memory, where a walk down a column costs no sectors but can cost bank conflicts:
// with a pitch of 32 words, the 32 words of a column lie in one bank and are served in 32 turns.
// One column of padding (a pitch of 33) puts them in 32 banks.
template <int kPitch, int kHeight, class T>
__device__ void transpose_square(Matrix<const T> a, Matrix<T> out) {
  __shared__ T tile[kSquare][kPitch];
  constexpr int kTurns = kSquare / kHeight;
  const std::int64_t first_row = block_y() * kSquare, first_col = block_x() * kSquare;
  const int lane = threadIdx.x, line = threadIdx.y;

  T element[kTurns];  // all loads are under way before the first is waited for
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::int64_t row = first_row + line + turn * kHeight, col = first_col + lane;
    if (a.contains(row, col)) element[turn] = a(row, col);
  }
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) tile[line + turn * kHeight][lane] = element[turn];
  __syncthreads();
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::int64_t row = first_col + line + turn * kHeight, col = first_row + lane;
    if (out.contains(row, col)) out(row, col) = tile[lane][line + turn * kHeight];
  }
}

template <class T>
__global__ void __launch_bounds__(kSquare* kSquare)
    transpose_tiled(Matrix<const T> a, Matrix<T> out) {
  transpose_square<kSquare, kSquare>(a, out);
}

template <class T>
__global__ void __launch_bounds__(kSquare* kSquare)
    transpose_padded(Matrix<const T> a, Matrix<T> out) {
  transpose_square<kSquare + 1, kSquare>(a, out);
}

// A thread that waits for one load has one load's bytes in flight. Fewer threads with more loads
// each keep more bytes in flight and pay for the barrier less often.
template <int kHeight, class T>
__global__ void __launch_bounds__(kSquare* kHeight)
    transpose_coarsened(Matrix<const T> a, Matrix<T> out) {
  transpose_square<kSquare + 1, kHeight>(a, out);
}

// ---------------------------------------------------------------------------------------------
// Packets: 4, 8 or 16 bytes that one access moves. kSide x kSide elements, the rows of a packet
// each, make a micro-tile: one thread loads it, transposes it in registers and passes it on as
// packets again, so that shared memory too is asked for packets, not for elements.

template <int kWidth>
struct alignas(kWidth) Packet {
  static constexpr int kWords = kWidth / 4;
  unsigned word[kWords];
};

// Swaps, in every pair of neighbouring blocks of kBlock bytes, the second of `upper` with the first
// of `lower`.
template <int kBlock, int kWidth>
__device__ void swap_blocks(Packet<kWidth>& upper, Packet<kWidth>& lower) {
#pragma unroll
  for (int w = 0; w < Packet<kWidth>::kWords; ++w) {
    if constexpr (kBlock >= 4) {  // whole words: costs nothing, the compiler renames registers
      constexpr int kStep = kBlock / 4;
      if (w & kStep) continue;
      const unsigned second = upper.word[w + kStep];
      upper.word[w + kStep] = lower.word[w];
      lower.word[w] = second;
    } else {
      constexpr unsigned kFirsts = kBlock == 2 ? 0x5410 : 0x6240;
      constexpr unsigned kSeconds = kBlock == 2 ? 0x7632 : 0x7351;
      const unsigned firsts = __byte_perm(upper.word[w], lower.word[w], kFirsts);
      lower.word[w] = __byte_perm(upper.word[w], lower.word[w], kSeconds);
      upper.word[w] = firsts;
    }
  }
}

// Transposes by halves: swaps the off-diagonal quarters of a square, then those of each quarter.
// 16 x 16 bytes take 128 permutes, half a permute a byte; words and wider take nothing.
template <int kSize, int kWidth, int kBlock = kWidth / 2>
__device__ void transpose_in_registers(Packet<kWidth> (&row)[kWidth / kSize]) {
  if constexpr (kBlock >= kSize) {
    constexpr int kStep = kBlock / kSize;
#pragma unroll
    for (int i = 0; i < kWidth / kSize; ++i)
      if (!(i & kStep)) swap_blocks<kBlock>(row[i], row[i + kStep]);
    if constexpr (kBlock > 1) transpose_in_registers<kSize, kWidth, kBlock / 2>(row);
  }
}

// The packet that begins `offset` bytes into `first` and ends in `second`.
template <int kWidth>
__device__ Packet<kWidth> realign(Packet<kWidth> first, Packet<kWidth> second, unsigned offset) {
  constexpr int kWords = Packet<kWidth>::kWords;
  unsigned word[2 * kWords];
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    word[w] = first.word[w];
    word[kWords + w] = second.word[w];
  }
#pragma unroll
  for (int step = kWords / 2; step > 0; step /= 2)
#pragma unroll
    for (int w = 0; w < 2 * kWords - step; ++w)
      word[w] = offset & (4 * step) ? word[w + step] : word[w];
  Packet<kWidth> result;
#pragma unroll
  for (int w = 0; w < kWords; ++w)
    result.word[w] = __funnelshift_r(word[w], word[w + 1], 8 * (offset % 4));
  return result;
}

#endif

constexpr Extent kBlock{32, 8};
constexpr int kThreads = kBlock.volume();

// How a tile is cut: kAcross packets of kWidth bytes along the rows of a, kLoaded along those of
// out. Each of kThreads threads has kInFlight micro-tiles in flight for each turn that a row takes.
//
// kAlign = 0 promises rows that begin at multiples of kWidth. Otherwise packets are put together
// from two aligned ones, and each row of the tile is stored from the last multiple of kAlign before
// its nominal start: for that, the first kSlack packets along out are loaded in excess.
template <int kSize_, int kWidth_, int kAcross_, int kLoaded_, int kInFlight_, int kAlign_ = 0>
struct Tile {
  static constexpr int kSize = kSize_, kWidth = kWidth_, kAcross = kAcross_, kLoaded = kLoaded_;
  static constexpr int kInFlight = kInFlight_, kAlign = kAlign_;
  static constexpr int kSide = kWidth / kSize;
  static constexpr int kSlack = kAlign / kWidth, kDown = kLoaded - kSlack;
  static constexpr int kRows = kDown * kSide, kCols = kAcross * kSide;  // of a
  static constexpr int kPackets = kAcross * kSide * kLoaded;
  static constexpr bool kShifts = kAlign > 0 && kSize < kWidth;
  static constexpr int kMargin = kShifts ? 1 : 0;  // rows around that aligned packets may reach
};

// Neighbours in x extend the same rows of out: sectors and DRAM pages that one block leaves half
// written are completed by the next. Extending the rows of a instead costs 2 to 3 %, walking in
// bands of tiles up to 8 %. (Only vectors in rows 128 KiB apart are better off in bands of 1024
// rows: 94 %, not 92.)
template <class Tile>
Extent grid_of_tiles(const Transpose& p, Tile) {
  const std::int64_t early = Tile::kAlign > 0 ? Tile::kAlign / Tile::kSize - 1 : 0;
  return p.rows() == 0
             ? Extent{}
             : grid_of(ceil_div(p.rows() + early, Tile::kRows), ceil_div(p.cols(), Tile::kCols));
}

// 256 bytes across, and 256 or, of wide elements, 512 down.
template <int kSize>
constexpr int kWideDown = kSize >= 8 ? 32 : 16;
template <int kSize>
using WideTile = Tile<kSize, kVector, 16, kWideDown<kSize>, kWideDown<kSize> / 16>;

// Where rows start anywhere, a packet of several elements takes two loads and a shift, so elements
// of 4 bytes and more move one by one, still in whole sectors. Smaller ones do not: a shift of
// vectors pays for 2 bytes (89 %, packets of 8 bytes 83 %), no longer for bytes (75 and 78 %).
//
// Tiles take 16 KiB, at most 32: at the end of an unaligned row piece lies a sector that is needed
// again, and L1 must have room to keep it. Tiles that used 200 of the 256 KiB for themselves made
// it 82 % instead of 92.
template <int kSize>
struct RealignedTileOf {
  using Type = Tile<kSize, kSize, 512 / kSize, 32, 4, kSector>;
};
template <>
struct RealignedTileOf<2> {
  using Type = Tile<2, kVector, 16, 16, 1, kSector>;
};
template <>
struct RealignedTileOf<1> {
  using Type = Tile<1, 8, 16, 32, 2, kSector>;
};
template <int kSize>
using RealignedTile = typename RealignedTileOf<kSize>::Type;

// Of a matrix with at most kThin rows or columns, such tiles would be mostly edge. The small
// squares of the simple rungs are up to 3x faster there.
constexpr int kThin = 128;
struct Squares {
  static constexpr int kLoaded = 1, kDown = 1;
};

// In place, tiles are square, and stored from their nominal start, since what lies around them is
// another block's. (Unaligned elements of 1 and 2 bytes are then stored one by one.)
template <class Square>
struct InPlace : Square {
  static_assert(Square::kRows == Square::kCols && Square::kSlack == 0);
};
template <int kSize, int kAlign>
using InPlaceTile =
    InPlace<std::conditional_t<(kSize >= 4),
                               Tile<kSize, kSize, 256 / kSize, 256 / kSize, kSize == 16 ? 1 : 4>,
                               Tile<kSize, 8, 16, 16, 1, kAlign>>>;

#ifdef __CUDACC__

using Bytes = Matrix<std::byte>;
using ConstBytes = Matrix<const std::byte>;

// The remainder changes nothing but tells the compiler the range: 92 registers for bytes, not 138.
__device__ int thread() {
  return static_cast<int>((threadIdx.y * kBlock.x + threadIdx.x) % kThreads);
}

template <class T>
__device__ T load_as(const std::byte* from) {
  return *reinterpret_cast<const T*>(from);
}

// Where a packet lies in shared memory. Lanes that write to neighbouring columns of micro-tiles
// must meet different banks, as must lanes that read along a line. Permuting each line by its
// column does it and, unlike padding, takes no space: a tile of bytes fills the 64 KiB that any
// device has.
template <class Tile>
__device__ int slot(int column, int i, int group) {
  constexpr int kBanks = 128 / Tile::kWidth;  // as wide as a packet
  static_assert(Tile::kLoaded % kBanks == 0);
  return (column * Tile::kSide + i) * Tile::kLoaded + (group ^ column % kBanks);
}

// Tiles that lie well inside the matrix (kWhole) need no bounds. They are compiled apart: otherwise
// the code for the others would be predicated into their way and take registers from them.

template <class Tile, bool kWhole>
__device__ void load_tile(ConstBytes a, std::int64_t first_row, std::int64_t first_col,
                          Packet<Tile::kWidth>* tile) {
  using Packed = Packet<Tile::kWidth>;
  using T = Element<Tile::kSize>;
  constexpr int kLanes = Tile::kAcross < 32 ? Tile::kAcross : 32;
  constexpr int kTurns = Tile::kAcross / kLanes, kTeams = kThreads / kLanes;
  constexpr int kInFlight = kWhole || Tile::kSide == 1 ? Tile::kInFlight : 1;
  // Vectors all arrive before the first is shifted: else too few loads are in flight (83 %, not
  // 89). For packets of 8 bytes it is the other way round (77 %, not 72).
  constexpr bool kShiftsLate = kWhole && Tile::kShifts && Tile::kWidth == kVector;
  static_assert(Tile::kLoaded % (kTeams * kInFlight) == 0);
  const int lane = thread() % kLanes, team = thread() / kLanes;
  const std::byte* end = &a(a.rows - 1, a.cols);

#pragma unroll 1
  for (int group = team; group < Tile::kLoaded; group += kTeams * kInFlight) {
    Packed micro_tile[kInFlight][kTurns][Tile::kSide], next[kInFlight][kTurns][Tile::kSide];
    unsigned shift[Tile::kSide];  // by row; the same for all groups
#pragma unroll
    for (int flight = 0; flight < kInFlight; ++flight) {
#pragma unroll
      for (int i = 0; i < Tile::kSide; ++i) {
        const std::int64_t row = first_row + (group + flight * kTeams) * Tile::kSide + i;
        if (!kWhole && (row < 0 || row >= a.rows)) continue;
        const std::int64_t byte = (first_col + lane * Tile::kSide) * Tile::kSize;
        const std::byte* from = &a(row, byte);
        const unsigned offset =
            Tile::kShifts ? reinterpret_cast<std::uintptr_t>(from) % Tile::kWidth : 0;
        shift[i] = offset;
        const std::byte* first = from - offset;
        const std::byte* second = offset != 0 ? first + Tile::kWidth : first;
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn) {
          const int skip = turn * kLanes * Tile::kWidth;
          Packed& packet = micro_tile[flight][turn][i];
          if (kWhole || (byte + skip + Tile::kWidth <= a.cols &&
                         (!Tile::kShifts ||
                          (first + skip >= a.data && second + skip + Tile::kWidth <= end)))) {
            packet = load_as<Packed>(first + skip);
            if constexpr (kShiftsLate)
              next[flight][turn][i] = load_as<Packed>(second + skip);
            else if constexpr (Tile::kShifts)
              packet = realign(packet, load_as<Packed>(second + skip), offset);
          } else if constexpr (Tile::kSide > 1) {
            T element[Tile::kSide];
#pragma unroll
            for (int k = 0; k < Tile::kSide; ++k)
              if (byte + skip + k * Tile::kSize < a.cols)
                element[k] = load_as<T>(from + skip + k * Tile::kSize);
            memcpy(&packet, element, sizeof packet);
          }
        }
      }
    }
#pragma unroll
    for (int flight = 0; flight < kInFlight; ++flight) {
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        if constexpr (kShiftsLate)
#pragma unroll
          for (int i = 0; i < Tile::kSide; ++i)
            micro_tile[flight][turn][i] =
                realign(micro_tile[flight][turn][i], next[flight][turn][i], shift[i]);
        transpose_in_registers<Tile::kSize>(micro_tile[flight][turn]);
#pragma unroll
        for (int i = 0; i < Tile::kSide; ++i)
          tile[slot<Tile>(turn * kLanes + lane, i, group + flight * kTeams)] =
              micro_tile[flight][turn][i];
      }
    }
  }
}

// Stores the tile to the rows of `out` from first_row and, in each, from byte `start` less what it
// takes to reach a multiple of kAlign; only what lies in bytes [first_byte, last_byte) of the row.
template <class Tile, bool kWhole>
__device__ void store_tile(Bytes out, std::int64_t first_row, std::int64_t start,
                           std::int64_t first_byte, std::int64_t last_byte,
                           const Packet<Tile::kWidth>* tile) {
  using Packed = Packet<Tile::kWidth>;
  using T = Element<Tile::kSize>;
  constexpr bool kPacketsFit = !Tile::kShifts || Tile::kAlign % Tile::kWidth == 0;
  constexpr int kLanes = Tile::kDown <= 16 ? 16 : 32;
  constexpr int kTeams = kThreads / kLanes;
  const int lane = thread() % kLanes, team = thread() / kLanes;

#pragma unroll 4
  for (int row = team; row < Tile::kCols; row += kTeams) {
    if (!kWhole && first_row + row >= out.rows) break;
    std::byte* to = &out(first_row + row, start);
    const int early = Tile::kAlign > 0
                          ? static_cast<int>(reinterpret_cast<std::uintptr_t>(to) % Tile::kAlign)
                          : 0;
    const int column = row / Tile::kSide, i = row % Tile::kSide;
#pragma unroll
    for (int packet = lane; packet < Tile::kDown; packet += kLanes) {
      const int at = packet * Tile::kWidth - early;       // from `to`
      const int from = at + Tile::kSlack * Tile::kWidth;  // from where the line was loaded
      Packed value = tile[slot<Tile>(column, i, from / Tile::kWidth)];
      if constexpr (Tile::kShifts && kPacketsFit) {
        const int last = (from + Tile::kWidth - 1) / Tile::kWidth;
        value = realign(value, tile[slot<Tile>(column, i, last)], from % Tile::kWidth);
      }
      if (kPacketsFit &&
          (kWhole || (start + at >= first_byte && start + at + Tile::kWidth <= last_byte))) {
        *reinterpret_cast<Packed*>(to + at) = value;
      } else if constexpr (Tile::kSide > 1) {
        T element[Tile::kSide];
        memcpy(element, &value, sizeof value);
#pragma unroll
        for (int k = 0; k < Tile::kSide; ++k) {
          const std::int64_t byte = start + at + k * Tile::kSize;
          if (byte >= first_byte && byte < last_byte)
            *reinterpret_cast<T*>(to + at + k * Tile::kSize) = element[k];
        }
      }
    }
  }
}

// `a` and `out` count their columns in bytes.
template <class Tile, bool kWhole>
__device__ void transpose_tile(ConstBytes a, Bytes out, std::int64_t row, std::int64_t col,
                               Packet<Tile::kWidth>* tile) {
  load_tile<Tile, kWhole>(a, row - Tile::kSlack * Tile::kSide, col, tile);
  __syncthreads();
  store_tile<Tile, kWhole>(out, col, row * Tile::kSize, 0, out.cols, tile);
}

template <class Tile>
__device__ void transpose_tile(ConstBytes a, Bytes out, Packet<Tile::kWidth>* tile) {
  const std::int64_t row = block_x() * Tile::kRows, col = block_y() * Tile::kCols;
  const bool whole = row >= Tile::kSlack * Tile::kSide + Tile::kMargin &&
                     row + Tile::kRows + Tile::kMargin <= a.rows &&
                     (col + Tile::kCols) * Tile::kSize <= a.cols;
  if (whole)
    transpose_tile<Tile, true>(a, out, row, col, tile);
  else
    transpose_tile<Tile, false>(a, out, row, col, tile);
}

template <class Tile>
__global__ void __launch_bounds__(kThreads) transpose_wide(ConstBytes a, Bytes out) {
  extern __shared__ __align__(16) std::byte shared[];
  transpose_tile<Tile>(a, out, reinterpret_cast<Packet<Tile::kWidth>*>(shared));
}

template <class Tile>
__global__ void __launch_bounds__(kThreads) transpose_realigned(ConstBytes a, Bytes out) {
  extern __shared__ __align__(16) std::byte shared[];
  transpose_tile<Tile>(a, out, reinterpret_cast<Packet<Tile::kWidth>*>(shared));
}

// Swaps tile (row, col) with tile (col, row): one block holds both, so none overwrites what another
// has yet to read. Block (x, y) of a grid of n + 1 by n / 2 stands for a tile on or above the
// diagonal: row y from the top or, where x would lie below the diagonal, row y from the bottom.
template <class Tile, bool kWhole>
__device__ void swap_tiles(Bytes m, std::int64_t row, std::int64_t col,
                           Packet<Tile::kWidth>* tiles) {
  const ConstBytes a{m.data, m.rows, m.cols, m.stride};
  const auto last_byte = [&](std::int64_t first) {
    return min((first + Tile::kRows) * Tile::kSize, m.cols);
  };
  load_tile<Tile, kWhole>(a, row, col, tiles);
  if (row != col) load_tile<Tile, kWhole>(a, col, row, tiles + Tile::kPackets);
  __syncthreads();
  store_tile<Tile, kWhole>(m, col, row * Tile::kSize, row * Tile::kSize, last_byte(row), tiles);
  if (row != col)
    store_tile<Tile, kWhole>(m, row, col * Tile::kSize, col * Tile::kSize, last_byte(col),
                             tiles + Tile::kPackets);
}

template <class Tile>
__global__ void __launch_bounds__(kThreads) transpose_in_place(Bytes m) {
  extern __shared__ __align__(16) std::byte shared[];
  auto* tiles = reinterpret_cast<Packet<Tile::kWidth>*>(shared);
  const std::int64_t x = block_x(), y = block_y(), last = gridDim.x - 2;
  const std::int64_t row = (x > y ? y : last - y) * Tile::kRows;
  const std::int64_t col = (x > y ? x - 1 : last - x) * Tile::kRows;
  if (col >= m.rows || 2 * y > last) return;  // the grid is rounded up
  if (row >= Tile::kMargin && col + Tile::kRows + Tile::kMargin <= m.rows)
    swap_tiles<Tile, true>(m, row, col, tiles);
  else
    swap_tiles<Tile, false>(m, row, col, tiles);
}

ConstBytes input(const Transpose& p) {
  return {p.a.data, p.rows(), p.cols() * p.a.type.size, p.a.stride[0]};
}

Bytes output(const Transpose& p) {
  return {p.out.data, p.cols(), p.rows() * p.out.type.size, p.out.stride[0]};
}

template <class Tile>
void launch_tile(const Transpose& p, const Launch& go, Tile) {
  if constexpr (Tile::kAlign > 0)
    launch(go, transpose_realigned<Tile>, input(p), output(p));
  else
    launch(go, transpose_wide<Tile>, input(p), output(p));
}

void launch_tile(const Transpose& p, const Launch& go, Squares) {
  with_size(p, [&](auto size) {
    using T = Element<size>;
    launch(go, transpose_coarsened<kBlock.y, T>, matrix<const T>(p.a), matrix<T>(p.out));
  });
}

template <class Tile>
void launch_tile(const Transpose& p, const Launch& go, InPlace<Tile>) {
  launch(go, transpose_in_place<Tile>, output(p));
}

#endif

// Which tile the last rung works with: calls `visit` with it.
template <class Visit>
auto with_tile(const Transpose& p, Visit visit) {
  return with_size(p, [&](auto size) {
    constexpr int kSize = size;
    if (p.in_place())
      return aligned(p, 8) ? visit(InPlaceTile<kSize, 0>{}) : visit(InPlaceTile<kSize, kSize>{});
    if (p.rows() <= kThin || p.cols() <= kThin) return visit(Squares{});
    return aligned(p.a, kVector) && aligned(p.out, kSector) ? visit(WideTile<kSize>{})
                                                            : visit(RealignedTile<kSize>{});
  });
}

template <class Tile>
constexpr std::size_t shared_bytes_of(Tile) {
  return std::size_t{Tile::kPackets} * Tile::kWidth;
}
constexpr std::size_t shared_bytes_of(Squares) { return 0; }
template <class Tile>
constexpr std::size_t shared_bytes_of(InPlace<Tile>) {
  return 2 * shared_bytes_of(Tile{});
}

template <class Tile>
Extent grid_of_tiles(const Transpose& p, InPlace<Tile>) {
  const std::int64_t tiles = ceil_div(p.rows(), Tile::kRows), even = tiles + tiles % 2;
  return tiles == 0 ? Extent{} : grid_of(even + 1, even / 2);
}

Extent grid_of_tiles(const Transpose& p, Squares) { return grid_over(p, kSquare, kSquare); }

const char* why_not_in_place(const Transpose& p) { return p.in_place() ? kNotInPlace : nullptr; }

Extent grid_of_squares(const Transpose& p, Extent) { return grid_of_tiles(p, Squares{}); }

constexpr Variant<Transpose> kVariants[] = {
    {.name = "copy",
     .changes = "Copies the same bytes in order, one 16-byte vector a thread.",
     .device = Device::kCuda,
     .ceiling = true,
     .why_not = [](const Transpose& p) -> const char* {
       if (!p.a.packed() || !p.out.packed())
         return "rows are padded, so their bytes are not in order";
       const auto misaligned = [](const Array& m) {
         return reinterpret_cast<std::uintptr_t>(m.data) % kVector != 0;
       };
       if (misaligned(p.a) || misaligned(p.out)) return "the arrays are not aligned to 16 bytes";
       return nullptr;
     },
     .blocks = {{{256}, {128}, {512}, {1024}}},
     .grid = [](const Transpose& p,
                Extent block) { return grid_of(ceil_div(p.a.bytes(), kVector * block.x), 1); },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       launch(go, transpose_copy, p.a.data, p.out.data, p.a.bytes());
     })},
    {.name = "naive",
     .changes = "One thread an element: loads run along the rows, stores across them.",
     .device = Device::kCuda,
     .why_not = why_not_in_place,
     .blocks = {{{32, 8}, {32, 32}, {16, 16}, {8, 32}, {4, 64}, {1, 256}}},
     .grid = [](const Transpose& p, Extent block) { return grid_over(p, block.x, block.y); },
     // An element that is stored alone costs a whole sector.
     .bytes =
         [](const Transpose& p) {
           const int size = p.a.type.size;
           return static_cast<double>(p.a.elements()) * (size + (size < kSector ? kSector : size));
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         launch(go, transpose_naive<T>, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "tiled",
     .changes = "Turns a tile around in shared memory, so that stores run along the rows too.",
     .device = Device::kCuda,
     .why_not = why_not_in_place,
     .blocks = {{{kSquare, kSquare}}},
     .grid = grid_of_squares,
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         launch(go, transpose_tiled<T>, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "padded",
     .changes = "Pads the tile by one column, so that its columns spread over all banks.",
     .device = Device::kCuda,
     .why_not = why_not_in_place,
     .blocks = {{{kSquare, kSquare}}},
     .grid = grid_of_squares,
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         launch(go, transpose_padded<T>, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "coarsened",
     .changes = "Gives each thread several elements, so that several loads are in flight.",
     .device = Device::kCuda,
     .why_not = why_not_in_place,
     .blocks = {{{kSquare, 4}, {kSquare, 2}, {kSquare, 8}, {kSquare, 16}}},
     .grid = grid_of_squares,
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         const auto kernel = go.block.y == 2   ? transpose_coarsened<2, T>
                             : go.block.y == 4 ? transpose_coarsened<4, T>
                             : go.block.y == 8 ? transpose_coarsened<8, T>
                                               : transpose_coarsened<16, T>;
         launch(go, kernel, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "wide",
     .changes =
         "Moves 16 bytes an access everywhere, small elements being transposed in registers.",
     .device = Device::kCuda,
     .why_not = [](const Transpose& p) -> const char* {
       if (p.in_place()) return kNotInPlace;
       return aligned(p, kVector) ? nullptr : "rows are not aligned to 16 bytes";
     },
     .blocks = {{kBlock}},
     .grid =
         [](const Transpose& p, Extent) {
           return with_size(p, [&](auto size) { return grid_of_tiles(p, WideTile<size>{}); });
         },
     .shared_bytes =
         [](const Transpose& p, Extent) {
           return with_size(p, [](auto size) { return shared_bytes_of(WideTile<size>{}); });
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(
           p, [&](auto size) { launch(go, transpose_wide<WideTile<size>>, input(p), output(p)); });
     })},
    {.name = "realigned",
     .changes = "Keeps accesses aligned where rows are not, and swaps pairs of tiles in place.",
     .device = Device::kCuda,
     .blocks = {{kBlock}},
     .grid = [](const Transpose& p,
                Extent) { return with_tile(p, [&](auto tile) { return grid_of_tiles(p, tile); }); },
     .shared_bytes =
         [](const Transpose& p, Extent) {
           return with_tile(p, [](auto tile) { return shared_bytes_of(tile); });
         },
     .bytes =
         [](const Transpose& p) {
           return with_tile(p, [&]<class Tile>(Tile) {
             return static_cast<double>(p.a.bytes()) *
                    (1 + static_cast<double>(Tile::kLoaded) / Tile::kDown);
           });
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_tile(p, [&](auto tile) { launch_tile(p, go, tile); });
     })},
};

}  // namespace

Ladder<Transpose> transpose_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda
