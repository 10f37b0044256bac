// The GPP self-energy on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/gpp.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/isa.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/common/streaming.hpp"
#include "cpu/common/vectors.hpp"
#include "cpu/gpp/pole.hpp"

namespace ado::ADO_ISA {
namespace {

// What is worth a thread: 20 bytes moved count a nanosecond.
int threads_of(const Gpp& p, double nanoseconds_a_term) {
  const double terms =
      static_cast<double>(p.wtilde.elements()) * static_cast<double>(p.wx.elements());
  constexpr double kMost = 0x1p60;
  const double bytes = 20 * nanoseconds_a_term * terms;
  return threads_for(static_cast<int64_t>(bytes < kMost ? bytes : kMost));
}

void write(const Gpp& p, int64_t f, const Terms<double>& result) {
  store_vector(p.asx.data + f * p.asx.stride[0], result.screened);
  store_vector(p.ach.data + f * p.ach.stride[0], result.coulomb);
}

// Adds up, in their order, what was found of each frequency.
template <class Found>
void write_sums(const Gpp& p, int64_t count, Found found) {
  for (int64_t f = 0; f < p.frequencies(); ++f) {
    Totals<double> totals;
    for (int64_t i = 0; i < count; ++i) totals.add(found(i, f));
    write(p, f, totals.total());
  }
}

// ------------------------------------------------------------------------------------ as published

// Nanoseconds a term, by order of magnitude, as everywhere below.
constexpr double kPublishedTime = 10;

ADO_INLINE Complex operator*(double s, Complex x) { return {s * x.re, s * x.im}; }
ADO_INLINE Complex operator/(Complex x, Complex y) {
  const double scale = y.re * y.re + y.im * y.im;
  return {(x.re * y.re + x.im * y.im) / scale, (x.im * y.re - x.re * y.im) / scale};
}
ADO_INLINE Complex conj(Complex x) { return {x.re, -x.im}; }
ADO_INLINE double norm(Complex x) { return x.re * x.re + x.im * x.im; }
ADO_INLINE double abs(Complex x) { return __builtin_sqrt(norm(x)); }

ADO_INLINE void add_term(const Gpp& p, int64_t n, int64_t igp, int64_t ig, int64_t f,
                         Terms<double>& sums) {
  const auto x = element<double>(p.wx, n, f);
  const auto w = element<Complex>(p.wtilde, igp, ig), eps = element<Complex>(p.i_eps, igp, ig);
  const Complex wdiff = {x - w.re, -w.im}, wsum = {x + w.re, w.im}, delw = w / wdiff;
  const double wdiffr = norm(wdiff), delwr = norm(delw);
  Complex sch = {}, ssx = {};
  if (wdiffr > p.limit_two() && delwr < p.limit_one()) {
    sch = delw * eps;
    ssx = (w * w) * eps / (wdiff * wsum);
  } else if (delwr > Gpp::kTolZero) {
    // delw + 1/2, which cancels where x is near -w, is wsum / (2 wdiff).
    ssx = -0.5 * (eps * delw * wdiff / wsum);
  }
  // So written, the comparison also cuts off 0/0 of an infinite ssx.
  if (x < 0 && !(abs(ssx) <= p.sexcut * abs(eps))) ssx = {};
  const auto occ = element<double>(p.occ, n), v = element<double>(p.vcoul, igp);
  const Complex m = conj(element<Complex>(p.aqsm, n, igp)) * element<Complex>(p.aqsn, n, ig);
  if (occ != 0) sums.screened = sums.screened + -v * occ * ssx * m;
  sums.coulomb = sums.coulomb + 0.5 * v * sch * m;
}

// Adds `count` terms, of which `add` adds the i-th.
template <class Add>
ADO_INLINE void add_chains(int64_t count, Totals<double>& totals, Add add) {
  for (int64_t begin = 0; begin < count; begin += kChain) {
    Terms<double> chain = {};
    for (int64_t i = begin; i < min(begin + kChain, count); ++i) add(i, chain);
    totals.add(chain);
  }
}

// Zeros where there is nothing to add up, however long a loop over rows without columns would take.
template <void (*kRun)(const Gpp&, const Launch&)>
void unless_empty(const Gpp& p, const Launch& go) {
  if (!p.empty()) return kRun(p, go);
  for (int64_t f = 0; f < p.frequencies(); ++f) write(p, f, {});
}

void textbook(const Gpp& p, const Launch&) {
  for (int64_t f = 0; f < p.frequencies(); ++f) {
    Totals<double> totals;
    for (int64_t n = 0; n < p.bands(); ++n)
      for (int64_t igp = 0; igp < p.rows(); ++igp)
        add_chains(p.columns(), totals,
                   [&](int64_t ig, Terms<double>& chain) { add_term(p, n, igp, ig, f, chain); });
    write(p, f, totals.total());
  }
}

// Bytes for so many elements of T in each frequency; of views that repeat a row more than there are
// addresses, so many that nobody has them.
template <class T>
std::size_t bytes_for(const Gpp& p, int64_t elements) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(elements),
                             static_cast<std::size_t>(p.frequencies()) * sizeof(T), &bytes))
    return SIZE_MAX / 2;
  return bytes;
}

