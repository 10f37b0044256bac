// The GPP self-energy on the CPU. One source, compiled once per instruction set (core/isa.hpp).
//
// Steps, in reading order: the section "as published", pole.hpp (the terms with hoisted
// invariants), and the section "hoisted, and then vectorised". Engine: the sections after these.
#include "routines/gpp_tiles.hpp"

#include "core/streaming.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/gpp/pole.hpp"

namespace ado::ADO_ISA {
namespace {

int threads_of(const Gpp& p, double nanoseconds_per_term) {
  const double terms =
      static_cast<double>(p.wtilde.elements()) * static_cast<double>(p.wx.elements());
  return threads_for_seconds(1e-9 * nanoseconds_per_term * terms);
}

void write(const Gpp& p, int64_t f, const SelfEnergy<double>& result) {
  store_vector(p.asx.data + f * p.asx.stride[0], result.screened);
  store_vector(p.ach.data + f * p.ach.stride[0], result.coulomb);
}

// Sums part(0) to part(count - 1) in this order.
template <class Part>
SelfEnergy<double> sum_of_parts(int64_t count, Checkpoints& checkpoints, Part part) {
  Totals<double> totals;
  checkpoints.in_pieces<10>(0, count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) totals.add(part(i));
  });
  return totals.total();
}

// Sums part(0, f) to part(count - 1, f) in this order, for each frequency, and writes the results.
template <class Part>
void write_sums(const Gpp& p, int64_t count, Part part) {
  Checkpoints checkpoints;
  for (int64_t f = 0; f < p.frequencies(); ++f)
    write(p, f, sum_of_parts(count, checkpoints, [&](int64_t i) { return part(i, f); }));
}

// Writes zeros if there are no terms. This avoids, for example, a loop over many rows without
// columns.
template <void (*kRun)(const Gpp&, const Launch&)>
void unless_empty(const Gpp& p, const Launch& go) {
  if (!p.empty()) return kRun(p, go);
  for (int64_t f = 0; f < p.frequencies(); ++f) write(p, f, {});
}

// More bytes than can be allocated: the allocation fails with an error.
constexpr std::size_t kUnallocatable = SIZE_MAX / 2;

// Bytes of `elements` elements of T per frequency. The sizes of broadcast views are not limited by
// memory, so the product may overflow.
template <class T>
std::size_t bytes_for(const Gpp& p, int64_t elements) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(elements),
                             static_cast<std::size_t>(p.frequencies()) * sizeof(T), &bytes))
    return kUnallocatable;
  return bytes;
}

int64_t block_count(int64_t count, int64_t size) { return (count + size - 1) / size; }

#if defined(__FMA__)
constexpr bool kFused = true;
#else
constexpr bool kFused = false;
#endif

// FLOPs, and the number of FMAs among their instructions if the compiler fuses them.
struct Operations {
  double flops, fused;
  double instructions() const { return kFused ? flops - fused : flops; }
};

// Operations per term of occupied bands, per term of other bands, and per product m, which two
// frequencies share.
struct OperationCounts {
  Operations occupied, other, pair;
};

// Number of passes over the operands, with `together` frequencies per pass.
double passes(const Gpp& p, int together) {
  return static_cast<double>(block_count(p.frequencies(), together));
}

template <const OperationCounts& kCounts>
double flops(const Gpp& p) {
  return p.flops_of(kCounts.occupied.flops, kCounts.other.flops, kCounts.pair.flops * passes(p, 2));
}

template <const OperationCounts& kCounts>
double instructions(const Gpp& p) {
  return p.flops_of(kCounts.occupied.instructions(), kCounts.other.instructions(),
                    kCounts.pair.instructions() * passes(p, 2));
}

// Bytes of the loads: aqsn per band, and wtilde and i_eps per kBands bands, or once if kBands is 0.
template <int kTogether, int64_t kBands>
double requested(const Gpp& p) {
  const auto pairs = static_cast<double>(p.rows()) * static_cast<double>(p.columns());
  const auto bands = static_cast<double>(p.bands());
  const auto loads = kBands == 0 ? 1 : static_cast<double>(block_count(p.bands(), kBands));
  return pairs * passes(p, kTogether) * static_cast<double>(sizeof(Complex)) * (bands + 2 * loads);
}

