// Sobel on the GPU: out = the magnitude of the gradient. The variants range from eight 1-byte loads
// per pixel to rows that are streamed through registers.
//
// The steps, in reading order: naive, shared and float_fast, and vectorised in this file; then
// image/sliding_window.cuh, the loop that streams rows, and image/sobel_stage.cuh, the gradient in
// it. A reader of the steps can skip engine.cuh (the default variant of a problem) and
// image/engine_*.cuh (rows of any alignment and size).
//
// The kernels read and write one byte per pixel, and the naive kernel executes more than a hundred
// instructions for it. It is bound by instruction issue, so fewer instructions make it faster.
#include "routines/sobel.hpp"

#include "image/sobel_stage.cuh"
#include "sobel/engine.cuh"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace ado::cuda {
namespace {

#ifdef __CUDACC__

constexpr int kThreads = kBlockCols * kBlockRows;
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

// Magnitude with the correctly rounded square root, which is exact for squares.
__device__ std::uint8_t magnitude(Gradient<int> g) {
  const float root = sqrtf(static_cast<float>(g.x * g.x + g.y * g.y));
  return static_cast<std::uint8_t>(fminf(root, kLargest));
}

// Length with the special function unit's approximate square root. The truncated result is exact
// (packed_pixels.cuh).
__device__ float fast_length(float x, float y) {
  return fminf(approximate_length(x, y, 0.5f), kLargest);
}

__device__ std::uint8_t magnitude(Gradient<float> g) {
  return static_cast<std::uint8_t>(fast_length(g.x, g.y));
}

// One thread per pixel.
__global__ void __launch_bounds__(kThreads) sobel_naive(Batch batch) {
  const ImageView view = ImageView(batch).moved(threadIdx.y, threadIdx.x);
  if (!view.contains(0, 0)) return;
  view.store(
      0, 0,
      magnitude(gradient<int>([&](int i, int j) { return static_cast<int>(view.pixel(i, j)); })));
}

// A block loads its tile and a halo of one pixel into shared memory, and each thread computes
// kSharedDown pixels of a column. L1 and shared memory are the same memory here, so only
// instructions can be saved. With one pixel per thread, nothing is saved: 26 % more instructions
// than naive and 1.43 times its time (H200, 2026). `float_fast` stores the tile as floats, so that
// each pixel is converted once.
template <class Number, class Stored>
__global__ void __launch_bounds__(kThreads) sobel_shared(Batch batch) {
  constexpr int kHaloRows = kBlockRows * kSharedDown + 2 * kRadius;
  constexpr int kHaloCols = kBlockCols + 2 * kRadius;
  __shared__ Stored tile[kHaloRows][kHaloCols];
  const int block_row = threadIdx.y, block_col = threadIdx.x;
  const ImageView tile_view(batch);
  load_tile<kHaloCols, kBlockRows>(tile_view.moved(-kRadius, -kRadius), tile);
  __syncthreads();

  constexpr int kSide = 1 + 2 * kRadius;
  Number pixel[kSharedDown + 2 * kRadius][kSide];
#pragma unroll
  for (int row = 0; row < kSharedDown + 2 * kRadius; ++row)
#pragma unroll
    for (int col = 0; col < kSide; ++col)
      pixel[row][col] = static_cast<Number>(tile[block_row * kSharedDown + row][block_col + col]);
  const ImageView view = tile_view.moved(block_row * kSharedDown, block_col);
#pragma unroll
  for (int row = 0; row < kSharedDown; ++row)
    view.store(row, 0, magnitude(gradient<Number>([&](int i, int j) {
                 return pixel[row + kRadius + i][kRadius + j];
               })));
}

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

__global__ void __launch_bounds__(kThreads) sobel_vectorised(Batch batch) {
  const ImageView tile(batch);
  const ImageView view = tile.moved(threadIdx.y * kPackedDown, threadIdx.x * kPackedAcross);
  const auto compute = [&]<Access kAccess>() {
    Halves rows[kPackedDown + 2 * kRadius];
#pragma unroll
    for (int i = 0; i < kPackedDown + 2 * kRadius; ++i)
      rows[i] = halves(view.packed<kAccess>(i - kRadius));
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
      view.store_packed<kAccess>(row, __byte_perm(first, second, 0x5410));
    }
  };
  tile.with_access(kBlockRows * kPackedDown, kBlockCols * kPackedAcross, kRadius, compute);
}

#endif

// Executed FLOPs, in SASS of sm_90. Half-precision operations are not counted: they compute the
// same integers as the other variants.