std::size_t totals_of_rows(const Gpp& p) {
  return p.empty() ? 0 : bytes_for<Totals<double>>(p, p.rows());
}

// Whatever the number of threads, terms are added in the same order.
void threaded(const Gpp& p, const Launch& go) {
  auto* const totals = reinterpret_cast<Totals<double>*>(go.scratch);
  in_parallel(threads_of(p, kPublishedTime), [&](int64_t thread, int64_t threads) {
    const int64_t first = p.rows() * thread / threads, last = p.rows() * (thread + 1) / threads;
    for (int64_t i = first * p.frequencies(); i < last * p.frequencies(); ++i) totals[i] = {};
    for (int64_t f = 0; f < p.frequencies(); ++f)
      for (int64_t n = 0; n < p.bands(); ++n)
        for (int64_t igp = first; igp < last; ++igp)
          add_chains(p.columns(), totals[igp * p.frequencies() + f],
                     [&](int64_t ig, Terms<double>& chain) { add_term(p, n, igp, ig, f, chain); });
  });
  write_sums(p, p.rows(),
             [&](int64_t igp, int64_t f) { return totals[igp * p.frequencies() + f].total(); });
}

std::size_t terms_of_rows(const Gpp& p) {
  return p.empty() ? 0 : bytes_for<Terms<double>>(p, p.rows());
}

// Shares out the rows of all frequencies, of which `row` adds one.
template <class Row>
ADO_INLINE void share_rows(const Gpp& p, const Launch& go, double nanoseconds_a_term, Row row) {
  auto* const sums = reinterpret_cast<Terms<double>*>(go.scratch);
  in_parallel(threads_of(p, nanoseconds_a_term), [&](int64_t thread, int64_t threads) {
    const int64_t first = p.rows() * thread / threads, last = p.rows() * (thread + 1) / threads;
    for (int64_t i = first * p.frequencies(); i < last * p.frequencies(); ++i)
      sums[i] = row(i / p.frequencies(), i % p.frequencies());
  });
  write_sums(p, p.rows(), [&](int64_t igp, int64_t f) { return sums[igp * p.frequencies() + f]; });
}

void bands_innermost(const Gpp& p, const Launch& go) {
  share_rows(p, go, kPublishedTime, [&](int64_t igp, int64_t f) {
    Totals<double> totals;
    for (int64_t ig = 0; ig < p.columns(); ++ig)
      add_chains(p.bands(), totals,
                 [&](int64_t n, Terms<double>& chain) { add_term(p, n, igp, ig, f, chain); });
    return totals.total();
  });
}

// -------------------------------------------------------------------------- hoisted and in vectors

// Some bands as the caller has them, at one frequency.
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

template <class V>
void in_place(const Gpp& p, const Launch& go) {
  share_rows(p, go, 5.0 / kLanesOf<V>, [&](int64_t igp, int64_t f) {
    Totals<V> totals[1];
    for (int64_t ig = 0; ig < p.columns(); ig += kLanesOf<V>) {
      const Pole<V> pole = pole_of<V>(p, igp, ig);
      for (int64_t n = 0; n < p.bands(); n += kBlockBands)
        add_bands<Kind::kAny>(pole, BandsInPlace<V>{p, n, igp, ig, f},
                              min(kBlockBands, p.bands() - n), totals);
    }
    return sum_of_lanes(totals[0].total());
  });
}

