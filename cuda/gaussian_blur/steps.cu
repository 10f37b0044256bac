// Gaussian blur on the GPU: out = the 7x7 weighted sum around each pixel. The steps range from 49
// loads per pixel to a few instructions per pixel: naive to float_taps are the kernels of the GTC
// 2015 talk and its code, and sliding_window is an answer to the talk's last row, "Your next
// idea!!!". engine/ has any taps, the variant for narrow images, and the choice among all variants.
//
// The talk optimised for a Kepler GPU, on which each step removed a different limit. On an H200,
// nearly all variants are bound by instruction issue. So the gain of a step equals the share of
// instructions that it saves, and some of the original steps gain nothing.
#include "routines/gaussian_blur.hpp"

#include "gaussian_blur/engine/any_taps.cuh"
#include "image/four_pixels.cuh"
#include "image/sliding_window.cuh"
#include "image/tiles.cuh"

namespace ado::cuda {
namespace {

constexpr int kTaps = GaussianBlur::kTaps;
constexpr int kRadius = GaussianBlur::kRadius;
constexpr int kBlockCols = 32;  // threads per row of a block in all kernels, so a row is one warp

// The sum of the 49 default weights is 256, so a shift divides the weighted sum by it.
constexpr int kShift = 8;

#ifdef __CUDACC__

struct Weights {
  int product[kTaps][kTaps];
  int tap[kTaps];
  float real_tap[kTaps];
};

constexpr Weights default_weights() {
  Weights w{};
  for (int i = 0; i < kTaps; ++i) {
    w.tap[i] = GaussianBlur::kDefaultTaps[i];
    w.real_tap[i] = static_cast<float>(w.tap[i]);
    for (int j = 0; j < kTaps; ++j)
      w.product[i][j] = GaussianBlur::kDefaultTaps[i] * GaussianBlur::kDefaultTaps[j];
  }
  return w;
}

__constant__ Weights weights = default_weights();

#endif

// ---- copy ---------------------------------------------------------------------------------------
constexpr Variant<GaussianBlur> kCopy = copy_row<GaussianBlur>();

// ---- naive, coalesced, occupancy, launch_bounds -------------------------------------------------
// One thread per pixel and 49 loads from global memory.
double bytes_of_naive(const GaussianBlur& p) { return bytes_by_tiles(p, kTaps * kTaps, 1); }

#ifdef __CUDACC__
__device__ void blur_pixel(const std::uint8_t* gray, std::uint8_t* out, const Tiles& tiles) {
  const ImageView view = tile_of_block(gray, out, tiles).moved(threadIdx.y, threadIdx.x);
  if (!view.contains(0, 0)) return;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i)
#pragma unroll
    for (int j = 0; j < kTaps; ++j)
      sum += weights.product[i][j] * view.pixel(i - kRadius, j - kRadius);
  view.store(0, 0, static_cast<std::uint8_t>(sum >> kShift));
}

__global__ void gaussian_blur_naive(const std::uint8_t* gray, std::uint8_t* out, Tiles tiles) {
  blur_pixel(gray, out, tiles);
}
#endif

// ---- naive --------------------------------------------------------------------------------------
// In blocks of 8x8 threads, a warp loads bytes from four rows, and each load takes several passes
// through L1, which is the limiter.
constexpr Variant<GaussianBlur> kNaive = {
    .name = "naive",
    .changes = "One thread per pixel loads the 49 pixels around it byte by byte.",
    .why_not = why_not_options,
    .blocks = {{{8, 8}}},
    .grid = grid_of_tiles<1, 1, GaussianBlur>,
    .bytes = bytes_of_naive,
    .run = ADO_RUN(run_tiles<gaussian_blur_naive, 1, 1>)};

// ---- coalesced ----------------------------------------------------------------------------------
// Blocks have 32 columns, so a warp loads from one row.
constexpr Variant<GaussianBlur> kCoalesced = {
    .name = "coalesced",
    .changes =
        {"Runs the same kernel in blocks of 32 columns, so that the loads of a warp are coalesced.",
         Step::kCoalescing},
    .why_not = why_not_options,
    .blocks = {{{kBlockCols, 2}}},
    .grid = grid_of_tiles<1, 1, GaussianBlur>,
    .bytes = bytes_of_naive,
    .run = ADO_RUN(run_tiles<gaussian_blur_naive, 1, 1>)};

// ---- occupancy ----------------------------------------------------------------------------------
// Larger blocks gain nothing: a multiprocessor holds up to 32 blocks, and 32 blocks of 64 threads
// already reach its maximum number of threads.
constexpr Variant<GaussianBlur> kOccupancy = {
    .name = "occupancy",
    .changes = {"Runs the same kernel in larger blocks, which is meant to keep more warps resident "
                "per multiprocessor.",
                Step::kOccupancy},
    .why_not = why_not_options,
    .blocks = {{{kBlockCols, 4}, {kBlockCols, 8}, {8, 16}}},
    .grid = grid_of_tiles<1, 1, GaussianBlur>,
    .bytes = bytes_of_naive,
    .run = ADO_RUN(run_tiles<gaussian_blur_naive, 1, 1>)};

// ---- launch_bounds ------------------------------------------------------------------------------
// On Kepler, the compiler used fewer registers with launch bounds. For sm_90, the kernel needs few
// registers without bounds, and with bounds for ten blocks, the compiler uses more. Fewer warps are
// then resident.
constexpr int kBoundedThreads = 128, kBoundedBlocks = 10;

#ifdef __CUDACC__
__global__ void __launch_bounds__(kBoundedThreads, blocks_held(kBoundedBlocks, kBoundedThreads))
    gaussian_blur_launch_bounds(const std::uint8_t* gray, std::uint8_t* out, Tiles tiles) {
  blur_pixel(gray, out, tiles);
}
#endif

constexpr Variant<GaussianBlur> kLaunchBounds = {
    .name = "launch_bounds",
    .changes = {"Adds launch bounds, which are meant to limit registers so that ten blocks fit on "
                "a multiprocessor.",
                Step::kOccupancy},
    .why_not = why_not_options,
    .blocks = {{{kBlockCols, kBoundedThreads / kBlockCols}}},
    .grid = grid_of_tiles<1, 1, GaussianBlur>,
    .bytes = bytes_of_naive,
    .run = ADO_RUN(run_tiles<gaussian_blur_launch_bounds, 1, 1>)};

// ---- shared, read_only --------------------------------------------------------------------------
// Each pixel is loaded from global memory once per block instead of 49 times.
//
//   <-3-> <---------- 32 ----------> <-3->      38 columns
//   +------------------------------------+  ^
//   |                halo                |  3
//   |     +------------------------+     |  v
//   |     |  tile of the block:    |     |  ^
//   |     |  32 x 4 pixels,        |     |  4   10 rows
//   |     |  one per thread        |     |  v
//   |     +------------------------+     |  ^
//   |                                    |  3
//   +------------------------------------+  v
//
// The 4 x 32 threads load the 10 x 38 pixels in 3 x 2 rounds. In the last round in each direction,
// some threads have no pixel left to load.
//
// L1 and shared memory are the same memory here, so loads do not get faster. Only address
// computations and border tests are saved.
constexpr int kSharedBlockRows = 4, kTwoPassBlockRows = 8;

// Columns that are loaded on either side of a tile if threads load kLoaded pixels at a time: the
// radius, rounded up to a multiple of kLoaded, so that the first column is aligned. The formula is
// valid for kLoaded of 1 and 2.
template <int kLoaded>
constexpr int kMargin = kRadius + kRadius % kLoaded;

// Bytes requested by blocks that load their tile, with kDown by kAcross pixels per thread, and its
// halo.
template <int kAcross, int kDown, int kLoaded, int kBlockRows = kTwoPassBlockRows>
double bytes_of_tile(const GaussianBlur& p) {
  constexpr int kCols = kBlockCols * kAcross, kRows = kBlockRows * kDown;
  return bytes_by_tiles(p, (kCols + 2 * kMargin<kLoaded>)*(kRows + 2 * kRadius), kCols * kRows);
}

#ifdef __CUDACC__
template <bool kReadOnly>
__global__ void __launch_bounds__(kBlockCols* kSharedBlockRows)
    gaussian_blur_shared(const std::uint8_t* gray, std::uint8_t* out, Tiles tiles) {
  constexpr int kHaloRows = kSharedBlockRows + 2 * kRadius, kHaloCols = kBlockCols + 2 * kRadius;
  constexpr int kPitch = 64;  // bytes per row of the tile
  __shared__ std::uint8_t tile[kHaloRows][kPitch];
  const int row = threadIdx.y, col = threadIdx.x;
  const ImageView view = tile_of_block(gray, out, tiles);
  load_tile<kHaloCols, kSharedBlockRows, 1, kReadOnly>(view.moved(-kRadius, -kRadius), tile);
  __syncthreads();

  // Sum 49 products from shared memory.
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i)
#pragma unroll
    for (int j = 0; j < kTaps; ++j) sum += weights.product[i][j] * tile[row + i][col + j];
  view.store(row, col, static_cast<std::uint8_t>(sum >> kShift));
}
#endif

