// Gaussian blur on the GPU: out = the 7x7 weighted sum around each pixel. The variants range from
// 49 loads per pixel to a few instructions per pixel.
//
// The files in reading order: tiles.cuh, dot_product.cuh and image/sliding_window.cuh. The variants
// follow the GTC 2015 talk: loads go to shared memory, the sum is separated into two passes of
// seven taps, and threads load and compute several pixels at a time. The talk optimised for a
// Kepler GPU, on which each step removed a different limit. On an H200, nearly all variants are
// bound by instruction issue (82 to 88 % of the issue slots). So the gain of a step equals the
// share of instructions that it saves, and some of the original steps gain nothing.
//
// Times in the comments are for 16384 x 16384 pixels on an H200, L2 flushed.
#include "routines/gaussian_blur.hpp"

#include "gaussian_blur/dot_product.cuh"
#include "image/lane_per_row.cuh"
#include "image/sliding_window.cuh"

namespace ado::cuda {
namespace {

const char* why_not_options(const GaussianBlur& p) {
  return p.border == Border::kConstant && p.default_taps()
             ? nullptr
             : "only border=\"constant\" and the default taps are supported";
}

double bytes_of_naive(const GaussianBlur& p) { return bytes_by_tiles(p, kTaps * kTaps, 1); }

// Bytes requested by blocks that load their tile, with kDown by kAcross pixels per thread, and its
// halo.
template <int kAcross, int kDown, int kLoaded, int kBlockRows = kTwoPassBlockRows>
double bytes_of_tile(const GaussianBlur& p) {
  constexpr int kCols = kBlockCols * kAcross, kRows = kBlockRows * kDown;
  return bytes_by_tiles(p, (kCols + 2 * kMargin<kLoaded>)*(kRows + 2 * kRadius), kCols * kRows);
}

// Executed FLOPs of `float_taps`: the first pass also computes the rows of the halo.
double flops_of_float_taps(const GaussianBlur& p) {
  constexpr int kAcross = 2, kDown = 2, kRows = kTwoPassBlockRows * kDown;
  constexpr double kPasses = (kRows + 2.0 * kRadius) / kRows + 1;
  return 2 * kTaps * kPasses * pixels_of_tiles<kAcross, kDown>(p, {kBlockCols, kTwoPassBlockRows});
}

// Shapes of the sliding window. With 16 pixels per lane, the fewest halo pixels are loaded per row
// (143 us instead of 147 with eight), but the image must be large: 2560 x 1600 pixels take 8.6 us
// with 16 and 8.3 us with eight.
//
// More blocks per multiprocessor provide more warps to hide latency but leave fewer registers per
// thread. More rows in the ring keep more copies in flight but leave less shared memory for other
// blocks. These values were the fastest tried on an H200.
constexpr SlidingWindow blur_window(int words, RowStart start, bool extends, bool any_taps) {
  const bool wide = words == 4, aligned = start == RowStart::kVectors;
  return {.words = words,
          .radius = kRadius,
          .in = start,
          .out = start,
          .extends = extends,
          .min_lanes = words == 1   ? 1
                       : words == 2 ? 4
                                    : 8,
          .ring_rows = any_taps || (wide && extends) || !aligned ? 4 : 8,
          .blocks = any_taps || (wide && (extends || !aligned)) ? 4
                    : wide                                      ? 5
                    : words == 2 && !aligned                    ? 6
                                                                : 8,
          .warps = wide ? 12 : 10,
          .max_rows = words == 1 ? 14 : 34,
          .tail_percent = aligned ? 0 : 80};
}

template <int kWords, RowStart kStart, bool kExtends, bool kAnyTaps_ = false>
struct BlurShape : WindowShape<blur_window(kWords, kStart, kExtends, kAnyTaps_)> {
  static constexpr bool kAnyTaps = kAnyTaps_;
};

RowStart row_start_of(const GaussianBlur& p) {
  return std::min(row_start(p.gray, p.cols()), row_start(p.out, p.cols()));
}

// On an H200, L2 flushed, 89 x 53 pixels take 5.9 us with `separable` and 6.6 us with `two_pixels`.
// 300 x 301 pixels take 6.3 us, 6.9 us and, with `float_taps`, 7.3 us.
const char* why_separable_is_faster(const GaussianBlur& p, const Hardware&) {
  return why_not_options(p) == nullptr &&
                 pixels_of_tiles<1, 1>(p, {kBlockCols, kTwoPassBlockRows}) <= kVeryFewPixels
             ? "separable is faster for very small images"
             : nullptr;
}

// Measured on an H200, L2 flushed: for 676 x 615 pixels, `float_taps` takes 6.8 us, `dot_product`
// 26.9 us and the sliding window 11.6 us. For 1081 x 1923 pixels, they take 13.4, 25.1 and 13.1 us.
const char* why_float_taps_is_faster(const GaussianBlur& p, const Hardware& gpu) {
  if (const char* const reason = why_separable_is_faster(p, gpu)) return reason;
  return why_not_options(p) == nullptr && row_start_of(p) != RowStart::kVectors &&
                 pixels_of_tiles<2, 2>(p, {kBlockCols, kTwoPassBlockRows}) < kFewTilePixels
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
constexpr auto with_shape = [](const GaussianBlur& p, auto visit) {
  const RowStart start = row_start_of(p);
  const bool extends = p.border != Border::kConstant,
             many = has_many_pixels(p, start == RowStart::kVectors);
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
           bands_of<Shape>(p), options);
  };
  if constexpr (Shape::kAnyTaps) {
    start(sliding_window<Shape, GaussianAnyTapsStage<Shape::kWords>>, tap_options(p.taps));
  } else {
    using Stage = GaussianStage<Shape::kWords>;
    start(sliding_window<Shape, Stage>, typename Stage::Options{});
  }
}

#endif

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

constexpr Variant<GaussianBlur> kVariants[] = {
    copy_variant<GaussianBlur>(),
    tile_row<1, 1>("naive", "One thread per pixel loads the 49 pixels around it byte by byte.", Blocks{{{8, 8}}}, bytes_of_naive, ADO_RUN(run_tiles<gaussian_blur_naive, 1, 1>)),
    tile_row<1, 1>("coalesced", {"Runs the same kernel in blocks of 32 columns, so that the loads of a warp are coalesced.", Step::kCoalescing}, Blocks{{{kBlockCols, 2}}}, bytes_of_naive, ADO_RUN(run_tiles<gaussian_blur_naive, 1, 1>)),
    tile_row<1, 1>("occupancy", {"Runs the same kernel in larger blocks, so that more warps are resident per "
                "multiprocessor.", Step::kOccupancy}, Blocks{{{kBlockCols, 4}, {kBlockCols, 8}, {8, 16}}}, bytes_of_naive, ADO_RUN(run_tiles<gaussian_blur_naive, 1, 1>)),
    tile_row<1, 1>("launch_bounds", {"Limits registers so that ten blocks fit on a multiprocessor.", Step::kOccupancy}, Blocks{{{kBlockCols, kBoundedThreads / kBlockCols}}}, bytes_of_naive, ADO_RUN(run_tiles<gaussian_blur_launch_bounds, 1, 1>)),
    tile_row<1, 1>("shared", {"Loads the pixels that a block needs once, into shared memory.", Step::kReuse}, Blocks{{{kBlockCols, kSharedBlockRows}}}, bytes_of_tile<1, 1, 1, kSharedBlockRows>, ADO_RUN(run_tiles<gaussian_blur_shared<false>, 1, 1>)),
    tile_row<1, 1>("read_only", {"Loads the image through the read-only data path.", Step::kOther}, Blocks{{{kBlockCols, kSharedBlockRows}}}, bytes_of_tile<1, 1, 1, kSharedBlockRows>, ADO_RUN(run_tiles<gaussian_blur_shared<true>, 1, 1>)),
    tile_row<1, 1>("separable", {"Sums seven taps along the rows, then seven down the columns, instead of 49 products.", Step::kOperations}, Blocks{{{kBlockCols, kTwoPassBlockRows}}}, bytes_of_tile<1, 1, 1>, ADO_RUN(run_tiles<gaussian_blur_separable, 1, 1>)),
    tile_row<1, 2>("two_pixels", {"Each thread computes two pixels of a column and loads pixels in pairs.", Step::kWider, Step::kReuse}, Blocks{{{kBlockCols, kTwoPassBlockRows}}}, bytes_of_tile<1, 2, 2>, ADO_RUN(run_tiles<gaussian_blur_two_passes<int, 1, 2, 2>, 1, 2>), why_separable_is_faster),
    tile_row<2, 2>("wide_shared", {"Each thread computes 2x2 pixels, with 8-byte accesses to shared memory.", Step::kWider, Step::kReuse}, Blocks{{{kBlockCols, kTwoPassBlockRows}}}, bytes_of_tile<2, 2, 2>, ADO_RUN(run_tiles<gaussian_blur_two_passes<int, 2, 2, 2>, 2, 2>), why_separable_is_faster),
    tile_row<2, 2>("float_taps", {"Computes in float32, which is exact below 2**24 and has fused multiply-add.", Step::kOperations, Step::kFma}, Blocks{{{kBlockCols, kTwoPassBlockRows}}}, bytes_of_tile<2, 2, 2>, ADO_RUN(run_tiles<gaussian_blur_two_passes<float, 2, 2, 2>, 2, 2>), why_separable_is_faster, flops_of_float_taps),
    tile_row<kDotAcross, kDotDown>("dot_product", {"Loads four pixels at a time and sums them with dot products, all in registers.", Step::kWider, Step::kReuse, Step::kOperations}, Blocks{{{kBlockCols, kDotBlockRows}}}, [](const GaussianBlur& p) {
           return bytes_by_tiles(p, 3 * kDotAcross * (kDotDown + 2 * kRadius),
                                 kDotAcross * kDotDown);
         }, ADO_RUN(run_tiles<gaussian_blur_dot_product, kDotAcross, kDotDown>), why_float_taps_is_faster),
    {.name = "sliding_window",
     .changes =
         {"Streams rows through registers and keeps running sums; supports any border and taps.", Step::kReuse, Step::kOperations},
     .why_slower = why_float_taps_is_faster,
     .blocks = {{kWindowBlock}},
     .grid = window_grid<GaussianBlur, with_shape>,
     .shared_bytes = window_shared_bytes<GaussianBlur, with_shape>,
     .bytes = window_bytes<GaussianBlur, with_shape>,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       with_shape(p, [&]<class Shape>(Shape) { launch_window<Shape>(p, go); });
     })},
    {.name = "lane_per_row",
     .changes = {"Assigns whole rows of narrow images to each lane; blocks copy contiguous bytes.", Step::kCoalescing, Step::kOperations},
     .why_not = why_not_blur_lanes,
     .why_slower = why_lanes_are_slower,
     .blocks = {{kStripBlock}},
     .grid = strip_grid<GaussianBlur>,
     .shared_bytes = strip_shared_bytes<GaussianBlur, kRadius>,
     .bytes = strip_bytes<GaussianBlur, kRadius>,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       with_row_words(p.cols(), [&](auto words) {
         launch(go, lane_per_row<words, GaussianStage<words>>, p.gray.as<const std::uint8_t>(),
                p.out.as<std::uint8_t>(), strips_of(p), {});
       });
     })},
};

}  // namespace

Ladder<GaussianBlur> gaussian_blur_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda
