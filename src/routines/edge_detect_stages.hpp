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

// Runs the row called so with its default block. The name is a row's own constant: it is there.
template <class Routine>
ADO_INLINE void run_row(const Ladder<Routine>& ladder, const char* name, const Routine& problem,
                        void* stream) {
  const Variant<Routine>* row = ladder.begin();
  while (std::strcmp(row->name, name) != 0) ++row;
  Launch launch = launch_of(*row, problem, row->blocks[0]);
  launch.stream = stream;
  row->run(problem, launch);
}

ADO_INLINE void run_stages(const EdgeDetect& p, const Launch& go, const Stages& stages,
                           const Ladder<Grayscale>& grayscale, const Ladder<GaussianBlur>& blur,
                           const Ladder<Sobel>& sobel) {
  const Array gray = packed_like(p.out, go.scratch);
  const Array blurred = packed_like(p.out, go.scratch + intermediate_bytes(p));
  run_row(grayscale, stages[0].variant, Grayscale{p.rgba, gray}, go.stream);
  run_row(blur, stages[1].variant, GaussianBlur{.gray = gray, .out = blurred}, go.stream);
  run_row(sobel, stages[2].variant, Sobel{blurred, p.out}, go.stream);
}

}  // namespace ado