// ---- shared -------------------------------------------------------------------------------------
constexpr Variant<GaussianBlur> kShared = {
    .name = "shared",
    .changes = {"Loads the pixels that a block needs once, into shared memory.", Step::kReuse},
    .why_not = why_not_options,
    .blocks = {{{kBlockCols, kSharedBlockRows}}},
    .grid = grid_of_tiles<1, 1, GaussianBlur>,
    .bytes = bytes_of_tile<1, 1, 1, kSharedBlockRows>,
    .run = ADO_RUN(run_tiles<gaussian_blur_shared<false>, 1, 1>)};

// ---- read_only ----------------------------------------------------------------------------------
// The read-only data path also uses L1, so only the compiler's order of instructions changes.
constexpr Variant<GaussianBlur> kReadOnly = {
    .name = "read_only",
    .changes = {"Loads the image through the read-only data path.", Step::kOther},
    .why_not = why_not_options,
    .blocks = {{{kBlockCols, kSharedBlockRows}}},
    .grid = grid_of_tiles<1, 1, GaussianBlur>,
    .bytes = bytes_of_tile<1, 1, 1, kSharedBlockRows>,
    .run = ADO_RUN(run_tiles<gaussian_blur_shared<true>, 1, 1>)};

// ---- separable ----------------------------------------------------------------------------------
// The weights are the product of taps along the rows and taps down the columns, so 7 + 7 products
// replace 49:
//
//     tile with halo                across                       result
//   +----------------+          +--------------+
//   |                |  7 taps  |              |  7 taps
//   |  14 x 38       |  ----->  |  14 x 32     |  ----->   +--------------+
//   |  pixels        |  along   |  sums        |  down     |  8 x 32      |
//   |                |  rows    |              |  columns  +--------------+
//   |                |          |              |
//   +----------------+          +--------------+
//
// The first pass also sums the three rows above and below the tile, which the second pass needs.
#ifdef __CUDACC__
__global__ void __launch_bounds__(kBlockCols* kTwoPassBlockRows)
    gaussian_blur_separable(const std::uint8_t* gray, std::uint8_t* out, Tiles tiles) {
  constexpr int kHaloRows = kTwoPassBlockRows + 2 * kRadius, kHaloCols = kBlockCols + 2 * kRadius;
  __shared__ int tile[kHaloRows][kHaloCols];
  __shared__ int across[kHaloRows][kBlockCols];
  const int row = threadIdx.y, col = threadIdx.x;
  const ImageView view = tile_of_block(gray, out, tiles);

  load_tile<kHaloCols, kTwoPassBlockRows>(view.moved(-kRadius, -kRadius), tile);
  __syncthreads();

  // First pass: seven taps along each row, in two rounds of eight rows.
#pragma unroll
  for (int first = 0; first < kHaloRows; first += kTwoPassBlockRows) {
    if (first + row >= kHaloRows) break;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kTaps; ++i) sum += weights.tap[i] * tile[first + row][col + i];
    across[first + row][col] = sum;
  }
  __syncthreads();

  // Second pass: seven taps down each column.
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i) sum += weights.tap[i] * across[row + i][col];
  view.moved(row, col).store(0, 0, static_cast<std::uint8_t>(sum >> kShift));
}
#endif

constexpr Variant<GaussianBlur> kSeparable = {
    .name = "separable",
    .changes =
        {"Sums seven taps along the rows, then seven down the columns, instead of 49 products.",
         Step::kOperations},
    .why_not = why_not_options,
    .blocks = {{{kBlockCols, kTwoPassBlockRows}}},
    .grid = grid_of_tiles<1, 1, GaussianBlur>,
    .bytes = bytes_of_tile<1, 1, 1>,
    .run = ADO_RUN(run_tiles<gaussian_blur_separable, 1, 1>)};

// ---- two_pixels, wide_shared, float_taps --------------------------------------------------------
// Two passes with kDown by kAcross neighbouring pixels per thread. A thread copies kLoaded pixels
// at a time to shared memory and reads kAcross pixels at a time from there.
//
// With kAcross = kLoaded = 2, a thread reads ten columns of a tile's row as five vectors of 8
// bytes. The margin is four columns instead of three, so that these vectors are aligned:
//
//   column - col       0  1   2  3   4  5   6  7   8  9
//   8-byte accesses   [    ] [    ] [    ] [    ] [    ]
//   taps of pixel 0       0   1  2   3  4   5  6
//   taps of pixel 1           0  1   2  3   4  5   6
#ifdef __CUDACC__
template <class Number>
__device__ Number tap(int i) {
  if constexpr (std::is_same_v<Number, float>)
    return weights.real_tap[i];
  else
    return weights.tap[i];
}