// ---------------------------------------------------------------------------------------- blocked

using V = Reals<double>;

// The aqsn of a block of bands in so many columns, 32 KiB, stays near the core while the rows of a
// block go past, for which what is done once costs little.
constexpr int64_t kPanel = 8;
constexpr int64_t kBlockRows = 64;
static_assert(kPanel % kLanes<double> == 0);

int64_t blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Of bands in the order in which they are added: all at once, or kind by kind.
struct Packed {
  int64_t* order;
  double* energies;  // [band][frequency]
  double* occ;
  Complex* aqsm;         // [row][band]
  Terms<double>* parts;  // [part][frequency]: sums of a panel of columns and a block of rows
  std::uintptr_t end;
};

int64_t parts_of(const Gpp& p) {
  return blocks(p.columns(), kPanel) * blocks(p.rows(), kBlockRows);
}

Packed packed_at(const Gpp& p, std::uintptr_t scratch) {
  Packed packed;
  const auto take = [&]<class T>(T*& array, int64_t count) {
    array = reinterpret_cast<T*>(scratch);
    scratch += static_cast<std::size_t>(count) * sizeof(T);
  };
  take(packed.order, p.bands());
  take(packed.energies, p.bands() * p.frequencies());
  take(packed.occ, p.bands());
  take(packed.aqsm, p.rows() * p.bands());
  take(packed.parts, parts_of(p) * p.frequencies());
  packed.end = scratch;
  return packed;
}

std::size_t packed_bytes(const Gpp& p) {
  if (p.empty()) return 0;
  constexpr std::size_t kNobodyHas = SIZE_MAX / 2;
  // aqsm and the parts are what many rows and columns make large.
  int64_t of_aqsm = 0;
  const bool fits = !__builtin_mul_overflow(p.rows(), p.bands(), &of_aqsm) &&
                    of_aqsm < INT64_MAX / 64 &&
                    bytes_for<Terms<double>>(p, parts_of(p)) < kNobodyHas;
  return fits ? packed_at(p, 0).end : kNobodyHas;
}

Kind kind_of(const Gpp& p, int64_t n) {
  const auto occ = element<double>(p.occ, n);
  if (occ == 0) return Kind::kEmpty;
  if (occ != 1) return Kind::kAny;
  for (int64_t f = 0; f < p.frequencies(); ++f)
    if (element<double>(p.wx, n, f) < 0) return Kind::kAny;
  return Kind::kFull;
}

void pack_rows(const Gpp& p, const Packed& packed, int64_t first, int64_t last) {
  constexpr int64_t kTile = kLine / sizeof(Complex);  // of the caller's, whole lines
  for (int64_t row = first; row < last; row += kTile)
    for (int64_t n = 0; n < p.bands(); ++n)
      for (int64_t igp = row; igp < min(row + kTile, last); ++igp)
        packed.aqsm[igp * p.bands() + n] = element<Complex>(p.aqsm, packed.order[n], igp);
}

// aqsn of a block: [band][vector], of each vector first the real and then the imaginary parts.
struct Block {
  alignas(kLine) double aqsn[kBlockBands * kPanel * 2];
};