// A variant. requested<kTogether, kBands> computes the bytes of its loads.
template <const OperationCounts& kCounts, int kTogether, int64_t kBands,
          std::size_t (*kScratchBytes)(const Gpp&) = nullptr>
constexpr Variant<Gpp> row(const char* name, Change changes,
                           void (*run)(const Gpp&, const Launch&)) {
  return {.name = name,
          .changes = changes,
          .scratch_bytes = kScratchBytes,
          .flops = flops<kCounts>,
          .bytes = requested<kTogether, kBands>,
          .instructions = instructions<kCounts>,
          .run = run};
}

// ---- naive_loops, threaded, bands_innermost, no_square_roots ------------------------------------
// If lanes select between branches, the first branch is counted. A division counts as one FLOP, and
// all occupied bands count as full.
constexpr OperationCounts kPublishedCounts = {{79, 21}, {68, 19}, {0, 0}};

// Nanoseconds per term. This and the other times below are orders of magnitude.
constexpr double kPublishedTime = 10;

ADO_INLINE Complex operator*(double s, Complex x) { return {s * x.re, s * x.im}; }
ADO_INLINE Complex operator/(Complex x, Complex y) {
  const double scale = y.re * y.re + y.im * y.im;
  return {(x.re * y.re + x.im * y.im) / scale, (x.im * y.re - x.re * y.im) / scale};
}
ADO_INLINE Complex conj(Complex x) { return {x.re, -x.im}; }
ADO_INLINE double norm(Complex x) { return x.re * x.re + x.im * x.im; }
ADO_INLINE double abs(Complex x) { return __builtin_sqrt(norm(x)); }

// The cut-off |ssx| <= sexcut |I|, compared with square roots or as squares.
enum class Cutoff : std::uint8_t { kModuli, kSquares };

template <Cutoff kCutoff>
ADO_INLINE bool within_cutoff(const Gpp& p, Complex ssx, Complex eps) {
  if constexpr (kCutoff == Cutoff::kModuli)
    return abs(ssx) <= p.sexcut * abs(eps);
  else
    return norm(ssx) <= p.sexcut * p.sexcut * norm(eps);
}

// The formulas of routines/gpp.hpp for one (band, igp, ig, frequency).
template <Cutoff kCutoff>
ADO_INLINE void add_term(const Gpp& p, int64_t n, int64_t igp, int64_t ig, int64_t f,
                         SelfEnergy<double>& sums) {
  const auto x = element<double>(p.wx, n, f);
  const auto w = element<Complex>(p.wtilde, igp, ig), eps = element<Complex>(p.i_eps, igp, ig);
  const Complex wdiff = {x - w.re, -w.im}, wsum = {x + w.re, w.im}, delw = w / wdiff;
  const double wdiffr = norm(wdiff), delwr = norm(delw);
  Complex sch = {}, ssx = {};
  if (wdiffr > p.limit_two() && delwr < p.limit_one()) {
    sch = delw * eps;
    ssx = (w * w) * eps / (wdiff * wsum);
  } else if (delwr > Gpp::kTolZero) {
    // delw + 1/2 suffers from cancellation if x is near -w. It equals wsum / (2 wdiff).
    ssx = -0.5 * (eps * delw * wdiff / wsum);
  }
  // The negated comparison also cuts off NaN. If x = -w, ssx is 0/0.
  if (x < 0 && !within_cutoff<kCutoff>(p, ssx, eps)) ssx = {};
  const auto occ = element<double>(p.occ, n), v = element<double>(p.vcoul, igp);
  const Complex m = conj(element<Complex>(p.aqsm, n, igp)) * element<Complex>(p.aqsn, n, ig);
  if (occ != 0) sums.screened = sums.screened + -v * occ * ssx * m;
  sums.coulomb = sums.coulomb + 0.5 * v * sch * m;
}

