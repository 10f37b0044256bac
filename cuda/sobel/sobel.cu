// Sobel on the GPU: out = the length of the gradient, from nine loads a pixel to whole words.
//
// Two bytes a pixel have to move, so there are about 16 instructions a pixel to spend before memory
// waits for arithmetic (an H200 issues 132 * 4 warp instructions a cycle of 0.5 ns and copies 4.2
// TB/s). The naive kernel takes 119 and is bound by them: what helps is to issue fewer.
//
// Times in the comments are for 16384 x 16384 pixels on an H200, L2 flushed.
#include "routines/sobel.hpp"

#include "image/sliding_window.cuh"
#include "image/square_root.cuh"
#include "image/view.cuh"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace ado::cuda {
namespace {

constexpr int kWidth = 32, kHeight = 8;  // of all blocks, in threads
constexpr Extent kBlock{kWidth, kHeight};
constexpr int kRadius = 1;

constexpr int kSharedDown = 4;  // pixels of a thread in the rungs with shared memory

// Pixels of a thread that loads words. Rows at the seams are loaded twice: 2 rows take 255 us, 4
// take 218, 8 take 204 and 16 take 212.
constexpr int kWordAcross = 4, kWordDown = 8;

#ifdef __CUDACC__

constexpr int kThreads = kWidth * kHeight;
constexpr float kLargest = 255;

template <class Number>
struct Gradient {
  Number x, y;
};

// From the nine pixels that `pixel` gives for offsets from -1 to 1.
template <class Number, class Pixel>
__device__ Gradient<Number> gradient(Pixel pixel) {
  const Number corners[2][2] = {{pixel(-1, -1), pixel(-1, 1)}, {pixel(1, -1), pixel(1, 1)}};
  return {corners[0][1] - corners[0][0] + 2 * (pixel(0, 1) - pixel(0, -1)) + corners[1][1] -
              corners[1][0],
          corners[0][0] - corners[1][0] + 2 * (pixel(-1, 0) - pixel(1, 0)) + corners[0][1] -
              corners[1][1]};
}

// With the square root that is rounded correctly, and so exact for squares.
__device__ std::uint8_t magnitude(Gradient<int> g) {
  const float root = sqrtf(static_cast<float>(g.x * g.x + g.y * g.y));
  return static_cast<std::uint8_t>(fminf(root, kLargest));
}

// With the square root of the special function unit, which is exact once it is truncated.
__device__ float fast_root(float x, float y) {
  return fminf(approximate_length(x, y, 0.5f), kLargest);
}

__device__ std::uint8_t magnitude(Gradient<float> g) {
  return static_cast<std::uint8_t>(fast_root(g.x, g.y));
}

// ---------------------------------------------------------------------------------------------
// One thread a pixel.
__global__ void __launch_bounds__(kThreads) sobel_naive(Batch batch) {
  const View view = View(batch).moved(threadIdx.y, threadIdx.x);
  if (!view.contains(0, 0)) return;
  view.store(
      0, 0,
      magnitude(gradient<int>([&](int i, int j) { return static_cast<int>(view.pixel(i, j)); })));
}

// ---------------------------------------------------------------------------------------------
// A block loads its tile and what lies around it once, and a thread has kSharedDown pixels of a
// column. L1 and shared memory are the same memory here, so what this saves is instructions, and
// with one pixel a thread it does not even save those: 26 % more of them than naive, 1.43x its
// time. A tile of floats is converted as it is loaded, once a pixel.
template <class Number, class Stored>
__global__ void __launch_bounds__(kThreads) sobel_shared(Batch batch) {
  constexpr int kHaloRows = kHeight * kSharedDown + 2 * kRadius, kHaloCols = kWidth + 2 * kRadius;
  __shared__ Stored tile[kHaloRows][kHaloCols];
  const int lane = threadIdx.x, line = threadIdx.y;
  const View tile_view(batch);
  load_tile<kHaloCols, kHeight>(tile_view.moved(-kRadius, -kRadius), tile);
  __syncthreads();

  constexpr int kSide = 1 + 2 * kRadius;
  Number pixel[kSharedDown + 2 * kRadius][kSide];
#pragma unroll
  for (int row = 0; row < kSharedDown + 2 * kRadius; ++row)
#pragma unroll
    for (int col = 0; col < kSide; ++col)
      pixel[row][col] = static_cast<Number>(tile[line * kSharedDown + row][lane + col]);
  const View view = tile_view.moved(line * kSharedDown, lane);
#pragma unroll
  for (int row = 0; row < kSharedDown; ++row)
    view.store(row, 0, magnitude(gradient<Number>([&](int i, int j) {
                 return pixel[row + kRadius + i][kRadius + j];
               })));
}

// ---------------------------------------------------------------------------------------------
// A thread computes 4 by kWordDown pixels in registers, two columns at a time: halves hold all
// integers up to 2048, and the gradients are at most 1020. The bytes (p, 0x64) are the half 1024 +
// p, so one permutation converts two pixels; the 1024 cancels, as all that follows are differences.

// Columns -1 to 4 of a row of four pixels, in pairs.
struct Halves {
  __half2 before, even, odd, after;  // columns (-1, 1), (0, 2), (1, 3), (2, 4)
};

__device__ Halves halves(const WordsAround& words) {
  constexpr unsigned kBias = 0x64646464;
  const unsigned even = __byte_perm(words.here, kBias, 0x4240),
                 odd = __byte_perm(words.here, kBias, 0x4341);
  const unsigned bits[4] = {__byte_perm(words.before, odd, 0x5453), even, odd,
                            __byte_perm(even, words.after, 0x1412)};
  Halves result;
  memcpy(&result, bits, sizeof result);
  return result;
}

// The length of a gradient, truncated, as the lowest byte: a sum of 2^23 and more has no bits for
// fractions. (The conversion would take the special function unit, which has the root to do.)
__device__ unsigned magnitude_bits(float x, float y) {
  return __float_as_uint(__fadd_rd(fast_root(x, y), 0x1p23f));
}

__global__ void __launch_bounds__(kThreads) sobel_vectorised(Batch batch) {
  const View tile(batch);
  const View view = tile.moved(threadIdx.y * kWordDown, threadIdx.x * kWordAcross);
  tile.with_reach(kHeight * kWordDown, kWidth * kWordAcross, kRadius, [&]<Reach kReach>() {
    Halves line[kWordDown + 2 * kRadius];
#pragma unroll
    for (int i = 0; i < kWordDown + 2 * kRadius; ++i)
      line[i] = halves(view.words<kReach>(i - kRadius));
    const __half2 two = __float2half2_rn(2);
#pragma unroll
    for (int row = 0; row < kWordDown; ++row) {
      const Halves &up = line[row], &here = line[row + 1], &down = line[row + 2];
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
      view.store_word<kReach>(row, __byte_perm(first, second, 0x5410));
    }
  });
}

#endif

double bytes_of_tile(const Sobel& p) {
  constexpr int kRows = kHeight * kSharedDown;
  return bytes_by_tiles(p, (kRows + 2 * kRadius) * (kWidth + 2 * kRadius), kRows * kWidth);
}

// ---------------------------------------------------------------------------------------------
// The rows march, as march.cuh has it; this is bound by the 13 instructions a pixel that are left.
// Sixteen pixels a lane take 149 us, eight 158; 2560 x 1600 pixels take 9.2 us with sixteen and 8.1
// with eight. Seven, ten and eight blocks a multiprocessor leave a thread 72, 48 and 64 registers,
// and none is spilled on sm_90. These numbers and the height of strips are the fastest of those
// tried there.
constexpr int marching_blocks(int words, bool aligned) {
  if (words == 4) return 7;
  return aligned ? 10 : 8;
}

template <int kWords, bool kAligned>
using SobelShape = MarchShape<Marching{.words = kWords,
                                       .reach = kRadius,
                                       .aligned = kAligned,
                                       .blocks = marching_blocks(kWords, kAligned),
                                       .highest = 34}>;

constexpr auto with_shape = [](const Sobel& p, auto visit) {
  if (!lanes_aligned(p.gray, p.out, kChunk)) return visit(SobelShape<2, false>{});
  return pixels_of(p) >= kManyPixels ? visit(SobelShape<4, true>{}) : visit(SobelShape<2, true>{});
};

constexpr Variant<Sobel> kVariants[] = {
    copy_row<Sobel>(),
    {.name = "naive",
     .changes = "One thread a pixel, which loads nine pixels byte by byte.",
     .device = Device::kCuda,
     .blocks = {{kBlock}},
     .grid = grid_of_tiles<1, 1, Sobel>,
     .bytes = [](const Sobel& p) { return bytes_by_tiles(p, 9, 1); },
     .run = ADO_RUN([](const Sobel& p, const Launch& go) {
       launch(go, sobel_naive, batch_of<1, 1>(p, go.block));
     })},
    {.name = "shared",
     .changes = "Loads what a block needs once, into shared memory, for four pixels a thread.",
     .device = Device::kCuda,
     .blocks = {{kBlock}},
     .grid = grid_of_tiles<1, kSharedDown, Sobel>,
     .bytes = bytes_of_tile,
     .run = ADO_RUN([](const Sobel& p, const Launch& go) {
       launch(go, sobel_shared<int, std::uint8_t>, batch_of<1, kSharedDown>(p, go.block));
     })},
    {.name = "float_fast",
     .changes = "Computes in float32, with the hardware's approximate root made exact.",
     .device = Device::kCuda,
     .blocks = {{kBlock}},
     .grid = grid_of_tiles<1, kSharedDown, Sobel>,
     .bytes = bytes_of_tile,
     .run = ADO_RUN([](const Sobel& p, const Launch& go) {
       launch(go, sobel_shared<float, float>, batch_of<1, kSharedDown>(p, go.block));
     })},
    {.name = "vectorised",
     .changes = "Loads and stores words of four pixels, and computes two at a time as halves.",
     .device = Device::kCuda,
     .blocks = {{kBlock}},
     .grid = grid_of_tiles<kWordAcross, kWordDown, Sobel>,
     .bytes =
         [](const Sobel& p) {
           return bytes_by_tiles(p, 3 * kWordAcross * (kWordDown + 2 * kRadius),
                                 kWordAcross * kWordDown);
         },
     .run = ADO_RUN([](const Sobel& p, const Launch& go) {
       launch(go, sobel_vectorised, batch_of<kWordAcross, kWordDown>(p, go.block));
     })},
    {.name = "marching",
     .changes = "Marches down the rows, keeping what the next gradients need of those that passed.",
     .device = Device::kCuda,
     .blocks = {{kMarchBlock}},
     .grid = march_grid<Sobel, with_shape>,
     .shared_bytes = march_shared_bytes<Sobel, with_shape>,
     .bytes = march_bytes<Sobel, with_shape>,
     .run = ADO_RUN([](const Sobel& p, const Launch& go) {
       with_shape(p, [&]<class Shape>(Shape) {
         const auto kernel = march<Shape, SobelMagnitude<Shape::kWords>>;
         launch(go, kernel, p.gray.as<const std::uint8_t>(), Border::kConstant,
                p.out.as<std::uint8_t>(), strips_of<Shape>(p), {});
       });
     })},
};

}  // namespace

Ladder<Sobel> sobel_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda
