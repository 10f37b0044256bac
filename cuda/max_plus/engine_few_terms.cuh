// Few terms: a thread loads all terms of its points, so the kernel is almost a copy of big.
//
// With one term, `vectorised` has too few bytes in flight if the rows are not aligned, because each
// thread loads two elements. Here, a single row is loaded by 16-byte vectors, because no other rows
// need to be aligned. Each point after the last whole vector has a separate thread:
//
//   one row   | vector 0 | vector 1 | ... | vector n-1 | x | x | x
//               thread 0   thread 1         thread n-1   n  n+1 n+2
//
// If there are several rows and they are not aligned, a thread computes several single points.
#pragma once

#include "max_plus/engine_split_terms.cuh"

namespace ado::cuda {

inline constexpr int kFewTermsThreads = 256;
inline constexpr int kTermsPerThread = 4;  // rows that a thread loads at once

// Points per thread: kVectors vectors of kLength neighbouring points each, one block apart.
template <int kLengthOf, int kVectorsOf>
struct ThreadPoints {
  static constexpr int kLength = kLengthOf, kVectors = kVectorsOf;
  static constexpr int kPoints = kLength * kVectors;
  static_assert(kLength == 1 || kVectors == 1);
};

// Calls `visit` with a zero of the element type and with the points per thread. If all threads are
// resident at the same time, each has one point. In unaligned rows, a thread has kLength single
// points, the number of elements per vector, or kLength / 2 if there are at least kTermsPerThread
// terms.
template <class Visit>
auto with_thread_points(const MaxPlus& p, const Hardware& gpu, Visit visit) {
  const bool few = p.points() <= kFewTermsThreads * resident_blocks(gpu);
  return with_real(p.big.type, [&]<class T>(T zero) {
    constexpr int kLength = kVectorLength<T>;
    const bool one_row =
        p.terms() == 1 && starts_at_vector(p.big.data) && starts_at_vector(p.out.data);
    return few                           ? visit(zero, ThreadPoints<1, 1>{})
           : one_row || rows_aligned(p)  ? visit(zero, ThreadPoints<kLength, 1>{})
           : p.terms() < kTermsPerThread ? visit(zero, ThreadPoints<1, kLength>{})
                                         : visit(zero, ThreadPoints<1, kLength / 2>{});
  });
}

// Number of vectors, plus points after the last whole vector. A thread processes kVectors of them.
template <class Points>
std::int64_t threads_of_points(std::int64_t points) {
  return points / Points::kLength + points % Points::kLength;
}

inline Extent grid_of_few_terms(const MaxPlus& p, Extent, const Hardware& gpu) {
  return with_thread_points(p, gpu, [&]<class Points>(auto, Points) {
    constexpr std::int64_t kOfBlock = std::int64_t{kFewTermsThreads} * Points::kVectors;
    return grid_of(ceil_div(threads_of_points<Points>(p.points()), kOfBlock), 1);
  });
}

// Executed FLOPs. If a thread has several points, threads of the last block without a point repeat
// the last one. If it has one point, the terms are padded to whole batches.
inline double flops_of_few_terms(const MaxPlus& p, const Hardware& gpu) {
  return with_thread_points(p, gpu, [&]<class Points>(auto, Points) {
    constexpr std::int64_t kOfBlock = std::int64_t{kFewTermsThreads} * Points::kVectors;
    const std::int64_t single = Points::kPoints == 1 ? p.points() : p.points() % Points::kLength;
    const std::int64_t others = Points::kLength > 1 || Points::kPoints == 1
                                    ? p.points() - single
                                    : ceil_div(p.points(), kOfBlock) * kOfBlock;
    const std::int64_t padded = ceil_div(p.terms(), kTermsPerThread) * kTermsPerThread;
    return static_cast<double>(others * p.terms() + single * padded);
  });
}

inline const char* why_few_terms_slower(const MaxPlus& p, const Hardware& gpu) {
  constexpr Tuned<std::int64_t> kMaxTerms{16, "H200"}, kVeryFewPoints{4, "H100"};
  if (p.terms() > kMaxTerms.on(gpu))
    return "with this many terms, other variants have as many bytes in flight";
  // A second batch takes about as long as the shuffles that merge the teams of very few points.
  const int batches = p.points() <= kVeryFewPoints.on(gpu) ? 2 : 1;
  const bool half_busy = 2 * p.points() > kFewTermsThreads * resident_blocks(gpu);
  return p.terms() > batches * kTermsPerThread && !half_busy &&
                 why_one_barrier_slower(p, gpu) == nullptr
             ? "a thread would load its terms in several batches, one after another"
             : nullptr;
}

#ifdef __CUDACC__

// Loads all elements of kTerms rows before the first one is used. column[j] is the address of
// vector j in the first of these rows, and `pitch` the distance between rows in vectors.
template <int kTerms, class T, int kLength, int kVectors>
__device__ void add_terms(Vector<T, kLength> (&best)[kVectors],
                          const Vector<T, kLength>* (&column)[kVectors], std::int64_t pitch,
                          const T* small) {
  Vector<T, kLength> value[kTerms][kVectors];
#pragma unroll
  for (int k = 0; k < kTerms; ++k)
#pragma unroll
    for (int j = 0; j < kVectors; ++j) value[k][j] = column[j][k * pitch];
#pragma unroll
  for (int k = 0; k < kTerms; ++k) {
    const T term = small[k];
#pragma unroll
    for (int j = 0; j < kVectors; ++j)
#pragma unroll
      for (int i = 0; i < kLength; ++i)
        best[j].at[i] = larger(best[j].at[i], value[k][j].at[i] + term);
  }
#pragma unroll
  for (int j = 0; j < kVectors; ++j) column[j] += kTerms * pitch;
}

// Adds the last `terms` terms, at most kMaxTerms.
template <int kMaxTerms, class T, int kLength, int kVectors>
__device__ void add_last_terms(Vector<T, kLength> (&best)[kVectors],
                               const Vector<T, kLength>* (&column)[kVectors], std::int64_t pitch,
                               const T* small, int terms) {
  if constexpr (kMaxTerms > 0) {
    if (terms == kMaxTerms)
      add_terms<kMaxTerms>(best, column, pitch, small);
    else
      add_last_terms<kMaxTerms - 1>(best, column, pitch, small, terms);
  }
}

template <class T, class Points>
__global__ void __launch_bounds__(kFewTermsThreads, Points::kPoints == 1 ? kOneBarrierBlocks : 0)
    max_plus_few_terms(MaxPlusOperands<T> p) {
  constexpr int kLength = Points::kLength, kVectors = Points::kVectors;
  using Wide = Vector<T, kLength>;
  const std::int64_t row_vectors = p.points / kLength;
  const std::int64_t first = block_x() * kFewTermsThreads * kVectors + threadIdx.x;
  if (Points::kPoints == 1 || (kLength > 1 && first >= row_vectors)) {  // one point per thread
    // All batches run the same instructions: with cold caches, a branch to separate code for the
    // last terms would fetch this code from DRAM.
    const std::int64_t point = row_vectors * kLength + (first - row_vectors);
    if (point >= p.points) return;
    T best = 0;
#pragma unroll 1
    for (std::int64_t k = 0; k < p.terms; k += kTermsPerThread)
      best = add_terms_of_point<kTermsPerThread>(
          best, p.big + k * p.points + point, p.points, p.small + k, 1,
          static_cast<int>(min(p.terms - k, std::int64_t{kTermsPerThread})));
    p.out[point] = best;
    return;
  }
  // Vectors past the end of the row are clamped to the last one, so that every load is valid.
  const Wide* column[kVectors];
  Wide best[kVectors] = {};
#pragma unroll
  for (int j = 0; j < kVectors; ++j)
    column[j] =
        reinterpret_cast<const Wide*>(p.big) + min(first + j * kFewTermsThreads, row_vectors - 1);
  std::int64_t k = 0;
#pragma unroll 1
  for (; k + kTermsPerThread <= p.terms; k += kTermsPerThread)
    add_terms<kTermsPerThread>(best, column, row_vectors, p.small + k);
  add_last_terms<kTermsPerThread - 1>(best, column, row_vectors, p.small + k,
                                      static_cast<int>(p.terms - k));
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t vector = first + j * kFewTermsThreads;
    if (vector < row_vectors) reinterpret_cast<Wide*>(p.out)[vector] = best[j];
  }
}

#endif

}  // namespace ado::cuda
