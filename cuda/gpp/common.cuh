// What all kernels of gpp share: complex numbers, the operands, and sums that come out the same
// each time.
//
// A run takes the frequencies in passes of one or two. In a pass each block writes what it has
// added up, and a second kernel adds up the blocks.
#pragma once

#include <type_traits>

#include "common/grid.cuh"
#include "core/compensated.hpp"
#include "routines/gpp.hpp"

namespace ado::cuda::gpp {

inline constexpr int kNumbers = 4;              // of a frequency: both parts of asx and of ach
inline constexpr int kMostFrequencies = 2;      // of a pass
inline constexpr unsigned kMostBlocks = 65535;  // of grids whose threads take items in turns
inline constexpr int kWarp = 32, kMostWarps = 32;

// So many blocks of `block` threads that each item has its own, but not more than kMostBlocks.
inline Extent grid_in_turns(std::int64_t items, Extent block) {
  const std::int64_t blocks = ceil_div(items, static_cast<std::int64_t>(block.volume()));
  return {blocks < kMostBlocks ? static_cast<unsigned>(blocks) : kMostBlocks};
}

constexpr std::int64_t volume_of(Extent grid) { return static_cast<std::int64_t>(grid.volume()); }

// Scratch for what so many blocks add up in a pass; a multiple of 64, so that what follows it is
// aligned.
constexpr std::size_t bytes_of_partials(std::int64_t blocks) {
  return static_cast<std::size_t>(blocks) * kMostFrequencies * kNumbers * sizeof(double);
}

// The same for grid_in_turns with any block.
inline std::size_t bytes_of_partials_in_turns(std::int64_t items) {
  return bytes_of_partials(grid_in_turns(items, {kWarp}).x);
}

// What a kernel executes in each (band, igp, ig, f), where the band is occupied and where it is
// not, and once a pass of so many frequencies in each (band, igp, ig). Sums over threads and blocks
// are not counted.
struct Counts {
  int occupied = 0, other = 0, pair = 0;
};
struct Work {
  Counts flops, instructions;
  int frequencies = 1;
};

inline double work_of(const Gpp& p, const Counts& counts, int frequencies) {
  const std::int64_t passes = ceil_div(p.frequencies(), frequencies);
  return p.flops_of(counts.occupied, counts.other, counts.pair * static_cast<double>(passes));
}

template <Work kWork>
double flops_of(const Gpp& p) {
  return work_of(p, kWork.flops, kWork.frequencies);
}
template <Work kWork>
double instructions_of(const Gpp& p) {
  return work_of(p, kWork.instructions, kWork.frequencies);
}

// Loads and stores 16 bytes at a time.
struct alignas(16) Complex {
  double re, im;

  friend ADO_ANYWHERE Complex operator-(Complex x) { return {-x.re, -x.im}; }
  friend ADO_ANYWHERE Complex operator+(Complex x, Complex y) { return {x.re + y.re, x.im + y.im}; }
  friend ADO_ANYWHERE Complex operator*(double s, Complex x) { return {s * x.re, s * x.im}; }
  friend ADO_ANYWHERE Complex operator*(Complex x, Complex y) {
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
  }
  ADO_ANYWHERE Complex& operator+=(Complex x) { return *this = *this + x; }

