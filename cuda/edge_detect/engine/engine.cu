// Edge detection, engine: the variant for small images, and the choice among all variants. The
// default is the last variant that can solve the problem and has no reason below.
#include "routines/edge_detect.hpp"

#include "common/ladder.cuh"
#include "edge_detect/engine/small_tiles.cuh"
#include "routines/edge_detect_stages.hpp"

namespace ado::cuda {

Ladder<EdgeDetect> edge_detect_steps();
Ladder<Grayscale> grayscale_ladder();
Ladder<GaussianBlur> gaussian_blur_ladder();
Ladder<Sobel> sobel_ladder();

namespace {

const char* why_small_tiles_slower(const EdgeDetect& p, const Hardware& gpu) {
  if (std::min(row_start(p.rgba, p.cols() * p.channels()), row_start(p.out, p.cols(), 4)) ==
      RowStart::kVectors)
    return "rows are aligned to vectors, so the sliding window is faster";
  return with_rows_per_warp(p, gpu, [&](auto rows) { return number_of_small_tiles<rows>(p); }) <=
                 max_small_tiles(p, gpu)
             ? nullptr
             : "the image is large enough to occupy the GPU with the sliding window";
}

// -------------------------------------------------------------------------------------------------

constexpr Choice<EdgeDetect> kChoices[] = {{"small_tiles", why_small_tiles_slower}};

constexpr Variant<EdgeDetect> kEngine[] = {kSmallTiles};

}  // namespace

Ladder<EdgeDetect> edge_detect_ladder() {
  static const auto ladder = with_engine(edge_detect_steps(), kEngine, kChoices);
  return with_checked_stages({ladder.data(), ladder.size()},
                             {grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder()});
}

}  // namespace ado::cuda