// The correctly rounded square root refines an approximation with two multiplications and two FMAs.
// The root of 0 is a special case without FLOPs, which is neglected.
double flops_of_roots(const Sobel& p) { return (2 + 2 * 2) * static_cast<double>(pixels_of(p)); }

// Per column of four pixels: eight additions and two FMAs per gradient. Neighbouring gradients
// share three differences.
double flops_of_float_fast(const Sobel& p) {
  constexpr double kFlopsOfGradients = kSharedDown * (8 + 2 * 2) - (kSharedDown - 1);
  return (kFlopsOfGradients / kSharedDown + kFlopsOfLength) *
         pixels_of_tiles<1, kSharedDown>(p, kBlock);
}

// + 1: the addition that truncates the length.
double flops_of_vectorised(const Sobel& p) {
  return (kFlopsOfLength + 1) * pixels_of_tiles<kPackedAcross, kPackedDown>(p, kBlock);
}

double bytes_of_tile(const Sobel& p) {
  constexpr int kRows = kBlockRows * kSharedDown;
  return bytes_by_tiles(p, (kRows + 2 * kRadius) * (kBlockCols + 2 * kRadius), kRows * kBlockCols);
}

constexpr Variant<Sobel> kVariants[] = {
    copy_variant<Sobel>(),
    {.name = "naive",
     .changes = "One thread per pixel loads its eight neighbours byte by byte.",
     .blocks = {{kBlock}},
     .grid = grid_of_tiles<1, 1, Sobel>,
     .flops = flops_of_roots,
     .bytes = [](const Sobel& p) { return bytes_by_tiles(p, 8, 1); },
     .run = ADO_RUN(run_tiles<sobel_naive, 1, 1>)},
    {.name = "shared",
     .changes =
         {"Loads the pixels that a block needs once, into shared memory; four pixels per thread.",
          Step::kReuse},
     .why_slower = why_naive_is_faster,
     .blocks = {{kBlock}},
     .grid = grid_of_tiles<1, kSharedDown, Sobel>,
     .flops = flops_of_roots,
     .bytes = bytes_of_tile,
     .run = ADO_RUN(run_tiles<sobel_shared<int, std::uint8_t>, 1, kSharedDown>)},
    {.name = "float_fast",
     .changes = {"Computes in float32, with the hardware's approximate square root made exact.",
                 Step::kOperations},
     .why_slower = why_naive_is_faster,
     .blocks = {{kBlock}},
     .grid = grid_of_tiles<1, kSharedDown, Sobel>,
     .flops = flops_of_float_fast,
     .bytes = bytes_of_tile,
     .run = ADO_RUN(run_tiles<sobel_shared<float, float>, 1, kSharedDown>)},
    {.name = "vectorised",
     .changes =
         {"Loads and stores four pixels at a time and computes two at a time in half precision.",
          Step::kWider, Step::kOperations},
     .why_slower = why_vectorised_is_slower,
     .blocks = {{kBlock}},
     .grid = grid_of_tiles<kPackedAcross, kPackedDown, Sobel>,
     .flops = flops_of_vectorised,
     .bytes =
         [](const Sobel& p) {
           return bytes_by_tiles(p, 3 * kPackedAcross * (kPackedDown + 2 * kRadius),
                                 kPackedAcross * kPackedDown);
         },
     .run = ADO_RUN(run_tiles<sobel_vectorised, kPackedAcross, kPackedDown>)},
    {.name = "sliding_window",
     .changes =
         {"Streams rows through registers and keeps the values of the last two rows that the "
          "next gradients need.",
          Step::kReuse, Step::kOperations},
     .why_slower = why_window_is_slower,
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
     })},
    {.name = "lane_per_row",
     .changes = {"Assigns whole rows of narrow images to each lane; blocks copy contiguous bytes.",
                 Step::kCoalescing, Step::kOperations},
     .why_not = why_not_lanes<Sobel>,
     .why_slower = why_lanes_are_slower,
     .blocks = {{kStripBlock}},
     .grid = strip_grid<Sobel>,
     .shared_bytes = strip_shared_bytes<Sobel>,
     .flops = strip_flops<Sobel>,
     .bytes = strip_bytes<Sobel>,
     .run = ADO_RUN([](const Sobel& p, const Launch& go) {
       run_strips<1, kMaxRowCols, SobelStage>(p, p.gray, go);
     })},
};

}  // namespace

Ladder<Sobel> sobel_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda
