// Transpose, the last step for every GPU: `wide`. Accesses move 16 bytes, except at the edges of
// the matrix.
//
//   a in global memory --16 bytes--> registers --transposed, 16 bytes--> shared memory
//   shared memory --16 bytes--> registers --16 bytes--> out in global memory
//
// A vector of 16 bytes along a row of a contains elements of one row of a. A vector along a row of
// out contains elements of one column of a. The conversion happens in registers: a thread loads
// kSide vectors from kSide rows, where kSide is the number of elements per vector. They form a
// square micro-tile, which the thread transposes. So shared memory is also accessed by vectors.
#pragma once

#include "transpose/matrix.cuh"

namespace ado::cuda {
namespace {

constexpr Extent kBlock{32, 8};
constexpr int kThreads = kBlock.volume();

// The tile of a thread block: 256 bytes along the rows of a, and 256 bytes along the rows of out,
// or 512 bytes if elements are wide.
template <int kSize>
struct WideTile {
  static constexpr int kSide = kVectorBytes / kSize;  // elements per vector, side of a micro-tile
  static constexpr int kAcross = 16, kDown = kSize >= 8 ? 32 : 16;      // vectors
  static constexpr int kRows = kDown * kSide, kCols = kAcross * kSide;  // elements of a
  static constexpr int kBytes = kDown * kCols * kVectorBytes;           // of shared memory
};

// Blocks that are neighbours in x store neighbouring parts of the same rows of out, so the next
// block completes the DRAM pages that one block leaves incomplete. On an H200 (2026), loading the
// same rows of a in neighbouring blocks instead takes 2 to 3 % longer, with bands of tiles up to
// 8 %.
Extent grid_of_wide_tiles(const Transpose& p) {
  if (p.rows() == 0) return {};
  return with_size(p, [&](auto size) {
    return grid_of(ceil_div(p.rows(), WideTile<size>::kRows),
                   ceil_div(p.cols(), WideTile<size>::kCols));
  });
}

#ifdef __CUDACC__

// The remainder operation only tells the compiler the range, which saves registers.
__device__ int thread_in_block() {
  return static_cast<int>((threadIdx.y * kBlock.x + threadIdx.x) % kThreads);
}

// Swaps, in every pair of neighbouring blocks of kBlock bytes, the second block of `upper` with the
// first block of `lower`.
template <int kBlock, int kWords>
__device__ void swap_blocks(Vector<unsigned, kWords>& upper, Vector<unsigned, kWords>& lower) {
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    if constexpr (kBlock >= 4) {  // whole words: free, because the compiler renames registers
      constexpr int kStep = kBlock / 4;
      if (w & kStep) continue;
      const unsigned second = upper.at[w + kStep];
      upper.at[w + kStep] = lower.at[w];
      lower.at[w] = second;
    } else {
      constexpr unsigned kFirsts = kBlock == 2 ? 0x5410 : 0x6240;
      constexpr unsigned kSeconds = kBlock == 2 ? 0x7632 : 0x7351;
      const unsigned firsts = __byte_perm(upper.at[w], lower.at[w], kFirsts);
      lower.at[w] = __byte_perm(upper.at[w], lower.at[w], kSeconds);
      upper.at[w] = firsts;
    }
  }
}

// Transposes a micro-tile of elements of kSize bytes recursively: swaps the off-diagonal quarters
// of the square, then the off-diagonal quarters of each quarter. With 4 elements per vector, row a
// in vector[0]:
//
//                loaded          kBlock: 2 elements    kBlock: 1 element
//   vector[0]    a0 a1 a2 a3     a0 a1|c0 c1           a0 b0 c0 d0
//   vector[1]    b0 b1 b2 b3     b0 b1|d0 d1           a1 b1 c1 d1
//                                -----+-----
//   vector[2]    c0 c1 c2 c3     a2 a3|c2 c3           a2 b2 c2 d2
//   vector[3]    d0 d1 d2 d3     b2 b3|d2 d3           a3 b3 c3 d3
//
// 16 x 16 elements of 1 byte take 128 byte permutes, half a permute per byte. For elements of 4
// bytes and more, no instructions are needed.
template <int kSize, int kWords, int kSide, int kBlock = 2 * kWords>
__device__ void transpose_in_registers(Vector<unsigned, kWords> (&vector)[kSide]) {
  static_assert(kSide * kSize == 4 * kWords);
  if constexpr (kBlock >= kSize) {
    constexpr int kStep = kBlock / kSize;
#pragma unroll
    for (int i = 0; i < kSide; ++i)
      if (!(i & kStep)) swap_blocks<kBlock>(vector[i], vector[i + kStep]);
    if constexpr (kBlock > 1) transpose_in_registers<kSize, kWords, kSide, kBlock / 2>(vector);
  }
}

// 16 bytes per access: fewer instructions move more bytes. Rows of a and out are aligned to 16
// bytes. Columns of both are indexed in bytes.
template <int kSize>
__global__ void __launch_bounds__(kThreads) transpose_wide(ConstBytes a, Bytes out) {
  using Tile = WideTile<kSize>;
  using Words = Vector<unsigned, kVectorBytes / 4>;
  using Elements = Vector<Element<kSize>, Tile::kSide>;
  constexpr int kSide = Tile::kSide, kAcross = Tile::kAcross, kDown = Tile::kDown;
  constexpr int kTeams = kThreads / kAcross, kMicroTiles = kDown / kTeams;  // per thread
  extern __shared__ __align__(16) std::byte shared[];
  const auto tile = reinterpret_cast<Words*>(shared);

  // The swizzle. The tile in shared memory has kCols lines, one per row of out, of kDown vectors.
  // Lanes that write vector `group` of neighbouring micro-tile columns must access different banks,
  // and so must lanes that read along a line. Eight vectors span the banks. An XOR of the position
  // with the micro-tile column achieves both, and unlike padding, it takes no space. The table
  // shows which vector is stored at each position:
  //
  //   position    0  1  2  3  4  5  6  7
  //   column 0    0  1  2  3  4  5  6  7
  //   column 1    1  0  3  2  5  4  7  6
  //   column 2    2  3  0  1  6  7  4  5
  //   column 3    3  2  1  0  7  6  5  4
  //   ...                                     vector 0 of each column has a different position
  const auto slot = [](int column, int i, int group) {
    return (column * kSide + i) * kDown + (group ^ column % 8);
  };

  // The position of the tile. If possible, the last tile of a row of tiles is shifted left until it
  // is inside the matrix, so that it contains no incomplete vectors. Its block stores only the
  // columns from first_stored on, because another block stores the columns before them.
  const std::int64_t first_row = block_x() * Tile::kRows, first_stored = block_y() * Tile::kCols;
  if (first_stored >= out.rows) return;                  // the grid is rounded up
  const std::int64_t last_col = out.rows - Tile::kCols;  // of a tile inside the matrix
  const bool movable = kSide > 1 && last_col >= 0 && last_col * kSize % kVectorBytes == 0;
  const std::int64_t first_col = movable ? min(first_stored, last_col) : first_stored;
  const bool rows_inside = first_row + Tile::kRows <= a.rows;

  // Loads micro-tiles, transposes them, and writes them to shared memory. A team of 16 lanes loads
  // 256 contiguous bytes of a row. In a single version for all tiles, the predicated code for tiles
  // at the edge would slow down the tiles inside the matrix and use more registers.
  const auto load = [&](auto rows_known_inside, auto cols_known_inside) {
    constexpr bool kRowsInside = rows_known_inside.value, kColsInside = cols_known_inside.value;
    const int lane = thread_in_block() % kAcross, team = thread_in_block() / kAcross;
    const std::int64_t byte = (first_col + lane * kSide) * kSize;
    // Checks take registers, so tiles with columns outside have one micro-tile in flight.
    constexpr int kInFlight = kColsInside || kSide == 1 ? kMicroTiles : 1;
#pragma unroll 1
    for (int group = team; group < kDown; group += kTeams * kInFlight) {
      Words micro_tile[kInFlight][kSide];
#pragma unroll
      for (int m = 0; m < kInFlight; ++m) {
#pragma unroll
        for (int i = 0; i < kSide; ++i) {
          std::int64_t row = first_row + (group + m * kTeams) * kSide + i;
          // The last row replaces rows outside the matrix, so that all loads can be in flight.
          if (!kRowsInside) row = min(row, a.rows - 1);
          const std::byte* from = &a(row, byte);
          if (kColsInside || byte + kVectorBytes <= a.cols) {
            micro_tile[m][i] = *reinterpret_cast<const Words*>(from);
          } else if constexpr (kSide > 1) {
            Elements elements;
#pragma unroll
            for (int k = 0; k < kSide; ++k)
              if (byte + k * kSize < a.cols)
                elements.at[k] = reinterpret_cast<const Element<kSize>*>(from)[k];
            micro_tile[m][i] = __builtin_bit_cast(Words, elements);
          }
        }
      }
#pragma unroll
      for (int m = 0; m < kInFlight; ++m) {
        transpose_in_registers<kSize>(micro_tile[m]);
#pragma unroll
        for (int i = 0; i < kSide; ++i) tile[slot(lane, i, group + m * kTeams)] = micro_tile[m][i];
      }
    }
  };

  // Stores lines of the tile: each one is a part of a row of out. kDown lanes store one line.
  const auto store = [&](auto known_whole) {
    constexpr bool kWhole = known_whole.value;
    const int group = thread_in_block() % kDown;
    const std::int64_t byte = first_row * kSize + group * kVectorBytes;
#pragma unroll 4
    for (int line = thread_in_block() / kDown; line < Tile::kCols; line += kThreads / kDown) {
      if (!kWhole && first_col + line >= out.rows) break;
      if (!kWhole && first_col + line < first_stored) continue;
      std::byte* to = &out(first_col + line, byte);
      const Words vector = tile[slot(line / kSide, line % kSide, group)];
      if (kWhole || byte + kVectorBytes <= out.cols) {
        *reinterpret_cast<Words*>(to) = vector;
      } else if constexpr (kSide > 1) {
        const auto elements = __builtin_bit_cast(Elements, vector);
#pragma unroll
        for (int k = 0; k < kSide; ++k)
          if (byte + k * kSize < out.cols)
            reinterpret_cast<Element<kSize>*>(to)[k] = elements.at[k];
      }
    }
  };

  const std::true_type yes;
  const std::false_type no;
  if (first_col > last_col)
    load(no, no);
  else if (rows_inside)
    load(yes, yes);
  else
    load(no, yes);
  __syncthreads();
  if (rows_inside && first_stored <= last_col)
    store(yes);
  else
    store(no);
}

#endif

}  // namespace
}  // namespace ado::cuda