void pack_block(const Gpp& p, const int64_t* order, int64_t count, int64_t ig, Block& block) {
  const Array& a = p.aqsn;
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t lane = 0; lane < kPanel; lane += kLanes<double>) {
      const auto q = load_lanes<V>(a.data + order[n] * a.stride[0] + (ig + lane) * a.stride[1],
                                   a.stride[1], p.columns() - ig - lane);
      std::memcpy(block.aqsn + 2 * (n * kPanel + lane), &q, sizeof(q));
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

// Some energies, rows and columns.
struct Part {
  int64_t f, first_row, last_row, ig;
};

template <Kind kKind, int kEnergies>
void add_part(const Gpp& p, const Packed& packed, const Part& part, int64_t first_band,
              int64_t last_band, Totals<V> (&totals)[kEnergies]) {
  Block block;
  for (int64_t n = first_band; n < last_band; n += kBlockBands) {
    const int64_t count = min(kBlockBands, last_band - n);
    pack_block(p, packed.order + n, count, part.ig, block);
    for (int64_t igp = part.first_row; igp < part.last_row; ++igp) {
      for (int64_t lane = 0; lane < min(kPanel, p.columns() - part.ig); lane += kLanes<double>) {
        const PackedBands bands = {block.aqsn + 2 * lane, packed.aqsm + igp * p.bands() + n,
                                   packed.energies + n * p.frequencies() + part.f, p.frequencies(),
                                   packed.occ + n};
        add_bands<kKind>(pole_of<V>(p, igp, part.ig + lane), bands, count, totals);
      }
    }
  }
}

// Where each kind of bands ends.
struct Kinds {
  int64_t any, full;
};

template <int kEnergies>
void add_kinds(const Gpp& p, const Packed& packed, const Kinds& kinds, const Part& part,
               Terms<double>* sums) {
  Totals<V> totals[kEnergies];
  add_part<Kind::kAny>(p, packed, part, 0, kinds.any, totals);
  add_part<Kind::kFull>(p, packed, part, kinds.any, kinds.full, totals);
  add_part<Kind::kEmpty>(p, packed, part, kinds.full, p.bands(), totals);
  for (int f = 0; f < kEnergies; ++f) sums[f] = sum_of_lanes(totals[f].total());
}

template <bool kByKind>
Kinds sort_bands(const Gpp& p, const Packed& packed) {
  int64_t count = 0;
  const auto append = [&](Kind kind) {
    for (int64_t n = 0; n < p.bands(); ++n) {
      if (kByKind && kind_of(p, n) != kind) continue;
      packed.order[count] = n;
      packed.occ[count] = element<double>(p.occ, n);
      for (int64_t f = 0; f < p.frequencies(); ++f)
        packed.energies[count * p.frequencies() + f] = element<double>(p.wx, n, f);
      ++count;
    }
    return count;
  };
  const int64_t any = append(Kind::kAny);
  if (!kByKind) return {any, any};
  const int64_t full = append(Kind::kFull);
  append(Kind::kEmpty);
  return {any, full};
}

template <bool kByKind>
void in_blocks(const Gpp& p, const Launch& go) {
  const Packed packed = packed_at(p, reinterpret_cast<std::uintptr_t>(go.scratch));
  const Kinds kinds = sort_bands<kByKind>(p, packed);
  const int64_t parts = parts_of(p), of_rows = blocks(p.rows(), kBlockRows);
  in_parallel(threads_of(p, 2.5 / kLanes<double>), [&](int64_t thread, int64_t threads) {
    pack_rows(p, packed, p.rows() * thread / threads, p.rows() * (thread + 1) / threads);
#pragma omp barrier
    for (int64_t i = parts * thread / threads; i < parts * (thread + 1) / threads; ++i) {
      Part part = {};
      part.ig = i / of_rows * kPanel;
      part.first_row = i % of_rows * kBlockRows;
      part.last_row = min(part.first_row + kBlockRows, p.rows());
      for (part.f = 0; part.f < p.frequencies(); part.f += 2) {
        Terms<double>* const sums = packed.parts + i * p.frequencies() + part.f;
        if (part.f + 2 <= p.frequencies())
          add_kinds<2>(p, packed, kinds, part, sums);
        else
          add_kinds<1>(p, packed, kinds, part, sums);
      }
    }
  });
  write_sums(p, parts, [&](int64_t i, int64_t f) { return packed.parts[i * p.frequencies() + f]; });
}

// -------------------------------------------------------------------------------------- the ladder

#if defined(__FMA__)
constexpr bool kFused = true;
#else
constexpr bool kFused = false;
#endif

// FLOPs of a kernel, and how many of them are in the same instruction as another one.
struct Work {
  double flops, fused;
  double instructions() const { return kFused ? flops - fused : flops; }
};

// By terms of occupied and of other bands, and by m where energies share it.
struct Works {
  Work occupied, other, pair;
};

// The first branch where lanes choose, a division as one, and occupied bands as if all were full.
constexpr Works kPublished = {{79, 21}, {68, 19}, {0, 0}};
constexpr Works kHoisted = {{43, 13}, {43, 13}, {0, 0}};
constexpr Works kPacked = {{37, 11}, {37, 11}, {6, 2}};
constexpr Works kByOccupation = {{32, 11}, {13, 5}, {6, 2}};

// Frequencies are gone through one by one or two by two.
double passes(const Gpp& p, int together) {
  return static_cast<double>(blocks(p.frequencies(), together));
}

template <const Works& kWorks>
double flops(const Gpp& p) {
  return p.flops_of(kWorks.occupied.flops, kWorks.other.flops, kWorks.pair.flops * passes(p, 2));
}

template <const Works& kWorks>
double instructions(const Gpp& p) {
  return p.flops_of(kWorks.occupied.instructions(), kWorks.other.instructions(),
                    kWorks.pair.instructions() * passes(p, 2));
}

// Of aqsn for each band, and of wtilde and i_eps for each so many bands.
template <int kTogether, int64_t kBands>
double requested(const Gpp& p) {
  const auto pairs = static_cast<double>(p.rows()) * static_cast<double>(p.columns());
  const auto bands = static_cast<double>(p.bands());
  const auto loads = kBands == 0 ? 1 : static_cast<double>(blocks(p.bands(), kBands));
  return pairs * passes(p, kTogether) * static_cast<double>(sizeof(Complex)) * (bands + 2 * loads);
}

constexpr Variant<Gpp> kVariants[] = {
    {.name = "textbook",
     .changes = "The formulas with complex numbers, one loop inside the other.",
     .precision = Gpp::kPrecision,
     .flops = flops<kPublished>,
     .bytes = requested<1, 1>,
     .instructions = instructions<kPublished>,
     .run = unless_empty<textbook>},
    {.name = "threaded",
     .changes = "Shares the rows, igp, out over the cores.",
     .precision = Gpp::kPrecision,
     .scratch_bytes = totals_of_rows,
     .flops = flops<kPublished>,
     .bytes = requested<1, 1>,
     .instructions = instructions<kPublished>,
     .run = unless_empty<threaded>},
    {.name = "bands_innermost",
     .changes = "Goes through all bands for each igp and ig.",
     .precision = Gpp::kPrecision,
     .scratch_bytes = terms_of_rows,
     .flops = flops<kPublished>,
     .bytes = requested<1, 0>,
     .instructions = instructions<kPublished>,
     .run = unless_empty<bands_innermost>},
    {.name = "hoisted",
     .changes = "Takes out of the loop over bands all that igp and ig alone decide: left are real "
                "factors, one division for two quotients, and no square root.",
     .precision = Gpp::kPrecision,
     .scratch_bytes = terms_of_rows,
     .flops = flops<kHoisted>,
     .bytes = requested<1, 0>,
     .instructions = instructions<kHoisted>,
     .run = unless_empty<in_place<double>>},
    {.name = "simd",
     .changes = "Does so in vectors along ig, which choose between the branches lane by lane.",
     .precision = Gpp::kPrecision,
     .scratch_bytes = terms_of_rows,
     .flops = flops<kHoisted>,
     .bytes = requested<1, 0>,
     .instructions = instructions<kHoisted>,
     .run = unless_empty<in_place<V>>},
    {.name = "packed",
     .changes = "Packs the operands, aqsn in blocks that stay in the cache for many igp, and takes "
                "two frequencies at a time.",
     .precision = Gpp::kPrecision,
     .scratch_bytes = packed_bytes,
     .flops = flops<kPacked>,
     .bytes = requested<2, kBlockBands>,
     .instructions = instructions<kPacked>,
     .run = unless_empty<in_blocks<false>>},
    {.name = "by_occupation",
     .changes = "Sorts the bands: without occupation they need nothing of asx, with all of it and "
                "no negative energy neither weight nor cut-off.",
     .precision = Gpp::kPrecision,
     .scratch_bytes = packed_bytes,
     .flops = flops<kByOccupation>,
     .bytes = requested<2, kBlockBands>,
     .instructions = instructions<kByOccupation>,
     .run = unless_empty<in_blocks<true>>},
};

}  // namespace

Ladder<Gpp> gpp_ladder() { return ladder_of(kVariants); }

}  // namespace ado::ADO_ISA
