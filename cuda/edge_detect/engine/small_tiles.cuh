// Edge detection, engine: small images.
#pragma once

#include <limits>

#include "edge_detect/edge_stage.cuh"
#include "routines/edge_detect.hpp"

namespace ado::cuda {
namespace {

// ---- small_tiles --------------------------------------------------------------------------------
// The sliding window loads one row after another. In a small image, with one or two bands per warp,
// the latency of each row is exposed. Here, the threads of a block load all pixels of a tile at
// once and store the luminances to shared memory. Then each warp streams a few rows of the tile
// through the stages of the sliding window. A lane processes four pixels per row. The first and the
// last lane of a warp do not store.

constexpr int kTileWarps = 8;
constexpr Extent kTileBlock{kTileWarps * kWarpSize};
constexpr int kTileHalo = GaussianBlur::kRadius + 1;  // rows above a tile, and rows below it
constexpr int kTileCols = 4 * (kWarpSize - 2);        // pixels that a warp stores per row

// kRows: rows that a warp stores.
template <int kRows>
constexpr int kTileRowsOf = kTileWarps* kRows;

struct SmallTiles {
  std::int64_t across, down;  // tiles per image
};

template <int kRows>
SmallTiles small_tiles_of(const EdgeDetect& p) {
  return {ceil_div(p.cols(), kTileCols), ceil_div(p.rows(), kTileRowsOf<kRows>)};
}

template <int kRows>
std::int64_t number_of_small_tiles(const EdgeDetect& p) {
  const SmallTiles tiles = small_tiles_of<kRows>(p);
  return p.images() * tiles.across * tiles.down;
}

// Maximum number of tiles per multiprocessor for which this variant is faster; they are processed
// at the same time. The sliding window needs more time for rows of RGB pixels, so the limit is
// higher.
constexpr std::int64_t kMaxTilesRgb = 4, kMaxTilesRgba = 2;  // H200, 2026

std::int64_t max_small_tiles(const EdgeDetect& p, const Hardware& gpu) {
  return gpu.multiprocessors * (p.channels() == 3 ? kMaxTilesRgb : kMaxTilesRgba);
}

constexpr int kFewTileRows = 2, kManyTileRows = 6;  // per warp

// Calls `visit` with the number of rows per warp as a constant.
template <class Visit>
auto with_rows_per_warp(const EdgeDetect& p, const Hardware& gpu, Visit visit) {
  return number_of_small_tiles<kFewTileRows>(p) <= max_small_tiles(p, gpu)
             ? visit(std::integral_constant<int, kFewTileRows>{})
             : visit(std::integral_constant<int, kManyTileRows>{});
}

const char* why_not_small_tiles(const EdgeDetect& p) {
  return number_of_small_tiles<kManyTileRows>(p) > std::numeric_limits<int>::max()
             ? "there are more tiles than blocks in a grid"
             : nullptr;
}

Extent grid_of_small_tiles(const EdgeDetect& p, Extent, const Hardware& gpu) {
  return with_rows_per_warp(p, gpu,
                            [&](auto rows) { return grid_of(number_of_small_tiles<rows>(p), 1); });
}

#ifdef __CUDACC__

// Returns the packed luminances of `count` pixels, at most four. `end`: the end of the array.
template <int kChannels>
__device__ unsigned load_luminances(const std::uint8_t* from, int count, const std::uint8_t* end) {
  constexpr int kWords = kChannels;  // in four pixels
  const unsigned offset = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % 4);
  unsigned words[kWords + 1] = {};
  if (count == 4 && from - offset + 4 * (kWords + (offset != 0)) <= end) {
    if (kChannels == 4 && reinterpret_cast<std::uintptr_t>(from) % kVectorBytes == 0) {
      const uint4 vector = *reinterpret_cast<const uint4*>(from);
      words[0] = vector.x;
      words[1] = vector.y;
      words[2] = vector.z;
      words[kWords - 1] = vector.w;
    } else {
      const auto* const aligned = reinterpret_cast<const unsigned*>(from - offset);
#pragma unroll
      for (int w = 0; w < kWords; ++w) words[w] = aligned[w];
      if (offset != 0) {
        words[kWords] = aligned[kWords];
#pragma unroll
        for (int w = 0; w < kWords; ++w)
          words[w] = __funnelshift_r(words[w], words[w + 1], 8 * offset);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4 * kChannels; ++i)
      if (i < count * kChannels) words[i / 4] |= unsigned{from[i]} << (8 * (i % 4));
  }
  unsigned of[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int byte = i * kChannels;
    of[i] = luminance(byte % 4 == 0
                          ? words[byte / 4]
                          : __funnelshift_r(words[byte / 4], words[byte / 4 + 1], 8 * (byte % 4)));
  }
  return pack(of[0], of[1], of[2], of[3]);
}

template <int kChannels, int kRows>
__global__ void __launch_bounds__(kTileWarps* kWarpSize)
    edge_detect_small_tiles(const std::uint8_t* in, std::uint8_t* out, std::int64_t images,
                            std::int64_t rows, std::int64_t cols, SmallTiles tiles) {
  constexpr int kTileRows = kTileRowsOf<kRows>, kLoaded = kTileRows + 2 * kTileHalo;
  __shared__ unsigned gray[kLoaded * kWarpSize];
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const std::int64_t band = divide(block_x(), tiles.across), image = divide(band, tiles.down);
  // The first pixel of the lane, and the first loaded row.
  const std::int64_t col = (block_x() - band * tiles.across) * kTileCols - 4 + 4 * lane;
  const std::int64_t first_row = (band - image * tiles.down) * kTileRows - kTileHalo;
  const int inside = clamp_distance(cols - col);
  const int count = col < 0 || inside < 0 ? 0 : min(inside, 4);  // pixels inside the image
  const std::uint8_t* const pixels = in + (image * rows * cols + col) * kChannels;
  const std::uint8_t* const end = in + images * rows * cols * kChannels;
#pragma unroll 3
  for (int i = warp; i < kLoaded; i += kTileWarps) {
    const std::int64_t row = first_row + i;
    unsigned word = 0;
    if (count > 0 && row >= 0 && row < rows)
      word = load_luminances<kChannels>(pixels + row * cols * kChannels, count, end);
    gray[i * kWarpSize + lane] = word;
  }
  __syncthreads();

  const unsigned mask = count == 4 ? 0xffffffff : (1U << (8 * count)) - 1;
  const bool stores = lane > 0 && lane < kWarpSize - 1 && count > 0;
  GaussianStage<1> blur(1, {});
  SobelStage<1> sobel(1, {});
  std::uint8_t* const to = out + image * rows * cols + col;
  const bool by_words = count == 4 && (reinterpret_cast<std::uintptr_t>(to) | cols) % 4 == 0;
#pragma unroll 1
  for (int base = 0; base < kRows + 2 * kTileHalo; base += 2) {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const int index = base + step;
      const std::int64_t row = first_row + warp * kRows + index;
      const PackedPixels<1> own{{gray[(warp * kRows + index) * kWarpSize + lane]}};
      PackedPixels<1> blurred = blur.push(step, exchange_neighbours<1>(own));
      blurred.at[0] &=
          row - GaussianStage<1>::kRadius >= 0 && row - GaussianStage<1>::kRadius < rows ? mask : 0;
      const PackedPixels<1> result = sobel.push(step, exchange_neighbours<1>(blurred));
      const std::int64_t stored = row - kTileHalo;
      if (index < 2 * kTileHalo || !stores || stored >= rows) continue;
      std::uint8_t* const at = to + stored * cols;
      if (by_words) {
        *reinterpret_cast<unsigned*>(at) = result.at[0];
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (i < count) at[i] = static_cast<std::uint8_t>(result.at[0] >> (8 * i));
      }
    }
  }
}

#endif

constexpr Variant<EdgeDetect> kSmallTiles = {
    .name = "small_tiles",
    .changes =
        {"Loads all pixels of a tile into shared memory at once and streams rows from there.",
         Step::kParallelism, Step::kInFlight},
    .why_not = why_not_small_tiles,
    .blocks = {{kTileBlock}},
    .grid = grid_of_small_tiles,
    .run = ADO_RUN([](const EdgeDetect& p, const Launch& go) {
      with_rows_per_warp(p, go.hardware, [&](auto rows) {
        const auto kernel =
            p.channels() == 3 ? edge_detect_small_tiles<3, rows> : edge_detect_small_tiles<4, rows>;
        launch(go, kernel, p.rgba.as<const std::uint8_t>(), p.out.as<std::uint8_t>(), p.images(),
               p.rows(), p.cols(), small_tiles_of<rows>(p));
      });
    })};

// -------------------------------------------------------------------------------------------------

}  // namespace
}  // namespace ado::cuda