// The Vector of kCount elements that starts at `first`.
template <int kCount, class T>
__device__ Vector<T, kCount>& vector_at(T& first) {
  return reinterpret_cast<Vector<T, kCount>&>(first);
}

__device__ void store_pair(const ImageView& view, int row, Vector<std::uint8_t, 2> pair) {
  std::uint8_t* const to = view.out + row * view.pitch;
  if (view.contains(row, 0) && view.contains(row, 1) && starts_at_vector(to, 2)) {
    *reinterpret_cast<Vector<std::uint8_t, 2>*>(to) = pair;
  } else {
    view.store(row, 0, pair.at[0]);
    view.store(row, 1, pair.at[1]);
  }
}

template <class Number, int kAcross, int kDown, int kLoaded>
__global__ void __launch_bounds__(kBlockCols* kTwoPassBlockRows)
    gaussian_blur_two_passes(const std::uint8_t* gray, std::uint8_t* out, Tiles tiles) {
  constexpr int kCols = kBlockCols * kAcross, kRows = kTwoPassBlockRows * kDown;
  constexpr int kHaloRows = kRows + 2 * kRadius, kHaloCols = kCols + 2 * kMargin<kLoaded>;
  __shared__ __align__(8) Number tile[kHaloRows][kHaloCols];
  __shared__ __align__(8) Number across[kHaloRows][kCols];
  const int row = threadIdx.y, col = threadIdx.x * kAcross;
  const ImageView view = tile_of_block(gray, out, tiles);

  load_tile<kHaloCols, kTwoPassBlockRows, kLoaded>(view.moved(-kRadius, -kMargin<kLoaded>), tile);
  __syncthreads();

  // First pass.
#pragma unroll
  for (int first = 0; first < kHaloRows; first += kTwoPassBlockRows) {
    const int halo_row = row + first;
    if (halo_row >= kHaloRows) break;
    constexpr int kFirst = kMargin<kLoaded> - kRadius;  // column of tap 0 of pixel 0
    constexpr int kEnd = (kFirst + kTaps + 2 * (kAcross - 1)) / kAcross * kAcross;
    Number pixel[kEnd];
#pragma unroll
    for (int i = kFirst / kAcross * kAcross; i < kEnd; i += kAcross)
      vector_at<kAcross>(pixel[i]) = vector_at<kAcross>(tile[halo_row][col + i]);
    Vector<Number, kAcross> sums = {};
#pragma unroll
    for (int i = 0; i < kTaps; ++i)
#pragma unroll
      for (int k = 0; k < kAcross; ++k) sums.at[k] += tap<Number>(i) * pixel[kFirst + k + i];
    vector_at<kAcross>(across[halo_row][col]) = sums;
  }
  __syncthreads();

  // Second pass. Each sum along a row is read once for all kDown results that need it.
  Vector<Number, kAcross> sums[kDown] = {};
#pragma unroll
  for (int i = 0; i < kDown - 1 + kTaps; ++i) {
    const auto along = vector_at<kAcross>(across[row * kDown + i][col]);
#pragma unroll
    for (int down = 0; down < kDown; ++down)
#pragma unroll
      for (int k = 0; k < kAcross; ++k)
        if (i >= down && i < down + kTaps) sums[down].at[k] += tap<Number>(i - down) * along.at[k];
  }
  const ImageView own = view.moved(row * kDown, col);
#pragma unroll
  for (int down = 0; down < kDown; ++down) {
    const auto result = [&](int k) {
      return static_cast<std::uint8_t>(static_cast<int>(sums[down].at[k]) >> kShift);
    };
    if constexpr (kAcross == 2)
      store_pair(own, down, {{result(0), result(1)}});
    else
      own.store(down, 0, result(0));
  }
}
#endif

