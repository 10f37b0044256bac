// Gaussian blur on the GPU: out = the 7x7 weighted sum around each pixel. The variants range from
// 49 loads per pixel to a few instructions per pixel.
//
// The steps, in reading order:
//
//   tiles.cuh                  naive to float_taps: the kernels of the GTC 2015 talk and its code
//   dot_product.cuh            four pixels per dot product, in registers
//   image/packed_pixels.cuh    the pixels that a lane of the sliding window holds
//   image/sliding_window.cuh   the answer to the talk's last row, "Your next idea!!!"
//
// A reader of the steps can skip the engine: engine.cuh (any taps, and the default variant of a
// problem) and image/engine_*.cuh (rows of any alignment, border and size).
//
// The talk optimised for a Kepler GPU, on which each step removed a different limit. On an H200,
// nearly all variants are bound by instruction issue. So the gain of a step equals the share of
// instructions that it saves, and some of the original steps gain nothing.
#include "routines/gaussian_blur.hpp"

#include "gaussian_blur/dot_product.cuh"
#include "gaussian_blur/engine.cuh"

namespace ado::cuda {
namespace {

double bytes_of_naive(const GaussianBlur& p) { return bytes_by_tiles(p, kTaps * kTaps, 1); }

// Bytes requested by blocks that load their tile, with kDown by kAcross pixels per thread, and its
// halo.
template <int kAcross, int kDown, int kLoaded, int kBlockRows = kTwoPassBlockRows>
double bytes_of_tile(const GaussianBlur& p) {
  constexpr int kCols = kBlockCols * kAcross, kRows = kBlockRows * kDown;
  return bytes_by_tiles(p, (kCols + 2 * kMargin<kLoaded>)*(kRows + 2 * kRadius), kCols * kRows);
}

double bytes_of_dot_product(const GaussianBlur& p) {
  return bytes_by_tiles(p, 3 * kDotAcross * (kDotDown + 2 * kRadius), kDotAcross * kDotDown);
}

// Executed FLOPs of `float_taps`: the first pass also computes the rows of the halo.
double flops_of_float_taps(const GaussianBlur& p) {
  constexpr int kAcross = 2, kDown = 2, kRows = kTwoPassBlockRows * kDown;
  constexpr double kPasses = (kRows + 2.0 * kRadius) / kRows + 1;
  return 2 * kTaps * kPasses * pixels_of_tiles<kAcross, kDown>(p, {kBlockCols, kTwoPassBlockRows});
}

// A variant with one block per tile.
template <int kAcross, int kDown>
constexpr Variant<GaussianBlur> tile_row(
    const char* name, Change changes, Blocks blocks, double (*bytes)(const GaussianBlur&),
    void (*run)(const GaussianBlur&, const Launch&),
    decltype(Variant<GaussianBlur>::why_slower) why_slower = nullptr,
    double (*flops)(const GaussianBlur&) = nullptr) {
  return {.name = name,
          .changes = changes,
          .why_not = why_not_options,
          .why_slower = why_slower,
          .blocks = blocks,
          .grid = grid_of_tiles<kAcross, kDown, GaussianBlur>,
          .flops = flops,
          .bytes = bytes,
          .run = run};
}

constexpr Blocks kSharedBlocks = {{{kBlockCols, kSharedBlockRows}}};
constexpr Blocks kTwoPassBlocks = {{{kBlockCols, kTwoPassBlockRows}}};

constexpr Variant<GaussianBlur> kVariants[] = {
    copy_variant<GaussianBlur>(),
    tile_row<1, 1>("naive", "One thread per pixel loads the 49 pixels around it byte by byte.",
                   {{{8, 8}}}, bytes_of_naive, ADO_RUN(run_tiles<gaussian_blur_naive, 1, 1>)),
    tile_row<1, 1>("coalesced",
                   {"Runs the same kernel in blocks of 32 columns, so that the loads of a warp are "
                    "coalesced.",
                    Step::kCoalescing},
                   {{{kBlockCols, 2}}}, bytes_of_naive,
                   ADO_RUN(run_tiles<gaussian_blur_naive, 1, 1>)),
    tile_row<1, 1>("occupancy",
                   {"Runs the same kernel in larger blocks, which is meant to keep more warps "
                    "resident per multiprocessor.",
                    Step::kOccupancy},
                   {{{kBlockCols, 4}, {kBlockCols, 8}, {8, 16}}}, bytes_of_naive,
                   ADO_RUN(run_tiles<gaussian_blur_naive, 1, 1>)),
    tile_row<1, 1>("launch_bounds",
                   {"Adds launch bounds, which are meant to limit registers so that ten blocks fit "
                    "on a multiprocessor.",
                    Step::kOccupancy},
                   {{{kBlockCols, kBoundedThreads / kBlockCols}}}, bytes_of_naive,
                   ADO_RUN(run_tiles<gaussian_blur_launch_bounds, 1, 1>)),
    tile_row<1, 1>("shared",
                   {"Loads the pixels that a block needs once, into shared memory.", Step::kReuse},
                   kSharedBlocks, bytes_of_tile<1, 1, 1, kSharedBlockRows>,
                   ADO_RUN(run_tiles<gaussian_blur_shared<false>, 1, 1>)),
    tile_row<1, 1>("read_only", {"Loads the image through the read-only data path.", Step::kOther},
                   kSharedBlocks, bytes_of_tile<1, 1, 1, kSharedBlockRows>,
                   ADO_RUN(run_tiles<gaussian_blur_shared<true>, 1, 1>)),
    tile_row<1, 1>("separable",
                   {"Sums seven taps along the rows, then seven down the columns, instead of 49 "
                    "products.",
                    Step::kOperations},
                   kTwoPassBlocks, bytes_of_tile<1, 1, 1>,
                   ADO_RUN(run_tiles<gaussian_blur_separable, 1, 1>)),
    tile_row<1, 2>("two_pixels",
                   {"Each thread computes two pixels of a column and loads pixels in pairs.",
                    Step::kWider, Step::kReuse},
                   kTwoPassBlocks, bytes_of_tile<1, 2, 2>,
                   ADO_RUN(run_tiles<gaussian_blur_two_passes<int, 1, 2, 2>, 1, 2>),
                   why_separable_is_faster),
    tile_row<2, 2>("wide_shared",
                   {"Each thread computes 2x2 pixels, with 8-byte accesses to shared memory.",
                    Step::kWider, Step::kReuse},
                   kTwoPassBlocks, bytes_of_tile<2, 2, 2>,
                   ADO_RUN(run_tiles<gaussian_blur_two_passes<int, 2, 2, 2>, 2, 2>),
                   why_separable_is_faster),
    tile_row<2, 2>("float_taps",
                   {"Computes in float32, which is exact below 2**24 and has fused multiply-add.",
                    Step::kOperations, Step::kFma},
                   kTwoPassBlocks, bytes_of_tile<2, 2, 2>,
                   ADO_RUN(run_tiles<gaussian_blur_two_passes<float, 2, 2, 2>, 2, 2>),
                   why_separable_is_faster, flops_of_float_taps),
    tile_row<kDotAcross, kDotDown>(
        "dot_product",
        {"Loads four pixels at a time and sums them with dot products, all in registers.",
         Step::kWider, Step::kReuse, Step::kOperations},
        {{{kBlockCols, kDotBlockRows}}}, bytes_of_dot_product,
        ADO_RUN(run_tiles<gaussian_blur_dot_product, kDotAcross, kDotDown>),
        why_float_taps_is_faster),
    {.name = "sliding_window",
     .changes =
         {"Streams rows through registers and keeps running sums; supports any border and taps.",
          Step::kReuse, Step::kOperations},
     .why_slower = why_float_taps_is_faster,
     .blocks = {{kWindowBlock}},
     .grid = window_grid<GaussianBlur, with_shape>,
     .shared_bytes = window_shared_bytes<GaussianBlur, with_shape>,
     .bytes = window_bytes<GaussianBlur, with_shape>,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       with_shape(p, go.hardware, [&]<class Shape>(Shape) { launch_window<Shape>(p, go); });
     })},
    {.name = "lane_per_row",
     .changes = {"Assigns whole rows of narrow images to each lane; blocks copy contiguous bytes.",
                 Step::kCoalescing, Step::kOperations},
     .why_not = why_not_blur_lanes,
     .why_slower = why_lanes_are_slower,
     .blocks = {{kStripBlock}},
     .grid = strip_grid<GaussianBlur>,
     .shared_bytes = strip_shared_bytes<GaussianBlur>,
     .bytes = strip_bytes<GaussianBlur>,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       run_strips<1, kMaxRowCols, GaussianStage>(p, p.gray, go);
     })},
};

}  // namespace

Ladder<GaussianBlur> gaussian_blur_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda
