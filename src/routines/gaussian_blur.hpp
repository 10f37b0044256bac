// out = the 7x7 weighted sum around each pixel. The weights are the outer product of seven taps
// with themselves.
#pragma once

#include "routines/image_batch.hpp"

namespace ado {

// The values of pixels outside an image.
enum class Border : std::uint8_t {
  kConstant,    // zeros
  kReplicate,   // the nearest pixel: aaa|abcd|ddd
  kReflect101,  // the mirror image about the outermost pixel: dcb|abcd|cba
};

template <>
struct EnumNames<Border> {
  static constexpr const char* kNames[] = {"constant", "replicate", "reflect101"};
};

struct GaussianBlur {
  static constexpr const char* kName = "gaussian_blur";
  static constexpr const char* kSummary =
      "Blur an image with seven taps down the columns and along the rows.";
  static constexpr const char* kSource =
      "CUDA Optimization with NVIDIA Nsight Eclipse Edition (GTC 2015), companion code.";

  static constexpr int kTaps = 7;
  static constexpr int kRadius = kTaps / 2;
  static constexpr int kHalo = kRadius;
  static constexpr int kDefaultTaps[kTaps] = {1, 2, 3, 4, 3, 2, 1};
  static constexpr int kLargestSum = 256;  // of the taps: 255 * 256 fits into 16 bits

  Array gray, out;
  Border border = Border::kConstant;
  int taps[kTaps] = {1, 2, 3, 4, 3, 2, 1};
  bool batch = false;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(
        Operand{"gray", "... rows cols", kUint8Elements, "The image, or a batch of images."}, gray);
    visit.option(Option{"border",
                        "Pixels outside the image: zeros, the nearest pixel, or the mirror image "
                        "about the outermost pixel."},
                 border);
    visit.option(
        Option{"taps",
               "Seven non-negative integers with a sum from 1 to 256. Pixel ``[row, col]`` "
               "becomes ``sum(taps[i] * taps[j] * gray[row + i - 3, col + j - 3]) // "
               "sum(taps)**2``."},
        taps);
    visit.option(kBatchOption, batch);
    visit.output(Operand{"out", "... rows cols", kUint8Elements, "The blurred image, exact."}, out);
  }

  std::int64_t images() const { return gray.slices(2); }
  std::int64_t rows() const { return gray.shape[gray.rank - 2]; }
  std::int64_t cols() const { return gray.shape[gray.rank - 1]; }

  constexpr int tap_sum() const {
    int sum = 0;
    for (const int tap : taps) sum += tap;
    return sum;
  }
  constexpr bool default_taps() const {
    for (int i = 0; i < kTaps; ++i)
      if (taps[i] != kDefaultTaps[i]) return false;
    return true;
  }

  double flops() const { return 0; }  // the formulas need integers only

  const char* why_not() const {
    std::int64_t sum = 0;
    for (const int tap : taps) {
      if (tap < 0) return "taps must not be negative";
      sum += tap;
    }
    if (sum < 1 || sum > kLargestSum) return "taps must have a sum of 1 to 256";
    return why_not_gray(gray, batch);
  }
};

}  // namespace ado
