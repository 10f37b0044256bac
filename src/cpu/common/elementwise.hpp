// Element-wise routines: arrays of any strides as groups of a fixed number of packed elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/array.hpp"
#include "core/isa.hpp"
#include "core/threads.hpp"
#include "cpu/common/checkpoints.hpp"
#include "cpu/common/parallel.hpp"
#include "cpu/common/strided.hpp"
#include "cpu/common/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

// An operand and a result of the same shape, as rows with a constant stride. Packed arrays are one
// row. The flat index of the first element of a row is a multiple of the row's length.
struct Rows {
  const Array &in, &out;
  int64_t count, length, in_stride, out_stride;

  const std::byte* from(int64_t row) const { return in.slice(1, row); }
  std::byte* to(int64_t row) const { return out.slice(1, row); }
};

ADO_INLINE Rows rows_of(const Array& in, const Array& out) {
  const int64_t elements = out.elements(), size = out.type.size;
  if (elements == 0) return {in, out, 0, 0, 0, 0};
  // The only row of packed arrays begins at the first element.
  if (in.packed() && out.packed()) return {in, out, 1, elements, size, size};
  const int last = out.rank - 1;
  return {in, out, out.slices(1), out.shape[last], in.stride[last], out.stride[last]};
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

// The division of rows into groups of kGroup elements whose flat index begins at a multiple of
// kPeriod. Groups at the ends of rows are incomplete.
template <int64_t kGroup, int64_t kPeriod>
struct Groups {
  static_assert(kGroup % kPeriod == 0);

  Rows rows;

  // Rows begin at any position within the period, unless their length is a multiple of it.
  ADO_INLINE int64_t per_row() const {
    const int64_t before = rows.count > 1 && rows.length % kPeriod != 0 ? kPeriod - 1 : 0;
    return (rows.length + before + kGroup - 1) / kGroup;
  }
  ADO_INLINE int64_t count() const { return rows.count * per_row(); }

  // Calls compute(from, to) with the addresses of kGroup packed elements, for the groups from
  // `begin` to `end`. Elements that are not packed are copied. An incomplete group is padded
  // with zeros.
  template <class T, class Compute>
  ADO_INLINE void for_each(int64_t begin, int64_t end, int64_t nanoseconds,
                           const Compute& compute) const {
    const bool packed = rows.in_stride == sizeof(T) && rows.out_stride == sizeof(T);
    const int64_t in_row = per_row();
    Checkpoints checkpoints;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / in_row;
      // The position of the group in its row. It is negative if the row begins within a group.
      const int64_t position = i % in_row * kGroup - row * rows.length % kPeriod;
      const int64_t first = max(position, 0), last = min(position + kGroup, rows.length);
      const std::byte* from = rows.from(row) + first * rows.in_stride;
      std::byte* to = rows.to(row) + first * rows.out_stride;
      if (packed && last - first == kGroup) {
        compute(from, to);
      } else if (first < last) {
        alignas(kLine) T in[kGroup] = {}, out[kGroup];
        gather(from, rows.in_stride, last - first, in + (first - position));
        compute(reinterpret_cast<const std::byte*>(in), reinterpret_cast<std::byte*>(out));
        scatter(out + (first - position), last - first, to, rows.out_stride, false);
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
