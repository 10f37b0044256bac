// The kernels of "Boosting Application Performance with GPU Memory Access Tuning", in its order.
//
// The post simplifies its application to one block, so its kernels launch one or two blocks. There
// are three loops, and whole_device has the scalar loop with one thread per point. Kernels with the
// same loop differ only in their launch bounds, and so in the number of registers that the compiler
// may use for loads in flight.
#pragma once

#include "common/grid.cuh"
#include "common/vector.cuh"
#include "routines/max_plus.hpp"

namespace ado::cuda {

inline constexpr int kOneBlockThreads = 1024;
inline constexpr int kTwoBlocksThreads = 512;  // per block, in the variants with two blocks

// Returns true if all rows of big, and out, start at multiples of a vector.
inline bool rows_aligned(const MaxPlus& p) {
  return starts_at_vector(p.big.data) && starts_at_vector(p.out.data) &&
         p.points() * p.big.type.size % kVectorBytes == 0;
}

#ifdef __CUDACC__

// All arrays are packed in row-major order.
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

// Terms per iteration of an unrolled loop.
inline constexpr int kUnrolledTerms = 8;

// The stride of a grid-stride loop along x.
inline __device__ std::int64_t grid_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

// --- First step of the post: wide loads ---

// one_block: one point per thread and iteration of the grid-stride loop, one element per load.
template <class T>
__device__ void max_plus_scalar_loads(const MaxPlusOperands<T>& p) {
  for (std::int64_t point = thread_x(); point < p.points; point += grid_threads()) {
    T best = 0;
#pragma unroll kUnrolledTerms
    for (std::int64_t k = 0; k < p.terms; ++k)
      best = larger(best, p.big[k * p.points + point] + p.small[k]);
    p.out[point] = best;
  }
}

template <class T>
__global__ void __launch_bounds__(kOneBlockThreads) max_plus_one_block(MaxPlusOperands<T> p) {
  max_plus_scalar_loads(p);
}

// vector_load_small: all threads of a warp load the same element of small. A 16-byte load also
// loads the next elements (float64: two terms per load):
//
//   small   | k  k+1 | k+2 k+3 | ...       one vector load per two terms
//   big     row k    | . . . point . . .   one scalar load per term
//           row k+1  | . . . point . . .
template <class T>
__device__ void max_plus_vector_loads_of_small(const MaxPlusOperands<T>& p) {
  constexpr int kLength = kVectorLength<T>;
  for (std::int64_t point = thread_x(); point < p.points; point += grid_threads()) {
    const T* const column = p.big + point;
    // If small is not aligned to vectors, all its terms are loaded one by one. The number is
    // computed inside the loop on purpose: if it is hoisted, nvcc 13.0 generates a third more
    // instructions for sm_90.
    const std::int64_t vector_terms = starts_at_vector(p.small) ? p.terms / kLength * kLength : 0;
    T best = 0;
#pragma unroll(kUnrolledTerms / kLength)
    for (std::int64_t k = 0; k < vector_terms; k += kLength) {
      const auto small = *reinterpret_cast<const WideVector<T>*>(p.small + k);
#pragma unroll
      for (int i = 0; i < kLength; ++i)
        best = larger(best, column[(k + i) * p.points] + small.at[i]);
    }
#pragma unroll 1
    for (std::int64_t k = vector_terms; k < p.terms; ++k)
      best = larger(best, column[k * p.points] + p.small[k]);
    p.out[point] = best;
  }
}

template <class T>
__global__ void __launch_bounds__(kOneBlockThreads)
    max_plus_vector_load_small(MaxPlusOperands<T> p) {
  max_plus_vector_loads_of_small(p);
}

// vector_load_both: a thread computes the neighbouring points of one vector of big. All rows must
// start at multiples of a vector (float64: two points per thread):
//
//   row k   | thread 0 | thread 1 | thread 2 | ...   16 bytes per thread and load,
//   row k+1 | thread 0 | thread 1 | thread 2 | ...   512 contiguous bytes per warp
template <class T>
__device__ void max_plus_vector_loads_of_both(const MaxPlusOperands<T>& p) {
  constexpr int kLength = kVectorLength<T>;
  using Points = WideVector<T>;
  const std::int64_t row_vectors = p.points * sizeof(T) / sizeof(Points);
  for (std::int64_t vector = thread_x(); vector < row_vectors; vector += grid_threads()) {
    const Points* const column = reinterpret_cast<const Points*>(p.big) + vector;
    const std::int64_t pitch = p.points / kLength;  // from row to row, in vectors
    const std::int64_t vector_terms = starts_at_vector(p.small) ? p.terms / kLength * kLength : 0;
    Points best = {};
    const auto add = [&](std::int64_t k, T term) {
      const Points points = column[k * pitch];
#pragma unroll
      for (int i = 0; i < kLength; ++i) best.at[i] = larger(best.at[i], points.at[i] + term);
    };
#pragma unroll(kUnrolledTerms / kLength)
    for (std::int64_t k = 0; k < vector_terms; k += kLength) {
      const auto small = *reinterpret_cast<const WideVector<T>*>(p.small + k);
#pragma unroll
      for (int i = 0; i < kLength; ++i) add(k + i, small.at[i]);
    }
#pragma unroll 1
    for (std::int64_t k = vector_terms; k < p.terms; ++k) add(k, p.small[k]);
    reinterpret_cast<Points*>(p.out)[vector] = best;
  }
}

template <class T>
__global__ void __launch_bounds__(kOneBlockThreads)
    max_plus_vector_load_both(MaxPlusOperands<T> p) {
  max_plus_vector_loads_of_both(p);
}

// --- Second and third step of the post: registers and launch bounds ---
//
// With a bound of 1024 threads alone, up to 64 registers per thread are possible. For float64 on
// sm_90, the compiler uses only 32 to 44 of them, so loads wait until previously loaded values have
// been used (the second step of the post). With launch bounds for one block per multiprocessor, the
// same loops use 56 to 64 registers, so more loads are in flight, and vector loads gain nothing.

template <class T>
__global__ void __launch_bounds__(kOneBlockThreads, 1)
    max_plus_one_block_bounded(MaxPlusOperands<T> p) {
  max_plus_scalar_loads(p);
}

template <class T>
__global__ void __launch_bounds__(kOneBlockThreads, 1)
    max_plus_vector_load_small_bounded(MaxPlusOperands<T> p) {
  max_plus_vector_loads_of_small(p);
}

template <class T>
__global__ void __launch_bounds__(kOneBlockThreads, 1)
    max_plus_vector_load_both_bounded(MaxPlusOperands<T> p) {
  max_plus_vector_loads_of_both(p);
}

// two_blocks: half the threads per block, the same number of registers per thread.
template <class T>
__global__ void __launch_bounds__(kTwoBlocksThreads, 2) max_plus_two_blocks(MaxPlusOperands<T> p) {
  max_plus_scalar_loads(p);
}

// --- After the post ---

// whole_device: one thread per point, so every multiprocessor has work.
template <class T>
__global__ void __launch_bounds__(kTwoBlocksThreads, 2)
    max_plus_whole_device(MaxPlusOperands<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  T best = 0;
#pragma unroll kUnrolledTerms
  for (std::int64_t k = 0; k < p.terms; ++k)
    best = larger(best, p.big[k * p.points + point] + p.small[k]);
  p.out[point] = best;
}

#endif

}  // namespace ado::cuda
