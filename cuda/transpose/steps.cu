// Transpose on the GPU, the steps: out[col][row] = a[row][col]. They range from one strided store
// per element to the throughput of a copy. Read them beside the slides "Matrix Transpose" and the
// post "An Efficient Matrix Transpose in CUDA C/C++" (M. Harris, NVIDIA, 2013). engine/ has the
// variants for unaligned rows, thin matrices and transposes in place.
//
// Nothing is computed, so only the memory access pattern matters. DRAM and L2 transfer sectors of
// 32 bytes, and accesses are fastest if the lanes of a warp access whole, neighbouring sectors. A
// direct transpose either loads or stores across the rows. The steps avoid that with a tile in
// shared memory, and then use fewer and wider accesses.
#include "routines/transpose.hpp"

#include "common/grid.cuh"
#include "common/micro_tile.cuh"
#include "common/tensor_copy.cuh"

namespace ado::cuda {
namespace {

constexpr int kTile = 32;  // side of a square tile, in elements

// One block per `cols` x `rows` elements of a. Blocks that are neighbours in x read neighbouring
// columns.
Extent grid_over(const Transpose& p, std::int64_t cols, std::int64_t rows) {
  return grid_of(ceil_div(p.cols(), cols), ceil_div(p.rows(), rows));
}
Extent grid_of_tiles(const Transpose& p, Extent) { return grid_over(p, kTile, kTile); }

#ifdef __CUDACC__

// Launches a kernel with pointers to the elements or bytes of a and out, the distances between rows
// in units of T, and the size of a.
template <class T>
void run(const Transpose& p, const Launch& go,
         void (*kernel)(const T* a, std::int64_t a_pitch, T* out, std::int64_t out_pitch,
                        std::int64_t rows, std::int64_t cols)) {
  constexpr std::int64_t kSize = sizeof(T);
  launch(go, kernel, p.a.as<const T>(), p.a.stride[0] / kSize, p.out.as<T>(),
         p.out.stride[0] / kSize, p.rows(), p.cols());
}

#endif

// ---- copy ---------------------------------------------------------------------------------------
// The ceiling: copies the bytes in order.
//
// One 16-byte vector per thread is the fastest of the versions tried (H200, 2026), as fast as
// cudaMemcpy: the resident blocks then span the least memory, which keeps DRAM pages open. Slower
// versions: 2, 4 or 8 vectors per thread (3 to 6 %), the bulk copy engine (0.5 to 4 %, in a
// persistent ring 8 %), and loads that bypass L1 (3 %). Prefetch and evict-first hints made no
// difference.
#ifdef __CUDACC__
__global__ void transpose_copy(const std::byte* a, std::byte* out, std::int64_t bytes) {
  const std::int64_t first = thread_x() * kVectorBytes;
  if (first + kVectorBytes <= bytes) {
    *reinterpret_cast<uint4*>(out + first) = *reinterpret_cast<const uint4*>(a + first);
  } else {
    for (std::int64_t i = first; i < bytes; ++i) out[i] = a[i];
  }
}
#endif

constexpr Variant<Transpose> kCopy = {
    .name = "copy",
    .changes = "Copies the same number of bytes in order, one 16-byte vector per thread.",
    .ceiling = true,
    .why_not = [](const Transpose& p) -> const char* {
      if (!p.a.packed() || !p.out.packed())
        return "rows are padded, so the bytes are not contiguous";
      return starts_at_vector(p.a.data) && starts_at_vector(p.out.data)
                 ? nullptr
                 : "the arrays are not aligned to 16 bytes";
    },
    .blocks = {{{256}, {128}, {512}, {1024}}},
    .grid = [](const Transpose& p,
               Extent block) { return grid_of(ceil_div(p.a.bytes(), kVectorBytes * block.x), 1); },
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      launch(go, transpose_copy, p.a.data, p.out.data, p.a.bytes());
    })};

// ---- naive, narrow_blocks -----------------------------------------------------------------------
// One thread per element.
//
// The 32 lanes of a warp read neighbouring elements of one row, which is coalesced. They write to
// 32 rows, which costs one sector of 32 bytes per element.
#ifdef __CUDACC__
template <class T>
__global__ void transpose_naive(const T* a, std::int64_t a_pitch, T* out, std::int64_t out_pitch,
                                std::int64_t rows, std::int64_t cols) {
  const std::int64_t row = block_y() * blockDim.y + threadIdx.y;
  const std::int64_t col = block_x() * blockDim.x + threadIdx.x;
  if (row < rows && col < cols) out[col * out_pitch + row] = a[row * a_pitch + col];
}
#endif

