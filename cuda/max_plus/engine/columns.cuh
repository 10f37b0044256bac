// Max plus, engine: vectorised, and the maxima of columns for all variants of the engine.
#pragma once

#include "max_plus/operands.cuh"

namespace ado::cuda {
namespace {

// ---- vectorised, split_terms, one_barrier -------------------------------------------------------
// A thread computes a few columns of big, and loads the elements of several rows together.
constexpr int kColumnThreads = 1024;

// The elements that a thread has in flight: kVectors vectors of kLength neighbouring points in each
// of kRows rows. The vectors of the other threads are between two vectors of a thread:
//
//              vector 0               vector 1
//   row k    | kLength points | ... | kLength points |
//   row k+1  | kLength points | ... | kLength points |
template <int kLengthOf, int kVectorsOf, int kRowsOf>
struct ColumnBatch {
  static constexpr int kLength = kLengthOf, kVectors = kVectorsOf, kRows = kRowsOf;
  static constexpr int kPoints = kLength * kVectors;
};

// Calls `visit` with a zero of the element type and with the batch: one 16-byte vector of each of
// two rows or, if rows are not aligned, two elements of each of two rows. With more rows in a
// batch, the compiler does not issue more loads together within 32 registers. With more registers,
// a multiprocessor holds only one block.
template <class Visit>
auto with_batch(const MaxPlus& p, Visit visit) {
  return with_real(p.big.type, [&]<class T>(T zero) {
    return rows_aligned(p) ? visit(zero, ColumnBatch<kVectorLength<T>, 1, 2>{})
                           : visit(zero, ColumnBatch<1, 2, 2>{});
  });
}

#ifdef __CUDACC__

// The maxima of the points in a thread's vectors.
template <class T, class Batch>
class ColumnMaxima {
 public:
  static constexpr int kLength = Batch::kLength, kVectors = Batch::kVectors, kRows = Batch::kRows;
  using Points = Vector<T, kLength>;

  // The vectors have the indices first, first + stride, ... Indices past the end of a row are
  // clamped to its last vector, so that every load is valid.
  __device__ ColumnMaxima(const MaxPlusOperands<T>& p, std::int64_t first, int stride)
      : p_(p), row_vectors_(p.points / kLength), first_(first), stride_(stride) {
#pragma unroll
    for (int j = 0; j < kVectors; ++j)
      column_[j] =
          reinterpret_cast<const Points*>(p.big) + min(first + j * stride, row_vectors_ - 1);
  }

  // Includes rows k, k + step, ... below `end`.
  __device__ void add(std::int64_t k, std::int64_t end, int step) {
#pragma unroll 1
    for (; k + (kRows - 1) * step < end; k += kRows * step)
      add_batch([&](int r) { return k + r * step; });
    // The last batch repeats row k in place of missing rows, which does not change any maximum.
    if (k < end) add_batch([&](int r) { return k + r * step < end ? k + r * step : k; });
  }

  // Merges other maxima of the same points. other(j) returns the maxima of vector j.
  template <class Other>
  __device__ void merge(Other other) {
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const Points points = other(j);
#pragma unroll
      for (int i = 0; i < kLength; ++i) best_[j].at[i] = larger(best_[j].at[i], points.at[i]);
    }
  }

  // Calls `visit` with the index and the maxima of each vector that lies within the row.
  template <class Visit>
  __device__ void for_vectors(Visit visit) const {
#pragma unroll
    for (int j = 0; j < kVectors; ++j)
      if (first_ + j * stride_ < row_vectors_) visit(first_ + j * stride_, best_[j]);
  }

  __device__ const Points& best(int j) const { return best_[j]; }

 private:
  // Loads all elements of a batch before the first one is used. row(r) returns the index of the
  // batch's r-th row.
  template <class Row>
  __device__ void add_batch(Row row) {
    Points value[kRows][kVectors];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int j = 0; j < kVectors; ++j) value[r][j] = column_[j][row(r) * row_vectors_];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const T term = p_.small[row(r)];
#pragma unroll
      for (int j = 0; j < kVectors; ++j)
#pragma unroll
        for (int i = 0; i < kLength; ++i)
          best_[j].at[i] = larger(best_[j].at[i], value[r][j].at[i] + term);
    }
  }

  const MaxPlusOperands<T>& p_;
  const std::int64_t row_vectors_, first_;
  const int stride_;
  const Points* column_[kVectors];
  Points best_[kVectors] = {};
};

#endif

// ---- vectorised ---------------------------------------------------------------------------------
// Wide loads on the whole device, for rows of any alignment.
//
// Without stores, nearly every block size and batch reads at 99 % of the ceiling. The stores of out
// add 1.5 % to the bytes and 5 % to the time, presumably because DRAM has to switch between reads
// and writes. Smaller blocks, which store less at a time (1 %), loads marked evict-first (3 %), and
// bulk copies into a ring in shared memory (7 %) are slower than this kernel. Storing out with
// evict-last appears faster only because the next kernel writes the lines back. (64 terms of 4 Mi
// points in float64, H200.)
#ifdef __CUDACC__
template <class T, class Batch>
__global__ void __launch_bounds__(kColumnThreads) max_plus_vectorised(MaxPlusOperands<T> p) {
  using Points = Vector<T, Batch::kLength>;
  const std::int64_t first = block_x() * kColumnThreads * Batch::kVectors + threadIdx.x;
  ColumnMaxima<T, Batch> maxima(p, first, kColumnThreads);
  maxima.add(0, p.terms, 1);
  maxima.for_vectors([&](std::int64_t vector, const Points& best) {
    reinterpret_cast<Points*>(p.out)[vector] = best;
  });
}
#endif

constexpr Variant<MaxPlus> kVectorised = {
    .name = "vectorised",
    .changes = {"Loads 16 bytes of each of two rows at a time, or two elements of each if rows are "
                "not aligned.",
                Step::kInFlight, Step::kWider},
    .blocks = {{{kColumnThreads}}},
    .grid =
        [](const MaxPlus& p, Extent) {
          return with_batch(p, [&]<class Batch>(auto, Batch) {
            return grid_of(ceil_div(p.points(), kColumnThreads * Batch::kPoints), 1);
          });
        },
    .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
      with_batch(p, [&]<class T, class Batch>(T, Batch) {
        launch(go, max_plus_vectorised<T, Batch>, operands_of<T>(p));
      });
    })};

}  // namespace
}  // namespace ado::cuda
