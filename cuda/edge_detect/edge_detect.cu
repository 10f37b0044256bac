// Edge detection on the GPU: out = sobel(blur(gray(rgba))), in three kernels or in one.
//
// Three kernels move 9 bytes per pixel: 5 for the luminance and 2 for each filter. One kernel that
// keeps the intermediate rows in registers moves 5 bytes per pixel, and the arithmetic throughput
// of the device is sufficient for all three filters.
//
// Times in the comments are for 16384 x 16384 pixels of four channels on an H200, L2 flushed.
#include "routines/edge_detect.hpp"

#include "edge_detect/small_tiles.cuh"
#include "image/sliding_window.cuh"
#include "routines/edge_detect_stages.hpp"

namespace ado::cuda {

Ladder<Grayscale> grayscale_ladder();
Ladder<GaussianBlur> gaussian_blur_ladder();
Ladder<Sobel> sobel_ladder();

namespace {

FilterLadders filters() { return {grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder()}; }

constexpr Stages kNaive = filter_stages("naive", "naive", "naive");
constexpr Stages kBest = filter_stages("wide", "sliding_window", "sliding_window");
constexpr Stages kNarrow = filter_stages("wide", "lane_per_row", "lane_per_row");

// The entry of a pipeline.
template <const Stages& kStages>
constexpr Variant<EdgeDetect> pipeline_row(
    const char* name, Change changes,
    decltype(Variant<EdgeDetect>::why_slower) why_slower = nullptr) {
  return {.name = name,
          .changes = changes,
          .why_not = [](const EdgeDetect& p) { return why_not_stages(p, kStages, filters()); },
          .why_slower = why_slower,
          .scratch_bytes = [](const EdgeDetect& p) { return bytes_between_stages(p); },
          .stages = kStages,
          .flops = [](const EdgeDetect& p,
                      const Hardware& h) { return flops_of_stages(p, kStages, filters(), h); },
          .bytes = [](const EdgeDetect& p,
                      const Hardware& h) { return bytes_of_stages(p, kStages, filters(), h); },
          .run = ADO_RUN([](const EdgeDetect& p, const Launch& go) {
            run_stages(p, go, kStages, filters());
          })};
}

// Eight pixels per lane and bands of 56 rows take 329 us. With four rows in the ring instead of
// eight, the kernel takes 337 us. With bands of 16 rows, in which a third of the loaded rows are
// halo rows, it takes 409 us. Five blocks per multiprocessor leave 96 registers per thread. With
// six, registers spill and the kernel takes 392 us. Tuned on an H200.
//
// kWide: bands have at least 32 lanes, so a warp has lanes of at most two bands, and a block needs
// 34 KiB of shared memory for eight rows instead of 41 KiB. Five blocks then leave 60 KiB for L1
// instead of 28 KiB.
template <int kChannels, int kWords, RowStart kIn, RowStart kOut, bool kWide = false>
using FusedShape = WindowShape<SlidingWindow{
    .channels = kChannels,
    .words = kWords,
    .radius = GaussianBlur::kRadius + 1,
    .in = kIn,
    .out = kOut,
    .halo_words = false,
    .min_lanes = kWide         ? kWarpSize
                 : kWords == 1 ? 2
                               : 4,
    .ring_rows = kIn == RowStart::kVectors ? 8 : 4,
    .blocks = kOut == RowStart::kVectors ? (kWords == 1 ? 8 : 5) : (kWords == 1 ? 6 : 4),
    .warps = 11,
    .max_rows = 56,
    .tail_percent = kOut == RowStart::kVectors ? 0 : 80}>;

// Images with fewer pixels have too few warps with eight pixels per lane. On an H200, 1600 x 2560
// pixels take 13.8 us with four pixels per lane and 14.2 us with eight.
constexpr std::int64_t kFewPixels = 6 << 20;

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

constexpr auto with_shape = [](const EdgeDetect& p, auto visit) {
  if (p.cols() <= kNarrowCols || p.out.elements() < kFewPixels)
    return with_shape_of_words<1>(p, visit);
  return with_shape_of_words<2>(p, visit);
};

// In narrow images, most lanes of a band of `fused` are outside the image or separate two bands.
// With three channels, lanes also load more bytes that other lanes need. The limits follow from
// times of `fused` and of lane_per_row in sobel and gaussian_blur on an H200.
const char* why_narrow_is_slower(const EdgeDetect& p, const Hardware&) {
  constexpr std::int64_t kMaxColsRgb = 16, kMaxCols = 8, kFewNarrowPixels = 1 << 20;
  if (p.cols() > (p.channels() == 3 ? kMaxColsRgb : kMaxCols))
    return "fused moves fewer bytes, and rows are wide enough for several lanes";
  return p.out.elements() < kFewNarrowPixels
             ? "the image is so small that three launches are slower than one"
             : nullptr;
}

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
     .flops =
         [](const EdgeDetect& p) {
           return kFlopsOfLength * window_pixels<EdgeDetect, with_shape>(p);
         },
     .bytes = window_bytes<EdgeDetect, with_shape>,
     .run = ADO_RUN([](const EdgeDetect& p, const Launch& go) {
       with_shape(p, [&]<class Shape>(Shape) {
         const auto kernel =
             sliding_window<Shape, GaussianStage<Shape::kWords>, SobelStage<Shape::kWords>>;
         launch(go, kernel, p.rgba.as<const std::uint8_t>(), Border::kConstant,
                p.out.as<std::uint8_t>(), bands_of<Shape>(p), {}, {});
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
       with_rows_per_warp(p, [&](auto rows) {
         const auto kernel = p.channels() == 3 ? edge_detect_small_tiles<3, rows>
                                               : edge_detect_small_tiles<4, rows>;
         launch(go, kernel, p.rgba.as<const std::uint8_t>(), p.out.as<std::uint8_t>(), p.images(),
                p.rows(), p.cols(), small_tiles_of<rows>(p));
       });
     })},
    pipeline_row<kNarrow>(
        "pipeline_narrow",
        {"Uses three kernels again; lanes of both filters process whole rows of narrow images.",
         Step::kCoalescing, Step::kOperations},
        why_narrow_is_slower),
};

}  // namespace

Ladder<EdgeDetect> edge_detect_ladder() {
  return with_checked_stages(ladder_of(kVariants), filters());
}

}  // namespace ado::cuda
