// Edge detection as three rows of other ladders, for both devices.
#pragma once

#include <cstddef>
#include <cstring>

#include "core/variant.hpp"
#include "routines/edge_detect.hpp"
#include "routines/gaussian_blur.hpp"
#include "routines/grayscale.hpp"
#include "routines/sobel.hpp"

namespace ado {

// The two images between the stages, each beginning where a vector of any machine may.
ADO_INLINE std::size_t intermediate_bytes(const EdgeDetect& p) {
  constexpr std::size_t kAlign = 256;
  return (static_cast<std::size_t>(p.out.elements()) + kAlign - 1) / kAlign * kAlign;
}

ADO_INLINE std::size_t bytes_between_stages(const EdgeDetect& p) {
  return 2 * intermediate_bytes(p);
}

// The row called so. The name is another row's own constant: it is there.
template <class Routine>
ADO_INLINE const Variant<Routine>& row_called(const Ladder<Routine>& ladder, const char* name) {
  const Variant<Routine>* row = ladder.begin();
  while (std::strcmp(row->name, name) != 0) ++row;
  return *row;
}

// Calls `visit` with the row, the problem and the input of each stage in turn.
template <class Visit>
ADO_INLINE void for_each_stage(const EdgeDetect& p, std::byte* scratch, const Stages& stages,
                               const Ladder<Grayscale>& grayscale, const Ladder<GaussianBlur>& blur,
                               const Ladder<Sobel>& sobel, Visit visit) {
  const Array gray = packed_like(p.out, scratch);
  const Array blurred = packed_like(p.out, scratch + intermediate_bytes(p));
  visit(row_called(grayscale, stages[0].variant), Grayscale{p.rgba, gray}, p.rgba);
  visit(row_called(blur, stages[1].variant), GaussianBlur{.gray = gray, .out = blurred}, gray);
  visit(row_called(sobel, stages[2].variant), Sobel{blurred, p.out}, blurred);
}

// Each with its default block.
ADO_INLINE void run_stages(const EdgeDetect& p, const Launch& go, const Stages& stages,
                           const Ladder<Grayscale>& grayscale, const Ladder<GaussianBlur>& blur,
                           const Ladder<Sobel>& sobel) {
  for_each_stage(p, go.scratch, stages, grayscale, blur, sobel,
                 [&](const auto& row, const auto& problem, const Array&) {
                   Launch launch = launch_of(row, problem, row.blocks[0]);
                   launch.stream = go.stream;
                   launch.recorder = go.recorder;
                   row.run(problem, launch);
                 });
}

// What they ask of memory together.
ADO_INLINE double bytes_of_stages(const EdgeDetect& p, const Stages& stages,
                                  const Ladder<Grayscale>& grayscale,
                                  const Ladder<GaussianBlur>& blur, const Ladder<Sobel>& sobel) {
  double total = 0;
  for_each_stage(p, nullptr, stages, grayscale, blur, sobel,
                 [&](const auto& row, const auto& problem, const Array& input) {
                   total += row.bytes != nullptr
                                ? row.bytes(problem)
                                : static_cast<double>(input.bytes() + problem.out.bytes());
                 });
  return total;
}

}  // namespace ado
