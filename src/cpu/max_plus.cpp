// Largest sums on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/max_plus.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/isa.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/common/read_ceiling.hpp"
#include "cpu/common/streaming.hpp"
#include "cpu/common/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

// ------------------------------------------------------------------------------------- the problem

// Strides in bytes: big_k leads from one term to the next, big_p from one point to the next.
struct Problem {
  int64_t terms, points;
  const std::byte* big;
  int64_t big_k, big_p;
  const std::byte* small;
  int64_t small_k;
  std::byte* out;
  int64_t out_p;

  const std::byte* from(int64_t k, int64_t point) const { return big + k * big_k + point * big_p; }
  std::byte* to(int64_t point) const { return out + point * out_p; }
};

Problem problem_of(const MaxPlus& p) {
  return {p.terms(),    p.points(),        p.big.data, p.big.stride[0], p.big.stride[1],
          p.small.data, p.small.stride[0], p.out.data, p.out.stride[0]};
}

// Of numbers or vectors of them. The compiler makes it the instruction for maxima, which takes
// `best` if one of the two is NaN: a NaN in `best` stays, and one in `sum` is lost. Begun with 0,
// `best` never becomes -0.
template <class V>
ADO_INLINE V larger(V sum, V best) {
  return sum > best ? sum : best;
}

// ----------------------------------------------------------------------------------- scalar rungs

template <class T>
ADO_INLINE T raised(T sum, T best) {
  return sum > best || sum != sum ? sum : best;
}

void textbook(const MaxPlus& routine, const Launch&) {
  const Problem p = problem_of(routine);
  with_real(routine.big.type, [&]<class T>(T) {
    for (int64_t point = 0; point < p.points; ++point) {
      T best = 0;
      for (int64_t k = 0; k < p.terms; ++k)
        best = raised(load<T>(p.from(k, point)) + load<T>(p.small + k * p.small_k), best);
      store_vector(p.to(point), best);
    }
  });
}

void interchange(const MaxPlus& routine, const Launch&) {
  const Problem p = problem_of(routine);
  with_real(routine.big.type, [&]<class T>(T) {
    for (int64_t point = 0; point < p.points; ++point) store_vector(p.to(point), T{0});
    for (int64_t k = 0; k < p.terms; ++k) {
      const T term = load<T>(p.small + k * p.small_k);
      for (int64_t point = 0; point < p.points; ++point)
        store_vector(p.to(point), raised(load<T>(p.from(k, point)) + term, load<T>(p.to(point))));
    }
  });
}

// -------------------------------------------------------------------------------------- in vectors

// So many rows are read at a time, so that the results so far are loaded and stored less often.
constexpr int kRowsAtOnce = 4;

// Of as many points the results so far stay in L2, and of a row that is read memory is sent for so
// far ahead. Two cores read K = 64, P = 4 Mi, float64 at 0.9 of the ceiling so; without sending at
// 0.78 to 0.87, and with blocks of 8 KiB at 0.65 to 0.69 (Zen 5, AVX-512).
constexpr int64_t kBlockBytes = 64 << 10;
constexpr int64_t kAheadBytes = 2 << 10;
template <class T>
constexpr int64_t kBlock = kBlockBytes / sizeof(T);

// Elements that do not lie side by side are copied so many at a time.
constexpr int64_t kCopied = 1024;

// A part of the problem: some terms of some points.
struct Part {
  int64_t first_term, last_term, first_point, last_point;
};

// Some rows of a block: where they are, what is added to them, and what is sent for meanwhile.
template <class T, int kRows>
struct RowsOf {
  const std::byte* at[kRows];
  const std::byte* ahead[kRows];
  T small[kRows];
};

// Points side by side, in vectors or, with V = T, one by one.
template <class V, class T, int kRows>
ADO_INLINE void raise(const RowsOf<T, kRows>& rows, int64_t i, T* best) {
  V highest = load_vector<V>(best + i);
  auto nan = highest != highest;
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
    const V sum = load_vector<V>(rows.at[row] + i * sizeof(T)) + rows.small[row];
    highest = larger<V>(sum, highest);
    nan |= sum != sum;
  }
  store_vector<V>(best + i, nan ? V{} + static_cast<T>(__builtin_nan("")) : highest);
}

template <class T, int kRows>
ADO_INLINE void raise_points(const RowsOf<T, kRows>& rows, int64_t begin, int64_t end, T* best) {
  constexpr int64_t kStep = kLine / sizeof(T);
  int64_t i = begin;
  for (; i + kStep <= end; i += kStep) {
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) __builtin_prefetch(rows.ahead[row] + i * sizeof(T));
#pragma GCC unroll 4
    for (int64_t lane = 0; lane < kStep; lane += kLanes<T>) raise<Reals<T>>(rows, i + lane, best);
  }
  for (; i < end; ++i) raise<T>(rows, i, best);
}

