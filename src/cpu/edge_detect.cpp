// Edge detection on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/edge_detect.hpp"

#include "core/isa.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/common/streaming.hpp"
#include "cpu/image/row_kernels.hpp"
#include "cpu/image/stages.hpp"
#include "routines/edge_detect_stages.hpp"

namespace ado::ADO_ISA {

Ladder<Grayscale> grayscale_ladder();
Ladder<GaussianBlur> gaussian_blur_ladder();
Ladder<Sobel> sobel_ladder();

namespace {

ADO_INLINE FilterLadders filters() {
  return {grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder()};
}

constexpr Stages kNaiveLoops = filter_stages("naive_loops", "naive_loops", "naive_loops");
constexpr Stages kThreaded = filter_stages("threaded", "threaded", "threaded");

// The fields of a pipeline. They are compiled per instruction set, because a variant contains their
// addresses.
std::size_t scratch_bytes(const EdgeDetect& p) { return bytes_between_stages(p); }

template <const Stages& kStages>
const char* why_not(const EdgeDetect& p) {
  return why_not_stages(p, kStages, filters());
}

template <const Stages& kStages>
double executed_flops(const EdgeDetect& p) {
  return flops_of_stages(p, kStages, filters());
}

template <const Stages& kStages>
double requested_bytes(const EdgeDetect& p) {
  return bytes_of_stages(p, kStages, filters());
}

template <const Stages& kStages>
void run_pipeline(const EdgeDetect& p, const Launch& go) {
  run_stages(p, go, kStages, filters());
}

// Each row passes all three filters while it is in the L1 cache. The only intermediate results in
// memory are seven rows of gray and three rows of blurred pixels. Rows that neighbouring bands
// share are computed twice.
ADO_INLINE void edge_share(const EdgeDetect& p, int thread, int threads, bool streaming) {
  Ring<8> gray_ring;
  Ring<4> blurred_ring;
  for_each_band(p.images(), p.rows(), p.cols(), thread, threads, [&](const Band& band) {
    const Image rgba = colour_image_of(p.rgba, band.image);
    const auto fill = [&](int64_t row, int64_t begin, int64_t count, Pixel* to) {
      gray_row<0>(rgba, row, begin, count, to);
    };
    ImageRows<decltype(fill)> gray{rgba, fill, Border::kConstant, band, 4};
    Stencil<3, decltype(gray), BlurRow> blur{gray, gray_ring, {}, -1, band.width() + 1, 2};
    ZeroOutside<decltype(blur)> blurred{blur, p.rows(), p.cols(), band};
    Stencil<1, decltype(blurred), SobelRow> sobel{blurred, blurred_ring, {}, 0, band.width()};
    put_rows(image_of(p.out, band.image), band, sobel, streaming);
  });
  if (streaming) finish_streaming();
}

void fused(const EdgeDetect& p, const Launch&) {
  // The time is about that of moving 10 bytes per pixel, twice the number of bytes that are moved.
  in_parallel(threads_for(10 * p.out.bytes()), [&](int thread, int threads) {
    edge_share(p, thread, threads, worth_streaming(p.rgba.bytes() + p.out.bytes()));
  });
}

constexpr Variant<EdgeDetect> kVariants[] = {
    {.name = "pipeline_naive_loops",
     .changes =
         "Runs the naive loops of the three filters, with two intermediate images in memory.",
     .why_not = why_not<kNaiveLoops>,
     .scratch_bytes = scratch_bytes,
     .stages = kNaiveLoops,
     .flops = executed_flops<kNaiveLoops>,
     .bytes = requested_bytes<kNaiveLoops>,
     .run = run_pipeline<kNaiveLoops>},
    {.name = "pipeline_threaded",
     .changes = "Runs the fastest variants of the three filters.",
     .why_not = why_not<kThreaded>,
     .scratch_bytes = scratch_bytes,
     .stages = kThreaded,
     .flops = executed_flops<kThreaded>,
     .bytes = requested_bytes<kThreaded>,
     .run = run_pipeline<kThreaded>},
    {.name = "fused_bands",
     .changes = "Runs all filters in one pass; intermediate rows stay in the L1 cache.",
     .flops = [](const EdgeDetect& p) { return roots_of_rows(p); },
     .run = fused},
};

}  // namespace

Ladder<EdgeDetect> edge_detect_ladder() {
  return with_checked_stages(ladder_of(kVariants), filters());
}

}  // namespace ado::ADO_ISA
