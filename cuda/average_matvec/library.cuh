// The product with cuBLAS, and the size of grids, for the steps and the engine of average_matvec.
#pragma once

#include "common/cublas.cuh"
#include "common/grid.cuh"
#include "routines/average_matvec.hpp"

#include <climits>

namespace ado::cuda {

// One block per item, up to the largest possible grid.
inline Extent blocks_for(std::int64_t items) {
  return {static_cast<unsigned>(items < INT_MAX ? items : INT_MAX)};
}

inline std::size_t bytes_of_averages(const AverageMatvec& p) {
  return static_cast<std::size_t>(p.sets() * p.length() * p.vectors.type.size);
}

inline const char* why_not_library(const AverageMatvec& p) {
  if (p.sets() > INT_MAX || p.length() > INT_MAX)
    return "N or L exceeds the 32-bit sizes that cuBLAS accepts";
  return cublas::why_missing();
}

#ifdef __CUDACC__

// out = matrix * averages^T.
template <class T>
void multiply_with_library(const AverageMatvec& p, const Launch& go, const T* averages) {
  cublas::gemm(go, cublas::Product<T>{.left = p.matrix.as<const T>(),
                                      .right_transposed = averages,
                                      .out = p.out.as<T>(),
                                      .rows = p.length(),
                                      .cols = p.sets(),
                                      .depth = p.length()});
}

#endif

}  // namespace ado::cuda
