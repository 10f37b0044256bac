// The operands of average_matvec as kernel parameters.
#pragma once

#include <cstdint>

#include "core/compensated.hpp"
#include "routines/average_matvec.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

// All arrays are packed in row-major order.
template <class T>
struct AverageMatvecOperands {
  const T* vectors;  // (sets, length, samples)
  const T* matrix;   // (length, length)
  T* out;            // (length, sets)
  std::int64_t sets, length, samples;

  // The samples of one element of the vectors of one set. They are contiguous.
  __device__ const T* samples_of(std::int64_t set, std::int64_t element) const {
    return vectors + (set * length + element) * samples;
  }
};

template <class T>
AverageMatvecOperands<T> operands_of(const AverageMatvec& p) {
  return {p.vectors.as<const T>(),
          p.matrix.as<const T>(),
          p.out.as<T>(),
          p.sets(),
          p.length(),
          p.samples()};
}

// The sum of samples first, first + step, ...
template <class T>
__device__ T sum_of_samples(const T* sample, std::int64_t samples, int first, int step) {
  CompensatedSum<T> sum;
  for (std::int64_t i = first; i < samples; i += step) sum.add(sample[i]);
  return sum.total();
}

}  // namespace ado::cuda

#endif
