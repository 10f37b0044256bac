// Edge detection as a pipeline with one variant of each filter's ladder. Shared by both devices.
#pragma once

#include "core/pipeline.hpp"
#include "routines/edge_detect.hpp"
#include "routines/grayscale.hpp"

namespace ado {

// The ladders of one device that contain the stages.
struct FilterLadders {
  Ladder<Grayscale> grayscale;
  Ladder<GaussianBlur> gaussian_blur;
  Ladder<Sobel> sobel;
};

// The stages of a pipeline, by the names of their variants.
constexpr Stages filter_stages(const char* grayscale, const char* gaussian_blur,
                               const char* sobel) {
  return {
      {{Grayscale::kName, grayscale}, {GaussianBlur::kName, gaussian_blur}, {Sobel::kName, sobel}}};
}

// Returns `ladder`. Throws std::logic_error if a stage of one of its pipelines does not exist.
ADO_INLINE Ladder<EdgeDetect> with_checked_stages(const Ladder<EdgeDetect>& ladder,
                                                  const FilterLadders& filters) {
  for (const Variant<EdgeDetect>& variant : ladder) {
    if (variant.stages[0].variant == nullptr) continue;  // a single kernel, not a pipeline
    check_stage(variant, variant.stages[0], filters.grayscale);
    check_stage(variant, variant.stages[1], filters.gaussian_blur);
    check_stage(variant, variant.stages[2], filters.sobel);
  }
  return ladder;
}

// Bytes of one of the two intermediate images, rounded up so that the second image is aligned to
// the vectors of every device.
ADO_INLINE std::size_t intermediate_bytes(const EdgeDetect& p) {
  constexpr std::size_t kAlign = 256;
  return (static_cast<std::size_t>(p.out.elements()) + kAlign - 1) / kAlign * kAlign;
}

ADO_INLINE std::size_t bytes_between_stages(const EdgeDetect& p) {
  return 2 * intermediate_bytes(p);
}

// Calls `visit(variant, problem, input)` for each stage in order. The stages must have been
// checked.
template <class Visit>
ADO_INLINE void for_each_stage(const EdgeDetect& p, std::byte* scratch, const Stages& stages,
                               const FilterLadders& filters, Visit visit) {
  const Array gray = packed_like(p.out, scratch);
  const Array blurred = packed_like(p.out, scratch + intermediate_bytes(p));
  visit(*find_variant(filters.grayscale, stages[0].variant), Grayscale{p.rgba, gray}, p.rgba);
  visit(*find_variant(filters.gaussian_blur, stages[1].variant),
        GaussianBlur{.gray = gray, .out = blurred}, gray);
  visit(*find_variant(filters.sobel, stages[2].variant), Sobel{blurred, p.out}, blurred);
}

// Returns the reason why a pipeline cannot solve a problem, or nullptr: the reason of the first
// stage that cannot solve its part. The intermediate images are not allocated yet, so no stage may
// read them.
ADO_INLINE const char* why_not_stages(const EdgeDetect& p, const Stages& stages,
                                      const FilterLadders& filters) {
  const char* reason = nullptr;
  for_each_stage(p, nullptr, stages, filters,
                 [&](const auto& variant, const auto& problem, const Array&) {
                   if (reason == nullptr && variant.why_not != nullptr)
                     reason = variant.why_not(problem);
                 });
  return reason;
}

// Runs the stages in order, each with its default block.
ADO_INLINE void run_stages(const EdgeDetect& p, const Launch& go, const Stages& stages,
                           const FilterLadders& filters) {
  for_each_stage(p, go.scratch, stages, filters,
                 [&](const auto& variant, const auto& problem, const Array&) {
                   Launch launch = launch_of(variant, problem, variant.blocks[0], go.hardware);
                   launch.stream = go.stream;
                   launch.recorder = go.recorder;
                   variant.run(problem, launch);
                 });
}

// The sum of the FLOPs that the stages execute.
ADO_INLINE double flops_of_stages(const EdgeDetect& p, const Stages& stages,
                                  const FilterLadders& filters, const Hardware& hardware) {
  double total = 0;
  for_each_stage(p, nullptr, stages, filters,
                 [&](const auto& variant, const auto& problem, const Array&) {
                   total += variant.flops ? variant.flops(problem, hardware) : problem.flops();
                 });
  return total;
}

// The sum of the bytes that the stages request.
ADO_INLINE double bytes_of_stages(const EdgeDetect& p, const Stages& stages,
                                  const FilterLadders& filters, const Hardware& hardware) {
  double total = 0;
  for_each_stage(p, nullptr, stages, filters,
                 [&](const auto& variant, const auto& problem, const Array& input) {
                   total += variant.bytes
                                ? variant.bytes(problem, hardware)
                                : static_cast<double>(input.bytes() + problem.out.bytes());
                 });
  return total;
}

}  // namespace ado
