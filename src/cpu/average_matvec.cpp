// Averages of vectors times a matrix on the CPU. One source, compiled once per instruction set
// (core/isa.hpp).
#include "routines/average_matvec.hpp"

#include "core/compensated.hpp"
#include "cpu/common/ceilings.hpp"
#include "cpu/transpose/parts.hpp"

namespace ado::ADO_ISA {
namespace {

// Addresses and strides in bytes. The samples of one element of one set form a row. Row indices are
// consecutive over all sets.
struct Operands {
  int64_t sets, length, samples;
  const std::byte* vectors;
  int64_t to_set, to_element, to_sample;
  const std::byte* matrix;
  int64_t matrix_row, matrix_col;
  std::byte* out;
  int64_t out_row, out_set;

  const std::byte* row(int64_t set, int64_t element) const {
    return vectors + set * to_set + element * to_element;
  }
  const std::byte* factor(int64_t i, int64_t j) const {
    return matrix + i * matrix_row + j * matrix_col;
  }
  std::byte* to(int64_t i, int64_t set) const { return out + i * out_row + set * out_set; }
};

Operands operands_of(const AverageMatvec& p) {
  return {p.sets(),
          p.length(),
          p.samples(),
          p.vectors.data,
          p.vectors.stride[0],
          p.vectors.stride[1],
          p.vectors.stride[2],
          p.matrix.data,
          p.matrix.stride[0],
          p.matrix.stride[1],
          p.out.data,
          p.out.stride[0],
          p.out.stride[1]};
}

// ---- stream_read --------------------------------------------------------------------------------
// The ceiling (cpu/common/ceilings.hpp).
const char* read_why_not(const AverageMatvec& p) {
  return p.vectors.packed() ? nullptr : "vectors is not packed";
}

constexpr auto kStreamRead = stream_read_row<AverageMatvec, &AverageMatvec::vectors>(
    "Reads the vectors once, with all threads, and discards them.", read_why_not);

// ---- naive_loops, interchange, pairwise ---------------------------------------------------------
template <class T>
ADO_INLINE void multiply_scalar(const Operands& p, int64_t set, const T* average,
                                Checkpoints& checkpoints) {
  for (int64_t i = 0; i < p.length; ++i) {
    checkpoints.add(p.length);
    T product = 0;
    for (int64_t j = 0; j < p.length; ++j) product += load<T>(p.factor(i, j)) * average[j];
    store_vector(p.to(i, set), product);
  }
}

// ---- naive_loops, interchange, pairwise, simd, prefetch, threaded, blocked ----------------------
// Number of samples that are added pairwise by plain sums, which costs three roundings, before one
// compensated addition.
constexpr int64_t kTree = 8;

constexpr double kFlopsOfAdd = CompensatedSum<double>::kFlopsOfAdd;
constexpr double kFlopsOfTotal = CompensatedSum<double>::kFlopsOfTotal;
constexpr double kFlopsOfTree = kTree - 1 + kFlopsOfAdd;

// Executed FLOPs, computed from the FLOPs of the sum of one row. The division by M counts as one.
double flops_with_sums(const AverageMatvec& p, double of_sum) {
  return static_cast<double>(p.sets() * p.length()) *
         (of_sum + 1 + 2 * static_cast<double>(p.length()));
}

// ---- naive_loops, interchange -------------------------------------------------------------------
double flops_of_scalars(const AverageMatvec& p) {
  return flops_with_sums(p, kFlopsOfAdd * static_cast<double>(p.samples()) + kFlopsOfTotal);
}

// ---- naive_loops --------------------------------------------------------------------------------
// Bytes of the averages of one set, and of one unfinished sum per average.
std::size_t averages_and_sums(const AverageMatvec& p) {
  return with_real(p.vectors.type, [&]<class T>(T) {
    return static_cast<std::size_t>(p.length()) * (sizeof(T) + sizeof(CompensatedSum<T>));
  });
}

void naive_loops(const AverageMatvec& problem, const Launch& go) {
  const Operands p = operands_of(problem);
  with_real(problem.vectors.type, [&]<class T>(T) {
    T* const average = reinterpret_cast<T*>(go.scratch);
    auto* const sums = reinterpret_cast<CompensatedSum<T>*>(average + p.length);
    Checkpoints checkpoints;
    for (int64_t set = 0; set < p.sets; ++set) {
      for (int64_t j = 0; j < p.length; ++j) sums[j] = {};
      for (int64_t sample = 0; sample < p.samples; ++sample) {
        checkpoints.add(p.length);
        for (int64_t j = 0; j < p.length; ++j)
          sums[j].add(load<T>(p.row(set, j) + sample * p.to_sample));
      }
      for (int64_t j = 0; j < p.length; ++j)
        average[j] = sums[j].total() / static_cast<T>(p.samples);
      multiply_scalar(p, set, average, checkpoints);
    }
  });
}

constexpr Variant<AverageMatvec> kNaiveLoops = {
    .name = "naive_loops",
    .changes = "Averages and multiplies one set at a time, one vector after another.",
    .scratch_bytes = averages_and_sums,
    .flops = flops_of_scalars,
    .run = naive_loops};

// ---- interchange, pairwise ----------------------------------------------------------------------
std::size_t averages_of_set(const AverageMatvec& p) {
  return static_cast<std::size_t>(p.length() * p.vectors.type.size);
}

// ---- interchange --------------------------------------------------------------------------------
void interchange(const AverageMatvec& problem, const Launch& go) {
  const Operands p = operands_of(problem);
  with_real(problem.vectors.type, [&]<class T>(T) {
    T* const average = reinterpret_cast<T*>(go.scratch);
    Checkpoints checkpoints;
    for (int64_t set = 0; set < p.sets; ++set) {
      for (int64_t j = 0; j < p.length; ++j) {
        CompensatedSum<T> sum;
        checkpoints.in_pieces(0, p.samples, [&](int64_t begin, int64_t end) {
          for (int64_t sample = begin; sample < end; ++sample)
            sum.add(load<T>(p.row(set, j) + sample * p.to_sample));
        });
        average[j] = sum.total() / static_cast<T>(p.samples);
      }
      multiply_scalar(p, set, average, checkpoints);
    }
  });
}

constexpr Variant<AverageMatvec> kInterchange = {
    .name = "interchange",
    .changes =
        {"Swaps the loops, so that the inner loop adds the contiguous samples of one element.",
         Step::kCoalescing},
    .scratch_bytes = averages_of_set,
    .flops = flops_of_scalars,
    .run = interchange};

// ---- pairwise -----------------------------------------------------------------------------------
void pairwise(const AverageMatvec& problem, const Launch& go) {
  const Operands p = operands_of(problem);
  with_real(problem.vectors.type, [&]<class T>(T) {
    T* const average = reinterpret_cast<T*>(go.scratch);
    Checkpoints checkpoints;
    for (int64_t set = 0; set < p.sets; ++set) {
      for (int64_t j = 0; j < p.length; ++j) {
        CompensatedSum<T> sum;
        const auto at = [&](int64_t sample) {
          return load<T>(p.row(set, j) + sample * p.to_sample);
        };
        const int64_t trees = p.samples / kTree * kTree;
        checkpoints.in_pieces<1, kTree>(0, trees, [&](int64_t begin, int64_t end) {
          for (int64_t m = begin; m < end; m += kTree)
            sum.add(((at(m) + at(m + 1)) + (at(m + 2) + at(m + 3))) +
                    ((at(m + 4) + at(m + 5)) + (at(m + 6) + at(m + 7))));
        });
        T rest = 0;
        for (int64_t m = trees; m < p.samples; ++m) rest += at(m);
        sum.add(rest);
        average[j] = sum.total() / static_cast<T>(p.samples);
      }
      multiply_scalar(p, set, average, checkpoints);
    }
  });
}

double flops_of_pairs(const AverageMatvec& p) {
  const auto trees = static_cast<double>(p.samples() / kTree);
  const auto rest = static_cast<double>(p.samples() % kTree);
  return flops_with_sums(p, kFlopsOfTree * trees + rest + kFlopsOfAdd + kFlopsOfTotal);
}

constexpr Variant<AverageMatvec> kPairwise = {
    .name = "pairwise",
    .changes = {"Adds eight samples pairwise with plain sums before each compensated addition.",
                Step::kOperations},
    .scratch_bytes = averages_of_set,
    .flops = flops_of_pairs,
    .run = pairwise};

// ---- simd, prefetch, threaded, blocked ----------------------------------------------------------
// Prefetch distance in bytes. For N = 512, L = M = 1024 in float32, two cores read at 0.93 of the
// ceiling with prefetch, and at 0.6 to 0.8 without (Zen 5, AVX-512).
constexpr int64_t kAheadBytes = 4 << 10;

// The plain sum of contiguous samples, for few samples. `before` samples in front of them may be
// read.
template <class T>
ADO_INLINE Reals<T> plain_sum(const std::byte* from, int64_t count, int64_t before) {
  using V = Reals<T>;
  V sum = {};
  int64_t at = 0;
  for (; at + kLanes<T> <= count; at += kLanes<T>) sum += load_vector<V>(from + at * sizeof(T));
  const int64_t left = count - at;
  if (left == 0) return sum;
  if (before + count >= kLanes<T>) {
    V place;
    for (int lane = 0; lane < kLanes<T>; ++lane) place[lane] = static_cast<T>(lane);
    const V last = load_vector<V>(from + (count - kLanes<T>)*sizeof(T));
    return sum + (place >= static_cast<T>(kLanes<T> - left) ? last : V{});
  }
  for (int64_t i = 0; i < left; ++i) sum[i] += load<T>(from + (at + i) * sizeof(T));
  return sum;
}

// Adds vectors that are `stride` bytes apart. If kPrefetch, prefetches kAheadBytes ahead.
template <bool kPrefetch, class V>
ADO_INLINE void add_vectors(const std::byte* from, int64_t stride, int64_t count,
                            CompensatedSum<V>& to) {
  int64_t at = 0;
  for (; at + kTree <= count; at += kTree) {
    V v[kTree];
#pragma GCC unroll 8
    for (int64_t i = 0; i < kTree; ++i) {
      v[i] = load_vector<V>(from + (at + i) * stride);
      if (kPrefetch && i * kWidth % kLine == 0)
        __builtin_prefetch(from + kAheadBytes + (at + i) * stride);
    }
    to.add(((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])));
  }
  if (at == count) return;
  V rest = {};
  for (; at < count; ++at) rest += load_vector<V>(from + at * stride);
  to.add(rest);
}

// Adds contiguous samples.
template <bool kPrefetch, class T>
ADO_INLINE void add_samples(const std::byte* from, int64_t count, CompensatedSum<Reals<T>>& to) {
  const int64_t trees = count / (kTree * kLanes<T>)*kTree;
  add_vectors<kPrefetch>(from, kWidth, trees, to);
  const int64_t at = trees * kLanes<T>;
  if (at < count) to.add(plain_sum<T>(from + at * sizeof(T), count - at, at));
}

template <class V, int... kAt>
ADO_INLINE V sums_of_pairs(V x, V y, std::integer_sequence<int, kAt...>) {
  return __builtin_shufflevector(x, y, 2 * kAt...) + __builtin_shufflevector(x, y, 2 * kAt + 1 ...);
}

// Sums groups of kCount neighbouring lanes, of kCount vectors.
template <int kCount, class V>
ADO_INLINE V sums_of_lanes(V* v) {
  constexpr std::make_integer_sequence<int, sizeof(V) / sizeof(v[0][0])> kIndices;
#pragma GCC unroll 8
  for (int count = kCount; count > 1; count /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < count / 2; ++i) v[i] = sums_of_pairs(v[2 * i], v[2 * i + 1], kIndices);
  return v[0];
}

// Sums rows of kSamples samples each, one row per lane of a vector. The rows are contiguous.
template <class T, int kSamples>
ADO_INLINE Reals<T> sums_of_short_rows(const std::byte* from) {
  Reals<T> v[kSamples];
#pragma GCC unroll 8
  for (int i = 0; i < kSamples; ++i) v[i] = load_vector<Reals<T>>(from + i * kWidth);
  return sums_of_lanes<kSamples>(v);
}

// Sums rows that are neighbours in memory, one row per lane and one vector per sample. For L = M =
// 1000, this is 2 to 3 times as fast as copying. If samples are 4 or 8 KiB apart, it is 0.8 to 0.9
// times as fast, because cache lines are evicted before the next rows need them. Prefetching gains
// nothing here.
template <class T>
ADO_INLINE Reals<T> sums_across_rows(const Operands& p, const std::byte* from, int64_t samples,
                                     Checkpoints& checkpoints) {
  CompensatedSum<Reals<T>> sum;
  checkpoints.in_pieces<kLanes<T>, kTree>(0, samples, [&](int64_t begin, int64_t end) {
    add_vectors<false>(from + begin * p.to_sample, p.to_sample, end - begin, sum);
  });
  return sum.total();
}

// Sums the rows one after another. Samples that are not contiguous are copied first.
template <class T, bool kPrefetch>
ADO_INLINE void sums_of_long_rows(const Operands& p, const std::byte* from, int64_t rows,
                                  int64_t samples, Reals<T>* lanes, Checkpoints& checkpoints) {
  if (p.to_sample == sizeof(T) && samples < kTree * kLanes<T>) {
    for (int64_t row = 0; row < rows; ++row)
      lanes[row] = plain_sum<T>(from + row * p.to_element, samples, 0);
    return;
  }
  if (p.to_sample == sizeof(T)) {
    for (int64_t row = 0; row < rows; ++row) {
      const std::byte* at = from + row * p.to_element;
      CompensatedSum<Reals<T>> sum;
      checkpoints.in_pieces<1, kTree * kLanes<T>>(0, samples, [&](int64_t begin, int64_t end) {
        add_samples<kPrefetch, T>(at + begin * sizeof(T), end - begin, sum);
      });
      lanes[row] = sum.total();
    }
  } else {
    constexpr int64_t kCopied = kTree * kLanes<T>;
    alignas(kLine) T copies[kLanes<T>][kCopied];
    CompensatedSum<Reals<T>> sums[kLanes<T>];
    for (int64_t begin = 0; begin < samples; begin += kCopied) {
      const int64_t count = min(kCopied, samples - begin);
      checkpoints.add(rows * count);
      for (int64_t i = 0; i < count; ++i)
        for (int64_t row = 0; row < rows; ++row)
          copies[row][i] = load<T>(from + row * p.to_element + (begin + i) * p.to_sample);
      for (int64_t row = 0; row < rows; ++row) {
        const auto* copy = reinterpret_cast<const std::byte*>(copies[row]);
        add_samples<false, T>(copy, count, sums[row]);
      }
    }
    for (int64_t row = 0; row < rows; ++row) lanes[row] = sums[row].total();
  }
}

// Sums a range of samples of up to kLanes rows. With fewer than kLanes samples, the sums are plain.
template <class T, bool kPrefetch = true>
ADO_INLINE Reals<T> sums_of_rows(const Operands& p, const std::byte* from, int64_t rows,
                                 int64_t samples, Checkpoints& checkpoints) {
  if (rows == kLanes<T> && p.to_element == sizeof(T))
    return sums_across_rows<T>(p, from, samples, checkpoints);
  Reals<T> lanes[kLanes<T>] = {};
  if (samples >= kLanes<T>) {
    sums_of_long_rows<T, kPrefetch>(p, from, rows, samples, lanes, checkpoints);
    return sums_of_lanes<kLanes<T>>(lanes);
  }
  if (rows == kLanes<T> && p.to_sample == sizeof(T) &&
      p.to_element == samples * static_cast<int64_t>(sizeof(T))) {
    if (samples == 1) return load_vector<Reals<T>>(from);
    if (samples == 2) return sums_of_short_rows<T, 2>(from);
    if (samples == 4) return sums_of_short_rows<T, 4>(from);
    if (samples == 8) return sums_of_short_rows<T, 8>(from);
  }
  for (int64_t row = 0; row < rows; ++row) {
    T sum = 0;
    for (int64_t sample = 0; sample < samples; ++sample)
      sum += load<T>(from + row * p.to_element + sample * p.to_sample);
    lanes[0][row] = sum;
  }
  return lanes[0];
}

// Averages packed rows of fewer than kLanes samples. Transposes the rows, so that each vector
// contains one sample of several rows.
template <class T>
ADO_INLINE void average_short_rows(const std::byte* from, int64_t rows, int64_t samples, T share,
                                   T* averages) {
  using V = Reals<T>;
  constexpr int64_t kSize = sizeof(T), kRows = 128;
  alignas(kLine) T transposed[kLanes<T> * kRows];
  Checkpoints checkpoints;
  for (int64_t row = 0, count; row < rows; row += count) {
    count = min(kRows, rows - row);
    checkpoints.add(count * samples);
    const Part part{.rows = count,
                    .cols = samples,
                    .from = from + row * samples * kSize,
                    .from_row = samples * kSize,
                    .from_col = kSize,
                    .to = reinterpret_cast<std::byte*>(transposed),
                    .to_row = kRows * kSize,
                    .to_col = kSize,
                    .end = from + rows * samples * kSize};
    if (count < kLanes<T>)
      move_elements<kSize>(part);
    else
      transpose_part<kSize>(part);
    int64_t at = 0;
    for (; at + kLanes<T> <= count; at += kLanes<T>) {
      V sum = load_vector<V>(transposed + at);
      for (int64_t sample = 1; sample < samples; ++sample)
        sum += load_vector<V>(transposed + sample * kRows + at);
      store_vector(averages + row + at, sum * share);
    }
    for (; at < count; ++at) {
      T sum = transposed[at];
      for (int64_t sample = 1; sample < samples; ++sample) sum += transposed[sample * kRows + at];
      averages[row + at] = sum * share;
    }
  }
}

// Averages rows [begin, end). Row indices are consecutive across all sets. Multiplies by the
// reciprocal of the number of samples instead of dividing, which adds one rounding error.
template <class T, bool kPrefetch = true>
void average_rows(const Operands& p, int64_t begin, int64_t end, T* averages) {
  const bool continuous = p.to_set == p.length * p.to_element;  // across sets
  const T share = 1 / static_cast<T>(p.samples);
  constexpr int64_t kSize = sizeof(T);
  const bool packed = continuous && p.to_sample == kSize && p.to_element == p.samples * kSize;
  if (packed && p.samples < kLanes<T> && end - begin >= kLanes<T>)
    return average_short_rows<T>(p.row(begin / p.length, begin % p.length), end - begin, p.samples,
                                 share, averages);
  int64_t set = begin / p.length, element = begin % p.length;
  Checkpoints checkpoints;
  for (int64_t row = begin, rows; row < end; row += rows, averages += rows) {
    rows = min(end - row, kLanes<T>);
    if (!continuous) rows = min(rows, p.length - element);
    const Reals<T> values =
        sums_of_rows<T, kPrefetch>(p, p.row(set, element), rows, p.samples, checkpoints) * share;
    checkpoints.add(2 * rows);
    if (rows == kLanes<T>)
      store_vector(averages, values);
    else
      for (int64_t i = 0; i < rows; ++i) averages[i] = values[i];
    for (element += rows; element >= p.length; element -= p.length) ++set;
  }
}

// Rows of the matrix that are multiplied together: enough sums are in flight to hide the latency of
// an FMA. If the distance of the rows is a power of two, they compete for one cache set of L1,
// which can hold this number of cache lines.
constexpr int kRows = 8;

// Multiplies rows [i, end) of the matrix, at most kRows, by the averages of a set. The elements of
// a row are contiguous.
template <class T>
ADO_INLINE void multiply_rows(const Operands& p, int64_t i, int64_t end, const T* average,
                              int64_t set) {
  using V = Reals<T>;
  const std::byte* row[kRows];  // copies of the last row after the end
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) row[r] = p.factor(min(i + r, end - 1), 0);
  V lanes[kRows] = {};
  int64_t j = 0;
  for (; j + kLanes<T> <= p.length; j += kLanes<T>)
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      lanes[r] += load_vector<V>(row[r] + j * sizeof(T)) * load_vector<V>(average + j);
  constexpr int kAtOnce = kLanes<T> < kRows ? kLanes<T> : kRows;
  T products[kRows] = {};
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r += kAtOnce) {
    const V sums = sums_of_lanes<kAtOnce>(lanes + r);
    for (int lane = 0; lane < kLanes<T>; ++lane)
      products[r + lane * kAtOnce / kLanes<T>] += sums[lane];
  }
  for (int64_t r = 0; r < end - i; ++r) {
    for (int64_t rest = j; rest < p.length; ++rest)
      products[r] += load<T>(row[r] + rest * sizeof(T)) * average[rest];
    store_vector(p.to(i + r, set), products[r]);
  }
}