// ---- two_pixels ---------------------------------------------------------------------------------
// Two rows and one column per thread.
constexpr Variant<GaussianBlur> kTwoPixels = {
    .name = "two_pixels",
    .changes = {"Each thread computes two pixels of a column and loads pixels in pairs.",
                Step::kWider, Step::kReuse},
    .why_not = why_not_options,
    .blocks = {{{kBlockCols, kTwoPassBlockRows}}},
    .grid = grid_of_tiles<1, 2, GaussianBlur>,
    .bytes = bytes_of_tile<1, 2, 2>,
    .run = ADO_RUN(run_tiles<gaussian_blur_two_passes<int, 1, 2, 2>, 1, 2>)};

// ---- wide_shared --------------------------------------------------------------------------------
// Two rows and two columns per thread: half the shared-memory accesses.
constexpr Variant<GaussianBlur> kWideShared = {
    .name = "wide_shared",
    .changes = {"Each thread computes 2x2 pixels, with 8-byte accesses to shared memory.",
                Step::kWider, Step::kReuse},
    .why_not = why_not_options,
    .blocks = {{{kBlockCols, kTwoPassBlockRows}}},
    .grid = grid_of_tiles<2, 2, GaussianBlur>,
    .bytes = bytes_of_tile<2, 2, 2>,
    .run = ADO_RUN(run_tiles<gaussian_blur_two_passes<int, 2, 2, 2>, 2, 2>)};

