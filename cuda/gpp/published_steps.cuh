// Steps: the OpenACC steps of the post and the paper, one variant per step, in the order of this
// file. The post has a baseline and four steps. The paper's code (gpp0.f90 to gpp8.f90) has another
// order.
//
//   variant               post          paper   change
//   collapse3             baseline      gpp0    one loop over all items instead of three loops
//   bands_inside          step 1        gpp4    the loop over bands inside a thread
//   frequency_outside     step 2        gpp5    one launch per frequency
//   reciprocal            step 3        gpp1    reciprocals instead of complex divisions
//   squared_moduli        step 3        gpp3    squares instead of absolute values
//   simplified_branches                 gpp2    fewer branches
//   blocked                             gpp6    cache blocking
//   swapped_indices                     gpp7    bands contiguous in wx and aqsm
//   large_blocks          step 4        gpp8    another block size
//
// They follow the publications literally, even where that is slow. There are two exceptions:
// differences with cancellation are computed in another way (model.cuh), and long sums are
// compensated (passes.cuh).
//
// The problem si214 in the comments of this folder has 800 bands, 1385 igp, 11075 ig and 2
// frequencies.
#pragma once

#include <algorithm>

#include "gpp/passes.cuh"

namespace ado::cuda::gpp {

// The default of OpenACC compilers, and the largest block before `large_blocks`.
inline constexpr int kThreads = 128, kMaxThreads = 256;
inline constexpr int kLargeThreads = 512;

// The numbers of blocks into which `blocked` splits the bands and ig, as in the paper's code.
struct CacheBlocks {
  std::int64_t bands, columns;
};
inline CacheBlocks cache_blocks_of(const Gpp& p) {
  constexpr std::int64_t kBandBlocks = 64, kColumnBlocks = 128;
  return {std::min(p.bands(), kBandBlocks), std::min(p.columns(), kColumnBlocks)};
}
inline std::int64_t blocked_triples_of(const Gpp& p) {
  const CacheBlocks blocks = cache_blocks_of(p);
  return blocks.bands * p.rows() * blocks.columns;
}

inline std::size_t scratch_of_transposed(const Gpp& p) {
  return grid_stride_partial_bytes(blocked_triples_of(p)) +
         static_cast<std::size_t>(p.aqsm.bytes() + p.wx.bytes());
}

#ifdef __CUDACC__

// collapse3: the three loops are collapsed into one, with one item per thread and iteration. Each
// item loads all its operands and evaluates the formulas with complex divisions and absolute
// values.
template <int kF>
__global__ void __launch_bounds__(kMaxThreads) gpp_collapse3(Inputs p, Pass<kF> pass) {
  ThreadSums<kF> sums;
  const std::int64_t pairs = p.rows * p.columns, triples = p.bands * pairs;
  for (std::int64_t first = block_x() * blockDim.x; first < triples;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    if (const std::int64_t item = first + threadIdx.x; item < triples) {
      const std::int64_t ig = item % p.columns, n_igp = item / p.columns;
      const std::int64_t igp = n_igp % p.rows, n = n_igp / p.rows;
      const std::int64_t pair = igp * p.columns + ig;
      const Complex w = p.wtilde[pair], eps = p.i_eps[pair];
      const Complex aqsn = p.aqsn[n * p.columns + ig];
      const double occ = p.occ[n], vcoul = p.vcoul[igp];
      const Complex m = conj(p.aqsm[n * p.rows + igp]) * aqsn;
#pragma unroll
      for (int i = 0; i < kF; ++i) {
        const double x = p.wx[n * p.frequencies + pass.first + i];
        const Complex wdiff = x - w, delw = w / wdiff;
        const double delwr = norm(delw);
        Complex ssx, sch;
        if (norm(wdiff) > p.limit_two && delwr < p.limit_one) {
          ssx = w * w * eps / difference_of_squares(x, w);
          sch = delw * eps;
        } else if (delwr > Gpp::kTolZero) {
          ssx = -(w * w * eps) / (2 * (w * (x + w)));
          sch = {};
        } else {
          ssx = sch = {};
        }
        // If x = -w, ssx is NaN, and the comparison with the cut-off is false. For an empty band,
        // ssx must be set to 0, because 0 times NaN is NaN.
        const bool within_cutoff = abs(ssx) <= p.sexcut * abs(eps);
        if (!within_cutoff & ((x < 0) | (occ == 0))) ssx = {};
        sums.asx[i] += vcoul * occ * ssx * m;
        sums.ach[i] += 0.5 * (vcoul * sch * m);
      }
    }
    sums.next();
  }
  sums.store(pass);
}

// bands_inside: a thread keeps its (igp, ig) for all bands. aqsn is the only operand in the loop
// that differs between lanes.

// ssx and sch of one (band, igp, ig, frequency), without the weights and the cut-off.
struct Term {
  Complex ssx, sch;
};

// The arithmetic of collapse3.
__device__ inline Term term_as_written(const Inputs& p, double x, Complex w, Complex eps) {
  const Complex wdiff = x - w, delw = w / wdiff;
  const double delwr = norm(delw);
  if (norm(wdiff) > p.limit_two && delwr < p.limit_one)
    return {.ssx = w * w * eps / difference_of_squares(x, w), .sch = delw * eps};
  if (delwr > Gpp::kTolZero) return {.ssx = -(w * w * eps) / (2 * (w * (x + w))), .sch = {}};
  return {};
}

template <int kF>
__device__ void add_pairs(const Inputs& p, const Pass<kF>& pass) {
  ThreadSums<kF> sums;
  const std::int64_t pairs = p.rows * p.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < pairs;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t pair = first + threadIdx.x, igp = pair / p.columns, ig = pair % p.columns;
    const bool own = pair < pairs;
    const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
    for (std::int64_t n = 0; n < p.bands; ++n) {
      if (own) {
        const Complex aqsn = p.aqsn[n * p.columns + ig];
        const double occ = p.occ[n], vcoul = p.vcoul[igp];
        const Complex m = conj(p.aqsm[n * p.rows + igp]) * aqsn;
#pragma unroll
        for (int i = 0; i < kF; ++i) {
          const double x = p.wx[n * p.frequencies + pass.first + i];
          Term term = term_as_written(p, x, w, eps);
          const bool within_cutoff = abs(term.ssx) <= p.sexcut * abs(eps);
          if (!within_cutoff & ((x < 0) | (occ == 0))) term.ssx = {};
          sums.asx[i] += vcoul * occ * term.ssx * m;
          sums.ach[i] += 0.5 * (vcoul * term.sch * m);
        }
      }
      sums.next();
    }
  }
  sums.store(pass);
}

