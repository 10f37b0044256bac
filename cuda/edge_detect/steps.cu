// Edge detection on the GPU: out = sobel(blur(gray(rgba))), in three kernels or in one. The steps
// pipeline_naive and pipeline_best run kernels of the three ladders. engine/ has the variant for
// small images, and the choice among all variants.
//
// Three kernels move 9 bytes per pixel: 5 for the luminance and 2 for each filter. One kernel that
// keeps the intermediate rows in registers moves 5 bytes per pixel, and the arithmetic throughput
// of the device is sufficient for all three filters.
#include "routines/edge_detect.hpp"

#include "edge_detect/edge_stage.cuh"
#include "image/sliding_window.cuh"
#include "routines/edge_detect_stages.hpp"

namespace ado::cuda {

Ladder<Grayscale> grayscale_ladder();
Ladder<GaussianBlur> gaussian_blur_ladder();
Ladder<Sobel> sobel_ladder();

namespace {

FilterLadders filters() { return {grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder()}; }

// ---- pipeline_naive, pipeline_best --------------------------------------------------------------
// The entry of a pipeline.
template <const Stages& kStages>
constexpr Variant<EdgeDetect> pipeline_row(const char* name, Change changes) {
  return {
      .name = name,
      .changes = changes,
      .why_not = [](const EdgeDetect& p) { return why_not_stages(p, kStages, filters()); },
      .scratch_bytes = [](const EdgeDetect& p) { return bytes_between_stages(p); },
      .stages = kStages,
      .flops = [](const EdgeDetect& p,
                  const Hardware& h) { return costs_of_stages(p, kStages, filters(), h).flops; },
      .bytes = [](const EdgeDetect& p,
                  const Hardware& h) { return costs_of_stages(p, kStages, filters(), h).bytes; },
      .run = ADO_RUN(
          [](const EdgeDetect& p, const Launch& go) { run_stages(p, go, kStages, filters()); })};
}

// ---- pipeline_naive -----------------------------------------------------------------------------
constexpr Stages kNaive = filter_stages("naive", "naive", "naive");

constexpr Variant<EdgeDetect> kPipelineNaive = pipeline_row<kNaive>(
    "pipeline_naive",
    "Uses three kernels with one pixel per thread and two intermediate images in memory.");

// ---- pipeline_best ------------------------------------------------------------------------------
constexpr Stages kBest = filter_stages("wide", "sliding_window", "sliding_window");

constexpr Variant<EdgeDetect> kPipelineBest = pipeline_row<kBest>(
    "pipeline_best",
    {"Uses the fastest kernel of each of the three ladders.", Step::kCoalescing, Step::kOccupancy,
     Step::kInFlight, Step::kWider, Step::kReuse, Step::kOperations, Step::kFma});

// ---- fused --------------------------------------------------------------------------------------
// Pushes rows through EdgeStage (edge_stage.cuh) in the loop of image/sliding_window.cuh.
//
// With four rows in the ring instead of eight, the kernel takes 337 us instead of 329. With bands
// of 16 rows, in which a third of the loaded rows are halo rows, it takes 409 us. Five blocks per
// multiprocessor leave 96 registers per thread. With six, registers spill and the kernel takes 392
// us (16384 x 16384 pixels of four channels, H200, 2026).
//
// kWide: a warp has lanes of at most two bands, and a block needs 34 KiB of shared memory for eight
// rows instead of 41 KiB. Five blocks then leave 60 KiB for L1 instead of 28 KiB.
template <int kChannels, int kWords, RowStart kIn, RowStart kOut, bool kWide = false>
using FusedShape =
    WindowShape<EdgeDetect,
                SlidingWindow{
                    .channels = kChannels, .words = kWords, .in = kIn, .out = kOut, .wide = kWide},
                WindowTuning{.ring_rows = kIn == RowStart::kVectors ? 8 : 4,
                             .blocks = kOut == RowStart::kVectors ? (kWords == 1 ? 8 : 5)
                                                                  : (kWords == 1 ? 6 : 4),
                             .warps = 11,
                             .tail_percent = kOut == RowStart::kVectors ? 0 : 80}>;

// Images with fewer pixels have too few warps with eight pixels per lane: 1600 x 2560 pixels take
// 13.8 us with four pixels per lane and 14.2 us with eight (H200, 2026).
constexpr MeasuredOnH200 kFewPixels{6 << 20};

// Calls `visit` with the shape for a problem.
template <int kWords, class Visit>
auto with_shape_of_words(const EdgeDetect& p, Visit visit) {
  const RowStart in = row_start(p.rgba, p.cols() * p.channels());
  const RowStart out = row_start(p.out, p.cols(), 4 * kWords);
  if (std::min(in, out) == RowStart::kVectors && p.cols() >= kWarpSize * 4 * kWords)
    return p.channels() == 3
               ? visit(FusedShape<3, kWords, RowStart::kVectors, RowStart::kVectors, true>{})
               : visit(FusedShape<4, kWords, RowStart::kVectors, RowStart::kVectors, true>{});
  if (p.channels() == 3)
    return with_row_start(std::min(in, out),
                          [&](auto start) { return visit(FusedShape<3, kWords, start, start>{}); });
  if (in == RowStart::kBytes)
    return visit(FusedShape<4, kWords, RowStart::kBytes, RowStart::kBytes>{});
  return with_row_start(std::min(in, out), [&](auto start) {
    constexpr RowStart kOfWords = start == RowStart::kVectors ? start : RowStart::kWords;
    return visit(FusedShape<4, kWords, kOfWords, start>{});
  });
}

constexpr auto with_shape = [](const EdgeDetect& p, const Hardware& gpu, auto visit) {
  if (p.cols() <= kNarrowCols || p.out.elements() < kFewPixels.on(gpu))
    return with_shape_of_words<1>(p, visit);
  return with_shape_of_words<2>(p, visit);
};

constexpr Variant<EdgeDetect> kFused = {
    .name = "fused",
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
    })};