  friend ADO_ANYWHERE Complex conj(Complex x) { return {x.re, -x.im}; }
  friend ADO_ANYWHERE double norm(Complex x) { return x.re * x.re + x.im * x.im; }
};

#ifdef __CUDACC__

// x^2 - w^2 to a few u of its magnitude also where x is near w or -w.
__device__ inline Complex difference_of_squares(double x, Complex w) {
  return {fma(x - w.re, x + w.re, w.im * w.im), -2 * w.re * w.im};
}

// The problem as kernels see it.
struct View {
  const Complex *wtilde, *i_eps, *aqsn, *aqsm;
  const double *wx, *vcoul, *occ;
  std::int64_t bands, rows, columns, frequencies;  // rows of igp, columns of ig
  double limit_one, limit_two, sexcut;
};

inline View view_of(const Gpp& p) {
  return {.wtilde = p.wtilde.as<const Complex>(),
          .i_eps = p.i_eps.as<const Complex>(),
          .aqsn = p.aqsn.as<const Complex>(),
          .aqsm = p.aqsm.as<const Complex>(),
          .wx = p.wx.as<const double>(),
          .vcoul = p.vcoul.as<const double>(),
          .occ = p.occ.as<const double>(),
          .bands = p.bands(),
          .rows = p.rows(),
          .columns = p.columns(),
          .frequencies = p.frequencies(),
          .limit_one = p.limit_one(),
          .limit_two = p.limit_two(),
          .sexcut = p.sexcut};
}

// Of a block or a grid of any shape.
__device__ inline int flat_thread() {
  return static_cast<int>((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
}
__device__ inline std::int64_t flat_block() { return block_y() * gridDim.x + block_x(); }

// Frequencies `first` to first + kF - 1, and what each block has added up of them: number by
// number, block by block.
template <int kF>
struct Pass {
  std::int64_t first, blocks;
  double* partials;
};

// Numbers from all lanes of a warp, added up: which, tells number_of_lane. Lanes hand over half of
// what they have as long as that is more than one number, so eight of them take nine shuffles.
template <int kCount>
__device__ double sum_over_warp(double (&x)[kCount]) {
  const int lane = flat_thread() % kWarp;
#pragma unroll
  for (int distance = kWarp / 2, half = kCount / 2; distance > 0; distance /= 2, half /= 2) {
    const bool upper = lane & distance;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const double given = upper ? x[i] : x[i + half];
      x[i] = (upper ? x[i + half] : x[i]) + __shfl_xor_sync(0xffffffffU, given, distance);
    }
    if (half == 0) x[0] += __shfl_xor_sync(0xffffffffU, x[0], distance);
  }
  return x[0];
}

template <int kCount>
__device__ int number_of_lane(int lane) {
  return lane / (kWarp / kCount);
}

// What a thread adds up: asx, as the published code has it (it is subtracted in the end), and ach.
//
// Sums of thousands of terms would lose more than the terms do, equal ones most of all. Therefore
// whole warps gather what they have after at most kRun terms a thread, and keep it in compensated
// sums, of which each lane has one.
template <int kF>
class Sums {
 public:
  Complex asx[kF] = {}, ach[kF] = {};

  // All lanes of a warp, after each term, whether or not it was one of theirs.
  __device__ void next() {
    if (++terms_ == kRun) gather();
  }

  // All lanes of a warp.
  __device__ void gather() {
    double parts[kCount];
#pragma unroll
    for (int i = 0; i < kF; ++i) {
      parts[kNumbers * i] = asx[i].re;
      parts[kNumbers * i + 1] = asx[i].im;
      parts[kNumbers * i + 2] = ach[i].re;
      parts[kNumbers * i + 3] = ach[i].im;
      asx[i] = ach[i] = {};
    }
    gathered_.add(sum_over_warp(parts));
    terms_ = 0;
  }

  // All threads of a block, which have whole warps; once, at the end.
  __device__ void store(const Pass<kF>& pass) {
    __shared__ double found[kMostWarps][kCount];
    gather();
    const int thread = flat_thread();
    const int threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
    // Lanes with the same number have the same sum.
    found[thread / kWarp][number_of_lane<kCount>(thread % kWarp)] = gathered_.total();
    __syncthreads();
    if (thread >= kCount) return;
    CompensatedSum<double> sum;
#pragma unroll 1
    for (int warp = 0; warp < threads / kWarp; ++warp) sum.add(found[warp][thread]);
    pass.partials[thread * pass.blocks + flat_block()] = sum.total();
  }

 private:
  static constexpr int kCount = kNumbers * kF;
  static constexpr int kRun = 32;

  CompensatedSum<double> gathered_;
  int terms_ = 0;
};

inline constexpr int kAddingThreads = 1024;

// A block adds up one number of a frequency, of all blocks.
template <int kF>
__global__ void __launch_bounds__(kAddingThreads)
    gpp_add_partials(Pass<kF> pass, Complex* asx, Complex* ach) {
  __shared__ double found[kAddingThreads / kWarp];
  const double* const partials = pass.partials + blockIdx.x * pass.blocks;
  CompensatedSum<double> own;
#pragma unroll 4
  for (std::int64_t block = threadIdx.x; block < pass.blocks; block += kAddingThreads)
    own.add(partials[block]);
  double part[1] = {own.total()};
  found[threadIdx.x / kWarp] = sum_over_warp(part);
  __syncthreads();
  if (threadIdx.x != 0) return;
  CompensatedSum<double> sum;
#pragma unroll 1
  for (const double warp : found) sum.add(warp);
  const int number = static_cast<int>(blockIdx.x) % kNumbers;
  const std::int64_t f = pass.first + blockIdx.x / kNumbers;
  const bool screened = number < kNumbers / 2, imaginary = number % 2 != 0;
  Complex& to = screened ? asx[f] : ach[f];
  (imaginary ? to.im : to.re) = screened ? 0 - sum.total() : sum.total();
}

// Has `launch_pass` start a kernel of one block per partial for each pass of at most kMost
// frequencies, and adds up what its blocks write. The partials are what scratch begins with.
template <int kMost, class LaunchPass>
void run_passes(const Gpp& p, const Launch& go, LaunchPass launch_pass) {
  static_assert(kMost <= kMostFrequencies);
  const auto run_pass = [&]<int kF>(std::int64_t first, std::integral_constant<int, kF>) {
    const Pass<kF> pass = {.first = first,
                           .blocks = volume_of(go.grid),
                           .partials = reinterpret_cast<double*>(go.scratch)};
    launch_pass(pass);
    Launch adding = go;
    adding.grid = {kNumbers * kF};
    adding.block = {kAddingThreads};
    adding.shared_bytes = 0;
    launch(adding, gpp_add_partials<kF>, pass, p.asx.as<Complex>(), p.ach.as<Complex>());
  };
  std::int64_t first = 0;
  for (; first + kMost <= p.frequencies(); first += kMost)
    run_pass(first, std::integral_constant<int, kMost>{});
  if (first < p.frequencies()) run_pass(first, std::integral_constant<int, 1>{});
}

// Of a kernel for one frequency and the same for two.
template <void (*kOne)(View, Pass<1>), void (*kTwo)(View, Pass<2>)>
void run_in_passes(const Gpp& p, const Launch& go) {
  run_passes<2>(p, go, [&]<int kF>(const Pass<kF>& pass) {
    if constexpr (kF == 1)
      launch(go, kOne, view_of(p), pass);
    else
      launch(go, kTwo, view_of(p), pass);
  });
}

#endif

}  // namespace ado::cuda::gpp