// ---- float_taps ---------------------------------------------------------------------------------
// Floats were faster on GPUs that multiply integers at a sixth of their rate. Here multiplications
// are not the limit, and the conversions cost more than is saved.
//
// FLOPs: the first pass also computes the rows of the halo.
constexpr Variant<GaussianBlur> kFloatTaps = {
    .name = "float_taps",
    .changes = {"Computes in float32, which is exact below 2**24 and has fused multiply-add.",
                Step::kOperations, Step::kFma},
    .why_not = why_not_options,
    .blocks = {{{kBlockCols, kTwoPassBlockRows}}},
    .grid = grid_of_tiles<2, 2, GaussianBlur>,
    .flops =
        [](const GaussianBlur& p) {
          constexpr int kRows = kTwoPassBlockRows * 2;
          constexpr double kPasses = (kRows + 2.0 * kRadius) / kRows + 1;
          return 2 * kTaps * kPasses * pixels_of_tiles<2, 2>(p, {kBlockCols, kTwoPassBlockRows});
        },
    .bytes = bytes_of_tile<2, 2, 2>,
    .run = ADO_RUN(run_tiles<gaussian_blur_two_passes<float, 2, 2, 2>, 2, 2>)};

// ---- dot_product --------------------------------------------------------------------------------
// In registers, without shared memory: dot products of four packed pixels.
//
// A thread computes 16 rows of four pixels. Along a row, three 32-bit words contain all ten pixels
// that the four sums need. The taps are shifted instead of the pixels (a dot means a weight of
// zero):
//
//   column      -4 -3 -2 -1 |  0  1  2  3 |  4  5  6  7
//   word           before   |    here     |    after
//   pixel 0      .  1  2  3 |  4  3  2  1 |  .  .  .  .     __dp4a(before, 0x03020100,
//   pixel 1      .  .  1  2 |  3  4  3  2 |  1  .  .  .         __dp4a(here, 0x01020304, 0))
//   pixel 2      .  .  .  1 |  2  3  4  3 |  2  1  .  .
//   pixel 3      .  .  .  . |  1  2  3  4 |  3  2  1  .
//
// Rows at the seams of threads are summed twice. In blocks of 8 rows of threads,
// 4 pixel rows per thread take 254 us, 8 take 202 us and 16 take 178 us. In blocks of 4 rows of
// threads, 16 take 165 us (16384 x 16384 pixels, H200, 2026).
constexpr int kDotAcross = 4, kDotDown = 16;
constexpr int kDotBlockRows = 4;

#ifdef __CUDACC__
// Taps of pixel `k` of four, packed for the four pixels of word `word` of three.
constexpr unsigned packed_taps(int k, int word) {
  unsigned packed = 0;
  for (int byte = 0; byte < kDotAcross; ++byte) {
    const int i = (word - 1) * kDotAcross + byte - k + kRadius;
    if (i >= 0 && i < kTaps)
      packed |= static_cast<unsigned>(GaussianBlur::kDefaultTaps[i]) << (8 * byte);
  }
  return packed;
}

template <int k, int kWord>
constexpr unsigned kPackedTaps = packed_taps(k, kWord);

// Adds the weighted sum along a row around pixel `k` to `sum`.
template <int k>
__device__ unsigned sum_along(const PackedNeighbours& words, unsigned sum) {
  if constexpr (kPackedTaps<k, 0> != 0) sum = __dp4a(words.before, kPackedTaps<k, 0>, sum);
  sum = __dp4a(words.here, kPackedTaps<k, 1>, sum);
  if constexpr (kPackedTaps<k, 2> != 0) sum = __dp4a(words.after, kPackedTaps<k, 2>, sum);
  return sum;
}

// A sum along a row is at most 255 * 16 and a whole sum at most 255 * 256. Both fit into 16 bits,
// so two columns share a register: (pixel 1, pixel 0) and (pixel 3, pixel 2). Down the columns, the
// taps 1 2 3 4 3 2 1 are 1 1 1 1 convolved with itself, so the kernel adds four neighbours twice.
// Additions use a pipe that is not used by dot products and multiplications.
__global__ void __launch_bounds__(kBlockCols* kDotBlockRows)
    gaussian_blur_dot_product(const std::uint8_t* gray, std::uint8_t* out, Tiles tiles) {
  constexpr int kHaloRows = kDotDown + 2 * kRadius;
  const ImageView tile = tile_of_block(gray, out, tiles);
  const ImageView view = tile.moved(threadIdx.y * kDotDown, threadIdx.x * kDotAcross);
  with_access(tile, kDotBlockRows * kDotDown, kBlockCols * kDotAcross, kRadius,
              [&]<Access kAccess>() {
                unsigned sums[kHaloRows][2];
#pragma unroll
                for (int i = 0; i < kHaloRows; ++i) {
                  const PackedNeighbours words = packed<kAccess>(view, i - kRadius);
                  sums[i][0] = sum_along<0>(words, sum_along<1>(words, 0) << 16);
                  sums[i][1] = sum_along<2>(words, sum_along<3>(words, 0) << 16);
                }
#pragma unroll
                for (int rows = kHaloRows - kRadius; rows >= kDotDown; rows -= kRadius)
#pragma unroll
                  for (int i = 0; i < rows; ++i)
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                      sums[i][half] += sums[i + 1][half] + sums[i + 2][half] + sums[i + 3][half];
#pragma unroll
                for (int i = 0; i < kDotDown; ++i)  // the upper byte of each half is the sum >> 8
                  store_packed<kAccess>(view, i, __byte_perm(sums[i][0], sums[i][1], 0x7531));
              });
}
#endif

constexpr Variant<GaussianBlur> kDotProduct = {
    .name = "dot_product",
    .changes = {"Loads four pixels at a time and sums them with dot products, all in registers.",
                Step::kWider, Step::kReuse, Step::kOperations},
    .why_not = why_not_options,
    .blocks = {{{kBlockCols, kDotBlockRows}}},
    .grid = grid_of_tiles<kDotAcross, kDotDown, GaussianBlur>,
    .bytes =
        [](const GaussianBlur& p) {
          return bytes_by_tiles(p, 3 * kDotAcross * (kDotDown + 2 * kRadius),
                                kDotAcross * kDotDown);
        },
    .run = ADO_RUN(run_tiles<gaussian_blur_dot_product, kDotAcross, kDotDown>)};

// ---- sliding_window -----------------------------------------------------------------------------
// Streams rows: image/sliding_window.cuh has the loop and the sums of a row.
//
// Shapes of the sliding window. With 16 pixels per lane, the fewest halo pixels are loaded per row,
// but the image must be large: 2560 x 1600 pixels take 8.6 us with 16 and 8.3 us with eight (H200,
// 2026). The other values were the fastest tried on an H200.
constexpr WindowTuning tuning(int words, RowStart start, bool extends, bool any_taps) {
  const bool large = words == 4, aligned = start == RowStart::kVectors;
  return {.ring_rows = any_taps || (large && extends) || !aligned ? 4 : 8,
          .blocks = any_taps || (large && (extends || !aligned)) ? 4
                    : large                                      ? 5
                    : words == 2 && !aligned                     ? 6
                                                                 : 8,
          .warps = large ? 12 : 10,
          .tail_percent = aligned ? 0 : 80};
}

template <int kWords, RowStart kStart, bool kExtends, bool kAnyTaps_ = false>
struct BlurShape
    : WindowShape<GaussianBlur,
                  SlidingWindow{.words = kWords, .in = kStart, .out = kStart, .extends = kExtends},
                  tuning(kWords, kStart, kExtends, kAnyTaps_)> {
  static constexpr bool kAnyTaps = kAnyTaps_;
};

