// Largest sums on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/max_plus.hpp"

#include "cpu/common/ceilings.hpp"
#include "cpu/common/strided.hpp"

namespace ado::ADO_ISA {
namespace {

// Addresses and strides in bytes. big_k is the distance between terms, big_p the distance between
// points.
struct Operands {
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

Operands operands_of(const MaxPlus& p) {
  return {p.terms(),    p.points(),        p.big.data, p.big.stride[0], p.big.stride[1],
          p.small.data, p.small.stride[0], p.out.data, p.out.stride[0]};
}

// ---- stream_read --------------------------------------------------------------------------------
// The ceiling (cpu/common/ceilings.hpp).
const char* read_why_not(const MaxPlus& p) {
  return p.big.packed() ? nullptr : "big is not packed";
}

constexpr auto kStreamRead = stream_read_row<MaxPlus, &MaxPlus::big>(
    "Reads big once, with all threads, and discards it.", read_why_not);

// ---- naive_loops, interchange, auto_vectorised, blocked, four_rows, prefetch, threaded ----------
// Returns the larger number, or NaN if `sum` or `best` is NaN. If `best` starts at 0, it never
// becomes -0.
template <class T>
ADO_INLINE T max_or_nan(T sum, T best) {
  return sum > best || sum != sum ? sum : best;
}

// ---- naive_loops --------------------------------------------------------------------------------
void naive_loops(const MaxPlus& problem, const Launch&) {
  const Operands p = operands_of(problem);
  with_real(problem.big.type, [&]<class T>(T) {
    Checkpoints checkpoints;
    for (int64_t point = 0; point < p.points; ++point) {
      T best = 0;
      checkpoints.in_pieces(0, p.terms, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
          best = max_or_nan(load<T>(p.from(k, point)) + load<T>(p.small + k * p.small_k), best);
      });
      store_vector(p.to(point), best);
    }
  });
}

constexpr Variant<MaxPlus> kNaiveLoops = {
    .name = "naive_loops",
    .changes = "Computes one point after another, down the columns of big.",
    .run = naive_loops};

// ---- interchange, auto_vectorised, blocked ------------------------------------------------------
// Raises `count` maxima to the sums of one row of big and one term.
template <class T>
ADO_INLINE void update_row(const std::byte* from, int64_t from_stride, T term, std::byte* best,
                           int64_t best_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T sum = load<T>(from + i * from_stride) + term;
    store_vector(best + i * best_stride, max_or_nan(sum, load<T>(best + i * best_stride)));
  }
}

// Like update_row, with a separate loop for contiguous elements, because the compiler vectorises
// loops only if it knows the strides.
template <class T>
ADO_INLINE void update_row_vectorized(const std::byte* from, int64_t from_stride, T term,
                                      std::byte* best, int64_t best_stride, int64_t count) {
  if (from_stride == sizeof(T) && best_stride == sizeof(T))
    update_row(from, sizeof(T), term, best, sizeof(T), count);
  else
    update_row(from, from_stride, term, best, best_stride, count);
}

template <bool kVectorized>
void row_by_row(const MaxPlus& problem, const Launch&) {
  const Operands p = operands_of(problem);
  with_real(problem.big.type, [&]<class T>(T) {
    Checkpoints checkpoints;
    checkpoints.in_pieces(0, p.points, [&](int64_t begin, int64_t end) {
      for (int64_t point = begin; point < end; ++point) store_vector(p.to(point), T{0});
    });
    for (int64_t k = 0; k < p.terms; ++k) {
      const T term = load<T>(p.small + k * p.small_k);
      checkpoints.in_pieces(0, p.points, [&](int64_t begin, int64_t end) {
        const int64_t count = end - begin;
        if constexpr (kVectorized)
          update_row_vectorized(p.from(k, begin), p.big_p, term, p.to(begin), p.out_p, count);
        else
          update_row(p.from(k, begin), p.big_p, term, p.to(begin), p.out_p, count);
      });
    }
  });
}

// ---- interchange --------------------------------------------------------------------------------
constexpr Variant<MaxPlus> kInterchange = {
    .name = "interchange",
    .changes = {"Swaps the loops: reads big along its rows and keeps the maxima so far in out.",
                Step::kCoalescing},
    .run = row_by_row<false>};

// ---- auto_vectorised ----------------------------------------------------------------------------
constexpr Variant<MaxPlus> kAutoVectorised = {
    .name = "auto_vectorised",
    .changes = {"Tells the compiler which elements are contiguous, so that it vectorises the loop.",
                Step::kWider},
    .run = row_by_row<true>};

// ---- blocked, four_rows, prefetch, threaded -----------------------------------------------------
// Bytes of the points of a block, whose maxima so far stay in L2. For K = 64, P = 4 Mi in float64,
// two cores read at 0.65 to 0.69 of the ceiling with blocks of 8 KiB, and at 0.9 with blocks of 64
// KiB (Zen 5, AVX-512).
constexpr int64_t kBlockBytes = 64 << 10;
template <class T>
constexpr int64_t kBlock = kBlockBytes / sizeof(T);

// ---- blocked ------------------------------------------------------------------------------------
void blocked(const MaxPlus& problem, const Launch&) {
  const Operands p = operands_of(problem);
  with_real(problem.big.type, [&]<class T>(T) {
    Checkpoints checkpoints;
    for (int64_t begin = 0; begin < p.points; begin += kBlock<T>) {
      const int64_t count = min(kBlock<T>, p.points - begin);
      alignas(kLine) T best[kBlock<T>];
      std::memset(best, 0, count * sizeof(T));
      for (int64_t k = 0; k < p.terms; ++k) {
        checkpoints.add(count);
        const T term = load<T>(p.small + k * p.small_k);
        update_row_vectorized(p.from(k, begin), p.big_p, term, reinterpret_cast<std::byte*>(best),
                              sizeof(T), count);
      }
      scatter(best, count, p.to(begin), p.out_p, false);
    }
  });
}

constexpr Variant<MaxPlus> kBlocked = {
    .name = "blocked",
    .changes = {"Processes blocks of points, so that their maxima so far stay in the L2 cache.",
                Step::kReuse},
    .run = blocked};

// ---- four_rows, prefetch, threaded --------------------------------------------------------------
// The larger of two numbers or, element by element, of two vectors. The compiler emits the maximum
// instruction, so a NaN in `best` remains and a NaN in `sum` is lost.
template <class V>
ADO_INLINE V larger(V sum, V best) {
  return sum > best ? sum : best;
}
// True if `larger` also keeps a NaN in `sum`, as the maximum instruction of NEON does.
template <class V>
constexpr bool kKeepsNan = false;
#if defined(__aarch64__)
template <>
constexpr bool kKeepsNan<Reals<float>> = true;
template <>
constexpr bool kKeepsNan<Reals<double>> = true;
template <>
ADO_INLINE Reals<float> larger(Reals<float> sum, Reals<float> best) {
  return vmaxq_f32(sum, best);
}
template <>
ADO_INLINE Reals<double> larger(Reals<double> sum, Reals<double> best) {
  return vmaxq_f64(sum, best);
}
#endif

// Number of rows that `four_rows` reads at a time, so that the maxima so far are loaded and stored
// less often.
constexpr int kRowsPerPass = 4;

// Prefetch distance along a row in bytes. For K = 64, P = 4 Mi in float64, two cores read at 0.9 of
// the ceiling with prefetch, and at 0.78 to 0.87 without (Zen 5, AVX-512).
constexpr int64_t kAheadBytes = 2 << 10;

// Elements that are not contiguous are copied in runs of this length.
constexpr int64_t kCopied = 1024;

// A range of terms (rows of big) and of points (its columns).
struct Submatrix {
  int64_t first_term, last_term, first_point, last_point;
};

// A few rows of a block: their addresses, the addresses to prefetch, and the terms of small.
template <class T, int kCount>
struct RowGroup {
  const std::byte* at[kCount];
  const std::byte* ahead[kCount];
  T small[kCount];
};

// The maxima of contiguous points: of a vector or, with V = T, of one point.
template <class V, class T, int kCount>
ADO_INLINE void update(const RowGroup<T, kCount>& rows, int64_t i, T* best) {
  V highest = load_vector<V>(best + i);
  auto nan = highest != highest;
#pragma GCC unroll 4
  for (int row = 0; row < kCount; ++row) {
    const V sum = load_vector<V>(rows.at[row] + i * sizeof(T)) + rows.small[row];
    highest = larger<V>(sum, highest);
    if constexpr (!kKeepsNan<V>) nan |= sum != sum;
  }
  store_vector<V>(best + i, nan ? V{} + static_cast<T>(__builtin_nan("")) : highest);
}

template <bool kPrefetch, class T, int kCount>
ADO_INLINE void update_points(const RowGroup<T, kCount>& rows, int64_t begin, int64_t end,
                              T* best) {
  constexpr int64_t kStep = kLine / sizeof(T);
  int64_t i = begin;
  for (; i + kStep <= end; i += kStep) {
    if constexpr (kPrefetch) {
#pragma GCC unroll 4
      for (int row = 0; row < kCount; ++row) __builtin_prefetch(rows.ahead[row] + i * sizeof(T));
    }
#pragma GCC unroll 4
    for (int64_t lane = 0; lane < kStep; lane += kLanes<T>) update<Reals<T>>(rows, i + lane, best);
  }
  for (; i < end; ++i) update<T>(rows, i, best);
}

// Returns contiguous elements: the elements in memory, or copies of them in the buffer.
template <class T>
ADO_INLINE const std::byte* contiguous(const std::byte* from, int64_t stride, int64_t count,
                                       T* buffer) {
  if (stride == sizeof(T)) return from;
  gather(from, stride, count, buffer);
  return reinterpret_cast<const std::byte*>(buffer);
}

// Processes a block in vectors of points, row by row.
template <bool kPrefetch, class T, int kCount>
ADO_INLINE void update_rows(const Operands& p, const Submatrix& part, int64_t k, T* best) {
  const int64_t count = part.last_point - part.first_point;
  alignas(kLine) T buffers[kCount][kCopied];
  RowGroup<T, kCount> rows;
  for (int row = 0; row < kCount; ++row) {
    rows.at[row] = contiguous(p.from(k + row, part.first_point), p.big_p, count, buffers[row]);
    rows.ahead[row] = rows.at[row] + kAheadBytes;
    rows.small[row] = load<T>(p.small + (k + row) * p.small_k);
  }
  if constexpr (!kPrefetch) return update_points<false>(rows, 0, count, best);
  const int64_t split = max(count - kAheadBytes / static_cast<int64_t>(sizeof(T)), 0);
  update_points<true>(rows, 0, split, best);
  // At the end of these rows, the start of the next rows is prefetched. At the end of the last
  // rows, the start of the next block is prefetched.
  for (int row = 0; row < kCount; ++row) {
    const int64_t next = k + kCount + row;
    rows.ahead[row] = (next < part.last_term ? p.from(next, part.first_point)
                                             : p.from(part.first_term + row, part.last_point)) -
                      split * static_cast<int64_t>(sizeof(T));
  }
  update_points<true>(rows, split, count, best);
}

template <bool kPrefetch, class T>
ADO_INLINE void along_points(const Operands& p, const Submatrix& part, T* best,
                             Checkpoints& checkpoints) {
  int64_t k = part.first_term;
  for (; k + kRowsPerPass <= part.last_term; k += kRowsPerPass) {
    checkpoints.add(part.last_point - part.first_point);
    update_rows<kPrefetch, T, kRowsPerPass>(p, part, k, best);
  }
  for (; k < part.last_term; ++k) update_rows<kPrefetch, T, 1>(p, part, k, best);
}

// Processes a block in vectors of terms, point by point, with a block of terms in L1.
template <class T>
ADO_INLINE void along_terms(const Operands& p, const Submatrix& part, T* best,
                            Checkpoints& checkpoints) {
  using V = Reals<T>;
  constexpr int kChains = 4;
  constexpr int64_t kStep = kChains * kLanes<T>;
  alignas(kLine) T small_buffer[kCopied], big_buffer[kCopied];
  for (int64_t k = part.first_term; k < part.last_term; k += kCopied) {
    const int64_t count = min(kCopied, part.last_term - k);
    const std::byte* small = contiguous(p.small + k * p.small_k, p.small_k, count, small_buffer);
    for (int64_t point = part.first_point; point < part.last_point; ++point) {
      checkpoints.add(count);
      const std::byte* big = contiguous(p.from(k, point), p.big_k, count, big_buffer);
      V highest[kChains] = {};
      auto nan = V{} != V{};
      int64_t at = 0;
      const auto update_chain = [&](int chain) {
        const V sum = load_vector<V>(big + at * sizeof(T)) + load_vector<V>(small + at * sizeof(T));
        highest[chain] = larger(sum, highest[chain]);
        if constexpr (!kKeepsNan<V>) nan |= sum != sum;
        at += kLanes<T>;
      };
      while (at + kStep <= count) {
#pragma GCC unroll 4
        for (int chain = 0; chain < kChains; ++chain) update_chain(chain);
      }
      while (at + kLanes<T> <= count) update_chain(0);
      const V all = larger(larger(highest[0], highest[1]), larger(highest[2], highest[3]));
      const V lanes = nan ? V{} + static_cast<T>(__builtin_nan("")) : all;
      T& result = best[point - part.first_point];
      for (int lane = 0; lane < kLanes<T>; ++lane) result = max_or_nan(lanes[lane], result);
      for (; at < count; ++at)
        result =
            max_or_nan(load<T>(big + at * sizeof(T)) + load<T>(small + at * sizeof(T)), result);
    }
  }
}

// Returns true if vectors of points are better than vectors of terms. The better direction is
// contiguous in memory or, otherwise, has the shorter stride, if it is long enough for vectors.
template <class T>
bool prefers_points(const Operands& p) {
  const auto length = [](int64_t stride) { return stride < 0 ? -stride : stride; };
  if (p.points < kLanes<T> || p.terms < kLanes<T>) return p.points >= p.terms;
  if (p.big_p == sizeof(T)) return true;
  return p.big_k != sizeof(T) && length(p.big_p) <= length(p.big_k);
}

// Returns true if results are too large to stay in the cache. They are then stored with
// non-temporal stores, because an ordinary store first reads the cache line that it writes.
template <class T>
bool worth_streaming(const Operands& p) {
  constexpr int64_t kFrom = 8 << 20;
  return p.out_p == sizeof(T) && p.points * static_cast<int64_t>(sizeof(T)) >= kFrom;
}

template <class T, bool kPrefetch>
void max_of(const Operands& p, const Submatrix& part, bool streaming) {
  const bool by_points = prefers_points<T>(p);
  const int64_t step = p.big_p == sizeof(T) ? kBlock<T> : kCopied;
  Checkpoints checkpoints;
  for (int64_t point = part.first_point; point < part.last_point; point += step) {
    const int64_t count = min(step, part.last_point - point);
    checkpoints.add(count);
    const Submatrix block{part.first_term, part.last_term, point, point + count};
    alignas(kLine) T best[kBlock<T>];
    std::memset(best, 0, count * sizeof(T));
    if (by_points)
      along_points<kPrefetch>(p, block, best, checkpoints);
    else
      along_terms(p, block, best, checkpoints);
    scatter(best, count, p.to(point), p.out_p, streaming);
  }
  if (streaming) finish_streaming();
}

template <bool kPrefetch>
void on_one_thread(const MaxPlus& problem, const Launch&) {
  const Operands p = operands_of(problem);
  with_real(problem.big.type, [&]<class T>(T) {
    max_of<T, kPrefetch>(p, {0, p.terms, 0, p.points}, false);
  });
}

// ---- four_rows ----------------------------------------------------------------------------------
constexpr Variant<MaxPlus> kFourRows = {
    .name = "four_rows",
    .changes = {"Reads four rows at a time, so that the maxima so far are loaded and stored a "
                "quarter as often.",
                Step::kReuse},
    .run = on_one_thread<false>};

// ---- prefetch -----------------------------------------------------------------------------------
constexpr Variant<MaxPlus> kPrefetch = {
    .name = "prefetch",
    .changes = {"Prefetches each row 2 KiB ahead.", Step::kInFlight},
    .run = on_one_thread<true>};

// ---- threaded -----------------------------------------------------------------------------------
// Minimum bytes of points per thread, so that reads are contiguous.
constexpr int64_t kRunBytes = 8 << 10;

// Distribution of the problem over threads: ranges of points and, if these would be shorter than
// kRunBytes, also ranges of terms.
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

void threaded(const MaxPlus& problem, const Launch& go) {
  const Operands p = operands_of(problem);
  with_real(problem.big.type, [&]<class T>(T) {
    // If the terms are shared, the maximum of the partial results is computed last.
    const T zero = 0;
    Operands partial{.terms = 1,
                     .points = p.points,
                     .big = go.scratch,
                     .big_k = p.points * static_cast<int64_t>(sizeof(T)),
                     .big_p = sizeof(T),
                     .small = reinterpret_cast<const std::byte*>(&zero),
                     .small_k = 0,
                     .out = p.out,
                     .out_p = p.out_p};
    in_parallel(threads_of(problem), [&](int thread, int threads) {
      const Shares parts = shares(problem, threads);
      const int64_t i = thread % parts.of_points, j = thread / parts.of_points;
      if (thread == 0) partial.terms = parts.of_terms;
      if (j >= parts.of_terms) return;
      Operands mine = p;
      if (parts.of_terms > 1) {
        mine.out = go.scratch + j * partial.big_k;
        mine.out_p = partial.big_p;
      }
      constexpr int64_t kAlign = kLine / sizeof(T);
      const auto share = [&](int64_t part) {
        return min(p.points, (p.points + kAlign - 1) / kAlign * part / parts.of_points * kAlign);
      };
      max_of<T, true>(mine,
                      {p.terms * j / parts.of_terms, p.terms * (j + 1) / parts.of_terms, share(i),
                       share(i + 1)},
                      worth_streaming<T>(mine));
    });
    if (partial.terms > 1)
      max_of<T, true>(partial, {0, partial.terms, 0, p.points}, worth_streaming<T>(partial));
  });
}

constexpr Variant<MaxPlus> kThreaded = {
    .name = "threaded",
    .changes = {"Splits the points among threads, and also the terms if the points are few; large "
                "outputs are stored with non-temporal stores.",
                Step::kParallelism},
    .scratch_bytes = partial_results,
    .run = threaded};

// -------------------------------------------------------------------------------------------------

constexpr Variant<MaxPlus> kSteps[] = {kStreamRead, kNaiveLoops, kInterchange, kAutoVectorised,
                                       kBlocked,    kFourRows,   kPrefetch,    kThreaded};

}  // namespace

Ladder<MaxPlus> max_plus_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA
