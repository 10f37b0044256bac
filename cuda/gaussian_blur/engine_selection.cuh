// Engine: which variant of the Gaussian blur is the default for a problem, and the shapes of its
// sliding window.
#pragma once

#include "gaussian_blur/engine_any_taps.cuh"
#include "gaussian_blur/tiles.cuh"
#include "image/engine_lane_per_row.cuh"

namespace ado::cuda {
namespace {

const char* why_not_options(const GaussianBlur& p) {
  return p.border == Border::kConstant && p.default_taps()
             ? nullptr
             : "only border=\"constant\" and the default taps are supported";
}

// Shapes of the sliding window. With 16 pixels per lane, the fewest halo pixels are loaded per row,
// but the image must be large: 2560 x 1600 pixels take 8.6 us with 16 and 8.3 us with eight (H200,
// 2026). The other values were the fastest tried on an H200.
constexpr WindowTuning blur_tuning(int words, RowStart start, bool extends, bool any_taps) {
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
                  blur_tuning(kWords, kStart, kExtends, kAnyTaps_)> {
  static constexpr bool kAnyTaps = kAnyTaps_;
};

RowStart row_start_of(const GaussianBlur& p) {
  return std::min(row_start(p.gray, p.cols()), row_start(p.out, p.cols()));
}

// 89 x 53 pixels take 5.9 us with `separable` and 6.6 us with `two_pixels`. 300 x 301 pixels
// take 6.3 us, 6.9 us and, with `float_taps`, 7.3 us (H200, L2 flushed, 2026).
const char* why_separable_is_faster(const GaussianBlur& p, const Hardware& gpu) {
  return why_not_options(p) == nullptr &&
                 pixels_of_tiles<1, 1>(p, {kBlockCols, kTwoPassBlockRows}) <= kVeryFewPixels.on(gpu)
             ? "separable is faster for very small images"
             : nullptr;
}

// For 676 x 615 pixels, `float_taps` takes 6.8 us, `dot_product` 26.9 us and the sliding
// window 11.6 us. For 1081 x 1923 pixels, they take 13.4, 25.1 and 13.1 us (H200, L2 flushed,
// 2026).
const char* why_float_taps_is_faster(const GaussianBlur& p, const Hardware& gpu) {
  if (const char* const reason = why_separable_is_faster(p, gpu)) return reason;
  return why_not_options(p) == nullptr && row_start_of(p) != RowStart::kVectors &&
                 pixels_of_tiles<2, 2>(p, {kBlockCols, kTwoPassBlockRows}) < kFewTilePixels.on(gpu)
             ? "float_taps is faster for small images with unaligned rows"
             : nullptr;
}

const char* why_not_blur_lanes(const GaussianBlur& p) {
  const char* const reason = why_not_options(p);
  return reason != nullptr ? reason : why_not_lanes(p);
}

const char* why_lanes_are_slower(const GaussianBlur& p, const Hardware& gpu) {
  const char* const reason = why_float_taps_is_faster(p, gpu);
  return reason != nullptr ? reason : why_lanes_slower<kRadius>(p, gpu);
}

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
void launch_window(const GaussianBlur& p, const Launch& go) {
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

}  // namespace
}  // namespace ado::cuda
