// The matrix product of cuBLAS, which is looked for at run time: the package builds and runs
// without.
#pragma once

#include <cstdint>

#include "core/variant.hpp"

namespace ado::cuda::cublas {

// A literal, or nullptr if the library is there. The first call looks for it.
const char* why_missing();

// Packed and row-major: left has `rows` rows of `depth` elements, right_transposed `cols` rows of
// as many, and out `rows` rows of `cols`.
template <class T>
struct Product {
  const T *left, *right_transposed;
  T* out;
  std::int64_t rows, cols, depth;  // at most INT_MAX
};

// out = left * right_transposed^T in the precision of T, in the order of the launches.
void gemm(const Launch& go, const Product<float>& product);
void gemm(const Launch& go, const Product<double>& product);

}  // namespace ado::cuda::cublas
