// Passes over the frequencies, and deterministic sums over threads and blocks.
//
// A run processes the frequencies in passes of one or two. In each pass, each block stores its
// partial sums, and a second kernel adds the partial sums of all blocks.
#pragma once

#include <type_traits>

#include "gpp/model.cuh"

namespace ado::cuda::gpp {

inline constexpr int kSumsPerFrequency = 4;    // real and imaginary parts of asx and of ach
inline constexpr int kMaxFrequencies = 2;      // of a pass
inline constexpr unsigned kMaxBlocks = 65535;  // of grids with grid-stride loops
inline constexpr int kMinThreads = 32, kMaxWarps = 32;  // of a block
inline constexpr int kMaxTerms = 32;  // per thread, without compensation; see ThreadSums

// A grid for grid-stride loops: one thread per item, but at most kMaxBlocks blocks.
inline Extent grid_stride(std::int64_t items, Extent block) {
  const std::int64_t blocks = ceil_div(items, static_cast<std::int64_t>(block.volume()));
  return {blocks < kMaxBlocks ? static_cast<unsigned>(blocks) : kMaxBlocks};
}

constexpr std::int64_t volume_of(Extent grid) { return static_cast<std::int64_t>(grid.volume()); }

// Bytes of scratch memory for the partial sums of a pass. A multiple of 64, so that arrays behind
// it are aligned.
constexpr std::size_t partial_bytes(std::int64_t blocks) {
  return static_cast<std::size_t>(blocks) * kMaxFrequencies * kSumsPerFrequency * sizeof(double);
}

// The bytes of partial sums for grid_stride with the smallest block, which gives the most blocks.
inline std::size_t grid_stride_partial_bytes(std::int64_t items) {
  return partial_bytes(grid_stride(items, {kMinThreads}).x);
}

#ifdef __CUDACC__

// Linear indices of the thread in its block and of the block in its grid, for any shape.
__device__ inline int flat_thread() {
  return static_cast<int>((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
}
__device__ inline std::int64_t flat_block() { return block_y() * gridDim.x + block_x(); }

// Frequencies `first` to first + kF - 1, and the partial sums of each block: [sum][block].
template <int kF>
struct Pass {
  std::int64_t first, blocks;
  double* partials;
};

// Sums kCount numbers over a warp. Each lane returns one of the sums: the sum of the number with
// index number_of_lane.
//
// While a lane holds more than one number, it sends half of them to its partner and keeps the other
// half. Eight numbers thus take 4 + 2 + 1 + 1 + 1 = 9 shuffles instead of 8 x 5:
//
//   distance   lanes 0-3    lanes 4-7    lanes 8-11   lanes 12-15  lanes 16-31
//              x0 ... x7    x0 ... x7    x0 ... x7    x0 ... x7    x0 ... x7
//   16         x0 .. x3     x0 .. x3     x0 .. x3     x0 .. x3     x4 .. x7
//    8         x0 x1        x0 x1        x2 x3        x2 x3        (likewise with
//    4         x0           x1           x2           x3            x4 to x7)
//    2, 1      these four lanes add their partial sums of the one number that they hold
template <int kCount>
__device__ double sum_over_warp(double (&x)[kCount]) {
  const int lane = flat_thread() % kWarpSize;
#pragma unroll
  for (int distance = kWarpSize / 2, half = kCount / 2; distance > 0; distance /= 2, half /= 2) {
    const bool upper = lane & distance;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const double given = upper ? x[i] : x[i + half];
      x[i] = (upper ? x[i + half] : x[i]) + __shfl_xor_sync(kAllLanes, given, distance);
    }
    if (half == 0) x[0] += __shfl_xor_sync(kAllLanes, x[0], distance);
  }
  return x[0];
}

template <int kCount>
__device__ int number_of_lane(int lane) {
  return lane / (kWarpSize / kCount);
}

// The sums of a thread: asx and ach. asx has the sign of the published code, which subtracts it at
// the end.
//
// Plain sums of thousands of terms would have larger errors than the terms themselves, in
// particular if the terms are equal. Therefore, after at most kMaxTerms terms per thread, each warp
// adds the sums of its lanes to compensated sums, which are distributed over its lanes.
template <int kF>
class ThreadSums {
 public:
  Complex asx[kF] = {}, ach[kF] = {};

  // All lanes of a warp must call this after each term, also lanes that added no term.
  __device__ void next() {
    if (++terms_ == kMaxTerms) gather();
  }

  static constexpr int kCount = kSumsPerFrequency * kF;

  // All threads of a block must call this once, at the end. The block must consist of whole warps.
  __device__ void store(const Pass<kF>& pass) {
    __shared__ double sums_of_warps[kMaxWarps][kCount];
    gather();
    const int thread = flat_thread();
    const int threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
    // Lanes with the same number store the same sum.
    sums_of_warps[thread / kWarpSize][number_of_lane<kCount>(thread % kWarpSize)] =
        gathered_.total();
    __syncthreads();
    if (thread >= kCount) return;
    CompensatedSum<double> sum;
#pragma unroll 1
    for (int warp = 0; warp < threads / kWarpSize; ++warp) sum.add(sums_of_warps[warp][thread]);
    pass.partials[thread * pass.blocks + flat_block()] = sum.total();
  }

 private:
  __device__ void gather() {
    double parts[kCount];
#pragma unroll
    for (int i = 0; i < kF; ++i) {
      parts[kSumsPerFrequency * i] = asx[i].re;
      parts[kSumsPerFrequency * i + 1] = asx[i].im;
      parts[kSumsPerFrequency * i + 2] = ach[i].re;
      parts[kSumsPerFrequency * i + 3] = ach[i].im;
      asx[i] = ach[i] = {};
    }
    gathered_.add(sum_over_warp(parts));
    terms_ = 0;
  }

  CompensatedSum<double> gathered_;
  int terms_ = 0;
};

// Stores a complete sum. `number` is its index among the sums of the pass.
template <int kF>
__device__ void store_result(const Pass<kF>& pass, int number, double sum, Complex* asx,
                             Complex* ach) {
  const std::int64_t f = pass.first + number / kSumsPerFrequency;
  const int part = number % kSumsPerFrequency;
  const bool screened = part < kSumsPerFrequency / 2, imaginary = part % 2 != 0;
  Complex& to = screened ? asx[f] : ach[f];
  (imaginary ? to.im : to.re) = screened ? 0 - sum : sum;
}

// Sums partial_at(0) to partial_at(count - 1) with all kThreads threads of the block. The order of
// the additions depends only on `count`. Thread 0 returns the sum; the other threads return 0.
template <int kThreads, class PartialAt>
__device__ double sum_of_partials(std::int64_t count, PartialAt partial_at) {
  __shared__ double sums_of_warps[kThreads / kWarpSize];
  CompensatedSum<double> own;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) own.add(partial_at(i));
  double part[1] = {own.total()};
  sums_of_warps[threadIdx.x / kWarpSize] = sum_over_warp(part);
  __syncthreads();
  if (threadIdx.x != 0) return 0;
  CompensatedSum<double> sum;
#pragma unroll 1
  for (const double warp : sums_of_warps) sum.add(warp);
  return sum.total();
}

inline constexpr int kAddingThreads = 1024;

// Each block computes one sum: it adds the partial sums that all blocks of the previous kernels
// stored for it.
template <int kF>
__global__ void __launch_bounds__(kAddingThreads)
    gpp_add_partials(Pass<kF> pass, Complex* asx, Complex* ach) {
  const double* const partials = pass.partials + blockIdx.x * pass.blocks;
  const double sum = sum_of_partials<kAddingThreads>(
      pass.blocks, [=](std::int64_t block) { return partials[block]; });
  if (threadIdx.x == 0) store_result(pass, static_cast<int>(blockIdx.x), sum, asx, ach);
}

// Calls run_pass(pass) for passes of at most kMost frequencies. The partial sums of the blocks of
// `go` are stored at the start of the scratch memory.
template <int kMost, class RunPass>
void for_passes(const Gpp& p, const Launch& go, RunPass run_pass) {
  static_assert(kMost <= kMaxFrequencies);
  const auto pass_of = [&]<int kF>(std::int64_t first, std::integral_constant<int, kF>) {
    return Pass<kF>{.first = first,
                    .blocks = volume_of(go.grid),
                    .partials = reinterpret_cast<double*>(go.scratch)};
  };
  std::int64_t first = 0;
  for (; first + kMost <= p.frequencies(); first += kMost)
    run_pass(pass_of(first, std::integral_constant<int, kMost>{}));
  if (first < p.frequencies()) run_pass(pass_of(first, std::integral_constant<int, 1>{}));
}

// In each pass, `launch_pass` launches kernels whose blocks store partial sums. Another kernel then
// adds these partial sums.
template <int kMost, class LaunchPass>
void run_passes(const Gpp& p, const Launch& go, LaunchPass launch_pass) {
  for_passes<kMost>(p, go, [&]<int kF>(const Pass<kF>& pass) {
    launch_pass(pass);
    Launch adding = go;
    adding.grid = {kSumsPerFrequency * kF};
    adding.block = {kAddingThreads};
    adding.shared_bytes = 0;
    launch(adding, gpp_add_partials<kF>, pass, p.asx.as<Complex>(), p.ach.as<Complex>());
  });
}

// Runs passes with the kernel kOne for one frequency and kTwo for two. Their parameters are the
// operands, the pass and `others`.
template <auto kOne, auto kTwo, class... Others>
void run_in_passes(const Gpp& p, const Launch& go, const Others&... others) {
  run_passes<2>(p, go, [&]<int kF>(const Pass<kF>& pass) {
    if constexpr (kF == 1)
      launch(go, kOne, inputs_of(p), pass, others...);
    else
      launch(go, kTwo, inputs_of(p), pass, others...);
  });
}

#endif

}  // namespace ado::cuda::gpp