// Calls add(i, chain) for i from 0 to count - 1, and adds the chains to the totals.
template <class Add>
ADO_INLINE void add_chains(int64_t count, Totals<double>& totals, Checkpoints& checkpoints,
                           Add add) {
  for (int64_t begin = 0; begin < count; begin += kChain) {
    checkpoints.add(static_cast<int64_t>(kPublishedTime) * kChain);
    SelfEnergy<double> chain = {};
    for (int64_t i = begin; i < min(begin + kChain, count); ++i) add(i, chain);
    totals.add(chain);
  }
}

// ---- naive_loops --------------------------------------------------------------------------------
void naive_loops(const Gpp& p, const Launch&) {
  Checkpoints checkpoints;
  for (int64_t f = 0; f < p.frequencies(); ++f) {
    Totals<double> totals;
    for (int64_t n = 0; n < p.bands(); ++n)
      for (int64_t igp = 0; igp < p.rows(); ++igp)
        add_chains(p.columns(), totals, checkpoints, [&](int64_t ig, SelfEnergy<double>& chain) {
          add_term<Cutoff::kModuli>(p, n, igp, ig, f, chain);
        });
    write(p, f, totals.total());
  }
}

constexpr auto kNaiveLoops = row<kPublishedCounts, 1, 1>(
    "naive_loops", "Evaluates the formulas in complex arithmetic, in nested loops.",
    unless_empty<naive_loops>);

// ---- threaded -----------------------------------------------------------------------------------
std::size_t bytes_of_row_totals(const Gpp& p) {
  return p.empty() ? 0 : bytes_for<Totals<double>>(p, p.rows());
}

// The order of the additions does not depend on the number of threads.
void threaded(const Gpp& p, const Launch& go) {
  auto* const totals = reinterpret_cast<Totals<double>*>(go.scratch);
  in_parallel(threads_of(p, kPublishedTime), [&](int64_t thread, int64_t threads) {
    const int64_t first = p.rows() * thread / threads, last = p.rows() * (thread + 1) / threads;
    Checkpoints checkpoints;
    for (int64_t i = first * p.frequencies(); i < last * p.frequencies(); ++i) totals[i] = {};
    for (int64_t f = 0; f < p.frequencies(); ++f)
      for (int64_t n = 0; n < p.bands(); ++n)
        for (int64_t igp = first; igp < last; ++igp)
          add_chains(p.columns(), totals[igp * p.frequencies() + f], checkpoints,
                     [&](int64_t ig, SelfEnergy<double>& chain) {
                       add_term<Cutoff::kModuli>(p, n, igp, ig, f, chain);
                     });
  });
  write_sums(p, p.rows(),
             [&](int64_t igp, int64_t f) { return totals[igp * p.frequencies() + f].total(); });
}

constexpr auto kThreaded = row<kPublishedCounts, 1, 1, bytes_of_row_totals>(
    "threaded", {"Distributes the rows (igp) over the threads.", Step::kParallelism},
    unless_empty<threaded>);

// ---- bands_innermost, no_square_roots, hoisted, shared_division, simd ---------------------------
std::size_t bytes_of_row_sums(const Gpp& p) {
  return p.empty() ? 0 : bytes_for<SelfEnergy<double>>(p, p.rows());
}

// Distributes the rows of all frequencies over the threads. row(igp, f, checkpoints) sums one row.
template <class Row>
ADO_INLINE void distribute_rows(const Gpp& p, const Launch& go, double nanoseconds_per_term,
                                Row row) {
  auto* const sums = reinterpret_cast<SelfEnergy<double>*>(go.scratch);
  in_parallel(threads_of(p, nanoseconds_per_term), [&](int64_t thread, int64_t threads) {
    const int64_t first = p.rows() * thread / threads, last = p.rows() * (thread + 1) / threads;
    Checkpoints checkpoints;
    for (int64_t i = first * p.frequencies(); i < last * p.frequencies(); ++i)
      sums[i] = row(i / p.frequencies(), i % p.frequencies(), checkpoints);
  });
  write_sums(p, p.rows(), [&](int64_t igp, int64_t f) { return sums[igp * p.frequencies() + f]; });
}

