// out = min(255, floor(sqrt(gx^2 + gy^2))) with the 3x3 Sobel gradients gx and gy.
#pragma once

#include "routines/image_batch.hpp"

namespace ado {

struct Sobel {
  static constexpr const char* kName = "sobel";
  static constexpr const char* kSummary =
      "Gradient magnitude with the 3x3 Sobel operators, ``min(255, floor(sqrt(gx**2 + gy**2)))``.";
  static constexpr const char* kSource =
      "CUDA Optimization with NVIDIA Nsight Eclipse Edition (GTC 2015), companion code.";

  static constexpr int kHalo = 1;

  Array gray, out;
  bool batch = false;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"gray", "... rows cols", kUint8Elements,
                        "The image, or a batch of images; pixels outside are zero."},
                gray);
    visit.option(kBatchOption, batch);
    visit.output(Operand{"out", "... rows cols", kUint8Elements, "The gradient magnitude, exact."},
                 out);
  }

  std::int64_t images() const { return gray.slices(2); }
  std::int64_t rows() const { return gray.shape[gray.rank - 2]; }
  std::int64_t cols() const { return gray.shape[gray.rank - 1]; }

  double flops() const { return 0; }  // the formulas need integers only

  const char* why_not() const { return why_not_gray(gray, batch); }
};

}  // namespace ado