// A panel contains the averages of kLanes sets. The averages of one element are contiguous, so that
// a register tile (kRows rows of the matrix times a panel) loads its operands with few
// instructions, whatever the strides of the matrix are. Returns the number of elements of the
// panels for `sets` sets, including padding.
template <class T>
int64_t panel_elements(const Operands& p, int64_t sets) {
  return (sets + kLanes<T> - 1) / kLanes<T> * kLanes<T> * p.length;
}

// Fills the panels with the averages of `sets` sets, which are stored set by set. The lanes after
// the last set are set to zero, because scratch memory can contain subnormal numbers, which make
// FMAs much slower on Intel processors.
template <class T>
void fill_panels(const Operands& p, int64_t sets, const T* averages, T* panels) {
  constexpr int64_t kSize = sizeof(T);
  for (int64_t set = 0; set < sets; set += kLanes<T>) {
    const int64_t rows = min(kLanes<T>, sets - set);
    T* const panel = panels + set * p.length;
    if (rows < kLanes<T>) std::memset(panel, 0, kLanes<T> * p.length * kSize);
    const Part part{.rows = rows,
                    .cols = p.length,
                    .from = reinterpret_cast<const std::byte*>(averages + set * p.length),
                    .from_row = p.length * kSize,
                    .from_col = kSize,
                    .to = reinterpret_cast<std::byte*>(panel),
                    .to_row = kLanes<T> * kSize,
                    .to_col = kSize,
                    .end = reinterpret_cast<const std::byte*>(averages + sets * p.length)};
    if (rows * kSize < 16)
      move_elements<kSize>(part);
    else
      transpose_parts<kSize>(part);
  }
}

