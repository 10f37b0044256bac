// Edge detection on the GPU: out = sobel(blur(gray(rgba))), in three kernels or in one.
//
// Three kernels move 9 bytes per pixel: 5 for the luminance and 2 for each filter. One kernel that
// keeps the intermediate rows in registers moves 5 bytes per pixel, and the arithmetic throughput
// of the device is sufficient for all three filters.
//
// The steps, in reading order: pipeline_naive and pipeline_best run kernels of the three ladders;
// `fused` pushes rows through EdgeStage, below, in the loop of image/sliding_window.cuh. A reader
// of the steps can skip the engine: engine.cuh (small images, and the default variant of a problem)
// and image/engine_*.cuh (rows of any alignment and size).
#include "routines/edge_detect.hpp"

#include "edge_detect/engine.cuh"
#include "routines/edge_detect_stages.hpp"

namespace ado::cuda {

Ladder<Grayscale> grayscale_ladder();
Ladder<GaussianBlur> gaussian_blur_ladder();
Ladder<Sobel> sobel_ladder();

namespace {

FilterLadders filters() { return {grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder()}; }

constexpr Stages kNaive = filter_stages("naive", "naive", "naive");
constexpr Stages kBest = filter_stages("wide", "sliding_window", "sliding_window");

// The entry of a pipeline.
template <const Stages& kStages>
constexpr Variant<EdgeDetect> pipeline_row(
    const char* name, Change changes,
    decltype(Variant<EdgeDetect>::why_slower) why_slower = nullptr) {
  return {
      .name = name,
      .changes = changes,
      .why_not = [](const EdgeDetect& p) { return why_not_stages(p, kStages, filters()); },
      .why_slower = why_slower,
      .scratch_bytes = [](const EdgeDetect& p) { return bytes_between_stages(p); },
      .stages = kStages,
      .flops = [](const EdgeDetect& p,
                  const Hardware& h) { return costs_of_stages(p, kStages, filters(), h).flops; },
      .bytes = [](const EdgeDetect& p,
                  const Hardware& h) { return costs_of_stages(p, kStages, filters(), h).bytes; },
      .run = ADO_RUN(
          [](const EdgeDetect& p, const Launch& go) { run_stages(p, go, kStages, filters()); })};
}

#ifdef __CUDACC__

// Both filters as one stage of the sliding window: a row of gray pixels is blurred, and the blurred
// row is pushed on at once. clear_outside(row, behind) sets the blurred pixels outside the image to
// zero; the blurred row is `behind` rows behind the gray one.
//
// kWholeRows: a lane has all pixels of a row, so no other lane has neighbours of its pixels.
template <int kWords, bool kWholeRows = false>
struct EdgeStage {
  static constexpr int kRadius = GaussianStage<kWords>::kRadius + SobelStage<kWords>::kRadius;
  struct Options {};
  GaussianStage<kWords> blur;
  SobelStage<kWords> sobel;

  __device__ EdgeStage(int direction, Options) : blur(direction, {}), sobel(direction, {}) {}

  template <class ClearOutside>
  __device__ PackedPixels<kWords> push(int step, const PixelsAround<kWords>& gray,
                                       const ClearOutside& clear_outside) {
    PackedPixels<kWords> blurred = blur.push(step, gray);
    clear_outside(blurred, GaussianStage<kWords>::kRadius);
    if constexpr (kWholeRows) {
      PixelsAround<kWords> row = {};
#pragma unroll
      for (int w = 0; w < kWords; ++w) row.at[w + 1] = blurred.at[w];
      return sobel.push(step, row);
    } else {
      return sobel.push(step, exchange_neighbours<kWords>(blurred));
    }
  }
};

template <int kWords>
using RowEdgeStage = EdgeStage<kWords, true>;

#endif

constexpr Variant<EdgeDetect> kVariants[] = {
    pipeline_row<kNaive>(
        "pipeline_naive",
        "Uses three kernels with one pixel per thread and two intermediate images in memory."),
    pipeline_row<kBest>("pipeline_best",
                        {"Uses the fastest kernel of each of the three ladders.", Step::kCoalescing,
                         Step::kOccupancy, Step::kInFlight, Step::kWider, Step::kReuse,
                         Step::kOperations, Step::kFma}),
    {.name = "fused",
     .changes = {"Streams rows through luminance, blur and gradient in registers, in one kernel.",
                 Step::kDramReuse, Step::kFusion},
     .blocks = {{kWindowBlock}},
     .grid = window_grid<EdgeDetect, with_shape>,
     .shared_bytes = window_shared_bytes<EdgeDetect, with_shape>,
     .flops = window_flops<EdgeDetect, with_shape>,
     .bytes = window_bytes<EdgeDetect, with_shape>,
     .run = ADO_RUN([](const EdgeDetect& p, const Launch& go) {
       with_shape(p, go.hardware, [&]<class Shape>(Shape) {
         const auto kernel = sliding_window<Shape, EdgeStage<Shape::kWords>>;
         launch(go, kernel, p.rgba.as<const std::uint8_t>(), Border::kConstant,
                p.out.as<std::uint8_t>(), bands_of<Shape>(p, go.hardware), {});
       });
     })},
    {.name = "small_tiles",
     .changes =
         {"Loads all pixels of a tile into shared memory at once and streams rows from there.",
          Step::kParallelism, Step::kInFlight},
     .why_not = why_not_small_tiles,
     .why_slower = why_small_tiles_slower,
     .blocks = {{kTileBlock}},
     .grid = grid_of_small_tiles,
     .flops = flops_of_small_tiles,
     .bytes = bytes_of_small_tiles,
     .run = ADO_RUN([](const EdgeDetect& p, const Launch& go) {
       with_rows_per_warp(p, go.hardware, [&](auto rows) {
         const auto kernel = p.channels() == 3 ? edge_detect_small_tiles<3, rows>
                                               : edge_detect_small_tiles<4, rows>;
         launch(go, kernel, p.rgba.as<const std::uint8_t>(), p.out.as<std::uint8_t>(), p.images(),
                p.rows(), p.cols(), small_tiles_of<rows>(p));
       });
     })},
    {.name = "lane_per_row",
     .changes = {"Assigns whole rows of narrow images to each lane; blocks copy contiguous bytes.",
                 Step::kCoalescing, Step::kOperations},
     .why_not = why_not_edge_lanes,
     .why_slower = why_edge_lanes_slower,
     .blocks = {{kStripBlock}},
     .grid = strip_grid<EdgeDetect>,
     .shared_bytes = strip_shared_bytes<EdgeDetect>,
     .flops = strip_flops<EdgeDetect>,
     .bytes = strip_bytes<EdgeDetect>,
     .run = ADO_RUN([](const EdgeDetect& p, const Launch& go) {
       if (p.channels() == 3)
         run_strips<3, kMaxEdgeCols, RowEdgeStage>(p, p.rgba, go);
       else
         run_strips<4, kMaxEdgeCols, RowEdgeStage>(p, p.rgba, go);
     })},
};

}  // namespace

Ladder<EdgeDetect> edge_detect_ladder() {
  return with_checked_stages(ladder_of(kVariants), filters());
}

}  // namespace ado::cuda