// Elements side by side: those in memory, or copies of them in the buffer.
template <class T>
ADO_INLINE const std::byte* side_by_side(const std::byte* from, int64_t stride, int64_t count,
                                         T* buffer) {
  if (stride == sizeof(T)) return from;
  for (int64_t i = 0; i < count; ++i) buffer[i] = load<T>(from + i * stride);
  return reinterpret_cast<const std::byte*>(buffer);
}

// Vectors of points: row by row of the block.
template <class T, int kRows>
ADO_INLINE void raise_rows(const Problem& p, const Part& part, int64_t k, T* best) {
  const int64_t count = part.last_point - part.first_point;
  const int64_t level = max(count - kAheadBytes / static_cast<int64_t>(sizeof(T)), 0);
  alignas(kLine) T buffers[kRows][kCopied];
  RowsOf<T, kRows> rows;
  for (int row = 0; row < kRows; ++row) {
    rows.at[row] = side_by_side(p.from(k + row, part.first_point), p.big_p, count, buffers[row]);
    rows.ahead[row] = rows.at[row] + kAheadBytes;
    rows.small[row] = load<T>(p.small + (k + row) * p.small_k);
  }
  raise_points(rows, 0, level, best);
  // Of each row the beginning is still to come; of the last, the next block's.
  for (int row = 0; row < kRows; ++row) {
    const int64_t next = k + kRows + row;
    rows.ahead[row] = (next < part.last_term ? p.from(next, part.first_point)
                                             : p.from(part.first_term + row, part.last_point)) -
                      level * static_cast<int64_t>(sizeof(T));
  }
  raise_points(rows, level, count, best);
}

template <class T>
ADO_INLINE void along_points(const Problem& p, const Part& part, T* best) {
  int64_t k = part.first_term;
  for (; k + kRowsAtOnce <= part.last_term; k += kRowsAtOnce)
    raise_rows<T, kRowsAtOnce>(p, part, k, best);
  for (; k < part.last_term; ++k) raise_rows<T, 1>(p, part, k, best);
}

// Vectors of terms: point by point, with a block of terms in L1.
template <class T>
ADO_INLINE void along_terms(const Problem& p, const Part& part, T* best) {
  using V = Reals<T>;
  constexpr int kChains = 4;
  constexpr int64_t kStep = kChains * kLanes<T>;
  alignas(kLine) T small_buffer[kCopied], big_buffer[kCopied];
  for (int64_t k = part.first_term; k < part.last_term; k += kCopied) {
    const int64_t count = min(kCopied, part.last_term - k);
    const std::byte* small = side_by_side(p.small + k * p.small_k, p.small_k, count, small_buffer);
    for (int64_t point = part.first_point; point < part.last_point; ++point) {
      const std::byte* big = side_by_side(p.from(k, point), p.big_k, count, big_buffer);
      V highest[kChains] = {};
      auto nan = V{} != V{};
      int64_t at = 0;
      const auto raise_chain = [&](int chain) {
        const V sum = load_vector<V>(big + at * sizeof(T)) + load_vector<V>(small + at * sizeof(T));
        highest[chain] = larger(sum, highest[chain]);
        nan |= sum != sum;
        at += kLanes<T>;
      };
      while (at + kStep <= count) {
#pragma GCC unroll 4
        for (int chain = 0; chain < kChains; ++chain) raise_chain(chain);
      }
      while (at + kLanes<T> <= count) raise_chain(0);
      const V all = larger(larger(highest[0], highest[1]), larger(highest[2], highest[3]));
      const V lanes = nan ? V{} + static_cast<T>(__builtin_nan("")) : all;
      T& result = best[point - part.first_point];
      for (int lane = 0; lane < kLanes<T>; ++lane) result = raised(lanes[lane], result);
      for (; at < count; ++at)
        result = raised(load<T>(big + at * sizeof(T)) + load<T>(small + at * sizeof(T)), result);
    }
  }
}

// The way that has vectors side by side in memory; else the way that strides less, if it is long
// enough for vectors.
template <class T>
bool points_run_faster(const Problem& p) {
  const auto length = [](int64_t stride) { return stride < 0 ? -stride : stride; };
  if (p.points < kLanes<T> || p.terms < kLanes<T>) return p.points >= p.terms;
  if (p.big_p == sizeof(T)) return true;
  return p.big_k != sizeof(T) && length(p.big_p) <= length(p.big_k);
}

// An ordinary store first reads the line that it writes to, so results that will not stay in the
// cache are written past it.
template <class T>
bool worth_streaming(const Problem& p) {
  constexpr int64_t kFrom = 8 << 20;
  return p.out_p == sizeof(T) && p.points * static_cast<int64_t>(sizeof(T)) >= kFrom;
}

template <class T>
void max_of_part(const Problem& p, const Part& part) {
  const bool by_points = points_run_faster<T>(p), streaming = worth_streaming<T>(p);
  const int64_t step = p.big_p == sizeof(T) ? kBlock<T> : kCopied;
  for (int64_t point = part.first_point; point < part.last_point; point += step) {
    const int64_t count = min(step, part.last_point - point);
    const Part block{part.first_term, part.last_term, point, point + count};
    alignas(kLine) T best[kBlock<T>];
    std::memset(best, 0, count * sizeof(T));
    if (by_points)
      along_points(p, block, best);
    else
      along_terms(p, block, best);
    const auto* from = reinterpret_cast<const std::byte*>(best);
    if (streaming)
      stream(p.to(point), from, count * sizeof(T));
    else if (p.out_p == sizeof(T))
      std::memcpy(p.to(point), from, count * sizeof(T));
    else
      for (int64_t i = 0; i < count; ++i) store_vector(p.to(point + i), best[i]);
  }
  if (streaming) finish_streaming();
}

void simd(const MaxPlus& routine, const Launch&) {
  const Problem p = problem_of(routine);
  with_real(routine.big.type, [&]<class T>(T) { max_of_part<T>(p, {0, p.terms, 0, p.points}); });
}

// -------------------------------------------------------------------------------------- in threads

// Memory wants to be read in runs of at least this.
constexpr int64_t kRunBytes = 8 << 10;

// How the threads share the problem: parts of the points and, if those are too few for such runs,
// of the terms.
struct Shares {
  int64_t of_points, of_terms;
};

Shares shares(const MaxPlus& p, int64_t threads) {
  const int64_t runs = max(p.out.bytes() / kRunBytes, 1);
  const int64_t of_points = min(runs, threads);
  return {of_points, min(threads / of_points, max(p.terms(), 1))};
}

int threads_of(const MaxPlus& p) { return threads_for(p.big.bytes() + p.out.bytes()); }

std::size_t partial_results(const MaxPlus& p) {
  const int64_t parts = shares(p, threads_of(p)).of_terms;
  return parts == 1 ? 0 : static_cast<std::size_t>(parts * p.out.bytes());
}

void threaded(const MaxPlus& routine, const Launch& go) {
  const Problem p = problem_of(routine);
  with_real(routine.big.type, [&]<class T>(T) {
    // What is left to do if the terms were shared: the largest of the partial results.
    const T zero = 0;
    Problem rest{.terms = 1,
                 .points = p.points,
                 .big = go.scratch,
                 .big_k = p.points * static_cast<int64_t>(sizeof(T)),
                 .big_p = sizeof(T),
                 .small = reinterpret_cast<const std::byte*>(&zero),
                 .small_k = 0,
                 .out = p.out,
                 .out_p = p.out_p};
    in_parallel(threads_of(routine), [&](int thread, int threads) {
      const Shares parts = shares(routine, threads);
      const int64_t i = thread % parts.of_points, j = thread / parts.of_points;
      if (thread == 0) rest.terms = parts.of_terms;
      if (j >= parts.of_terms) return;
      Problem mine = p;
      if (parts.of_terms > 1) {
        mine.out = go.scratch + j * rest.big_k;
        mine.out_p = rest.big_p;
      }
      constexpr int64_t kAlign = kLine / sizeof(T);
      const auto share = [&](int64_t part) {
        return min(p.points, (p.points + kAlign - 1) / kAlign * part / parts.of_points * kAlign);
      };
      max_of_part<T>(mine, {p.terms * j / parts.of_terms, p.terms * (j + 1) / parts.of_terms,
                            share(i), share(i + 1)});
    });
    if (rest.terms > 1) max_of_part<T>(rest, {0, rest.terms, 0, p.points});
  });
}

// -------------------------------------------------------------------------------------- the ladder

const char* read_refuses(const MaxPlus& p) { return p.big.packed() ? nullptr : "needs packed big"; }

constexpr Variant<MaxPlus> kVariants[] = {
    stream_read_row<MaxPlus, &MaxPlus::big>(
        "Reads big once, with all threads, and does nothing with it.", read_refuses),
    {.name = "textbook", .changes = "One point after another.", .run = textbook},
    {.name = "interchange",
     .changes = "Goes over big as it lies in memory, with the largest sums so far in out.",
     .run = interchange},
    {.name = "simd",
     .changes = "Compares vectors, four rows of a block of points at a time, with the block's "
                "results so far in the cache.",
     .run = simd},
    {.name = "threaded",
     .changes = "Shares the points out over the cores, and the terms where the points are few.",
     .scratch_bytes = partial_results,
     .run = threaded},
};

}  // namespace

Ladder<MaxPlus> max_plus_ladder() { return ladder_of(kVariants); }

}  // namespace ado::ADO_ISA