// Multiplies rows [i, end) of the matrix, at most kRows, by a panel with `sets` sets.
template <class T>
ADO_INLINE void multiply_panel(const Operands& p, int64_t i, int64_t end, const T* panel,
                               int64_t set, int64_t sets) {
  using V = Reals<T>;
  const std::byte* row[kRows];  // copies of the last row after the end
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) row[r] = p.factor(min(i + r, end - 1), 0);
  V tile[kRows] = {};
  for (int64_t j = 0; j < p.length; ++j) {
    const V averages = load_vector<V>(panel + j * kLanes<T>);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) tile[r] += averages * load<T>(row[r] + j * p.matrix_col);
  }
  for (int64_t r = 0; r < end - i; ++r) {
    if (p.out_set == sizeof(T) && sets == kLanes<T>) {
      store_vector(p.to(i + r, set), tile[r]);
    } else {
      T products[kLanes<T>];
      store_vector(products, tile[r]);
      for (int64_t k = 0; k < sets; ++k) store_vector(p.to(i + r, set + k), products[k]);
    }
  }
}

// Multiplies rows [begin, end) of the matrix by the averages of sets [first, last), or by their
// panels. The rows of a tile stay in L1 for all sets.
template <class T>
void multiply_sets(const Operands& p, bool in_panels, int64_t begin, int64_t end, const T* averages,
                   int64_t first, int64_t last) {
  const int64_t sets = in_panels ? kLanes<T> : 1;
  Checkpoints checkpoints;
  for (int64_t i = begin; i < end; i += kRows) {
    for (int64_t set = first; set < last; set += sets) {
      checkpoints.add(kRows * p.length);
      const T* const from = averages + (set - first) * p.length;
      if (in_panels)
        multiply_panel(p, i, min(i + kRows, end), from, set, min(sets, last - set));
      else
        multiply_rows(p, i, min(i + kRows, end), from, set);
    }
  }
}

