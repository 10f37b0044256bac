// The lower rungs of gpp: the steps that the post and the paper published for OpenACC, one by one.
//
// They do what these say even where it is slow. Two things they do better, because they must:
// x^2 - w^2 and delw + 1/2 are formed without cancellation (gpp_term.cuh), and sums do not lose
// what thousands of terms would.
#pragma once

#include <algorithm>

#include "gpp/model.cuh"

namespace ado::cuda::gpp {

// The default of OpenACC compilers, and the most that a block has before `large_blocks`.
inline constexpr int kThreads = 128, kMostThreads = 256;
inline constexpr int kLargeThreads = 512;

// How many blocks of bands and of ig threads take in turns, as in the paper's code.
struct Blocking {
  std::int64_t bands, columns;
};
inline Blocking blocking_of(const Gpp& p) {
  constexpr std::int64_t kBandBlocks = 64, kColumnBlocks = 128;
  return {std::min(p.bands(), kBandBlocks), std::min(p.columns(), kColumnBlocks)};
}

inline std::int64_t pairs_of(const Gpp& p) { return p.rows() * p.columns(); }
inline std::int64_t triples_of(const Gpp& p) { return p.bands() * pairs_of(p); }
inline std::int64_t blocks_of_triples(const Gpp& p) {
  const Blocking by = blocking_of(p);
  return by.bands * p.rows() * by.columns;
}

inline std::size_t scratch_of_transposed(const Gpp& p) {
  return bytes_of_partials_in_turns(blocks_of_triples(p)) +
         static_cast<std::size_t>(p.aqsm.bytes() + p.wx.bytes());
}

#ifdef __CUDACC__

// ---------------------------------------------------------------------------------------------
// All three loops are one, whose items the threads of the grid take in turns; each loads all it
// needs.
template <int kF>
__global__ void __launch_bounds__(kMostThreads) gpp_collapse3(View p, Pass<kF> pass) {
  Sums<kF> sums;
  const std::int64_t pairs = p.rows * p.columns, triples = p.bands * pairs;
  for (std::int64_t first = block_x() * blockDim.x; first < triples;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    if (const std::int64_t item = first + threadIdx.x; item < triples) {
      const std::int64_t ig = item % p.columns, n_igp = item / p.columns;
      const std::int64_t igp = n_igp % p.rows, n = n_igp / p.rows;
      const std::int64_t pair = igp * p.columns + ig;
      add_terms<kPlain, false>(p, pass, n, igp, p.wtilde[pair], p.i_eps[pair],
                               p.aqsn[n * p.columns + ig], sums);
    }
    sums.next();
  }
  sums.store(pass);
}

// ---------------------------------------------------------------------------------------------
// A thread keeps its (igp, ig) for all bands: of what differs from lane to lane, only aqsn is
// loaded in the loop.
template <Arithmetic kBy, int kF>
__device__ void add_pairs(const View& p, const Pass<kF>& pass) {
  Sums<kF> sums;
  const std::int64_t pairs = p.rows * p.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < pairs;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t pair = first + threadIdx.x, igp = pair / p.columns, ig = pair % p.columns;
    const bool own = pair < pairs;
    const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
    for (std::int64_t n = 0; n < p.bands; ++n) {
      if (own) add_terms<kBy, false>(p, pass, n, igp, w, eps, p.aqsn[n * p.columns + ig], sums);
      sums.next();
    }
  }
  sums.store(pass);
}

template <int kF>
__global__ void __launch_bounds__(kMostThreads) gpp_bands_inside(View p, Pass<kF> pass) {
  add_pairs<kPlain>(p, pass);
}

// ---------------------------------------------------------------------------------------------
// A launch for each frequency: 80 registers a thread instead of 106 on sm_90, but everything is
// loaded again, and what does not depend on the frequency is computed again.
__global__ void __launch_bounds__(kMostThreads) gpp_frequency_outside(View p, Pass<1> pass) {
  add_pairs<kPlain>(p, pass);
}

// ---------------------------------------------------------------------------------------------
// Of two divisions by the same number one is left, and that is a reciprocal.
__global__ void __launch_bounds__(kMostThreads) gpp_reciprocal(View p, Pass<1> pass) {
  add_pairs<kReciprocals>(p, pass);
}

