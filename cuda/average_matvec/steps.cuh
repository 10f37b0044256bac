// The kernels of the posts, in their order. In parentheses: the names in the posts.
//
// In the first four, a block averages the vectors of a set and multiplies the average by the
// matrix, so the whole matrix is read for every set. Such a block has kSetThreads threads, one per
// element of the average, so L is at most kSetThreads.
//
// The posts add float32 numbers in plain sums and test 1024 samples, which are 1 or 2. Here, sums
// are compensated, so that the error does not grow with M.
#pragma once

#include "common/grid.cuh"
#include "core/compensated.hpp"
#include "routines/average_matvec.hpp"

namespace ado::cuda {

inline constexpr int kSetThreads = 1024;
inline constexpr int kRowThreads = 256, kRowWarps = kRowThreads / kWarpSize;

#ifdef __CUDACC__

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

// Tree reduction: halves the number of values until values[0] is the total. Only thread 0 may read
// values[0] without a barrier.
//
//   values   0 1 2 3 4 5 6 7
//   half 4   0 1 2 3 <- 4 5 6 7
//   half 2   0 1 <- 2 3
//   half 1   0 <- 1
template <class T>
__device__ void tree_reduction(T (&values)[kSetThreads], int thread) {
  for (int half = kSetThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) values[thread] += values[thread + half];
  }
}

// one_block (gpu_version1): one block for all sets, one thread per element. Neighbouring threads
// read samples that are one row apart, which is uncoalesced.
template <class T>
__global__ void __launch_bounds__(kSetThreads)
    average_matvec_one_block(AverageMatvecOperands<T> p) {
  __shared__ T product[kSetThreads];
  const int element = threadIdx.x;
  for (std::int64_t set = 0; set < p.sets; ++set) {
    T average = 0;
    if (element < p.length)
      average =
          sum_of_samples(p.samples_of(set, element), p.samples, 0, 1) / static_cast<T>(p.samples);
    for (std::int64_t row = 0; row < p.length; ++row) {
      __syncthreads();  // the products of the previous row have been added
      product[element] = element < p.length ? average * p.matrix[row * p.length + element] : T(0);
      tree_reduction(product, element);
      if (element == 0) p.out[row * p.sets + set] = product[0];
    }
  }
}

// block_per_set (gpu_version2): one block per set, because the sets are independent. If there are
// more sets than blocks in the largest grid, a block processes several.
template <class T>
__global__ void __launch_bounds__(kSetThreads)
    average_matvec_block_per_set(AverageMatvecOperands<T> p) {
  __shared__ T product[kSetThreads];
  const int element = threadIdx.x;
  for (std::int64_t set = blockIdx.x; set < p.sets; set += gridDim.x) {
    T average = 0;
    if (element < p.length)
      average =
          sum_of_samples(p.samples_of(set, element), p.samples, 0, 1) / static_cast<T>(p.samples);
    for (std::int64_t row = 0; row < p.length; ++row) {
      __syncthreads();  // the products of the previous row have been added
      product[element] = element < p.length ? average * p.matrix[row * p.length + element] : T(0);
      tree_reduction(product, element);
      if (element == 0) p.out[row * p.sets + set] = product[0];
    }
  }
}

// warp_average (gpu_version3): one warp averages one element. Its lanes read neighbouring samples
// (coalesced), and their sums are added by shuffles. The block has 32 warps of 32 lanes.
//
//   samples of element e    0     1     2  ...   31     32    33  ...
//   read by              lane 0  lane 1 ...  lane 31  lane 0  lane 1 ...   of warp e % 32
template <class T>
__device__ void average_by_warps(const AverageMatvecOperands<T>& p, std::int64_t set, T* average) {
  const int lane = threadIdx.x, warp = threadIdx.y;
  for (int element = warp; element < p.length; element += kSetThreads / kWarpSize) {
    const T sum =
        sum_over_lanes(sum_of_samples(p.samples_of(set, element), p.samples, lane, kWarpSize));
    if (lane == 0) average[element] = sum / static_cast<T>(p.samples);
  }
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(kSetThreads)
    average_matvec_warp_average(AverageMatvecOperands<T> p) {
  __shared__ T averages[kSetThreads], product[kSetThreads];
  const int element = threadIdx.y * kWarpSize + threadIdx.x;
  for (std::int64_t set = blockIdx.x; set < p.sets; set += gridDim.x) {
    average_by_warps(p, set, averages);
    const T average = element < p.length ? averages[element] : T(0);
    for (std::int64_t row = 0; row < p.length; ++row) {
      __syncthreads();  // the products of the previous row have been added
      product[element] = element < p.length ? average * p.matrix[row * p.length + element] : T(0);
      tree_reduction(product, element);
      if (element == 0) p.out[row * p.sets + set] = product[0];
    }
  }
}

// warp_shuffle (gpu_version4): the products of a row are also added by shuffles: first within each
// warp, then the sums of the 32 warps within the first warp. Two barriers per row instead of
// eleven.
template <class T>
__global__ void __launch_bounds__(kSetThreads)
    average_matvec_warp_shuffle(AverageMatvecOperands<T> p) {
  __shared__ T averages[kSetThreads], warp_sums[kSetThreads / kWarpSize];
  const int lane = threadIdx.x, warp = threadIdx.y, element = warp * kWarpSize + lane;
  for (std::int64_t set = blockIdx.x; set < p.sets; set += gridDim.x) {
    average_by_warps(p, set, averages);
    const bool exists = element < p.length;
    const T average = exists ? averages[element] : T(0);
    for (std::int64_t row = 0; row < p.length; ++row) {
      const T sum = sum_over_lanes(exists ? average * p.matrix[row * p.length + element] : T(0));
      if (lane == 0) warp_sums[warp] = sum;
      __syncthreads();
      if (warp == 0) {
        const T total = sum_over_lanes(warp_sums[lane]);
        if (lane == 0) p.out[row * p.sets + set] = total;
      }
      __syncthreads();  // the first warp has read the sums, so they may be overwritten
    }
  }
}

// average_then_gemm (gpu_version5): averages only, with one warp per row for the rows of all sets.
// The products of all sets then form one matrix product, which cuBLAS computes and which reads the
// matrix a few times instead of once per set. A grid-stride loop covers more rows than a grid has
// warps.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    average_matvec_average(AverageMatvecOperands<T> p, T* averages) {
  const int lane = threadIdx.x % kWarpSize;
  const std::int64_t rows = p.sets * p.length;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kRowWarps; first < rows;
       first += std::int64_t{gridDim.x} * kRowWarps) {
    const std::int64_t row = first + threadIdx.x / kWarpSize;
    if (row >= rows) return;
    const T sum =
        sum_over_lanes(sum_of_samples(p.vectors + row * p.samples, p.samples, lane, kWarpSize));
    if (lane == 0) averages[row] = sum / static_cast<T>(p.samples);
  }
}

#endif

}  // namespace ado::cuda