// Returns true if the rows of the matrix are not contiguous. Only products of panels support that.
template <class T>
bool scattered(const Operands& p) {
  return p.matrix_col != sizeof(T);
}

// Computes the averages and products of sets [begin, end), which belong to one thread, `together`
// sets at a time. `scratch` holds their averages, and then their panels.
template <class T, bool kPrefetch = true>
void multiply_own_sets(const Operands& p, bool in_panels, int64_t together, int64_t begin,
                       int64_t end, T* scratch) {
  T* const panels = scratch + together * p.length;
  for (int64_t first = begin; first < end; first += together) {
    const int64_t last = min(first + together, end);
    average_rows<T, kPrefetch>(p, first * p.length, last * p.length, scratch);
    if (in_panels) fill_panels(p, last - first, scratch, panels);
    multiply_sets(p, in_panels, 0, p.length, in_panels ? panels : scratch, first, last);
  }
}

// Returns the number of scratch elements for the averages of `sets` sets and for their panels,
// rounded up to whole cache lines.
template <class T>
int64_t scratch_elements(const Operands& p, bool in_panels, int64_t sets) {
  constexpr int64_t kAlign = kLine / sizeof(T);
  const int64_t elements = sets * p.length + (in_panels ? panel_elements<T>(p, sets) : 0);
  return (elements + kAlign - 1) / kAlign * kAlign;
}

