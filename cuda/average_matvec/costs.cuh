// Executed FLOPs and requested bytes of the CUDA variants of average_matvec.
#pragma once

#include <cmath>
#include <cstddef>

#include "average_matvec/product_tile.cuh"
#include "average_matvec/set_per_block.cuh"
#include "core/compensated.hpp"
#include "routines/average_matvec.hpp"

namespace ado::cuda {

// The sizes of a problem as floating-point numbers.
struct Sizes {
  double sets, length, samples, element_bytes;
  explicit Sizes(const AverageMatvec& p)
      : sets(static_cast<double>(p.sets())),
        length(static_cast<double>(p.length())),
        samples(static_cast<double>(p.samples())),
        element_bytes(p.vectors.type.size) {}
  double rows() const { return sets * length; }
};

inline constexpr double kFlopsOfAdd = CompensatedSum<double>::kFlopsOfAdd;
inline constexpr double kFlopsOfShuffles = 32 * 5;                // of a reduction over a warp
inline constexpr double kFlopsOfTreeReduction = kSetThreads - 1;  // of a reduction over a block

// Averages with `lanes` lanes per row and one compensated addition per sample.
inline double flops_of_averages(const Sizes& n, double lanes) {
  const double reduction = lanes > 1 ? kFlopsOfShuffles : 0;
  return n.rows() * (kFlopsOfAdd * n.samples + lanes + reduction + 1);
}

// Averages with one compensated addition per lane and batch of loads.
inline double flops_of_wide_averages(const Sizes& n) {
  const double batch = kVectorsPerThread * kVectorBytes / n.element_bytes;
  return n.rows() * n.samples * (1 + kFlopsOfAdd / batch);
}

inline double flops_of_product(const Sizes& n) { return 2 * n.rows() * n.length; }

// One set per block, with tree reductions for the product.
template <int kLanes>
double flops_with_trees(const AverageMatvec& p) {
  const Sizes n(p);
  return flops_of_averages(n, kLanes) + n.rows() * (n.length + kFlopsOfTreeReduction);
}

// One set per block, with shuffles in two stages for the product.
inline double flops_with_shuffles(const AverageMatvec& p) {
  const Sizes n(p);
  return flops_of_averages(n, 32) + n.rows() * (n.length + 33 * kFlopsOfShuffles);
}

inline double flops_with_gemm(const AverageMatvec& p) {
  const Sizes n(p);
  return flops_of_averages(n, 32) + flops_of_product(n);
}

inline double flops_with_tiles(const AverageMatvec& p) {
  const Sizes n(p);
  return flops_of_wide_averages(n) + flops_of_product(n);
}

inline std::size_t bytes_of_averages(const AverageMatvec& p) {
  return static_cast<std::size_t>(p.sets() * p.length() * p.vectors.type.size);
}

// The vectors are read once, and the matrix once per set.
inline double bytes_of_set_per_block(const AverageMatvec& p) {
  const Sizes n(p);
  return n.element_bytes * n.rows() * (n.samples + n.length + 1);
}

// The averages are written, and the product is assumed to read each operand once (the requests of
// cuBLAS are unknown).
inline double bytes_with_gemm(const AverageMatvec& p) {
  const Sizes n(p);
  return n.element_bytes * (n.rows() * (n.samples + 3) + n.length * n.length);
}

// The averages are written. The product reads the averages once per row of tiles and the matrix
// once per column of tiles.
template <template <class> class Tile>
double bytes_with_tiles(const AverageMatvec& p) {
  const Sizes n(p);
  return with_real(p.vectors.type, [&]<class T>(T) {
    const double averages_read = std::ceil(n.length / Tile<T>::kRows) * n.rows();
    const double matrix_read = std::ceil(n.sets / Tile<T>::kSets) * n.length * n.length;
    return n.element_bytes * (n.rows() * (n.samples + 2) + averages_read + matrix_read);
  });
}

}  // namespace ado::cuda