// -------------------------------------------------------------------------------------------------

constexpr Variant<EdgeDetect> kSteps[] = {kPipelineNaive, kPipelineBest, kFused};

}  // namespace

Ladder<EdgeDetect> edge_detect_steps() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

namespace ado::cuda {

// The pipelines are skipped: their stages are in other programs.
Ladder<Grayscale> grayscale_ladder() { return {}; }
Ladder<GaussianBlur> gaussian_blur_ladder() { return {}; }
Ladder<Sobel> sobel_ladder() { return {}; }

}  // namespace ado::cuda

int main() {
  using namespace ado;
  EdgeDetect p;
  p.rgba = cuda::random_array(kUint8, {4096, 4096, 4});
  p.out = cuda::random_array(kUint8, {4096, 4096});
  return cuda::run_ladder({&cuda::kFused, 1}, p, [](const EdgeDetect& p) {
    const std::int64_t rows = p.rows(), cols = p.cols();
    std::vector<int> gray(rows * cols), blurred(rows * cols);
    const auto at = [&](const std::vector<int>& image, std::int64_t row, std::int64_t col) {
      return row >= 0 && row < rows && col >= 0 && col < cols ? image[row * cols + col] : 0;
    };
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const auto* const pixel = p.rgba.as<const std::uint8_t>() + 4 * i;
      gray[i] = (pixel[0] * Grayscale::kRed + pixel[1] * Grayscale::kGreen +
                 pixel[2] * Grayscale::kBlue) >>
                Grayscale::kShift;
    }
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      int sum = 0;
      for (int y = 0; y < GaussianBlur::kTaps; ++y)
        for (int x = 0; x < GaussianBlur::kTaps; ++x)
          sum +=
              GaussianBlur::kDefaultTaps[y] * GaussianBlur::kDefaultTaps[x] *
              at(gray, i / cols + y - GaussianBlur::kRadius, i % cols + x - GaussianBlur::kRadius);
      blurred[i] = sum / 256;
    }
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const std::int64_t row = i / cols, col = i % cols;
      int gx = 0, gy = 0;
      for (int k = -1; k <= 1; ++k) {
        gx += (2 - k * k) * (at(blurred, row + k, col + 1) - at(blurred, row + k, col - 1));
        gy += (2 - k * k) * (at(blurred, row - 1, col + k) - at(blurred, row + 1, col + k));
      }
      p.out.as<std::uint8_t>()[i] =
          static_cast<std::uint8_t>(std::min(255.0, std::sqrt(gx * gx + gy * gy)));
    }
  });
}
#endif