template <bool kPrefetch>
void on_one_thread(const AverageMatvec& problem, const Launch& go) {
  const Operands p = operands_of(problem);
  if (problem.out.elements() == 0) return;
  with_real(problem.vectors.type, [&]<class T>(T) {
    const bool in_panels = scattered<T>(p);
    multiply_own_sets<T, kPrefetch>(p, in_panels, in_panels ? kLanes<T> : 1, 0, p.sets,
                                    reinterpret_cast<T*>(go.scratch));
  });
}

std::size_t one_set(const AverageMatvec& problem) {
  return with_real(problem.vectors.type, [&]<class T>(T) {
    const Operands p = operands_of(problem);
    const bool in_panels = scattered<T>(p);
    return static_cast<std::size_t>(scratch_elements<T>(p, in_panels, in_panels ? kLanes<T> : 1)) *
           sizeof(T);
  });
}

// Executed FLOPs for contiguous samples and rows that are not shared by threads. Other rows take a
// few FLOPs more or less. Rows and lanes that pad a tile of the product are not counted.
double flops_of_vectors(const AverageMatvec& p) {
  return with_real(p.vectors.type, [&]<class T>(T) {
    constexpr double kReduction = kLanes<T> - 1;
    const int64_t samples = p.samples(), rest = samples % (kTree * kLanes<T>);
    if (samples < kLanes<T>) return flops_with_sums(p, static_cast<double>(samples));
    // Samples in whole vectors.
    const auto filled = static_cast<double>((rest + kLanes<T> - 1) / kLanes<T> * kLanes<T>);
    if (samples == rest) return flops_with_sums(p, filled + kReduction);
    const double of_lane = kFlopsOfTree * static_cast<double>(samples / (kTree * kLanes<T>)) +
                           (rest > 0 ? kFlopsOfAdd : 0) + kFlopsOfTotal;
    return flops_with_sums(p, of_lane * kLanes<T> + filled + kReduction);
  });
}