// ---- bands_innermost, no_square_roots -----------------------------------------------------------
template <Cutoff kCutoff>
void bands_innermost(const Gpp& p, const Launch& go) {
  distribute_rows(p, go, kPublishedTime, [&](int64_t igp, int64_t f, Checkpoints& checkpoints) {
    Totals<double> totals;
    for (int64_t ig = 0; ig < p.columns(); ++ig)
      add_chains(p.bands(), totals, checkpoints, [&](int64_t n, SelfEnergy<double>& chain) {
        add_term<kCutoff>(p, n, igp, ig, f, chain);
      });
    return totals.total();
  });
}

// ---- bands_innermost ----------------------------------------------------------------------------
constexpr auto kBandsInnermost = row<kPublishedCounts, 1, 0, bytes_of_row_sums>(
    "bands_innermost",
    {"Makes the loop over bands the innermost loop, so that wtilde and i_eps are loaded once.",
     Step::kReuse},
    unless_empty<bands_innermost<Cutoff::kModuli>>);

// ---- no_square_roots ----------------------------------------------------------------------------
constexpr auto kNoSquareRoots = row<kPublishedCounts, 1, 0, bytes_of_row_sums>(
    "no_square_roots",
    {"Compares squared moduli, which saves the square roots.", Step::kOperations},
    unless_empty<bands_innermost<Cutoff::kSquares>>);

// ---- hoisted, shared_division, simd -------------------------------------------------------------
// Bands in the caller's arrays, at one frequency.
template <class V>
struct BandsInPlace {
  const Gpp& p;
  int64_t first, igp, ig, f;

  ADO_INLINE ComplexOf<V> aqsn(int64_t n) const {
    const Array& a = p.aqsn;
    return load_lanes<V>(a.data + (first + n) * a.stride[0] + ig * a.stride[1], a.stride[1],
                         p.columns() - ig);
  }
  ADO_INLINE Complex aqsm(int64_t n) const { return element<Complex>(p.aqsm, first + n, igp); }
  ADO_INLINE double energy(int64_t n, int) const { return element<double>(p.wx, first + n, f); }
  ADO_INLINE double occ(int64_t n) const { return element<double>(p.occ, first + n); }
};

template <class V, Division kDivision>
void in_place(const Gpp& p, const Launch& go) {
  constexpr double kTime = 8.0 / kLanesOf<V>;
  distribute_rows(p, go, kTime, [&](int64_t igp, int64_t f, Checkpoints& checkpoints) {
    Totals<V> totals[1];
    for (int64_t ig = 0; ig < p.columns(); ig += kLanesOf<V>) {
      const Pole<V> pole = pole_of<V>(p, igp, ig);
      for (int64_t n = 0; n < p.bands(); n += kBlockBands) {
        const int64_t count = min(kBlockBands, p.bands() - n);
        checkpoints.add(5 * count);
        add_bands<Kind::kAny, kDivision>(pole, BandsInPlace<V>{p, n, igp, ig, f}, count, totals);
      }
    }
    return sum_of_lanes(totals[0].total());
  });
}

// ---- hoisted ------------------------------------------------------------------------------------
constexpr OperationCounts kHoistedCounts = {{42, 13}, {42, 13}, {0, 0}};

constexpr auto kHoisted = row<kHoistedCounts, 1, 0, bytes_of_row_sums>(
    "hoisted",
    {"Hoists everything that does not depend on the band, so that the loop sums real "
     "factors.",
     Step::kOperations},
    unless_empty<in_place<double, Division::kSeparate>>);

// ---- shared_division, simd, packed --------------------------------------------------------------
constexpr OperationCounts kSharedDivisionCounts = {{43, 13}, {43, 13}, {0, 0}};

