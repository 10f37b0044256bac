// Transpose, engine: linear_index, for small matrices. The time of a small problem is the latency
// of one load, one store, and the instructions before them, so the kernel has neither a tile nor
// a barrier, and few instructions.
#pragma once

#include <bit>

#include "transpose/matrix.cuh"

namespace ado::cuda {
namespace {

// Distances between elements in memory, in elements: in the order of the index, elements follow
// each other along the minor dimension first.
struct Strides {
  unsigned minor, major;
};

// Divides indices below 2^31 by a number that is known at the launch: a multiplication by the
// reciprocal, rounded up. `shift` is the binary logarithm of the number, rounded up, minus 1.
struct Divisor {
  unsigned number, reciprocal, shift;
};
Divisor divisor(std::int64_t divisor) {
  const auto number = static_cast<unsigned>(std::max(divisor, std::int64_t{1}));
  const int shift = number > 2 ? static_cast<int>(std::bit_width(number - 1)) - 1 : 0;
  const std::uint64_t scale = std::uint64_t{1} << (32 + shift);
  return {number, static_cast<unsigned>((scale + number - 1) / number),
          static_cast<unsigned>(shift)};
}

// The shorter side is the minor dimension, so that accesses along the longer rows are contiguous.
// All elements of a single row or column are along the minor dimension.
bool rows_are_minor(const Transpose& p) {
  return p.cols() == 1 || (p.rows() != 1 && p.rows() <= p.cols());
}

const char* why_not_linear_index(const Transpose& p) {
  constexpr std::int64_t kMax = std::int64_t{1} << 31;
  if (p.in_place())
    return "out is a, so blocks would overwrite elements that other blocks have not read yet; use "
           "`in_place`";
  if (p.a.elements() >= kMax) return "a has 2^31 elements or more";
  return std::max(p.a.stride[0], p.out.stride[0]) >= kMax ? "rows are 2 GiB or more apart"
                                                          : nullptr;
}

#ifdef __CUDACC__

// The parameters occupy one line of the constant cache.
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

// As transpose_linear_index, with kCount elements per thread that are contiguous in out (kOut) or
// in a.
template <class T, int kCount, bool kOut>
__global__ void transpose_linear_units(const T* a, T* out, unsigned elements, Divisor minor,
                                       Strides other) {
  const unsigned first = (blockIdx.x * blockDim.x + threadIdx.x) * kCount;
  if (first >= elements) return;
  unsigned major = __umulhi(first, minor.reciprocal) >> minor.shift;
  unsigned rest = first - major * minor.number;
  using Unit = Vector<T, kCount>;
  Unit unit;
  const auto each = [&](auto move) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (first + k < elements)
        move(k, std::uint64_t{major} * other.major + std::uint64_t{rest} * other.minor);
      if (++rest == minor.number) {
        rest = 0;
        ++major;
      }
    }
  };
  const bool whole = first + kCount <= elements;
  if constexpr (kOut) {
    each([&](int k, std::uint64_t at) { unit.at[k] = a[at]; });
    if (whole) {
      *reinterpret_cast<Unit*>(out + first) = unit;
    } else {
      for (int k = 0; k < kCount && first + k < elements; ++k) out[first + k] = unit.at[k];
    }
  } else {
    if (whole) {
      unit = *reinterpret_cast<const Unit*>(a + first);
    } else {
      for (int k = 0; k < kCount && first + k < elements; ++k) unit.at[k] = a[first + k];
    }
    each([&](int k, std::uint64_t at) { out[at] = unit.at[k]; });
  }
}

#endif

// Exploration: bytes per thread.
int unit_of(const Transpose& p) {
  const char* e = getenv("ADO_UNIT");
  const int unit = e == nullptr ? 0 : atoi(e);
  const Array& m = rows_are_minor(p) ? p.out : p.a;
  return unit > p.a.type.size && m.packed() && starts_at_vector(m.data, unit) ? unit : p.a.type.size;
}

}  // namespace
}  // namespace ado::cuda