// ---- simd ---------------------------------------------------------------------------------------
constexpr Variant<AverageMatvec> kSimd = {
    .name = "simd",
    .changes = {"Adds and multiplies in vector registers.", Step::kWider},
    .scratch_bytes = one_set,
    .flops = flops_of_vectors,
    .run = on_one_thread<false>};

// ---- prefetch -----------------------------------------------------------------------------------
constexpr Variant<AverageMatvec> kPrefetch = {
    .name = "prefetch",
    .changes = {"Prefetches the samples 4 KiB ahead.", Step::kInFlight},
    .scratch_bytes = one_set,
    .flops = flops_of_vectors,
    .run = on_one_thread<true>};

// ---- threaded, blocked --------------------------------------------------------------------------
// Minimum size of a chunk of an operand, and of a part of a row. With four chunks per
// thread, threads end at about the same time, even if other processes delay some of them.
constexpr int64_t kChunkBytes = 32 << 10;

// Distribution of a problem over threads. With many sets, each thread has its own sets. Otherwise,
// threads share first the rows, or parts of rows, and then the matrix.
struct Plan {
  int threads;
  bool in_panels;
  int64_t together;  // sets at a time
  bool own_sets;
  int64_t parts;
};

template <class T>
Plan plan_of(const AverageMatvec& problem, bool blocked) {
  // FLOPs per core in the time of reading one byte from memory; an order of magnitude.
  constexpr int64_t kFlopsPerByte = 8;
  constexpr int64_t kGroupBytes = 256 << 10;  // of panels, which stay in L2
  constexpr int64_t kOwnSets = 16;            // per thread
  const Operands p = operands_of(problem);
  const int threads = threads_for(problem.vectors.bytes() + problem.matrix.bytes() +
                                  2 * p.sets * p.length * p.length / kFlopsPerByte);
  const int64_t rows = p.sets * p.length;
  const int64_t wanted = rows == 0 ? 1 : (4 * threads + rows - 1) / rows;
  const int64_t most = max(p.samples * static_cast<int64_t>(sizeof(T)) / kChunkBytes, 1);
  const bool in_panels = scattered<T>(p) || (blocked && p.sets >= kLanes<T> / 2);
  const int64_t panel_bytes = max(panel_elements<T>(p, 1) * static_cast<int64_t>(sizeof(T)), 1);
  return {.threads = threads,
          .in_panels = in_panels,
          .together = in_panels || blocked ? max(kGroupBytes / panel_bytes, 1) * kLanes<T> : 1,
          .own_sets = threads == 1 || p.sets >= kOwnSets * threads,
          .parts = threads == 1 ? 1 : min(wanted, most)};
}