// ---- shared_division ----------------------------------------------------------------------------
constexpr auto kSharedDivision = row<kSharedDivisionCounts, 1, 0, bytes_of_row_sums>(
    "shared_division",
    {"Shares one division between both quotients unless the pole is near the real axis.",
     Step::kOperations},
    unless_empty<in_place<double, Division::kShared>>);

// ---- simd, packed, two_frequencies, sorted_by_occupation ----------------------------------------
using V = Reals<double>;

// ---- simd ---------------------------------------------------------------------------------------
constexpr auto kSimd = row<kSharedDivisionCounts, 1, 0, bytes_of_row_sums>(
    "simd",
    {"Vectorises along ig; lanes select between the branches.", Step::kWider, Step::kDivergence},
    unless_empty<in_place<V, Division::kShared>>);

// ---- packed, two_frequencies, sorted_by_occupation ----------------------------------------------
// A work item is a panel of kPanel columns, ig, by a block of kBlockRows rows, igp, or fewer rows:
//
//                    ig 0 .. 7    ig 8 .. 15    ...
//   igp  0 .. 63     item 0       item r              r blocks of rows
//   igp 64 .. 127    item 1       item r + 1
//   ...
//
// For each block of 256 bands, the aqsn of the panel (32 KiB) is packed once. It stays in the
// caches of the core while the rows of the item use it.
//
// An item has one sum per group of kRows consecutive rows: one sum for all its rows in gpp, one sum
// per tile in gpp_tiles.
constexpr int64_t kPanel = 8;
constexpr int64_t kBlockRows = 64;  // enough that packing aqsn costs little
static_assert(kPanel % kLanes<double> == 0);
static_assert(kBlockRows % GppTiles::kTileRows == 0);

template <int64_t kRows>
constexpr int64_t kSumsOfItem = kBlockRows / kRows;

// The operands of the bands in the order of summation: the caller's order, or sorted by kind.
struct PackedOperands {
  int64_t* order;    // the caller's index of each band
  double* energies;  // [band][frequency]
  double* occ;
  Complex* aqsm;             // [row][band]
  SelfEnergy<double>* sums;  // [item][group of rows][frequency]
  std::uintptr_t end;
};

// Rows of an item. With few items, items of fewer rows keep all threads busy. The sums of tiles
// require whole blocks.
template <int64_t kRows>
int64_t item_rows(const Gpp& p) {
  constexpr int64_t kFewItems = 64, kFewRows = 16;
  const int64_t blocks = block_count(p.rows(), kBlockRows);
  const bool few = block_count(p.columns(), kPanel) < kFewItems / blocks;
  return kRows == kBlockRows && few ? kFewRows : kBlockRows;
}

template <int64_t kRows>
int64_t items_of(const Gpp& p) {
  return block_count(p.columns(), kPanel) * block_count(p.rows(), item_rows<kRows>(p));
}

template <int64_t kRows>
PackedOperands packed_at(const Gpp& p, std::uintptr_t scratch) {
  PackedOperands packed;
  const auto take = [&]<class T>(T*& array, int64_t count) {
    array = reinterpret_cast<T*>(scratch);
    scratch += static_cast<std::size_t>(count) * sizeof(T);
  };
  take(packed.order, p.bands());
  take(packed.energies, p.bands() * p.frequencies());
  take(packed.occ, p.bands());
  take(packed.aqsm, p.rows() * p.bands());
  take(packed.sums, items_of<kRows>(p) * kSumsOfItem<kRows> * p.frequencies());
  packed.end = scratch;
  return packed;
}

template <int64_t kRows>
std::size_t packed_bytes(const Gpp& p) {
  if (p.empty()) return 0;
  // aqsm and the sums of the items are large if there are many rows and columns.
  int64_t aqsm_elements = 0;
  const bool fits =
      !__builtin_mul_overflow(p.rows(), p.bands(), &aqsm_elements) &&
      aqsm_elements < INT64_MAX / 64 && items_of<kRows>(p) < INT64_MAX / kBlockRows &&
      bytes_for<SelfEnergy<double>>(p, items_of<kRows>(p) * kSumsOfItem<kRows>) < kUnallocatable;
  return fits ? packed_at<kRows>(p, 0).end : kUnallocatable;
}

