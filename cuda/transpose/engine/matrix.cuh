// Transpose, engine: the operands as kernel parameters, the thread block, and vectors of unaligned
// rows.
#pragma once

#include "common/grid.cuh"
#include "common/vector.cuh"
#include "routines/transpose.hpp"

namespace ado::cuda {
namespace {

constexpr Extent kBlock{32, 8};
constexpr int kThreads = kBlock.volume();

// Calls `visit` with the element size in bytes as a constant.
template <class Visit>
auto with_size(const Transpose& p, Visit visit) {
  return ado::with_size(p.a.type.size, visit);
}

#ifdef __CUDACC__

// The remainder operation only tells the compiler the range, which saves registers.
__device__ int thread_in_block() {
  return static_cast<int>((threadIdx.y * kBlock.x + threadIdx.x) % kThreads);
}

// A matrix whose columns are indexed in bytes.
template <class Byte>
struct Matrix {
  Byte* data;
  std::int64_t rows, cols;
  std::int64_t stride;  // distance between rows

  __device__ Byte& operator()(std::int64_t row, std::int64_t col) const {
    return data[row * stride + col];
  }
};
using Bytes = Matrix<std::byte>;
using ConstBytes = Matrix<const std::byte>;

ConstBytes input_bytes(const Transpose& p) {
  return {p.a.data, p.rows(), p.cols() * p.a.type.size, p.a.stride[0]};
}

Bytes output_bytes(const Transpose& p) {
  return {p.out.data, p.cols(), p.rows() * p.out.type.size, p.out.stride[0]};
}

__device__ int offset_within(const std::byte* address, int bytes) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % bytes);
}

// The vector that starts `offset` bytes after `first` and ends in `second`:
//
//   aligned to    kWidth         kWidth         kWidth
//                 |    first     |    second    |
//                 |----->[    result    ]       |
//                  offset
//
// Selects whole words by the bits of the offset (2 words, 1 word), then shifts by the remaining
// bytes.
template <int kWords>
__device__ Vector<unsigned, kWords> realign(Vector<unsigned, kWords> first,
                                            Vector<unsigned, kWords> second, unsigned offset) {
  unsigned word[2 * kWords];
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    word[w] = first.at[w];
    word[kWords + w] = second.at[w];
  }
#pragma unroll
  for (int step = kWords / 2; step > 0; step /= 2)
#pragma unroll
    for (int w = 0; w < 2 * kWords - step; ++w)
      word[w] = offset & (4 * step) ? word[w + step] : word[w];
  Vector<unsigned, kWords> result;
#pragma unroll
  for (int w = 0; w < kWords; ++w)
    result.at[w] = __funnelshift_r(word[w], word[w + 1], 8 * (offset % 4));
  return result;
}

#endif

}  // namespace
}  // namespace ado::cuda
