// out = sobel(gaussian_blur(grayscale(rgba))). The result of each step is rounded to bytes, as if
// it were stored.
#pragma once

#include "routines/gaussian_blur.hpp"
#include "routines/sobel.hpp"

namespace ado {

struct EdgeDetect {
  static constexpr const char* kName = "edge_detect";
  static constexpr const char* kSummary =
      "Edges of a colour image: ``sobel(gaussian_blur(grayscale(rgba)))``.";
  static constexpr const char* kSource =
      "CUDA Optimization with NVIDIA Nsight Eclipse Edition (GTC 2015), companion code.";

  static constexpr int kHalo = GaussianBlur::kHalo + Sobel::kHalo;

  Array rgba, out;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"rgba", "... rows cols 3|4", kUint8Elements,
                        "Red, green and blue, and optionally alpha, which is ignored."},
                rgba);
    visit.output(Operand{"out", "... rows cols", kUint8Elements,
                         "The gradient magnitude of the blurred luminance, exact."},
                 out);
  }

  std::int64_t images() const { return out.slices(2); }
  std::int64_t rows() const { return out.shape[out.rank - 2]; }
  std::int64_t cols() const { return out.shape[out.rank - 1]; }
  int channels() const { return static_cast<int>(rgba.shape[rgba.rank - 1]); }

  double flops() const { return 0; }  // the formulas need integers only
};

}  // namespace ado