Kind kind_of(const Gpp& p, int64_t n) {
  const auto occ = element<double>(p.occ, n);
  if (occ == 0) return Kind::kEmpty;
  if (occ != 1) return Kind::kAny;
  for (int64_t f = 0; f < p.frequencies(); ++f)
    if (element<double>(p.wx, n, f) < 0) return Kind::kAny;
  return Kind::kFull;
}

void pack_rows(const Gpp& p, const PackedOperands& packed, int64_t first, int64_t last) {
  constexpr int64_t kTile = kLine / sizeof(Complex);  // reads whole cache lines of aqsm
  Checkpoints checkpoints;
  for (int64_t row = first; row < last; row += kTile)
    checkpoints.in_pieces<kTile>(0, p.bands(), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        for (int64_t igp = row; igp < min(row + kTile, last); ++igp)
          packed.aqsm[igp * p.bands() + n] = element<Complex>(p.aqsm, packed.order[n], igp);
    });
}

// The aqsn of a panel for a block of bands. With vectors of four lanes:
//
//   band n      re0 re1 re2 re3  im0 im1 im2 im3  re4 re5 re6 re7  im4 im5 im6 im7
//   band n + 1  ...
struct PackedPanel {
  alignas(kLine) double aqsn[kBlockBands * kPanel * 2];
};

void pack_panel(const Gpp& p, const int64_t* order, int64_t count, int64_t ig, PackedPanel& panel) {
  const Array& a = p.aqsn;
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t lane = 0; lane < kPanel; lane += kLanes<double>) {
      const auto q = load_lanes<V>(a.data + order[n] * a.stride[0] + (ig + lane) * a.stride[1],
                                   a.stride[1], p.columns() - ig - lane);
      std::memcpy(panel.aqsn + 2 * (n * kPanel + lane), &q, sizeof(q));
    }
  }
}

struct PackedBands {
  const double* q;
  const Complex* s;
  const double* x;
  int64_t frequencies;
  const double* occupations;

  ADO_INLINE ComplexOf<V> aqsn(int64_t n) const {
    return {load_vector<V>(q + 2 * n * kPanel),
            load_vector<V>(q + 2 * n * kPanel + kLanes<double>)};
  }
  ADO_INLINE Complex aqsm(int64_t n) const { return s[n]; }
  ADO_INLINE double energy(int64_t n, int f) const { return x[n * frequencies + f]; }
  ADO_INLINE double occ(int64_t n) const { return occupations[n]; }
};

// Rows and columns of a work item, and its first frequency.
struct WorkItem {
  int64_t f, first_row, last_row, ig;
};

template <Kind kKind, int64_t kRows, int kEnergies>
void add_item(const Gpp& p, const PackedOperands& packed, const WorkItem& item, int64_t first_band,
              int64_t last_band, Totals<V> (&totals)[kSumsOfItem<kRows>][kEnergies],
              Checkpoints& checkpoints) {
  PackedPanel panel;
  for (int64_t n = first_band; n < last_band; n += kBlockBands) {
    const int64_t count = min(kBlockBands, last_band - n);
    checkpoints.add(kEnergies * kPanel * count * (item.last_row - item.first_row));
    pack_panel(p, packed.order + n, count, item.ig, panel);
    for (int64_t igp = item.first_row; igp < item.last_row; ++igp) {
      for (int64_t lane = 0; lane < min(kPanel, p.columns() - item.ig); lane += kLanes<double>) {
        const PackedBands bands = {panel.aqsn + 2 * lane, packed.aqsm + igp * p.bands() + n,
                                   packed.energies + n * p.frequencies() + item.f, p.frequencies(),
                                   packed.occ + n};
        add_bands<kKind, Division::kShared>(pole_of<V>(p, igp, item.ig + lane), bands, count,
                                            totals[(igp - item.first_row) / kRows]);
      }
    }
  }
}

