// Warp-level helpers.
#pragma once

namespace ado::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kAllLanes = 0xffffffff;

#ifdef __CUDACC__

// Butterfly reduction: returns in every lane the sum over its group of kLanes neighbouring lanes.
template <int kLanes = kWarpSize, class T>
__device__ T sum_over_lanes(T x) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(kAllLanes, x, distance);
  return x;
}

#endif

}  // namespace ado::cuda
