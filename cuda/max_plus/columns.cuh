// Columns of big, a few to a thread, and its rows in batches.
//
// Almost any shape of block and batch reads at 99 % of the ceiling, as long as nothing is stored.
// Storing adds 1.5 % to the bytes and 5 % to the time, presumably because DRAM has to turn around:
// the less a block stores at once, the longer. 256 threads take 497 us, 512 take 495, 1024 take
// 492. Bulk copies into a ring in shared memory take 528 us, loads marked evict-first 505. To keep
// out in L2 by evict-last stores only looks faster: the next kernel pays.
//
// Times are for 64 terms of 4 Mi points in float64 on an H200, L2 flushed; reading takes 469 us.
#pragma once

#include "max_plus/operands.cuh"

namespace ado::cuda {

inline constexpr int kColumnThreads = 1024;  // of a block

// What a thread has under way: of each of kRows rows, kRuns times kCount elements.
template <int kCountOf, int kRunsOf, int kRowsOf>
struct Shape {
  static constexpr int kCount = kCountOf, kRuns = kRunsOf, kRows = kRowsOf;
  static constexpr int kPoints = kCount * kRuns;
};

#ifdef __CUDACC__

// The largest sums of a few runs of points.
template <class T, class Shape>
class Column {
 public:
  static constexpr int kCount = Shape::kCount, kRuns = Shape::kRuns, kRows = Shape::kRows;
  using Points = Run<T, kCount>;

  // The runs from `first` on that are `stride` apart. Beyond the row, the last one stands in.
  __device__ Column(const Terms<T>& p, std::int64_t first, int stride)
      : p_(p), runs_(p.points / kCount), first_(first), stride_(stride) {
#pragma unroll
    for (int j = 0; j < kRuns; ++j)
      at_[j] = reinterpret_cast<const Points*>(p.big) + min(first + j * stride, runs_ - 1);
  }

  // Rows k, k + step and so on below `end`.
  __device__ void add(std::int64_t k, std::int64_t end, int step) {
#pragma unroll 1
    for (; k + (kRows - 1) * step < end; k += kRows * step)
      add_rows([&](int r) { return k + r * step; });
    // Some row again changes no maximum.
    if (k < end) add_rows([&](int r) { return k + r * step < end ? k + r * step : k; });
  }

  // Those of the same column that `other` gives for the j-th run.
  template <class Other>
  __device__ void merge(Other other) {
#pragma unroll
    for (int j = 0; j < kRuns; ++j) {
      const Points points = other(j);
#pragma unroll
      for (int i = 0; i < kCount; ++i) best_[j].at[i] = larger(best_[j].at[i], points.at[i]);
    }
  }

  // Calls `visit` with the index and the largest sums of each run within the row.
  template <class Visit>
  __device__ void for_runs(Visit visit) const {
#pragma unroll
    for (int j = 0; j < kRuns; ++j)
      if (first_ + j * stride_ < runs_) visit(first_ + j * stride_, best_[j]);
  }

  __device__ const Points& best(int j) const { return best_[j]; }

 private:
  template <class Row>
  __device__ void add_rows(Row row) {
    Points value[kRows][kRuns];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int j = 0; j < kRuns; ++j) value[r][j] = at_[j][row(r) * runs_];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const T term = p_.small[row(r)];
#pragma unroll
      for (int j = 0; j < kRuns; ++j)
#pragma unroll
        for (int i = 0; i < kCount; ++i)
          best_[j].at[i] = larger(best_[j].at[i], value[r][j].at[i] + term);
    }
  }

  const Terms<T>& p_;
  const std::int64_t runs_, first_;
  const int stride_;
  const Points* at_[kRuns];
  Points best_[kRuns] = {};
};

template <class T, class Shape>
__global__ void __launch_bounds__(kColumnThreads) max_plus_vectorised(Terms<T> p) {
  Column<T, Shape> column(p, block_x() * kColumnThreads * Shape::kRuns + threadIdx.x,
                          kColumnThreads);
  column.add(0, p.terms, 1);
  column.for_runs([&](std::int64_t run, const Run<T, Shape::kCount>& best) {
    reinterpret_cast<Run<T, Shape::kCount>*>(p.out)[run] = best;
  });
}

// ---------------------------------------------------------------------------------------------
// A block is `lanes` threads wide, as many as its points need; the rest of its threads form teams
// that take rows in turn. What blocks with rows of their own find is put together in memory:
// nothing is negative there, so the bits of larger numbers are larger, and those of a NaN, once
// positive, are the largest.
inline __device__ void raise(float* to, float best) {
  atomicMax(reinterpret_cast<unsigned*>(to), __float_as_uint(best) & 0x7fffffffU);
}
inline __device__ void raise(double* to, double best) {
  atomicMax(reinterpret_cast<unsigned long long*>(to),
            static_cast<unsigned long long>(__double_as_longlong(best)) & 0x7fffffffffffffffULL);
}

template <class T, class Shape>
__global__ void __launch_bounds__(kColumnThreads)
    max_plus_split_terms(Terms<T> p, int lanes, std::int64_t rows) {
  using Points = Run<T, Shape::kCount>;
  const int lane = threadIdx.x % lanes, team = threadIdx.x / lanes, teams = kColumnThreads / lanes;
  const std::int64_t first = block_y() * rows;
  Column<T, Shape> column(p, block_x() * lanes * Shape::kRuns + lane, lanes);
  if (team < teams) column.add(first + team, min(first + rows, p.terms), teams);

  __shared__ Points found[Shape::kRuns][kColumnThreads];
  for (int left = teams; left > 1;) {
    const int half = (left + 1) / 2;
#pragma unroll
    for (int j = 0; j < Shape::kRuns; ++j) found[j][threadIdx.x] = column.best(j);
    __syncthreads();
    if (team + half < left)
      column.merge([&](int j) { return found[j][threadIdx.x + half * lanes]; });
    __syncthreads();
    left = half;
  }
  if (team != 0) return;
  column.for_runs([&](std::int64_t run, const Points& best) {
    if (gridDim.y == 1)
      reinterpret_cast<Points*>(p.out)[run] = best;
    else
      for (int i = 0; i < Shape::kCount; ++i) raise(p.out + run * Shape::kCount + i, best.at[i]);
  });
}

#endif

}  // namespace ado::cuda
