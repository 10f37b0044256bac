// Sobel on the GPU: out = the magnitude of the gradient. The steps range from eight 1-byte loads
// per pixel to rows that are streamed through registers. engine/ has the variant for narrow images,
// and the choice among all variants.
//
// The kernels read and write one byte per pixel, and the naive kernel executes more than a hundred
// instructions for it. It is bound by instruction issue, so fewer instructions make it faster.
#include "routines/sobel.hpp"

#include "image/four_pixels.cuh"
#include "image/sliding_window.cuh"
#include "image/sobel_stage.cuh"
#include "image/tiles.cuh"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace ado::cuda {
namespace {

constexpr int kBlockCols = 32, kBlockRows = 8;
constexpr int kThreads = kBlockCols * kBlockRows;
constexpr Extent kBlock{kBlockCols, kBlockRows};
constexpr int kRadius = 1;

#ifdef __CUDACC__

constexpr float kLargest = 255;

template <class Number>
struct Gradient {
  Number x, y;
};

// Gradient of the 3x3 pixels that `pixel(i, j)` returns for offsets from -1 to 1.
template <class Number, class Pixel>
__device__ Gradient<Number> gradient(Pixel pixel) {
  const Number corners[2][2] = {{pixel(-1, -1), pixel(-1, 1)}, {pixel(1, -1), pixel(1, 1)}};
  return {corners[0][1] - corners[0][0] + 2 * (pixel(0, 1) - pixel(0, -1)) + corners[1][1] -
              corners[1][0],
          corners[0][0] - corners[1][0] + 2 * (pixel(-1, 0) - pixel(1, 0)) + corners[0][1] -
              corners[1][1]};
}

#endif

// Executed FLOPs, in SASS of sm_90. Half-precision operations are not counted: they compute the
// same integers as the other variants.

// The correctly rounded square root refines an approximation with two multiplications and two FMAs.
// The root of 0 is a special case without FLOPs, which is neglected.
double flops_of_roots(const Sobel& p) {
  return (2 + 2 * 2) * static_cast<double>(p.out.elements());
}

// ---- copy ---------------------------------------------------------------------------------------
constexpr Variant<Sobel> kCopy = copy_row<Sobel>();

// ---- naive --------------------------------------------------------------------------------------
// One thread per pixel. The correctly rounded square root is exact for squares.
#ifdef __CUDACC__
__device__ std::uint8_t magnitude(Gradient<int> g) {
  const float root = sqrtf(static_cast<float>(g.x * g.x + g.y * g.y));
  return static_cast<std::uint8_t>(fminf(root, kLargest));
}

__global__ void __launch_bounds__(kThreads)
    sobel_naive(const std::uint8_t* gray, std::uint8_t* out, Tiles tiles) {
  const ImageView view = tile_of_block(gray, out, tiles).moved(threadIdx.y, threadIdx.x);
  if (!view.contains(0, 0)) return;
  view.store(
      0, 0,
      magnitude(gradient<int>([&](int i, int j) { return static_cast<int>(view.pixel(i, j)); })));
}
#endif

constexpr Variant<Sobel> kNaive = {
    .name = "naive",
    .changes = "One thread per pixel loads its eight neighbours byte by byte.",
    .blocks = {{kBlock}},
    .grid = grid_of_tiles<1, 1, Sobel>,
    .flops = flops_of_roots,
    .bytes = [](const Sobel& p) { return bytes_by_tiles(p, 8, 1); },
    .run = ADO_RUN(run_tiles<sobel_naive, 1, 1>)};

// ---- shared, float_fast -------------------------------------------------------------------------
// A block loads its tile and a halo of one pixel into shared memory, and each thread computes
// kSharedDown pixels of a column. L1 and shared memory are the same memory here, so only
// instructions can be saved. With one pixel per thread, nothing is saved: 26 % more instructions
// than naive and 1.43 times its time (H200, 2026).
constexpr int kSharedDown = 4;

double bytes_of_tile(const Sobel& p) {
  constexpr int kRows = kBlockRows * kSharedDown;
  return bytes_by_tiles(p, (kRows + 2 * kRadius) * (kBlockCols + 2 * kRadius), kRows * kBlockCols);
}

#ifdef __CUDACC__
// Length with the special function unit's approximate square root. The truncated result is exact
// (packed_pixels.cuh).
__device__ float fast_length(float x, float y) {
  return fminf(approximate_length(x, y, 0.5f), kLargest);
}

__device__ std::uint8_t magnitude(Gradient<float> g) {
  return static_cast<std::uint8_t>(fast_length(g.x, g.y));
}

template <class Number, class Stored>
__global__ void __launch_bounds__(kThreads)
    sobel_shared(const std::uint8_t* gray, std::uint8_t* out, Tiles tiles) {
  constexpr int kHaloRows = kBlockRows * kSharedDown + 2 * kRadius;
  constexpr int kHaloCols = kBlockCols + 2 * kRadius;
  __shared__ Stored tile[kHaloRows][kHaloCols];
  const int block_row = threadIdx.y, block_col = threadIdx.x;
  const ImageView view = tile_of_block(gray, out, tiles);
  load_tile<kHaloCols, kBlockRows>(view.moved(-kRadius, -kRadius), tile);
  __syncthreads();

  constexpr int kSide = 1 + 2 * kRadius;
  Number pixel[kSharedDown + 2 * kRadius][kSide];
#pragma unroll
  for (int row = 0; row < kSharedDown + 2 * kRadius; ++row)
#pragma unroll
    for (int col = 0; col < kSide; ++col)
      pixel[row][col] = static_cast<Number>(tile[block_row * kSharedDown + row][block_col + col]);
#pragma unroll
  for (int row = 0; row < kSharedDown; ++row)
    view.store(block_row * kSharedDown + row, block_col,
               magnitude(gradient<Number>(
                   [&](int i, int j) { return pixel[row + kRadius + i][kRadius + j]; })));
}
#endif

// ---- shared -------------------------------------------------------------------------------------
constexpr Variant<Sobel> kShared = {
    .name = "shared",
    .changes =
        {"Loads the pixels that a block needs once, into shared memory; four pixels per thread.",
         Step::kReuse},
    .blocks = {{kBlock}},
    .grid = grid_of_tiles<1, kSharedDown, Sobel>,
    .flops = flops_of_roots,
    .bytes = bytes_of_tile,
    .run = ADO_RUN(run_tiles<sobel_shared<int, std::uint8_t>, 1, kSharedDown>)};

// ---- float_fast ---------------------------------------------------------------------------------
// Stores the tile as floats, so that each pixel is converted once.
//
// FLOPs per column of four pixels: eight additions and two FMAs per gradient. Neighbouring
// gradients share three differences.
constexpr Variant<Sobel> kFloatFast = {
    .name = "float_fast",
    .changes = {"Computes in float32, with the hardware's approximate square root made exact.",
                Step::kOperations},
    .blocks = {{kBlock}},
    .grid = grid_of_tiles<1, kSharedDown, Sobel>,
    .flops =
        [](const Sobel& p) {
          constexpr double kFlopsOfGradients = kSharedDown * (8 + 2 * 2) - (kSharedDown - 1);
          return (kFlopsOfGradients / kSharedDown + kFlopsOfLength) *
                 pixels_of_tiles<1, kSharedDown>(p, kBlock);
        },
    .bytes = bytes_of_tile,
    .run = ADO_RUN(run_tiles<sobel_shared<float, float>, 1, kSharedDown>)};

// ---- vectorised ---------------------------------------------------------------------------------
// A thread computes kPackedDown rows of four pixels in registers, two columns at a time as a pair
// of half-precision numbers. Halves represent all integers up to 2048, and gradients are at most
// 1020. The bytes (p, 0x64) are the half 1024 + p, so one byte permutation converts two pixels. The
// 1024 cancels, because all following results are differences.
//
//   column            -4 -3 -2 -1 |  0  1  2  3 |  4  5  6  7
//   32-bit word          before   |    here     |    after
//   pairs of halves   even  (0, 2)     odd  (1, 3)       the pixels themselves
//                     before (-1, 1)   after (2, 4)      their left and right neighbours
//
//   columns 0 and 2 have the neighbours `before` and `odd`, columns 1 and 3 `even` and `after`
//
// Rows at the seams of threads are loaded twice. 2 rows per thread take 255 us, 4 take 218 us, 8
// take 204 us and 16 take 212 us (16384 x 16384 pixels, H200, 2026).
constexpr int kPackedAcross = 4, kPackedDown = 8;

#ifdef __CUDACC__
struct Halves {
  __half2 before, even, odd, after;
};

__device__ Halves halves(const PackedNeighbours& words) {
  constexpr unsigned kBias = 0x64646464;
  const unsigned even = __byte_perm(words.here, kBias, 0x4240),
                 odd = __byte_perm(words.here, kBias, 0x4341);
  const unsigned bits[4] = {__byte_perm(words.before, odd, 0x5453), even, odd,
                            __byte_perm(even, words.after, 0x1412)};
  Halves result;
  memcpy(&result, bits, sizeof result);
  return result;
}

// Truncated magnitude of a gradient, in the lowest byte. A float from 2^23 on has no fraction bits,
// so rounding the sum down truncates it. A conversion instruction would use the special function
// unit, which is busy with the square roots.
__device__ unsigned magnitude_bits(float x, float y) {
  return __float_as_uint(__fadd_rd(fast_length(x, y), 0x1p23f));
}

__global__ void __launch_bounds__(kThreads)
    sobel_vectorised(const std::uint8_t* gray, std::uint8_t* out, Tiles tiles) {
  const ImageView tile = tile_of_block(gray, out, tiles);
  const ImageView view = tile.moved(threadIdx.y * kPackedDown, threadIdx.x * kPackedAcross);
  const auto compute = [&]<Access kAccess>() {
    Halves rows[kPackedDown + 2 * kRadius];
#pragma unroll
    for (int i = 0; i < kPackedDown + 2 * kRadius; ++i)
      rows[i] = halves(packed<kAccess>(view, i - kRadius));
    const __half2 two = __float2half2_rn(2);
#pragma unroll
    for (int row = 0; row < kPackedDown; ++row) {
      const Halves &up = rows[row], &here = rows[row + 1], &down = rows[row + 2];
      const __half2 x_even =
          __hfma2(two, here.odd - here.before, up.odd - up.before) + (down.odd - down.before);
      const __half2 x_odd =
          __hfma2(two, here.after - here.even, up.after - up.even) + (down.after - down.even);
      const __half2 even = up.even - down.even, odd = up.odd - down.odd;
      const __half2 y_even = __hfma2(two, even, up.before - down.before) + odd;
      const __half2 y_odd = __hfma2(two, odd, up.after - down.after) + even;
      const float2 x[2] = {__half22float2(x_even), __half22float2(x_odd)};
      const float2 y[2] = {__half22float2(y_even), __half22float2(y_odd)};
      const unsigned first =
          __byte_perm(magnitude_bits(x[0].x, y[0].x), magnitude_bits(x[1].x, y[1].x), 0x0040);
      const unsigned second =
          __byte_perm(magnitude_bits(x[0].y, y[0].y), magnitude_bits(x[1].y, y[1].y), 0x0040);
      store_packed<kAccess>(view, row, __byte_perm(first, second, 0x5410));
    }
  };
  with_access(tile, kBlockRows * kPackedDown, kBlockCols * kPackedAcross, kRadius, compute);
}
#endif

// FLOPs: + 1 for the addition that truncates the length.
constexpr Variant<Sobel> kVectorised = {
    .name = "vectorised",
    .changes =
        {"Loads and stores four pixels at a time and computes two at a time in half precision.",
         Step::kWider, Step::kOperations},
    .blocks = {{kBlock}},
    .grid = grid_of_tiles<kPackedAcross, kPackedDown, Sobel>,
    .flops =
        [](const Sobel& p) {
          return (kFlopsOfLength + 1) * pixels_of_tiles<kPackedAcross, kPackedDown>(p, kBlock);
        },
    .bytes =
        [](const Sobel& p) {
          return bytes_by_tiles(p, 3 * kPackedAcross * (kPackedDown + 2 * kRadius),
                                kPackedAcross * kPackedDown);
        },
    .run = ADO_RUN(run_tiles<sobel_vectorised, kPackedAcross, kPackedDown>)};

// ---- sliding_window -----------------------------------------------------------------------------
// Streams rows: image/sliding_window.cuh has the loop, and image/sobel_stage.cuh the gradient.
//
// Shapes of the window: 2560 x 1600 pixels take 9.5 us with 16 pixels per lane and 8.2 us with
// eight. In unaligned rows, more rows in the ring are slower: 10001 x 10003 pixels take 98 us with
// four rows and 128 us with eight (H200, 2026). The other values were the fastest tried on an H200.
constexpr WindowTuning tuning(int words, RowStart start) {
  const bool large = words == 4, aligned = start == RowStart::kVectors;
  return {.ring_rows = aligned && words == 2 ? 8 : 4,
          .blocks = !large    ? 8
                    : aligned ? 7
                              : 6,
          .warps = large ? 14 : 11,
          .tail_percent = aligned ? 0 : 50};
}

template <int kWords, RowStart kStart>
using SobelShape = WindowShape<Sobel, SlidingWindow{.words = kWords, .in = kStart, .out = kStart},
                               tuning(kWords, kStart)>;

// Calls `visit` with the shape for a problem.
constexpr auto with_shape = [](const Sobel& p, const Hardware& gpu, auto visit) {
  if (p.cols() <= kNarrowCols) return visit(SobelShape<1, RowStart::kBytes>{});
  return with_row_start(row_start_of(p), [&](auto start) {
    constexpr bool kAligned = start == RowStart::kVectors;
    return has_many_pixels(p, kAligned, gpu) ? visit(SobelShape<4, start>{})
                                             : visit(SobelShape<2, start>{});
  });
};

constexpr Variant<Sobel> kSlidingWindow = {
    .name = "sliding_window",
    .changes = {"Streams rows through registers and keeps the values of the last two rows that the "
                "next gradients need.",
                Step::kReuse, Step::kOperations},
    .blocks = {{kWindowBlock}},
    .grid = window_grid<Sobel, with_shape>,
    .shared_bytes = window_shared_bytes<Sobel, with_shape>,
    .flops = window_flops<Sobel, with_shape>,
    .bytes = window_bytes<Sobel, with_shape>,
    .run = ADO_RUN([](const Sobel& p, const Launch& go) {
      with_shape(p, go.hardware, [&]<class Shape>(Shape) {
        const auto kernel = sliding_window<Shape, SobelStage<Shape::kWords>>;
        launch(go, kernel, p.gray.as<const std::uint8_t>(), Border::kConstant,
               p.out.as<std::uint8_t>(), bands_of<Shape>(p, go.hardware), {});
      });
    })};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Sobel> kSteps[] = {kCopy,      kNaive,      kShared,
                                     kFloatFast, kVectorised, kSlidingWindow};

}  // namespace

Ladder<Sobel> sobel_steps() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

int main() {
  using namespace ado;
  Sobel p;
  p.gray = cuda::random_array(kUint8, {8192, 8192});
  p.out = cuda::random_array(kUint8, {8192, 8192});
  return cuda::run_ladder(cuda::sobel_steps(), p, [](const Sobel& p) {
    for (std::int64_t row = 0; row < p.rows(); ++row)
      for (std::int64_t col = 0; col < p.cols(); ++col) {
        const auto pixel = [&](int i, int j) -> int {
          const std::int64_t y = row + i, x = col + j;
          const bool inside = y >= 0 && y < p.rows() && x >= 0 && x < p.cols();
          return inside ? p.gray.as<const std::uint8_t>()[y * p.cols() + x] : 0;
        };
        int gx = 0, gy = 0;
        for (int i = -1; i <= 1; ++i) {
          gx += (2 - i * i) * (pixel(i, 1) - pixel(i, -1));
          gy += (2 - i * i) * (pixel(-1, i) - pixel(1, i));
        }
        p.out.as<std::uint8_t>()[row * p.cols() + col] =
            static_cast<std::uint8_t>(std::min(255.0, std::sqrt(gx * gx + gy * gy)));
      }
  });
}
#endif