// The ends of the bands of each kind.
struct Kinds {
  int64_t any, full;
};

// Stores the sums of an item for kEnergies frequencies, beginning at `sums`.
template <int64_t kRows, int kEnergies>
void add_kinds(const Gpp& p, const PackedOperands& packed, const Kinds& kinds, const WorkItem& item,
               SelfEnergy<double>* sums, Checkpoints& checkpoints) {
  Totals<V> totals[kSumsOfItem<kRows>][kEnergies];
  add_item<Kind::kAny, kRows>(p, packed, item, 0, kinds.any, totals, checkpoints);
  add_item<Kind::kFull, kRows>(p, packed, item, kinds.any, kinds.full, totals, checkpoints);
  add_item<Kind::kEmpty, kRows>(p, packed, item, kinds.full, p.bands(), totals, checkpoints);
  for (auto& group : totals) {
    for (int f = 0; f < kEnergies; ++f) sums[f] = sum_of_lanes(group[f].total());
    sums += p.frequencies();
  }
}

template <bool kByKind>
Kinds sort_bands(const Gpp& p, const PackedOperands& packed) {
  // With few bands, preparing the poles once per kind takes longer than sorting saves.
  const bool by_kind = kByKind && p.bands() >= 20;
  int64_t count = 0;
  Checkpoints checkpoints;
  const auto append = [&](Kind kind) {
    for (int64_t n = 0; n < p.bands(); ++n) {
      checkpoints.add(10 * p.frequencies());
      if (by_kind && kind_of(p, n) != kind) continue;
      packed.order[count] = n;
      packed.occ[count] = element<double>(p.occ, n);
      for (int64_t f = 0; f < p.frequencies(); ++f)
        packed.energies[count * p.frequencies() + f] = element<double>(p.wx, n, f);
      ++count;
    }
    return count;
  };
  const int64_t any = append(Kind::kAny);
  if (!by_kind) return {any, any};
  const int64_t full = append(Kind::kFull);
  append(Kind::kEmpty);
  return {any, full};
}

// Computes the sums of all work items and stores them in scratch memory.
template <bool kByKind, int kTogether, int64_t kRows>
PackedOperands add_items(const Gpp& p, const Launch& go) {
  const PackedOperands packed = packed_at<kRows>(p, reinterpret_cast<std::uintptr_t>(go.scratch));
  const Kinds kinds = sort_bands<kByKind>(p, packed);
  const int64_t height = item_rows<kRows>(p), row_blocks = block_count(p.rows(), height);
  const int64_t items = items_of<kRows>(p);
  const int parts = threads_of(p, 6.0 / kLanes<double>);
  in_parallel(parts, [&](int64_t thread, int64_t threads) {
    pack_rows(p, packed, p.rows() * thread / threads, p.rows() * (thread + 1) / threads);
  });
  in_chunks(parts, items, [&](int64_t i, Checkpoints& checkpoints) {
    WorkItem item = {};
    item.ig = i / row_blocks * kPanel;
    item.first_row = i % row_blocks * height;
    item.last_row = min(item.first_row + height, p.rows());
    for (item.f = 0; item.f < p.frequencies(); item.f += kTogether) {
      SelfEnergy<double>* const sums =
          packed.sums + i * kSumsOfItem<kRows> * p.frequencies() + item.f;
      if (item.f + kTogether <= p.frequencies())
        add_kinds<kRows, kTogether>(p, packed, kinds, item, sums, checkpoints);
      else
        add_kinds<kRows, 1>(p, packed, kinds, item, sums, checkpoints);
    }
  });
  return packed;
}

template <bool kByKind, int kTogether>
void in_blocks(const Gpp& p, const Launch& go) {
  const PackedOperands packed = add_items<kByKind, kTogether, kBlockRows>(p, go);
  write_sums(p, items_of<kBlockRows>(p),
             [&](int64_t i, int64_t f) { return packed.sums[i * p.frequencies() + f]; });
}

