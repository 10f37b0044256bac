// Both filters of edge detection as one stage of the sliding window.
#pragma once

#include "image/sliding_window.cuh"
#include "image/sobel_stage.cuh"

#ifdef __CUDACC__

namespace ado::cuda {

// ---- fused --------------------------------------------------------------------------------------
// A row of gray pixels is blurred, and the blurred row is pushed on at once. clear_outside(row,
// behind) sets the blurred pixels outside the image to zero; the blurred row is `behind` rows
// behind the gray one.
template <int kWords>
struct EdgeStage {
  static constexpr int kRadius = GaussianStage<kWords>::kRadius + SobelStage<kWords>::kRadius;
  struct Options {};
  GaussianStage<kWords> blur;
  SobelStage<kWords> sobel;

  __device__ EdgeStage(int direction, Options) : blur(direction, {}), sobel(direction, {}) {}

  template <class ClearOutside>
  __device__ PackedPixels<kWords> push(int step, const PixelsAround<kWords>& gray,
                                       const ClearOutside& clear_outside) {
    PackedPixels<kWords> blurred = blur.push(step, gray);
    clear_outside(blurred, GaussianStage<kWords>::kRadius);
    return sobel.push(step, exchange_neighbours<kWords>(blurred));
  }
};

// -------------------------------------------------------------------------------------------------

}  // namespace ado::cuda

#endif