// ---- naive --------------------------------------------------------------------------------------
constexpr Variant<Transpose> kNaive = {
    .name = "naive",
    .changes = "One thread per element: coalesced loads, strided stores.",
    .why_not = Transpose::why_not_out_of_place,
    .blocks = {{{32, 8}, {32, 32}, {16, 16}, {8, 32}, {4, 64}, {1, 256}}},
    .grid = [](const Transpose& p, Extent block) { return grid_over(p, block.x, block.y); },
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      with_size(p.a.type.size, [&](auto size) { run(p, go, transpose_naive<Element<size>>); });
    })};

// ---- narrow_blocks ------------------------------------------------------------------------------
// With 8 x 32 threads and aligned 4-byte elements, a warp loads four whole sectors and stores half
// of each of eight sectors.
constexpr Variant<Transpose> kNarrowBlocks = {
    .name = "narrow_blocks",
    .changes =
        {"Runs naive's kernel in narrow, tall blocks, so that stores fill more of each sector.",
         Step::kCoalescing},
    .why_not = Transpose::why_not_out_of_place,
    .blocks = {{{8, 32}, {4, 64}, {8, 16}, {16, 16}}},
    .grid = [](const Transpose& p, Extent block) { return grid_over(p, block.x, block.y); },
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      with_size(p.a.type.size, [&](auto size) { run(p, go, transpose_naive<Element<size>>); });
    })};

// ---- tiled --------------------------------------------------------------------------------------
// Shared memory: a block loads a tile along the rows of a and stores it along the rows of out, so
// that loads and stores are both coalesced. Only shared memory is accessed by columns. The parts of
// a tile outside the matrix are undefined and are not stored.
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kTile* kTile)
    transpose_tiled(const T* a, std::int64_t a_pitch, T* out, std::int64_t out_pitch,
                    std::int64_t rows, std::int64_t cols) {
  __shared__ T tile[kTile][kTile];
  const std::int64_t first_row = block_y() * kTile, first_col = block_x() * kTile;
  const int x = threadIdx.x, y = threadIdx.y;

  T element;
  if (first_row + y < rows && first_col + x < cols)
    element = a[(first_row + y) * a_pitch + first_col + x];
  tile[y][x] = element;
  __syncthreads();
  if (first_col + y < cols && first_row + x < rows)
    out[(first_col + y) * out_pitch + first_row + x] = tile[x][y];
}
#endif

constexpr Variant<Transpose> kTiled = {
    .name = "tiled",
    .changes = {"Transposes a tile in shared memory, so that stores are also coalesced.",
                Step::kCoalescing},
    .why_not = Transpose::why_not_out_of_place,
    .blocks = {{{kTile, kTile}}},
    .grid = grid_of_tiles,
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      with_size(p.a.type.size, [&](auto size) { run(p, go, transpose_tiled<Element<size>>); });
    })};

// ---- padded -------------------------------------------------------------------------------------
// Padding: in `tiled`, a warp reads a column of the tile. For 4-byte elements, its 32 words are 32
// words apart, so all are in one of the 32 banks and are read one after another. With rows of 33
// words, they are in 32 different banks and are read together.
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kTile* kTile)
    transpose_padded(const T* a, std::int64_t a_pitch, T* out, std::int64_t out_pitch,
                     std::int64_t rows, std::int64_t cols) {
  __shared__ T tile[kTile][kTile + 1];
  const std::int64_t first_row = block_y() * kTile, first_col = block_x() * kTile;
  const int x = threadIdx.x, y = threadIdx.y;

  T element;
  if (first_row + y < rows && first_col + x < cols)
    element = a[(first_row + y) * a_pitch + first_col + x];
  tile[y][x] = element;
  __syncthreads();
  if (first_col + y < cols && first_row + x < rows)
    out[(first_col + y) * out_pitch + first_row + x] = tile[x][y];
}
#endif