template <int kF>
__global__ void __launch_bounds__(kMaxThreads) gpp_bands_inside(Inputs p, Pass<kF> pass) {
  add_pairs(p, pass);
}

// frequency_outside: the same kernel with one launch per frequency, which needs fewer registers.
// Every launch repeats all loads and the computations that do not depend on the frequency.
__global__ void __launch_bounds__(kMaxThreads) gpp_frequency_outside(Inputs p, Pass<1> pass) {
  add_pairs(p, pass);
}

// reciprocal: a complex quotient takes one real reciprocal instead of two real divisions.
__device__ inline Complex divide_by_reciprocal(Complex x, Complex y) {
  return 1 / norm(y) * (x * conj(y));
}

__global__ void __launch_bounds__(kMaxThreads) gpp_reciprocal(Inputs p, Pass<1> pass) {
  ThreadSums<1> sums;
  const std::int64_t pairs = p.rows * p.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < pairs;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t pair = first + threadIdx.x, igp = pair / p.columns, ig = pair % p.columns;
    const bool own = pair < pairs;
    const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
    for (std::int64_t n = 0; n < p.bands; ++n) {
      if (own) {
        const Complex aqsn = p.aqsn[n * p.columns + ig];
        const double occ = p.occ[n], vcoul = p.vcoul[igp];
        const Complex m = conj(p.aqsm[n * p.rows + igp]) * aqsn;
        const double x = p.wx[n * p.frequencies + pass.first];
        const Complex wdiff = x - w, delw = divide_by_reciprocal(w, wdiff);
        const double delwr = norm(delw);
        Complex ssx, sch;
        if (norm(wdiff) > p.limit_two && delwr < p.limit_one) {
          ssx = divide_by_reciprocal(w * w * eps, difference_of_squares(x, w));
          sch = delw * eps;
        } else if (delwr > Gpp::kTolZero) {
          ssx = divide_by_reciprocal(-(w * w * eps), 2 * (w * (x + w)));
          sch = {};
        } else {
          ssx = sch = {};
        }
        const bool within_cutoff = abs(ssx) <= p.sexcut * abs(eps);
        if (!within_cutoff & ((x < 0) | (occ == 0))) ssx = {};
        sums.asx[0] += vcoul * occ * ssx * m;
        sums.ach[0] += 0.5 * (vcoul * sch * m);
      }
      sums.next();
    }
  }
  sums.store(pass);
}

