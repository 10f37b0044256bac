// Edges on the GPU: out = sobel(blur(gray(rgba))), from three kernels to one.
//
// Three kernels move 9 bytes a pixel: 5 for the luminance and 2 for each filter. One that keeps
// what lies between in registers moves 5, and there are arithmetic units to spare for all three.
//
// Times in the comments are for 16384 x 16384 pixels of four channels on an H200, L2 flushed.
#include "routines/edge_detect.hpp"

#include "image/sliding_window.cuh"
#include "routines/edge_detect_stages.hpp"

namespace ado::cuda {

Ladder<Grayscale> grayscale_ladder();
Ladder<GaussianBlur> gaussian_blur_ladder();
Ladder<Sobel> sobel_ladder();

namespace {

constexpr Stages kNaive = {
    {{"grayscale", "naive"}, {"gaussian_blur", "naive"}, {"sobel", "naive"}}};
constexpr Stages kBest = {
    {{"grayscale", "wide"}, {"gaussian_blur", "marching"}, {"sobel", "marching"}}};

template <const Stages& kStages>
double bytes_of_three(const EdgeDetect& p) {
  return bytes_of_stages(p, kStages, grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder());
}

// Eight pixels a lane and strips of 72 rows: 340 us, 93 % of the speed of a copy.
// Four pixels a lane take 355 us; strips of 34 rows, whose edges are a fifth of what is loaded,
// 381. Five blocks a multiprocessor leave 96 registers to a thread, of which it takes 91 on sm_90.
template <int kChannels, bool kAligned>
using Fused = MarchShape<Marching{.channels = kChannels,
                                  .words = 2,
                                  .reach = GaussianBlur::kRadius + 1,
                                  .aligned = kAligned,
                                  .beside = false,
                                  .blocks = 5,
                                  .highest = 72}>;

constexpr auto with_shape = [](const EdgeDetect& p, auto visit) {
  const bool aligned = lanes_aligned(p.rgba, p.out, Fused<4, true>::kPixels);
  if (p.channels() == 4) return aligned ? visit(Fused<4, true>{}) : visit(Fused<4, false>{});
  return aligned ? visit(Fused<3, true>{}) : visit(Fused<3, false>{});
};

constexpr Variant<EdgeDetect> kVariants[] = {
    {.name = "three_naive",
     .changes = "Three kernels, one pixel a thread, with two images between them.",
     .device = Device::kCuda,
     .scratch_bytes = bytes_between_stages,
     .stages = kNaive,
     .bytes = bytes_of_three<kNaive>,
     .run = ADO_RUN([](const EdgeDetect& p, const Launch& go) {
       run_stages(p, go, kNaive, grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder());
     })},
    {.name = "three_best",
     .changes = "Three kernels, the last of each ladder.",
     .device = Device::kCuda,
     .scratch_bytes = bytes_between_stages,
     .stages = kBest,
     .bytes = bytes_of_three<kBest>,
     .run = ADO_RUN([](const EdgeDetect& p, const Launch& go) {
       run_stages(p, go, kBest, grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder());
     })},
    {.name = "fused",
     .changes = "One kernel: rows march from luminance through blur to gradient in registers.",
     .device = Device::kCuda,
     .blocks = {{kMarchBlock}},
     .grid = march_grid<EdgeDetect, with_shape>,
     .shared_bytes = march_shared_bytes<EdgeDetect, with_shape>,
     .bytes = march_bytes<EdgeDetect, with_shape>,
     .run = ADO_RUN([](const EdgeDetect& p, const Launch& go) {
       with_shape(p, [&]<class Shape>(Shape) {
         const auto kernel = march<Shape, Blur<Shape::kWords>, SobelMagnitude<Shape::kWords>>;
         launch(go, kernel, p.rgba.as<const std::uint8_t>(), Border::kConstant,
                p.out.as<std::uint8_t>(), strips_of<Shape>(p), {}, {});
       });
     })},
};

}  // namespace

Ladder<EdgeDetect> edge_detect_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda
