// What all kernels of max_plus share.
#pragma once

#include "common/grid.cuh"
#include "common/read_ceiling.cuh"
#include "routines/max_plus.hpp"

namespace ado::cuda {

// How many elements a vector holds.
template <class T>
constexpr int kWide = kVectorBytes / static_cast<int>(sizeof(T));

#ifdef __CUDACC__

// The arrays, packed in row-major order.
template <class T>
struct Terms {
  const T* big;
  const T* small;
  T* out;
  std::int64_t terms, points;

  __device__ T sum(std::int64_t k, std::int64_t point) const {
    return big[k * points + point] + small[k];
  }
};

template <class T>
Terms<T> terms_of(const MaxPlus& p) {
  return {p.big.as<const T>(), p.small.as<const T>(), p.out.as<T>(), p.terms(), p.points()};
}

// Keeps a NaN of either, where fmax drops it. As best begins with 0, it never is -0.
template <class T>
__device__ T larger(T best, T sum) {
  return sum > best || sum != sum ? sum : best;
}

// A run of neighbours, loaded and stored at once.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Run {
  T at[kCount];
};

#endif

}  // namespace ado::cuda
