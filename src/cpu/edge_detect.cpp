// Edge detection on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/edge_detect.hpp"

#include "cpu/image/engine_window_rows.hpp"
#include "cpu/image/row_kernels.hpp"
#include "cpu/image/sliding_window.hpp"
#include "routines/edge_detect_stages.hpp"

namespace ado::ADO_ISA {

Ladder<Grayscale> grayscale_ladder();
Ladder<GaussianBlur> gaussian_blur_ladder();
Ladder<Sobel> sobel_ladder();

namespace {

ADO_INLINE FilterLadders filters() {
  return {grayscale_ladder(), gaussian_blur_ladder(), sobel_ladder()};
}

// ---- pipeline_naive_loops, pipeline_threaded ----------------------------------------------------
constexpr Stages kNaiveLoops = filter_stages("naive_loops", "naive_loops", "naive_loops");
constexpr Stages kThreaded = filter_stages("threaded", "threaded", "threaded");

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
      .run = [](const EdgeDetect& p, const Launch& go) { run_stages(p, go, kStages, filters()); }};
}

// ---- pipeline_naive_loops -----------------------------------------------------------------------
constexpr auto kPipelineNaiveLoops = pipeline_row<kNaiveLoops>(
    "pipeline_naive_loops",
    "Runs the naive loops of the three filters, with two intermediate images in memory.");

// ---- pipeline_threaded --------------------------------------------------------------------------
constexpr auto kPipelineThreaded = pipeline_row<kThreaded>(
    "pipeline_threaded", {"Runs the fastest variants of the three filters.", Step::kOperations,
                          Step::kWider, Step::kReuse, Step::kDramReuse, Step::kParallelism});

// ---- fused_bands --------------------------------------------------------------------------------
// Converts rows to gray and extends them with zeros beyond the image. Buffers of narrow bands are
// filled with zeros first, because the kernels read whole vectors.
class ColourRows {
 public:
  ADO_INLINE ColourRows(const Image& rgba, const Band& band, int64_t reach)
      : rgba_(rgba),
        left_(max(band.left - reach, 0)),
        right_(min(band.right + reach, rgba.cols)),
        before_(left_ - (band.left - reach)),
        after_(band.right + reach - right_),
        offset_(left_ - band.left) {}

  // Converts a row, as row i of a block. Returns a pointer to the band's first column.
  ADO_INLINE const Pixel* read(int64_t row, int64_t i) {
    if (row >= rgba_.rows) return kZeros + kLine;
    Pixel* const to = buffer_.row(i) + offset_;
    const int64_t count = right_ - left_;
    if (count < kWidth) std::memset(to, 0, 2 * kLine);
    gray_row<Stores::kWithRoom>(rgba_, row, left_, count, 0, to);
    std::memset(to - before_, 0, before_);
    std::memset(to + count, 0, after_);
    return buffer_.row(i);
  }

 private:
  const Image rgba_;
  const int64_t left_, right_, before_, after_, offset_;
  RowBuffer buffer_;
};

// Applies all three filters to a block of rows while it is in the L1 cache. The only intermediate
// results in memory are one block of gray rows and one block of blurred rows. Rows and columns that
// neighbouring bands share are computed twice.
ADO_INLINE void edge_share(const EdgeDetect& given, int thread, int threads, bool streaming) {
  const EdgeDetect p = with_long_rows(given, &EdgeDetect::rgba);
  constexpr int kBlurred = BlurWindow::kRadius, kSobel = SobelWindow::kRadius;
  // Together, the two kernels prefetch four bytes per pixel.
  constexpr int kLines = kWidth < kLine ? 1 : 2;
  SlidingWindow<BlurWindow, kLines> blur;
  SlidingWindow<SobelWindow, kLines> sobel;
  RowBuffer blurred;
  Checkpoints checkpoints;
  const int64_t nanoseconds = block_nanoseconds(p.out);
  const auto work = [&](const Band& band) {
    const Image rgba = colour_image_of(p.rgba, band.image);
    ColourRows gray(rgba, band, kBlurred + kSobel);
    OutputRows out(image_of(p.out, band.image), band, streaming);
    // Blurred pixels outside the image are zero and are not computed.
    const int64_t before = band.left == 0 ? 0 : kSobel;
    const int64_t after = band.right == p.cols() ? 0 : kSobel;
    const int64_t blurred_width = before + band.width() + after;
    const int64_t top = max(band.top - kSobel, 0), begin = max(top - kBlurred, 0);
    const int64_t end = band.bottom + kSobel + kBlurred;
    blur.start(blurred_width, top + kBlurred - begin);
    sobel.start(band.width(), band.top + kSobel - top);
    int64_t next = top;  // the next blurred row
    for (int64_t row = begin; row < end; row += kBlockRows) {
      checkpoints.add(nanoseconds);
      WindowRow rows[kBlockRows];
      const int64_t count = min(kBlockRows, end - row);
      NextBlock next_block{rgba.at(row + kBlockRows, band.left), rgba.to_row, rgba.to_col};
      for (int64_t i = 0; i < count; ++i)
        rows[i] = WindowRow::padded(gray.read(row + i, i) - before, blurred_width);
      const int64_t complete =
          blur.add(rows, count, next_block, blurred.row(0) - before, kWindowPitch);
      for (int64_t i = 0; i < complete; ++i, ++next) {
        Pixel* const to = blurred.row(i);
        if (before == 0) to[-1] = 0;
        if (after == 0) to[band.width()] = 0;
        rows[i] = WindowRow::padded(next < p.rows() ? to : kZeros + kLine, band.width());
      }
      next_block.at += kLines * kLine;
      out.put(sobel.add(rows, complete, next_block, out.to(), out.pitch()));
    }
  };
  for_each_band<kWindowWidth>(p.images(), p.rows(), p.cols(), thread, threads, work);
  if (streaming) finish_streaming();
}

void fused(const EdgeDetect& p, const Launch&) {
  // The kernel takes about the time of moving 10 bytes per pixel, twice the number that it moves.
  in_parallel(threads_for(10 * p.out.bytes()), [&](int thread, int threads) {
    edge_share(p, thread, threads, worth_streaming(p.rgba.bytes() + p.out.bytes()));
  });
}

constexpr Variant<EdgeDetect> kFusedBands = {
    .name = "fused_bands",
    .changes = {"Runs all filters in one pass; intermediate rows stay in the L1 cache.",
                Step::kFusion, Step::kDramReuse},
    .flops = flops_of_windows<EdgeDetect, &EdgeDetect::rgba>,
    .run = fused};

// -------------------------------------------------------------------------------------------------

constexpr Variant<EdgeDetect> kSteps[] = {kPipelineNaiveLoops, kPipelineThreaded, kFusedBands};

}  // namespace

Ladder<EdgeDetect> edge_detect_ladder() {
  return with_checked_stages(ladder_of(kSteps), filters());
}

}  // namespace ado::ADO_ISA