constexpr Variant<Transpose> kPadded = {
    .name = "padded",
    .changes = {"Pads the tile by one column to avoid bank conflicts.", Step::kBankConflicts},
    .why_not = Transpose::why_not_out_of_place,
    .blocks = {{{kTile, kTile}}},
    .grid = grid_of_tiles,
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      with_size(p.a.type.size, [&](auto size) { run(p, go, transpose_padded<Element<size>>); });
    })};

// ---- coarsened ----------------------------------------------------------------------------------
// Several elements per thread: a thread of `padded` has only one load in flight. With blocks of 32
// x kHeight threads, each thread moves 32 / kHeight elements. More bytes are then in flight per
// multiprocessor, and fewer warps wait at the barrier.
#ifdef __CUDACC__
template <int kHeight, class T>
__global__ void __launch_bounds__(kTile* kHeight)
    transpose_coarsened(const T* a, std::int64_t a_pitch, T* out, std::int64_t out_pitch,
                        std::int64_t rows, std::int64_t cols) {
  __shared__ T tile[kTile][kTile + 1];
  constexpr int kElements = kTile / kHeight;  // per thread
  const std::int64_t first_row = block_y() * kTile, first_col = block_x() * kTile;
  const int x = threadIdx.x, y = threadIdx.y;
  const int rows_left = static_cast<int>(min(rows - first_row, std::int64_t{kTile}));
  const int cols_left = static_cast<int>(min(cols - first_col, std::int64_t{kTile}));

  T element[kElements];  // in registers, so that all loads start before the first one is used
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int row = y + i * kHeight;
    if (row < rows_left && x < cols_left)
      element[i] = a[(first_row + row) * a_pitch + first_col + x];
  }
#pragma unroll
  for (int i = 0; i < kElements; ++i) tile[y + i * kHeight][x] = element[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const std::int64_t col = first_col + y + i * kHeight, row = first_row + x;
    if (col < cols && row < rows) out[col * out_pitch + row] = tile[x][y + i * kHeight];
  }
}
#endif

constexpr Variant<Transpose> kCoarsened = {
    .name = "coarsened",
    .changes = {"Each thread moves several elements, so that several loads are in flight.",
                Step::kInFlight},
    .why_not = Transpose::why_not_out_of_place,
    .blocks = {{{kTile, 8}, {kTile, 2}, {kTile, 4}, {kTile, 16}}},
    .grid = grid_of_tiles,
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      with_size(p.a.type.size, [&](auto size) {
        using T = Element<size>;
        run(p, go,
            go.block.y == 2   ? transpose_coarsened<2, T>
            : go.block.y == 4 ? transpose_coarsened<4, T>
            : go.block.y == 8 ? transpose_coarsened<8, T>
                              : transpose_coarsened<16, T>);
      });
    })};

// ---- wide ---------------------------------------------------------------------------------------
// 16 bytes per access, except at the edges of the matrix: fewer instructions move more bytes.
//
//   a in global memory --16 bytes--> registers --transposed, 16 bytes--> shared memory
//   shared memory --16 bytes--> registers --16 bytes--> out in global memory
//
// A vector of 16 bytes along a row of a contains elements of one row of a. A vector along a row of
// out contains elements of one column of a. The conversion happens in registers: a thread loads
// kSide vectors from kSide rows, where kSide is the number of elements per vector. They form a
// square micro-tile, which the thread transposes (common/micro_tile.cuh). So shared memory is also
// accessed by vectors.

constexpr Extent kWideBlock{32, 8};
constexpr int kWideThreads = kWideBlock.volume();

// The tile of a thread block: 256 bytes along the rows of a, and 256 bytes along the rows of out,
// or 512 bytes if elements are wide.
template <int kSize>
struct WideTile {
  static constexpr int kSide = kVectorBytes / kSize;  // elements per vector, side of a micro-tile
  static constexpr int kAcross = 16, kDown = kSize >= 8 ? 32 : 16;      // vectors
  static constexpr int kRows = kDown * kSide, kCols = kAcross * kSide;  // elements of a
  static constexpr int kBytes = kDown * kCols * kVectorBytes;           // of shared memory
};

#ifdef __CUDACC__
// Rows of a and out are aligned to 16 bytes. Pitches are in bytes.
template <int kSize>
__global__ void __launch_bounds__(kWideThreads)
    transpose_wide(const std::byte* a, std::int64_t a_pitch, std::byte* out, std::int64_t out_pitch,
                   std::int64_t rows, std::int64_t cols) {
  using Tile = WideTile<kSize>;
  using Words = Vector<unsigned, kVectorBytes / 4>;
  using Elements = Vector<Element<kSize>, Tile::kSide>;
  constexpr int kSide = Tile::kSide, kAcross = Tile::kAcross, kDown = Tile::kDown;
  constexpr int kTeams = kWideThreads / kAcross, kMicroTiles = kDown / kTeams;  // per thread
  extern __shared__ __align__(16) std::byte shared[];
  const auto tile = reinterpret_cast<Words*>(shared);
  const auto thread = [] {  // the remainder operation only tells the compiler the range
    return static_cast<int>((threadIdx.y * kWideBlock.x + threadIdx.x) % kWideThreads);
  };

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

  // The position of the tile. The last tile of a row of tiles is shifted left if possible, until it
  // is inside the matrix, so that it contains no incomplete vectors. Its block stores only the
  // columns from first_stored on, because another block stores the columns before them.
  const std::int64_t first_row = block_x() * Tile::kRows, first_stored = block_y() * Tile::kCols;
  if (first_stored >= cols) return;                  // the grid is rounded up
  const std::int64_t last_col = cols - Tile::kCols;  // of a tile inside the matrix
  const bool movable = kSide > 1 && last_col >= 0 && last_col * kSize % kVectorBytes == 0;
  const std::int64_t first_col = movable ? min(first_stored, last_col) : first_stored;
  const bool rows_inside = first_row + Tile::kRows <= rows;

  // Loads micro-tiles, transposes them, and writes them to shared memory. A team of 16 lanes loads
  // 256 contiguous bytes of a row. In a single version for all tiles, the predicated code for tiles
  // at the edge would slow down the tiles inside the matrix and use more registers.
  const auto load = [&](auto rows_known_inside, auto cols_known_inside) {
    constexpr bool kRowsInside = rows_known_inside.value, kColsInside = cols_known_inside.value;
    const int lane = thread() % kAcross, team = thread() / kAcross;
    const std::int64_t col = first_col + lane * kSide;
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
          if (!kRowsInside) row = min(row, rows - 1);
          const std::byte* from = a + row * a_pitch + col * kSize;
          if (kColsInside || col + kSide <= cols) {
            micro_tile[m][i] = *reinterpret_cast<const Words*>(from);
          } else if constexpr (kSide > 1) {
            Elements elements;
#pragma unroll
            for (int k = 0; k < kSide; ++k)
              if (col + k < cols) elements.at[k] = reinterpret_cast<const Element<kSize>*>(from)[k];
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
    const int group = thread() % kDown;
    const std::int64_t row = first_row + group * kSide;
#pragma unroll 4
    for (int line = thread() / kDown; line < Tile::kCols; line += kWideThreads / kDown) {
      if (!kWhole && first_col + line >= cols) break;
      if (!kWhole && first_col + line < first_stored) continue;
      std::byte* to = out + (first_col + line) * out_pitch + row * kSize;
      const Words vector = tile[slot(line / kSide, line % kSide, group)];
      if (kWhole || row + kSide <= rows) {
        *reinterpret_cast<Words*>(to) = vector;
      } else if constexpr (kSide > 1) {
        const auto elements = __builtin_bit_cast(Elements, vector);
#pragma unroll
        for (int k = 0; k < kSide; ++k)
          if (row + k < rows) reinterpret_cast<Element<kSize>*>(to)[k] = elements.at[k];
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

const char* why_not_wide(const Transpose& p) {
  if (const char* reason = Transpose::why_not_out_of_place(p)) return reason;
  return Transpose::rows_aligned(p.a, kVectorBytes) && Transpose::rows_aligned(p.out, kVectorBytes)
             ? nullptr
             : "rows are not aligned to 16 bytes";
}

// Blocks that are neighbours in x store neighbouring parts of the same rows of out, so the next
// block completes the DRAM pages that one block leaves incomplete. On an H200 (2026), loading the
// same rows of a in neighbouring blocks instead takes 2 to 3 % longer, with bands of tiles up to
// 8 %.
constexpr Variant<Transpose> kWide = {
    .name = "wide",
    .changes = {"Uses 16-byte accesses except at edges; transposes small elements in registers.",
                Step::kWider},
    .why_not = why_not_wide,
    .blocks = {{kWideBlock}},
    .grid =
        [](const Transpose& p, Extent) {
          return with_size(p.a.type.size, [&](auto size) {
            using Tile = WideTile<size>;
            return grid_of(ceil_div(p.rows(), Tile::kRows), ceil_div(p.cols(), Tile::kCols));
          });
        },
    .shared_bytes =
        [](const Transpose& p, Extent) {
          return with_size(p.a.type.size,
                           [](auto size) { return std::size_t{WideTile<size>::kBytes}; });
        },
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      with_size(p.a.type.size, [&](auto size) { run(p, go, transpose_wide<size>); });
    })};

// ---- tma ----------------------------------------------------------------------------------------
// The tensor memory accelerator of compute capability 9.0 and later copies boxes of a to shared
// memory, so that threads neither compute addresses of a nor hold its elements in registers while
// they are in flight.
//
//   a in global memory --boxes with lines of 128 bytes, swizzled--> shared memory
//   shared memory --16 bytes--> registers --transposed, 16 bytes--> out in global memory
//
// As in `wide`, a thread transposes micro-tiles of kSide x kSide elements in registers. On an H100
// (2026), storing boxes of out with the accelerator as well takes up to 3 % longer: elements then
// pass through shared memory twice, with two more barriers.

constexpr int kBoxThreads = 128;

// The tile of a thread block: two boxes beside each other. In a warp, kAcross micro-tiles are
// beside each other and kDown below each other, so that eight lanes that access shared memory
// together access eight different positions of the swizzle. Each thread holds 256 bytes.
template <int kSize>
struct BoxTile {
  static constexpr int kSide = kVectorBytes / kSize;  // elements per vector, side of a micro-tile
  static constexpr int kBoxes = 2, kRows = 128;
  static constexpr int kVectors = kBoxes * kBoxLine / kVectorBytes;  // per row
  static constexpr int kCols = kVectors * kSide;                     // elements of a
  static constexpr int kBoxBytes = kRows * kBoxLine;
  static constexpr int kBytes = kBoxes * kBoxBytes;  // of shared memory
  static constexpr int kAcross = std::min(kSide, 8), kDown = kWarpSize / kAcross;
  static constexpr int kSetsDown = kRows / kSide / kDown;  // sets of micro-tiles of a warp
  static constexpr int kMicroTiles = kVectors * (kRows / kSide) / kBoxThreads;  // per thread
};

#ifdef __CUDACC__
// Rows of a and out are aligned to 16 bytes. The pitch is in bytes.
template <int kSize>
__global__ void __launch_bounds__(kBoxThreads)
    transpose_tma(const __grid_constant__ CUtensorMap a, std::byte* out, std::int64_t out_pitch,
                  std::int64_t rows, std::int64_t cols) {
#if __CUDA_ARCH__ >= 900
  using Tile = BoxTile<kSize>;
  using Words = Vector<unsigned, kVectorBytes / 4>;
  using Elements = Vector<Element<kSize>, Tile::kSide>;
  constexpr int kSide = Tile::kSide;
  extern __shared__ __align__(kBoxAlignment) std::byte boxes[];
  __shared__ CopyBarrier barrier;

  const std::int64_t first_row = block_x() * Tile::kRows, first_col = block_y() * Tile::kCols;
  if (first_col >= cols) return;  // the grid is rounded up
  if (threadIdx.x == 0) {
    barrier.expect(Tile::kBytes);
#pragma unroll
    for (int box = 0; box < Tile::kBoxes; ++box)
      barrier.copy_box(boxes + box * Tile::kBoxBytes, a, static_cast<int>(first_row),
                       static_cast<int>(first_col * kSize) + box * kBoxLine);
  }
  __syncthreads();
  barrier.wait();

  // Micro-tile m of the thread: vector `across` of the rows of group `down`.
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const auto down = [&](int m) {
    const int set = warp + m * (kBoxThreads / kWarpSize);
    return set % Tile::kSetsDown * Tile::kDown + lane / Tile::kAcross;
  };
  const auto across = [&](int m) {
    const int set = warp + m * (kBoxThreads / kWarpSize);
    return set / Tile::kSetsDown * Tile::kAcross + lane % Tile::kAcross;
  };

  Words micro_tile[Tile::kMicroTiles][kSide];
#pragma unroll
  for (int m = 0; m < Tile::kMicroTiles; ++m) {
#pragma unroll
    for (int i = 0; i < kSide; ++i)
      micro_tile[m][i] = *reinterpret_cast<const Words*>(
          boxes + across(m) / 8 * Tile::kBoxBytes + in_box(down(m) * kSide + i, across(m) % 8));
    transpose_in_registers<kSize>(micro_tile[m]);
  }

  // A separate version for tiles inside the matrix needs no checks.
  const auto store = [&](auto known_whole) {
    constexpr bool kWhole = known_whole.value;
#pragma unroll
    for (int m = 0; m < Tile::kMicroTiles; ++m) {
      const std::int64_t col = first_col + across(m) * kSide;
      const std::int64_t byte = first_row * kSize + down(m) * kVectorBytes;
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
        if (!kWhole && col + i >= cols) break;
        std::byte* to = out + (col + i) * out_pitch + byte;
        if (kWhole || byte + kVectorBytes <= rows * kSize) {
          *reinterpret_cast<Words*>(to) = micro_tile[m][i];
        } else if constexpr (kSide > 1) {
          const auto elements = __builtin_bit_cast(Elements, micro_tile[m][i]);
#pragma unroll
          for (int k = 0; k < kSide; ++k)
            if (byte + k * kSize < rows * kSize)
              reinterpret_cast<Element<kSize>*>(to)[k] = elements.at[k];
        }
      }
    }
  };
  // In bytes, like the checks above: with elements, the kernel takes up to 34 more registers.
  if (first_col + Tile::kCols <= cols && (first_row + Tile::kRows) * kSize <= rows * kSize)
    store(std::true_type{});
  else
    store(std::false_type{});
#endif
}
#endif

// Coordinates of boxes are 32-bit integers, and strides of tensor maps have 40 bits.
constexpr Variant<Transpose> kTma = {
    .name = "tma",
    .changes = {"Loads tiles with the tensor memory accelerator, which swizzles them.",
                Step::kInFlight},
    .min_compute = 90,
    .why_not = [](const Transpose& p) -> const char* {
      if (const char* reason = why_not_wide(p)) return reason;
      constexpr std::int64_t kMaxCoordinate = (std::int64_t{1} << 31) - 1 - kBoxLine;
      return std::max(p.cols() * p.a.type.size, p.rows()) > kMaxCoordinate ||
                     p.a.stride[0] >= std::int64_t{1} << 40
                 ? "rows are too many, too long or too far apart for a tensor map"
                 : nullptr;
    },
    .blocks = {{{kBoxThreads}}},
    .grid =
        [](const Transpose& p, Extent) {
          return with_size(p.a.type.size, [&](auto size) {
            using Tile = BoxTile<size>;
            return grid_of(ceil_div(p.rows(), Tile::kRows), ceil_div(p.cols(), Tile::kCols));
          });
        },
    .shared_bytes =
        [](const Transpose& p, Extent) {
          return with_size(p.a.type.size,
                           [](auto size) { return std::size_t{BoxTile<size>::kBytes}; });
        },
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      with_size(p.a.type.size, [&](auto size) {
        launch(go, transpose_tma<size>,
               tensor_map(go, p.a.data, p.rows(), p.cols() * size, p.a.stride[0],
                          BoxTile<size>::kRows),
               p.out.data, p.out.stride[0], p.rows(), p.cols());
      });
    })};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Transpose> kSteps[] = {kCopy,   kNaive,     kNarrowBlocks, kTiled,
                                         kPadded, kCoarsened, kWide,         kTma};

}  // namespace

Ladder<Transpose> transpose_steps() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

int main() {
  using namespace ado;
  Transpose p;
  p.a = cuda::random_array(kFloat32, {8192, 8192});
  p.out = cuda::random_array(kFloat32, {8192, 8192});
  return cuda::run_ladder(cuda::transpose_steps(), p, [](const Transpose& p) {
    for (std::int64_t row = 0; row < p.rows(); ++row)
      for (std::int64_t col = 0; col < p.cols(); ++col)
        p.out.as<float>()[col * p.rows() + row] = p.a.as<const float>()[row * p.cols() + col];
  });
}
#endif
