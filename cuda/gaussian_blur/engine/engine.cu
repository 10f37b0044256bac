// Gaussian blur, engine: the variant for narrow images, and the choice among all variants. The
// default is the last variant that can solve the problem and has no reason below.
#include "routines/gaussian_blur.hpp"

#include "common/ladder.cuh"
#include "gaussian_blur/engine/any_taps.cuh"
#include "image/engine/lane_per_row.cuh"
#include "image/tiles.cuh"

namespace ado::cuda {

Ladder<GaussianBlur> gaussian_blur_steps();

namespace {

constexpr Extent kBlock{32, 8};  // of the steps with tiles

// 89 x 53 pixels take 5.9 us with `separable` and 6.6 us with `two_pixels`. 300 x 301 pixels
// take 6.3 us, 6.9 us and, with `float_taps`, 7.3 us (H200, L2 flushed, 2026).
const char* why_separable_is_faster(const GaussianBlur& p, const Hardware& gpu) {
  return why_not_options(p) == nullptr && pixels_of_tiles<1, 1>(p, kBlock) <= kVeryFewPixels.on(gpu)
             ? "separable is faster for very small images"
             : nullptr;
}

// For 676 x 615 pixels, `float_taps` takes 6.8 us, `dot_product` 26.9 us and the sliding
// window 11.6 us. For 1081 x 1923 pixels, they take 13.4, 25.1 and 13.1 us (H200, L2 flushed,
// 2026).
const char* why_float_taps_is_faster(const GaussianBlur& p, const Hardware& gpu) {
  if (const char* const reason = why_separable_is_faster(p, gpu)) return reason;
  return why_not_options(p) == nullptr && row_start_of(p) != RowStart::kVectors &&
                 pixels_of_tiles<2, 2>(p, kBlock) < kFewTilePixels.on(gpu)
             ? "float_taps is faster for small images with unaligned rows"
             : nullptr;
}

const char* why_not_blur_lanes(const GaussianBlur& p) {
  const char* const reason = why_not_options(p);
  return reason != nullptr ? reason : why_not_lanes(p);
}

const char* why_lanes_are_slower(const GaussianBlur& p, const Hardware& gpu) {
  const char* const reason = why_float_taps_is_faster(p, gpu);
  return reason != nullptr ? reason : why_lanes_slower(p);
}

// ---- lane_per_row -------------------------------------------------------------------------------
constexpr Variant<GaussianBlur> kLanePerRow = lane_per_row_row<GaussianBlur>(
    why_not_blur_lanes, ADO_RUN([](const GaussianBlur& p, const Launch& go) {
      run_strips<GaussianStage<kPieceWords>>(p, go);
    }));

// -------------------------------------------------------------------------------------------------

constexpr Choice<GaussianBlur> kChoices[] = {
    {"two_pixels", why_separable_is_faster},      {"wide_shared", why_separable_is_faster},
    {"float_taps", why_separable_is_faster},      {"dot_product", why_float_taps_is_faster},
    {"sliding_window", why_float_taps_is_faster}, {"lane_per_row", why_lanes_are_slower},
};

constexpr Variant<GaussianBlur> kEngine[] = {kLanePerRow};

}  // namespace

Ladder<GaussianBlur> gaussian_blur_ladder() {
  static const auto ladder = with_engine(gaussian_blur_steps(), kEngine, kChoices);
  return {ladder.data(), ladder.size()};
}

}  // namespace ado::cuda
