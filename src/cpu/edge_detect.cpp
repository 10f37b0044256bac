// Edges of colour images on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/edge_detect.hpp"

#include "core/isa.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/common/streaming.hpp"
#include "cpu/image/rows.hpp"
#include "cpu/image/view.hpp"
#include "routines/edge_detect_stages.hpp"

namespace ado::ADO_ISA {

Ladder<Grayscale> grayscale_ladder();
Ladder<GaussianBlur> gaussian_blur_ladder();
Ladder<Sobel> sobel_ladder();

namespace {

template <const Stages& kStages>
void in_three(const EdgeDetect& p, const Launch& go) {
  run_stages(p, go, kStages, grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder());
}

// A function of this instruction set, as a row needs its address.
std::size_t scratch_bytes(const EdgeDetect& p) { return bytes_between_stages(p); }

template <const Stages& kStages>
double bytes_of_three(const EdgeDetect& p) {
  return bytes_of_stages(p, kStages, grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder());
}

constexpr Stages stages_called(const char* variant) {
  return {{{"grayscale", variant}, {"gaussian_blur", variant}, {"sobel", variant}}};
}
constexpr Stages kTextbook = stages_called("textbook"), kBest = stages_called("threaded");

// Each row goes through all three while it is in the L1 cache: seven rows of gray and three of
// blurred pixels are all there is between the image and the edges. What the neighbouring bands need
// of the same rows is computed twice.
ADO_INLINE void edge_share(const EdgeDetect& p, int thread, int threads, bool streaming) {
  Ring<8> gray_ring;
  Ring<4> blurred_ring;
  for_each_band(p.images(), p.rows(), p.cols(), thread, threads, [&](const Band& band) {
    const Image rgba = colour_image_of(p.rgba, band.image);
    const auto fill = [&](int64_t row, int64_t begin, int64_t count, Pixel* to) {
      gray_row<0>(rgba, row, begin, count, to);
    };
    RowsOf<decltype(fill)> gray{rgba, fill, Border::kConstant, band, 4};
    Stencil<3, decltype(gray), BlurRow> blur{gray, gray_ring, {}, -1, band.width() + 1, 2};
    ZeroOutside<decltype(blur)> blurred{blur, p.rows(), p.cols(), band};
    Stencil<1, decltype(blurred), SobelRow> sobel{blurred, blurred_ring, {}, 0, band.width()};
    put_rows(image_of(p.out, band.image), band, sobel, streaming);
  });
  if (streaming) finish_streaming();
}

void fused(const EdgeDetect& p, const Launch&) {
  // Takes about as long as moving twice the bytes.
  in_parallel(threads_for(10 * p.out.bytes()), [&](int thread, int threads) {
    edge_share(p, thread, threads, worth_streaming(p.rgba.bytes() + p.out.bytes()));
  });
}

constexpr Variant<EdgeDetect> kVariants[] = {
    {.name = "three_textbook",
     .changes = "Three passes, each the textbook's.",
     .scratch_bytes = scratch_bytes,
     .stages = kTextbook,
     .bytes = bytes_of_three<kTextbook>,
     .run = in_three<kTextbook>},
    {.name = "three_threaded",
     .changes = "Three passes, each the last of its ladder.",
     .scratch_bytes = scratch_bytes,
     .stages = kBest,
     .bytes = bytes_of_three<kBest>,
     .run = in_three<kBest>},
    {.name = "fused_bands",
     .changes = "One pass: what lies between the steps are a few rows in the L1 cache.",
     .run = fused},
};

}  // namespace

Ladder<EdgeDetect> edge_detect_ladder() { return ladder_of(kVariants); }

}  // namespace ado::ADO_ISA
