// Element-wise routines: arrays of any strides as groups of a fixed number of packed elements.
#pragma once

#include "core/array.hpp"
#include "core/threads.hpp"
#include "cpu/common/loops.hpp"
#include "cpu/common/strided.hpp"

namespace ado::ADO_ISA {
namespace {

// The coefficients 1 - k step, for k < kCount.
template <class T, int kCount>
struct Coefficients {
  T at[kCount] = {};
  constexpr explicit Coefficients(double step) {
    for (int k = 0; k < kCount; ++k) at[k] = static_cast<T>(1 - k * step);
  }
};

// Replaces each y by y x^kCount + a_(kCount-1) x^(kCount-1) + ... + a_0. The kChains chains are
// independent of each other, so that their FMAs overlap.
template <class V, int kChains, class T, int kCount>
ADO_INLINE void horner(const Coefficients<T, kCount>& a, const V (&x)[kChains], V (&y)[kChains]) {
  for (int k = kCount - 1; k >= 0; --k) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) y[c] = y[c] * x[c] + a.at[k];
  }
}

// An operand and a result of the same shape, as rows with a constant stride. Dimensions that form
// one row in both arrays are merged. A packed array, an array of shape (n, 1), and a packed array
// that is reversed along all dimensions each form one row.
struct Rows {
  Array in, out;
  int64_t count, length, in_stride, out_stride;

  const std::byte* from(int64_t row) const { return in.slice(1, row); }
  std::byte* to(int64_t row) const { return out.slice(1, row); }
  ADO_INLINE int64_t elements() const { return count * length; }

  // Calls piece(from, to, n) for the elements from flat index `begin` to `end`, in runs of n
  // elements of the same row.
  template <class Piece>
  ADO_INLINE void for_pieces(int64_t begin, int64_t end, const Piece& piece) const {
    while (begin < end) {
      const int64_t row = begin / length, col = begin % length;
      const int64_t n = min(end - begin, length - col);
      piece(from(row) + col * in_stride, to(row) + col * out_stride, n);
      begin += n;
    }
  }
};

ADO_INLINE Rows rows_of(const Array& in, const Array& out) {
  Rows rows{in, out, 0, 0, 0, 0};
  if (out.elements() == 0) return rows;
  int kept = 0;
  for (int d = 0; d < out.rank; ++d) {
    const int64_t length = out.shape[d];
    if (length == 1) continue;
    const bool merges = kept != 0 && rows.in.stride[kept - 1] == length * in.stride[d] &&
                        rows.out.stride[kept - 1] == length * out.stride[d];
    if (!merges) rows.out.shape[kept++] = 1;
    rows.out.shape[kept - 1] *= length;
    rows.in.shape[kept - 1] = rows.out.shape[kept - 1];
    rows.in.stride[kept - 1] = in.stride[d];
    rows.out.stride[kept - 1] = out.stride[d];
  }
  if (kept == 0) {  // one element
    kept = 1;
    rows.in.shape[0] = rows.out.shape[0] = 1;
    rows.in.stride[0] = rows.out.stride[0] = out.type.size;
  }
  rows.in.rank = rows.out.rank = kept;
  rows.count = rows.out.slices(1);
  rows.length = rows.out.shape[kept - 1];
  rows.in_stride = rows.in.stride[kept - 1];
  rows.out_stride = rows.out.stride[kept - 1];
  return rows;
}

// Calls compute(index, x, y) per element, with its flat index and arrays of length one. A call
// takes about kNanoseconds.
template <class T, int64_t kNanoseconds, class Compute>
ADO_INLINE void one_by_one(const Rows& rows, const Compute& compute) {
  Checkpoints checkpoints;
  for (int64_t row = 0; row < rows.count; ++row) {
    const std::byte* from = rows.from(row);
    std::byte* to = rows.to(row);
    checkpoints.in_pieces<kNanoseconds>(0, rows.length, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T x[1] = {load<T>(from + i * rows.in_stride)};
        T y[1];
        compute(row * rows.length + i, x, y);
        store_vector(to + i * rows.out_stride, y[0]);
      }
    });
  }
}

// Divides rows into groups of kGroup elements with consecutive flat indices. The last group can be
// incomplete.
template <int64_t kGroup>
struct Groups {
  Rows rows;

  ADO_INLINE int64_t count() const { return (rows.elements() + kGroup - 1) / kGroup; }

  // Calls compute(from, to) with the addresses of kGroup packed elements, for the groups from
  // `begin` to `end`. A group that is not packed or extends over several rows is copied. An
  // incomplete group is padded with zeros.
  template <class T, class Compute>
  ADO_INLINE void for_each(int64_t begin, int64_t end, int64_t nanoseconds,
                           const Compute& compute) const {
    const bool packed = rows.in_stride == sizeof(T) && rows.out_stride == sizeof(T);
    const int64_t elements = rows.elements();
    Checkpoints checkpoints;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * kGroup, last = min(first + kGroup, elements);
      const int64_t row = first / rows.length, col = first % rows.length;
      if (packed && col + kGroup <= rows.length) {
        compute(rows.from(row) + col * rows.in_stride, rows.to(row) + col * rows.out_stride);
      } else {
        alignas(kLine) T in[kGroup] = {}, out[kGroup];
        T* at = in;
        rows.for_pieces(first, last, [&](const std::byte* from, std::byte*, int64_t n) {
          gather(from, rows.in_stride, n, at);
          at += n;
        });
        compute(reinterpret_cast<const std::byte*>(in), reinterpret_cast<std::byte*>(out));
        at = out;
        rows.for_pieces(first, last, [&](const std::byte*, std::byte* to, int64_t n) {
          scatter(at, n, to, rows.out_stride, false);
          at += n;
        });
      }
      checkpoints.add(nanoseconds);
    }
  }

  // Calls for_each for all groups, on one thread or distributed over several threads.
  template <class T, class Compute>
  ADO_INLINE void for_all(bool threaded, int64_t nanoseconds, const Compute& compute) const {
    const int64_t groups = count();
    const double seconds = 1e-9 * static_cast<double>(groups) * static_cast<double>(nanoseconds);
    in_parallel(threaded ? threads_for_seconds(seconds) : 1, [&](int thread, int threads) {
      for_each<T>(groups * thread / threads, groups * (thread + 1) / threads, nanoseconds, compute);
    });
  }
};

}  // namespace
}  // namespace ado::ADO_ISA
