// Transpose, engine: linear_index, for small matrices. The time of a small problem is the latency
// of one load, one store, and the instructions before them, so the kernel has neither a tile nor
// a barrier, and few instructions.
#pragma once

#include <bit>

#include "transpose/matrix.cuh"

namespace ado::cuda {
namespace {

// Distances between elements in memory, in elements. Consecutive indices follow the minor dimension
// first.
struct Strides {
  unsigned minor, major;
};

// Divides indices below 2^31 by a number that is known at the launch: a multiplication by the
// reciprocal, rounded up. `shift` is the binary logarithm of the number, rounded up, minus 1. The
// reciprocal of 1 does not fit in 32 bits and becomes 0, so all quotients are 0.
struct Divisor {
  unsigned number, reciprocal, shift;
};
inline Divisor divisor(std::int64_t length) {
  const auto number = static_cast<unsigned>(std::max(length, std::int64_t{1}));
  const int shift = number > 2 ? std::bit_width(number - 1) - 1 : 0;
  const std::uint64_t scale = std::uint64_t{1} << (32 + shift);
  return {number, static_cast<unsigned>((scale + number - 1) / number),
          static_cast<unsigned>(shift)};
}

// Returns true if the index follows the rows of out, so that stores are contiguous, and false if it
// follows the rows of a. A warp then stores parts of as many rows as a has columns. With few
// columns the parts fill sectors. With more, loads that use a part of each sector cost less than
// such stores. A single row or column is followed as a whole.
constexpr std::int64_t kColsToFollow = 16;
inline bool follows_out(const Transpose& p) {
  if (p.rows() == 1 || p.cols() == 1) return p.cols() == 1;
  return p.rows() <= p.cols() || p.cols() > kColsToFollow;
}

#ifdef __CUDACC__

// One thread per element. The parameters occupy one line of the constant cache.
template <class T>
__global__ void transpose_linear_index(const T* a, T* out, unsigned elements, Divisor minor,
                                       Strides from, Strides to) {
  const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= elements) return;
  const unsigned major = __umulhi(index, minor.reciprocal) >> minor.shift;
  const unsigned rest = index - major * minor.number;
  const auto at = [&](Strides strides) {
    return std::uint64_t{major} * strides.major + std::uint64_t{rest} * strides.minor;
  };
  out[at(to)] = a[at(from)];
}

#endif

}  // namespace
}  // namespace ado::cuda
