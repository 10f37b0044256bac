// Sobel, engine: the variant for narrow images, and the choice among all variants. The default is
// the last variant that can solve the problem and has no reason below.
#include "routines/sobel.hpp"

#include "common/ladder.cuh"
#include "image/engine/lane_per_row.cuh"
#include "image/sobel_stage.cuh"
#include "image/tiles.cuh"

namespace ado::cuda {

Ladder<Sobel> sobel_steps();

namespace {

constexpr Extent kBlock{32, 8};  // of the steps with tiles

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
  if (words && pixels_of_tiles<4, 8>(p, kBlock) < 2 * kFewTilePixels.on(gpu))
    return "vectorised is faster for small images";
  if (!words && pixels_of_tiles<1, 4>(p, kBlock) < kFewTilePixels.on(gpu))
    return "float_fast is faster for small images with unaligned rows";
  return nullptr;
}

const char* why_lanes_are_slower(const Sobel& p, const Hardware& gpu) {
  const char* const reason = why_window_is_slower(p, gpu);
  return reason != nullptr ? reason : why_lanes_slower(p);
}

// ---- lane_per_row -------------------------------------------------------------------------------
constexpr Variant<Sobel> kLanePerRow = lane_per_row_row<Sobel>(
    why_not_lanes<Sobel>,
    ADO_RUN([](const Sobel& p, const Launch& go) { run_strips<SobelStage<kPieceWords>>(p, go); }));

// -------------------------------------------------------------------------------------------------

constexpr Choice<Sobel> kChoices[] = {
    {"shared", why_naive_is_faster},          {"float_fast", why_naive_is_faster},
    {"vectorised", why_vectorised_is_slower}, {"sliding_window", why_window_is_slower},
    {"lane_per_row", why_lanes_are_slower},
};

constexpr Variant<Sobel> kEngine[] = {kLanePerRow};

}  // namespace

Ladder<Sobel> sobel_ladder() {
  static const auto ladder = with_engine(sobel_steps(), kEngine, kChoices);
  return {ladder.data(), ladder.size()};
}

}  // namespace ado::cuda
