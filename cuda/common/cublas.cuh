// Matrix products of cuBLAS. The library is loaded at run time, so the package can be built and
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

// Types of operands that tensor cores multiply. Sums have the type FP64, INT32 (for INT8) or FP32.
enum class TensorType : std::uint8_t { kFp64, kTf32, kBf16, kFp16, kFp8, kInt8 };

// Bytes per element of an operand, and of the result: FP64, FP32, BF16, FP16, BF16 or INT32.
constexpr std::int64_t operand_bytes(TensorType type) {
  constexpr std::int64_t kBytes[] = {8, 4, 2, 2, 1, 1};
  return kBytes[static_cast<int>(type)];
}
constexpr std::int64_t result_bytes(TensorType type) {
  constexpr std::int64_t kBytes[] = {8, 4, 2, 2, 2, 4};
  return kBytes[static_cast<int>(type)];
}

// Computes out = left * right^T with packed square matrices of `size` rows, a multiple of 16,
// stream-ordered. The scratch memory of `go` is the workspace of cuBLAS.
inline constexpr std::size_t kTensorWorkspace = 32 << 20;  // NVIDIA's recommendation for Hopper
void tensor_product(const Launch& go, TensorType type, std::int64_t size, const std::byte* left,
                    const std::byte* right, std::byte* out);

}  // namespace ado::cuda::cublas
