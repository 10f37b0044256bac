// Max plus: the operands of kernels, and maxima that start at 0, for the steps and the engine.
#pragma once

#include "common/grid.cuh"
#include "common/vector.cuh"
#include "routines/max_plus.hpp"

namespace ado::cuda {

// Returns true if all rows of big, and out, start at multiples of a vector.
inline bool rows_aligned(const MaxPlus& p) {
  return starts_at_vector(p.big.data) && starts_at_vector(p.out.data) &&
         p.points() * p.big.type.size % kVectorBytes == 0;
}

#ifdef __CUDACC__

// All arrays are packed in row-major order. As separate parameters, nvcc 13.0 would allocate other
// registers in four of the steps.
template <class T>
struct MaxPlusOperands {
  const T* big;    // (terms, points)
  const T* small;  // (terms)
  T* out;          // (points)
  std::int64_t terms, points;
};

template <class T>
MaxPlusOperands<T> operands_of(const MaxPlus& p) {
  return {p.big.as<const T>(), p.small.as<const T>(), p.out.as<T>(), p.terms(), p.points()};
}

// Returns the maximum of `best` and `sum`. Unlike fmax, it propagates a NaN of either. All maxima
// start at 0, so `best` is never -0.
template <class T>
__device__ T larger(T best, T sum) {
  return sum > best || sum != sum ? sum : best;
}

#endif

}  // namespace ado::cuda
