// out = floor(0.298839 R + 0.586811 G + 0.114350 B), with the weights as fractions of 2^16.
#pragma once

#include "core/operand.hpp"

namespace ado {

struct Grayscale {
  static constexpr const char* kName = "grayscale";
  static constexpr const char* kSummary =
      "Luminance of a colour image: ``0.298839 R + 0.586811 G + 0.114350 B``, truncated.";
  static constexpr const char* kSource =
      "CUDA Optimization with NVIDIA Nsight Eclipse Edition (GTC 2015), companion code.";

  // The weights times 2^16, rounded. Their sum is 2^16, so white remains 255. All variants compute
  // (R * kRed + G * kGreen + B * kBlue) >> kShift, so their results are bitwise identical. For
  // 0.035 % of the 2^24 colours, the result differs by one level from the floor with the decimal
  // weights.
  static constexpr int kRed = 19585, kGreen = 38457, kBlue = 7494, kShift = 16;

  static constexpr int kHalo = 0;

  Array rgba, out;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"rgba", "... rows cols 3|4", kUint8Elements,
                        "Red, green and blue, and optionally alpha, which is ignored."},
                rgba);
    visit.output(
        Operand{"out", "... rows cols", kUint8Elements,
                "The luminance. The results of all variants are bitwise identical. For 0.035 % of "
                "the 2**24 colours, they differ by one level from the exact floor."},
        out);
  }

  std::int64_t images() const { return out.slices(2); }
  std::int64_t rows() const { return out.shape[out.rank - 2]; }
  std::int64_t cols() const { return out.shape[out.rank - 1]; }
  int channels() const { return static_cast<int>(rgba.shape[rgba.rank - 1]); }

  double flops() const { return 0; }  // the formulas need integers only
};

}  // namespace ado