// squared_moduli: the cut-off compares squared moduli, so no square root remains.
__global__ void __launch_bounds__(kMaxThreads) gpp_squared_moduli(Inputs p, Pass<1> pass) {
  ThreadSums<1> sums;
  const std::int64_t pairs = p.rows * p.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < pairs;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t pair = first + threadIdx.x, igp = pair / p.columns, ig = pair % p.columns;
    const bool own = pair < pairs;
    const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
    for (std::int64_t n = 0; n < p.bands; ++n) {
      if (own) {
        const Complex aqsn = p.aqsn[n * p.columns + ig];
        const double occ = p.occ[n], vcoul = p.vcoul[igp];
        const Complex m = conj(p.aqsm[n * p.rows + igp]) * aqsn;
        const double x = p.wx[n * p.frequencies + pass.first];
        const Complex wdiff = x - w, delw = divide_by_reciprocal(w, wdiff);
        const double delwr = norm(delw);
        Complex ssx, sch;
        if (norm(wdiff) > p.limit_two && delwr < p.limit_one) {
          ssx = divide_by_reciprocal(w * w * eps, difference_of_squares(x, w));
          sch = delw * eps;
        } else if (delwr > Gpp::kTolZero) {
          ssx = divide_by_reciprocal(-(w * w * eps), 2 * (w * (x + w)));
          sch = {};
        } else {
          ssx = sch = {};
        }
        const bool within_cutoff = norm(ssx) <= p.sexcut * p.sexcut * norm(eps);
        if (!within_cutoff & ((x < 0) | (occ == 0))) ssx = {};
        sums.asx[0] += vcoul * occ * ssx * m;
        sums.ach[0] += 0.5 * (vcoul * sch * m);
      }
      sums.next();
    }
  }
  sums.store(pass);
}

// simplified_branches: sch and ssx are initialised with 0, which alone does not change the time,
// and one condition controls the addition of ssx, instead of a cut-off that sets ssx to 0.
__global__ void __launch_bounds__(kMaxThreads) gpp_simplified_branches(Inputs p, Pass<1> pass) {
  ThreadSums<1> sums;
  const std::int64_t pairs = p.rows * p.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < pairs;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t pair = first + threadIdx.x, igp = pair / p.columns, ig = pair % p.columns;
    const bool own = pair < pairs;
    const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
    for (std::int64_t n = 0; n < p.bands; ++n) {
      if (own) {
        const Complex aqsn = p.aqsn[n * p.columns + ig];
        const double occ = p.occ[n], vcoul = p.vcoul[igp];
        const Complex m = conj(p.aqsm[n * p.rows + igp]) * aqsn;
        const double x = p.wx[n * p.frequencies + pass.first];
        const Complex wdiff = x - w, delw = 1 / norm(wdiff) * (w * conj(wdiff));
        const double delwr = norm(delw);
        Complex sch = {}, ssx = {};
        if (norm(wdiff) > p.limit_two && delwr < p.limit_one) {
          const Complex cden = difference_of_squares(x, w);
          ssx = 1 / norm(cden) * (w * w * eps * conj(cden));
          sch = delw * eps;
        } else if (delwr > Gpp::kTolZero) {
          const Complex cden = 2 * (w * (x + w));
          ssx = 1 / norm(cden) * (-(w * w * eps) * conj(cden));
        }
        if (occ != 0 && (x >= 0 || norm(ssx) <= p.sexcut * p.sexcut * norm(eps)))
          sums.asx[0] += vcoul * occ * ssx * m;
        sums.ach[0] += 0.5 * (vcoul * sch * m);
      }
      sums.next();
    }
  }
  sums.store(pass);
}

__device__ inline Term simplified_term(const Inputs& p, double x, Complex w, Complex eps) {
  const Complex wdiff = x - w, delw = divide_by_reciprocal(w, wdiff);
  const double delwr = norm(delw);
  if (norm(wdiff) > p.limit_two && delwr < p.limit_one)
    return {.ssx = divide_by_reciprocal(w * w * eps, difference_of_squares(x, w)),
            .sch = delw * eps};
  if (delwr > Gpp::kTolZero)
    return {.ssx = divide_by_reciprocal(-(w * w * eps), 2 * (w * (x + w))), .sch = {}};
  return {};
}

// The arithmetic of simplified_branches for all frequencies of a pass. m is conj(aqsm) aqsn, and
// energy(f) returns the energy of a frequency.
template <int kF, class Energy>
__device__ void add_simplified_terms(const Inputs& p, double occ, double vcoul, Complex w,
                                     Complex eps, Complex m, Energy energy, ThreadSums<kF>& sums) {
#pragma unroll
  for (int i = 0; i < kF; ++i) {
    const double x = energy(i);
    const Term term = simplified_term(p, x, w, eps);
    if (occ != 0 && (x >= 0 || norm(term.ssx) <= p.sexcut * p.sexcut * norm(eps)))
      sums.asx[i] += vcoul * occ * term.ssx * m;
    sums.ach[i] += 0.5 * (vcoul * term.sch * m);
  }
}