// ---- packed -------------------------------------------------------------------------------------
constexpr auto kPacked = row<kSharedDivisionCounts, 1, kBlockBands, packed_bytes<kBlockRows>>(
    "packed",
    {"Packs the operands; each block of aqsn is packed once and stays in the cache for 64 igp.",
     Step::kReuse, Step::kCoalescing},
    unless_empty<in_blocks<false, 1>>);

// ---- two_frequencies ----------------------------------------------------------------------------
constexpr OperationCounts kTwoFrequenciesCounts = {{37, 11}, {37, 11}, {6, 2}};

constexpr auto kTwoFrequencies =
    row<kTwoFrequenciesCounts, 2, kBlockBands, packed_bytes<kBlockRows>>(
        "two_frequencies",
        {"Computes two frequencies per pass, which share the loads and products of the "
         "matrix elements.",
         Step::kReuse, Step::kOperations},
        unless_empty<in_blocks<false, 2>>);

// ---- sorted_by_occupation -----------------------------------------------------------------------
constexpr OperationCounts kSortedCounts = {{32, 11}, {13, 5}, {6, 2}};

constexpr auto kSortedByOccupation = row<kSortedCounts, 2, kBlockBands, packed_bytes<kBlockRows>>(
    "sorted_by_occupation",
    {"Sorts bands by occupation: empty bands skip asx; full bands with non-negative energies "
     "skip the weight and the cut-off test.",
     Step::kOperations, Step::kDivergence},
    unless_empty<in_blocks<true, 2>>);

// The sums of a tile are added over the panels in order, so they do not depend on the other tiles.
void add_tiles(const GppTiles& p, const Launch& go) {
  constexpr int64_t kRows = GppTiles::kTileRows;
  const auto write_tile = [&](int64_t tile, int64_t f, const SelfEnergy<double>& sum) {
    store_vector(p.asx.data + tile * p.asx.stride[0] + f * p.asx.stride[1], sum.screened);
    store_vector(p.ach.data + tile * p.ach.stride[0] + f * p.ach.stride[1], sum.coulomb);
  };
  const auto for_tiles = [&](auto sum_of_tile) {
    for (int64_t tile = 0; tile < p.tiles(); ++tile)
      for (int64_t f = 0; f < p.frequencies(); ++f) write_tile(tile, f, sum_of_tile(tile, f));
  };
  if (p.empty()) return for_tiles([](int64_t, int64_t) { return SelfEnergy<double>{}; });

  const PackedOperands packed = add_items<true, 2, kRows>(p, go);
  const int64_t panels = block_count(p.columns(), kPanel);
  // An item is a panel of a block of rows, and the items of a panel are consecutive. They contain
  // one sum per tile. At the end of the last block, sums can belong to no tile; these are unused.
  const int64_t sums_of_panel = block_count(p.rows(), kBlockRows) * kSumsOfItem<kRows>;
  Checkpoints checkpoints;
  for_tiles([&](int64_t tile, int64_t f) {
    return sum_of_parts(panels, checkpoints, [&](int64_t panel) {
      return packed.sums[(panel * sums_of_panel + tile) * p.frequencies() + f];
    });
  });
}

constexpr Variant<GppTiles> kTiles = {
    .name = "sorted_by_occupation",
    .changes = "The last variant of gpp, with one sum per tile of rows.",
    .scratch_bytes = [](const GppTiles& p) { return packed_bytes<GppTiles::kTileRows>(p); },
    .run = add_tiles};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Gpp> kSteps[] = {
    kNaiveLoops,     kThreaded, kBandsInnermost, kNoSquareRoots,  kHoisted,
    kSharedDivision, kSimd,     kPacked,         kTwoFrequencies, kSortedByOccupation};
constexpr Variant<GppTiles> kTilesSteps[] = {kTiles};

}  // namespace

Ladder<Gpp> gpp_ladder() { return ladder_of(kSteps); }
Ladder<GppTiles> gpp_tiles_ladder() { return ladder_of(kTilesSteps); }

}  // namespace ado::ADO_ISA