// ---------------------------------------------------------------------------------------------
__global__ void __launch_bounds__(kMostThreads) gpp_squared_moduli(View p, Pass<1> pass) {
  add_pairs<kSquares>(p, pass);
}

// ---------------------------------------------------------------------------------------------
// That terms are 0 unless a branch says otherwise makes no difference to nvcc. One condition for
// the addition of ssx, instead of a cut-off that clears it, does.
__global__ void __launch_bounds__(kMostThreads) gpp_simplified_branches(View p, Pass<1> pass) {
  add_pairs<kSimple>(p, pass);
}

// ---------------------------------------------------------------------------------------------
// Cache blocking as in the paper's code: a thread takes every so-many-th band of every so-many-th
// ig.
template <bool kTransposed>
__device__ void add_blocks(const View& p, const Pass<1>& pass, Blocking by) {
  Sums<1> sums;
  const std::int64_t threads = by.bands * p.rows * by.columns;
  for (std::int64_t first = block_x() * blockDim.x; first < threads;
       first += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t thread = first + threadIdx.x;
    const std::int64_t column_block = thread % by.columns, others = thread / by.columns;
    const std::int64_t igp = others % p.rows, band_block = others / p.rows;
#pragma unroll 1
    for (std::int64_t column = 0; column < p.columns; column += by.columns) {
      const std::int64_t ig = column + column_block, pair = igp * p.columns + ig;
      const bool own = thread < threads && ig < p.columns;
      const Complex w = own ? p.wtilde[pair] : Complex{}, eps = own ? p.i_eps[pair] : Complex{};
#pragma unroll 1
      for (std::int64_t band = 0; band < p.bands; band += by.bands) {
        if (const std::int64_t n = band + band_block; own && n < p.bands)
          add_terms<kSimple, kTransposed>(p, pass, n, igp, w, eps, p.aqsn[n * p.columns + ig],
                                          sums);
        sums.next();
      }
    }
  }
  sums.store(pass);
}

__global__ void __launch_bounds__(kMostThreads) gpp_blocked(View p, Pass<1> pass, Blocking by) {
  add_blocks<false>(p, pass, by);
}

// ---------------------------------------------------------------------------------------------
// From a thread's band to its next are 64 numbers instead of so many rows.
__global__ void __launch_bounds__(kMostThreads)
    gpp_swapped_indices(View p, Pass<1> pass, Blocking by) {
  add_blocks<true>(p, pass, by);
}

template <class T>
__global__ void __launch_bounds__(kMostThreads)
    gpp_transpose(const T* from, T* to, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = thread_x(); i < rows * columns; i += std::int64_t{gridDim.x} * blockDim.x)
    to[i] = from[i % rows * columns + i / rows];
}

// ---------------------------------------------------------------------------------------------
// As many threads as leave each 128 registers. (On sm_90 nvcc takes no more than 76 of them in any
// case.)
__global__ void __launch_bounds__(kLargeThreads)
    gpp_large_blocks(View p, Pass<1> pass, Blocking by) {
  add_blocks<true>(p, pass, by);
}

// `matrix` with its indices swapped, behind `to`, which it moves on.
template <class T>
const T* transposed(const Launch& go, const Array& matrix, std::byte*& to) {
  T* const swapped = reinterpret_cast<T*>(to);
  to += matrix.bytes();
  Launch transposing = go;
  transposing.block = {kMostThreads};
  transposing.grid = grid_in_turns(matrix.elements(), transposing.block);
  launch(transposing, gpp_transpose<T>, matrix.as<const T>(), swapped, matrix.shape[0],
         matrix.shape[1]);
  return swapped;
}

template <void (*kKernel)(View, Pass<1>, Blocking)>
void run_transposed(const Gpp& p, const Launch& go) {
  std::byte* free = go.scratch + bytes_of_partials_in_turns(blocks_of_triples(p));
  View view = view_of(p);
  view.aqsm = transposed<Complex>(go, p.aqsm, free);
  view.wx = transposed<double>(go, p.wx, free);
  run_passes<1>(p, go,
                [&](const Pass<1>& pass) { launch(go, kKernel, view, pass, blocking_of(p)); });
}

template <void (*kKernel)(View, Pass<1>)>
void run_by_frequency(const Gpp& p, const Launch& go) {
  run_passes<1>(p, go, [&](const Pass<1>& pass) { launch(go, kKernel, view_of(p), pass); });
}

#endif

}  // namespace ado::cuda::gpp