// blocked: cache blocking as in the paper's code. It takes 187 ms instead of 167 ms (H200, si214).
// The loop over (band block, igp, column block) is distributed over the threads. Each thread
// processes every blocks.bands-th band and every blocks.columns-th ig. If kTransposed, wx and aqsm
// are indexed [frequency][band] and [igp][band].
template <bool kTransposed>
__device__ void add_blocks(const Inputs& p, const Pass<1>& pass, CacheBlocks blocks) {
  ThreadSums<1> sums;
  const std::int64_t threads = blocks.bands * p.rows * blocks.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < threads;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t thread = first + threadIdx.x;
    const std::int64_t column_block = thread % blocks.columns, others = thread / blocks.columns;
    const std::int64_t igp = others % p.rows, band_block = others / p.rows;
#pragma unroll 1
    for (std::int64_t column = 0; column < p.columns; column += blocks.columns) {
      const std::int64_t ig = column + column_block, pair = igp * p.columns + ig;
      const bool own = thread < threads && ig < p.columns;
      const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
      for (std::int64_t band = 0; band < p.bands; band += blocks.bands) {
        if (const std::int64_t n = band + band_block; own && n < p.bands) {
          const Complex aqsn = p.aqsn[n * p.columns + ig];
          const double occ = p.occ[n], vcoul = p.vcoul[igp];
          const Complex m = conj(p.aqsm[kTransposed ? igp * p.bands + n : n * p.rows + igp]) * aqsn;
          const auto energy = [&](int i) {
            const std::int64_t f = pass.first + i;
            return p.wx[kTransposed ? f * p.bands + n : n * p.frequencies + f];
          };
          add_simplified_terms(p, occ, vcoul, w, eps, m, energy, sums);
        }
        sums.next();
      }
    }
  }
  sums.store(pass);
}

__global__ void __launch_bounds__(kMaxThreads)
    gpp_blocked(Inputs p, Pass<1> pass, CacheBlocks blocks) {
  add_blocks<false>(p, pass, blocks);
}

// The distance in aqsm between consecutive bands of a thread is 64 elements instead of 64 rows.
// This makes no difference (H200, si214).
__global__ void __launch_bounds__(kMaxThreads)
    gpp_swapped_indices(Inputs p, Pass<1> pass, CacheBlocks blocks) {
  add_blocks<true>(p, pass, blocks);
}

template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    gpp_transpose(const T* from, T* to, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = thread_x(); i < rows * columns; i += std::int64_t{gridDim.x} * blockDim.x)
    to[i] = from[i % rows * columns + i / rows];
}

// large_blocks: the largest block that allows 128 registers per thread. On sm_90, nvcc uses at most
// 76 registers with any bounds, and the large blocks are slower.
__global__ void __launch_bounds__(kLargeThreads)
    gpp_large_blocks(Inputs p, Pass<1> pass, CacheBlocks blocks) {
  add_blocks<true>(p, pass, blocks);
}

// Transposes `matrix` into the memory at `to`, and advances `to` past it.
template <class T>
const T* transposed(const Launch& go, const Array& matrix, std::byte*& to) {
  T* const swapped = reinterpret_cast<T*>(to);
  to += matrix.bytes();
  Launch transposing = go;
  transposing.block = {kMaxThreads};
  transposing.grid = grid_stride(matrix.elements(), transposing.block);
  launch(transposing, gpp_transpose<T>, matrix.as<const T>(), swapped, matrix.shape[0],
         matrix.shape[1]);
  return swapped;
}

template <void (*kKernel)(Inputs, Pass<1>, CacheBlocks)>
void run_blocked(const Gpp& p, const Launch& go, const Inputs& inputs) {
  run_passes<1>(
      p, go, [&](const Pass<1>& pass) { launch(go, kKernel, inputs, pass, cache_blocks_of(p)); });
}

template <void (*kKernel)(Inputs, Pass<1>, CacheBlocks)>
void run_transposed(const Gpp& p, const Launch& go) {
  std::byte* free = go.scratch + grid_stride_partial_bytes(blocked_triples_of(p));
  Inputs inputs = inputs_of(p);
  inputs.aqsm = transposed<Complex>(go, p.aqsm, free);
  inputs.wx = transposed<double>(go, p.wx, free);
  run_blocked<kKernel>(p, go, inputs);
}

template <void (*kKernel)(Inputs, Pass<1>)>
void run_by_frequency(const Gpp& p, const Launch& go) {
  run_passes<1>(p, go, [&](const Pass<1>& pass) { launch(go, kKernel, inputs_of(p), pass); });
}

#endif

}  // namespace ado::cuda::gpp
