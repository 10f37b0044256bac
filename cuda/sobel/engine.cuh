// Engine: which variant of Sobel is the default for a problem, and the shapes of its sliding
// window.
#pragma once

#include "image/engine_lane_per_row.cuh"
#include "routines/sobel.hpp"

namespace ado::cuda {
namespace {

constexpr int kBlockCols = 32, kBlockRows = 8;  // threads per block, in the steps with tiles
constexpr Extent kBlock{kBlockCols, kBlockRows};
constexpr int kRadius = 1;

constexpr int kSharedDown = 4;  // pixels per thread in `shared` and `float_fast`

// Pixels per thread in `vectorised`. Rows at the seams of threads are loaded twice. 2 rows per
// thread take 255 us, 4 take 218 us, 8 take 204 us and 16 take 212 us (16384 x 16384 pixels, H200,
// 2026).
constexpr int kPackedAcross = 4, kPackedDown = 8;

// Shapes of the sliding window. 2560 x 1600 pixels take 9.5 us with 16 pixels per lane and 8.2 us
// with eight. In unaligned rows, more rows in the ring are slower: 10001 x 10003 pixels take 98 us
// with four rows and 128 us with eight (H200, 2026). The other values were the fastest tried on an
// H200.
constexpr WindowTuning sobel_tuning(int words, RowStart start) {
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
                               sobel_tuning(kWords, kStart)>;

RowStart row_start_of(const Sobel& p) {
  return std::min(row_start(p.gray, p.cols()), row_start(p.out, p.cols()));
}

// In a small image, the latency of one block determines the time. `naive` has no barrier, and its
// loads are independent. 89 x 53 pixels take 5.4 us with `naive`, 6.1 us with `shared` and 6.9 us
// with `float_fast`. 512 x 512 pixels take 6.5 us with the first two (H200, L2 flushed, 2026).
const char* why_naive_is_faster(const Sobel& p, const Hardware& gpu) {
  return pixels_of_tiles<1, 1>(p, kBlock) <= kVeryFewPixels.on(gpu)
             ? "naive is faster for very small images"
             : nullptr;
}

const char* why_vectorised_is_slower(const Sobel& p, const Hardware& gpu) {
  if (const char* const reason = why_naive_is_faster(p, gpu)) return reason;
  return row_start_of(p) == RowStart::kBytes
             ? "rows that do not begin at multiples of 4 bytes need several loads per word"
             : nullptr;
}

// For 1080 x 1920 pixels, `vectorised` takes 5.9 us and the sliding window 6.7 us. For 2160 x 3840
// pixels, they take 11.5 and 10.3 us. In unaligned rows, for 676 x 615 pixels, `float_fast`
// takes 6.5 us and the sliding window 9.4 us. For 1081 x 1923 pixels, they take 11.0 and 10.8 us
// (H200, L2 flushed, 2026).
const char* why_window_is_slower(const Sobel& p, const Hardware& gpu) {
  if (const char* const reason = why_naive_is_faster(p, gpu)) return reason;
  const bool words = row_start_of(p) != RowStart::kBytes;
  if (words && pixels_of_tiles<kPackedAcross, kPackedDown>(p, kBlock) < 2 * kFewTilePixels.on(gpu))
    return "vectorised is faster for small images";
  if (!words && pixels_of_tiles<1, kSharedDown>(p, kBlock) < kFewTilePixels.on(gpu))
    return "float_fast is faster for small images with unaligned rows";
  return nullptr;
}

const char* why_lanes_are_slower(const Sobel& p, const Hardware& gpu) {
  // A tile of a block is wider than a narrow image, so most threads of `vectorised` and `float_fast`
  // are idle. 30000 x 8 pixels take 7.4 us with `vectorised` and 6.5 us with lanes; 30000 x 24
  // pixels take 7.5 and 8.7 us (H100, 2026).
  constexpr std::int64_t kMaxShortCols = 8;
  const bool narrow = p.cols() <= kMaxRowCols && pixels_of_tiles<1, 1>(p, kBlock) >
                                                     (p.cols() <= kMaxShortCols ? 2 : 4) *
                                                         kVeryFewPixels.on(gpu);
  const char* const reason = narrow ? nullptr : why_window_is_slower(p, gpu);
  return reason != nullptr ? reason : why_lanes_slower(p, gpu, row_start_of(p));
}

// Calls `visit` with the shape for a problem.
constexpr auto with_shape = [](const Sobel& p, const Hardware& gpu, auto visit) {
  if (p.cols() <= kNarrowCols) return visit(SobelShape<1, RowStart::kBytes>{});
  return with_row_start(row_start_of(p), [&](auto start) {
    constexpr bool kAligned = start == RowStart::kVectors;
    return has_many_pixels(p, kAligned, gpu) ? visit(SobelShape<4, start>{})
                                             : visit(SobelShape<2, start>{});
  });
};

}  // namespace
}  // namespace ado::cuda
