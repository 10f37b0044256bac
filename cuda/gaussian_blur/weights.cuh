// Weights of the 7x7 Gaussian blur: the outer product of seven taps with themselves.
#pragma once

#include <type_traits>

#include "routines/gaussian_blur.hpp"

namespace ado::cuda {
namespace {

constexpr int kTaps = GaussianBlur::kTaps;
constexpr int kRadius = GaussianBlur::kRadius;
constexpr int kBlockCols = 32;  // threads per row of a block in all kernels, so a row is one warp

// The sum of the 49 default weights is 256, so a shift divides the weighted sum by it.
constexpr int kShift = 8;

#ifdef __CUDACC__

struct Weights {
  int product[kTaps][kTaps];
  int tap[kTaps];
  float real_tap[kTaps];
};

constexpr Weights default_weights() {
  Weights w{};
  for (int i = 0; i < kTaps; ++i) {
    w.tap[i] = GaussianBlur::kDefaultTaps[i];
    w.real_tap[i] = static_cast<float>(w.tap[i]);
    for (int j = 0; j < kTaps; ++j)
      w.product[i][j] = GaussianBlur::kDefaultTaps[i] * GaussianBlur::kDefaultTaps[j];
  }
  return w;
}

__constant__ Weights weights = default_weights();

template <class Number>
__device__ Number tap(int i) {
  if constexpr (std::is_same_v<Number, float>)
    return weights.real_tap[i];
  else
    return weights.tap[i];
}

#endif

}  // namespace
}  // namespace ado::cuda