// Calls `visit` with the shape for a problem.
constexpr auto with_shape = [](const GaussianBlur& p, const Hardware& gpu, auto visit) {
  const RowStart start = row_start_of(p);
  const bool extends = p.border != Border::kConstant,
             many = has_many_pixels(p, start == RowStart::kVectors, gpu);
  const auto with_general_start = [&](auto general) {
    return start == RowStart::kVectors ? general(kRowStart<RowStart::kVectors>)
                                       : general(kRowStart<RowStart::kBytes>);
  };
  if (!p.default_taps())
    return with_general_start([&](auto start) {
      return extends ? visit(BlurShape<2, start, true, true>{})
                     : visit(BlurShape<2, start, false, true>{});
    });
  if (extends)
    return with_general_start([&](auto start) {
      return many ? visit(BlurShape<4, start, true>{}) : visit(BlurShape<2, start, true>{});
    });
  if (p.cols() <= kNarrowCols) return visit(BlurShape<1, RowStart::kBytes, false>{});
  return with_row_start(start, [&](auto start) {
    return many ? visit(BlurShape<4, start, false>{}) : visit(BlurShape<2, start, false>{});
  });
};

#ifdef __CUDACC__
template <class Shape>
void run_window(const GaussianBlur& p, const Launch& go) {
  const auto start = [&](auto kernel, auto options) {
    launch(go, kernel, p.gray.as<const std::uint8_t>(), p.border, p.out.as<std::uint8_t>(),
           bands_of<Shape>(p, go.hardware), options);
  };
  if constexpr (Shape::kAnyTaps) {
    start(sliding_window<Shape, GaussianAnyTapsStage<Shape::kWords>>, tap_options(p.taps));
  } else {
    using Stage = GaussianStage<Shape::kWords>;
    start(sliding_window<Shape, Stage>, typename Stage::Options{});
  }
}
#endif

constexpr Variant<GaussianBlur> kSlidingWindow = {
    .name = "sliding_window",
    .changes =
        {"Streams rows through registers and keeps running sums; supports any border and taps.",
         Step::kReuse, Step::kOperations},
    .blocks = {{kWindowBlock}},
    .grid = window_grid<GaussianBlur, with_shape>,
    .shared_bytes = window_shared_bytes<GaussianBlur, with_shape>,
    .bytes = window_bytes<GaussianBlur, with_shape>,
    .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
      with_shape(p, go.hardware, [&]<class Shape>(Shape) { run_window<Shape>(p, go); });
    })};

// -------------------------------------------------------------------------------------------------

constexpr Variant<GaussianBlur> kSteps[] = {
    kCopy,      kNaive,     kCoalesced,  kOccupancy, kLaunchBounds, kShared,       kReadOnly,
    kSeparable, kTwoPixels, kWideShared, kFloatTaps, kDotProduct,   kSlidingWindow};

}  // namespace

Ladder<GaussianBlur> gaussian_blur_steps() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

int main() {
  using namespace ado;
  GaussianBlur p;
  p.gray = cuda::random_array(kUint8, {4096, 4096});
  p.out = cuda::random_array(kUint8, {4096, 4096});
  return cuda::run_ladder(cuda::gaussian_blur_steps(), p, [](const GaussianBlur& p) {
    for (std::int64_t row = 0; row < p.rows(); ++row)
      for (std::int64_t col = 0; col < p.cols(); ++col) {
        int sum = 0;
        for (int i = 0; i < GaussianBlur::kTaps; ++i)
          for (int j = 0; j < GaussianBlur::kTaps; ++j) {
            const std::int64_t y = row + i - GaussianBlur::kRadius,
                               x = col + j - GaussianBlur::kRadius;
            if (y >= 0 && y < p.rows() && x >= 0 && x < p.cols())
              sum += p.taps[i] * p.taps[j] * p.gray.as<const std::uint8_t>()[y * p.cols() + x];
          }
        p.out.as<std::uint8_t>()[row * p.cols() + col] = static_cast<std::uint8_t>(sum / 256);
      }
  });
}
#endif