// Returns the number of chunks of an operand.
int64_t chunks_of(const Plan& plan, int64_t bytes) {
  return plan.threads * min(max(bytes / plan.threads / kChunkBytes, 1), 4);
}

template <bool kBlocked>
std::size_t scratch_of(const AverageMatvec& problem) {
  return with_real(problem.vectors.type, [&]<class T>(T) {
    const Operands p = operands_of(problem);
    const Plan plan = plan_of<T>(problem, kBlocked);
    const int64_t rows = p.sets * p.length;
    const int64_t elements =
        plan.own_sets
            ? plan.threads * scratch_elements<T>(p, plan.in_panels, min(plan.together, p.sets))
            : scratch_elements<T>(p, plan.in_panels, p.sets) + rows * plan.parts;
    return static_cast<std::size_t>(elements) * sizeof(T);
  });
}

// Computes one of `chunks` chunks of the averages of all sets. If rows are divided into parts,
// computes the sums of parts instead. They follow the averages in memory.
template <class T>
void average_chunk(const Operands& p, const Plan& plan, T* averages, int64_t chunk,
                   int64_t chunks) {
  const int64_t rows = p.sets * p.length;
  if (plan.parts == 1) {
    const int64_t begin = rows * chunk / chunks;
    return average_rows(p, begin, rows * (chunk + 1) / chunks, averages + begin);
  }
  T* const partial = averages + rows;
  const int64_t all = rows * plan.parts;
  Checkpoints checkpoints;
  for (int64_t i = all * chunk / chunks; i < all * (chunk + 1) / chunks; ++i) {
    const int64_t row = i / plan.parts, part = i % plan.parts;
    const int64_t first = p.samples * part / plan.parts;
    const std::byte* from = p.row(row / p.length, row % p.length) + first * p.to_sample;
    const int64_t samples = p.samples * (part + 1) / plan.parts - first;
    partial[i] = sums_of_rows<T>(p, from, 1, samples, checkpoints)[0];
  }
}

