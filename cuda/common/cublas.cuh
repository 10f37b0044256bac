// The matrix product of cuBLAS. The library is loaded at run time, so the package can be built and
// used without it.
#pragma once

#include "core/variant.hpp"

namespace ado::cuda::cublas {

// Returns nullptr if cuBLAS was found, otherwise the reason as a string literal. The first call
// searches for the library. A build without CUDA assumes that cuBLAS is installed, so that it
// reports the same default variants as a complete installation.
const char* why_missing();

// The operands, packed and row-major. Shapes: left (rows, depth), right_transposed (cols, depth),
// out (rows, cols).
template <class T>
struct Product {
  const T *left, *right_transposed;
  T* out;
  std::int64_t rows, cols, depth;  // at most INT_MAX
};

// Computes out = left * right_transposed^T in the precision of T, stream-ordered.
void gemm(const Launch& go, const Product<float>& product);
void gemm(const Launch& go, const Product<double>& product);

}  // namespace ado::cuda::cublas
