// Edge detection, engine: variants for small and for narrow images, and the choice among all
// variants. The default is the last variant that can solve the problem and has no reason below.
#include "routines/edge_detect.hpp"

#include "common/ladder.cuh"
#include "edge_detect/edge_stage.cuh"
#include "edge_detect/engine/small_tiles.cuh"
#include "image/engine/lane_per_row.cuh"
#include "routines/edge_detect_stages.hpp"

namespace ado::cuda {

Ladder<EdgeDetect> edge_detect_steps();
Ladder<Grayscale> grayscale_ladder();
Ladder<GaussianBlur> gaussian_blur_ladder();
Ladder<Sobel> sobel_ladder();

namespace {

// In narrow images, most lanes of a band of `fused` are outside the image or separate two bands.
constexpr int kMaxEdgeCols = 15;

const char* why_not_edge_lanes(const EdgeDetect& p) {
  return p.cols() > kMaxEdgeCols && p.rows() > 1 ? "images have more than 15 columns" : nullptr;
}

const char* why_edge_lanes_slower(const EdgeDetect& p, const Hardware& gpu) {
  // At 300000 x 8 pixels of four channels, whose rows are vectors, fused takes 15.7 us and
  // lane_per_row takes 18.7 us. At 300000 x 10 pixels, they take 23.5 and 19.5 us (H100, 2026).
  constexpr MeasuredOnH200 kFewOfVectors{1 << 22}, kFewOthers{1 << 20};
  const bool vectors = row_start(p.rgba, p.cols() * p.channels()) == RowStart::kVectors;
  constexpr std::int64_t kMaxRowBytes = 52;
  if (p.rows() > 1 && p.cols() * p.channels() > kMaxRowBytes)
    return "rows are wide enough for the lanes of fused";
  return p.out.elements() < (vectors ? kFewOfVectors : kFewOthers).on(gpu)
             ? "the image is so small that the latency of a strip determines the time"
             : why_strips_do_not_fit(p, gpu);
}

const char* why_small_tiles_slower(const EdgeDetect& p, const Hardware& gpu) {
  if (std::min(row_start(p.rgba, p.cols() * p.channels()), row_start(p.out, p.cols(), 4)) ==
      RowStart::kVectors)
    return "rows are aligned to vectors, so the sliding window is faster";
  return with_rows_per_warp(p, gpu, [&](auto rows) { return number_of_small_tiles<rows>(p); }) <=
                 max_small_tiles(p, gpu)
             ? nullptr
             : "the image is large enough to occupy the GPU with the sliding window";
}

// ---- lane_per_row -------------------------------------------------------------------------------
#ifdef __CUDACC__
template <int kWords>
using RowEdgeStage = EdgeStage<kWords, true>;
#endif

constexpr Variant<EdgeDetect> kLanePerRow = lane_per_row_row<EdgeDetect>(
    why_not_edge_lanes, ADO_RUN([](const EdgeDetect& p, const Launch& go) {
      if (p.channels() == 3)
        run_strips<3, kMaxEdgeCols, RowEdgeStage>(p, p.rgba, go);
      else
        run_strips<4, kMaxEdgeCols, RowEdgeStage>(p, p.rgba, go);
    }));

// -------------------------------------------------------------------------------------------------

constexpr Choice<EdgeDetect> kChoices[] = {
    {"small_tiles", why_small_tiles_slower},
    {"lane_per_row", why_edge_lanes_slower},
};

constexpr Variant<EdgeDetect> kEngine[] = {kSmallTiles, kLanePerRow};

}  // namespace

Ladder<EdgeDetect> edge_detect_ladder() {
  static const auto ladder = with_engine(edge_detect_steps(), kEngine, kChoices);
  return with_checked_stages({ladder.data(), ladder.size()},
                             {grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder()});
}

}  // namespace ado::cuda