// Computes the averages of all sets from the sums of the parts.
template <class T>
void average_parts(const Operands& p, const Plan& plan, T* averages) {
  const int64_t rows = p.sets * p.length;
  const T* const partial = averages + rows;
  for (int64_t row = 0; row < rows; ++row) {
    CompensatedSum<T> sum;
    for (int64_t part = 0; part < plan.parts; ++part) sum.add(partial[row * plan.parts + part]);
    averages[row] = sum.total() / static_cast<T>(p.samples);
  }
}

// Computes one of `chunks` chunks of the products of all sets. Chunks consist of whole tiles.
template <class T>
void multiply_chunk(const Operands& p, const Plan& plan, const T* averages, int64_t chunk,
                    int64_t chunks) {
  const int64_t tiles = (p.length + kRows - 1) / kRows;
  const int64_t begin = tiles * chunk / chunks * kRows;
  const int64_t end = min(tiles * (chunk + 1) / chunks * kRows, p.length);
  for (int64_t first = 0; first < p.sets; first += plan.together)
    multiply_sets(p, plan.in_panels, begin, end, averages + first * p.length, first,
                  min(first + plan.together, p.sets));
}

template <bool kBlocked>
void in_threads(const AverageMatvec& problem, const Launch& go) {
  const Operands p = operands_of(problem);
  if (problem.out.elements() == 0) return;
  with_real(problem.vectors.type, [&]<class T>(T) {
    const Plan plan = plan_of<T>(problem, kBlocked);
    T* const scratch = reinterpret_cast<T*>(go.scratch);
    if (plan.own_sets)
      return in_parallel(plan.threads, [&](int64_t thread, int64_t threads) {
        const int64_t together = min(plan.together, p.sets);
        multiply_own_sets(p, plan.in_panels, together, p.sets * thread / threads,
                          p.sets * (thread + 1) / threads,
                          scratch + thread * scratch_elements<T>(p, plan.in_panels, together));
      });
    T* const panels = scratch;
    T* const averages = panels + (plan.in_panels ? panel_elements<T>(p, p.sets) : 0);
    const int64_t average_chunks = chunks_of(plan, problem.vectors.bytes());
    in_chunks(plan.threads, average_chunks, [&](int64_t chunk, Checkpoints&) {
      average_chunk(p, plan, averages, chunk, average_chunks);
    });
    if (plan.parts > 1) average_parts(p, plan, averages);
    if (plan.in_panels) fill_panels(p, p.sets, averages, panels);
    const int64_t product_chunks = chunks_of(plan, problem.matrix.bytes());
    in_chunks(plan.threads, product_chunks, [&](int64_t chunk, Checkpoints&) {
      multiply_chunk(p, plan, plan.in_panels ? panels : averages, chunk, product_chunks);
    });
  });
}

// ---- threaded -----------------------------------------------------------------------------------
constexpr Variant<AverageMatvec> kThreaded = {
    .name = "threaded",
    .changes = {"Splits the sets among threads; with few sets, the elements, the samples and the "
                "matrix.",
                Step::kParallelism},
    .scratch_bytes = scratch_of<false>,
    .flops = flops_of_vectors,
    .run = in_threads<false>};

// ---- blocked ------------------------------------------------------------------------------------
constexpr Variant<AverageMatvec> kBlocked = {
    .name = "blocked",
    .changes = {"Reads the matrix once per group of sets; averages of a group stay in L2, and "
                "products are computed in register tiles.",
                Step::kReuse},
    .scratch_bytes = scratch_of<true>,
    .flops = flops_of_vectors,
    .run = in_threads<true>};

// -------------------------------------------------------------------------------------------------

constexpr Variant<AverageMatvec> kSteps[] = {kStreamRead, kNaiveLoops, kInterchange, kPairwise,
                                             kSimd,       kPrefetch,   kThreaded,    kBlocked};

}  // namespace

Ladder<AverageMatvec> average_matvec_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA
