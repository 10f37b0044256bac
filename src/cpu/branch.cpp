// Branches on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/branch.hpp"

#include "core/variant.hpp"
#include "cpu/common/elementwise.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- naive_loops, simd, deinterleaved, threaded -------------------------------------------------
template <class T>
constexpr Coefficients<T, Branch::kEvenTerms> kEven{Branch::kEvenStep};
template <class T>
constexpr Coefficients<T, Branch::kOddTerms + 1> kOdd{Branch::kOddStep};

// Evaluate a formula for kChains numbers or vectors.
template <class T, class V, int kChains>
ADO_INLINE void even_formula(const V (&x)[kChains], V (&y)[kChains]) {
  constexpr auto kLast = static_cast<T>(1 - Branch::kEvenTerms * Branch::kEvenStep);
#pragma GCC unroll 8
  for (int c = 0; c < kChains; ++c) y[c] = V{} + kLast;
  horner(kEven<T>, x, y);
}
template <class T, class V, int kChains>
ADO_INLINE void odd_formula(const V (&x)[kChains], V (&y)[kChains]) {
#pragma GCC unroll 8
  for (int c = 0; c < kChains; ++c) y[c] = V{} + T{1};
  for (int k = Branch::kOddTerms; k >= 1; --k) {
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) y[c] = (x[c] * kOdd<T>.at[k]) * y[c] + T{1};
  }
}

// ---- naive_loops --------------------------------------------------------------------------------
void naive_loops(const Branch& p, const Launch&) {
  with_real(p.x.type, [&]<class T>(T) {
    one_by_one<T, 200>(rows_of(p.x, p.out), [](int64_t index, const T(&x)[1], T(&y)[1]) {
      if (index % 2 == 0)
        even_formula<T>(x, y);
      else
        odd_formula<T>(x, y);
    });
  });
}

constexpr Variant<Branch> kNaiveLoops = {
    .name = "naive_loops",
    .changes = "Branches per element and computes one formula.",
    .run = naive_loops};

// ---- simd, deinterleaved, threaded --------------------------------------------------------------
// Independent chains per formula: with a latency of four cycles and two FMAs per cycle, eight
// chains keep both units busy.
constexpr int kChains = 8;

// Estimated time per chain of a group. It determines the number of threads, and the time between
// checks for interruptions.
constexpr int64_t kNanosecondsPerVector = 64;

template <class T>
using LaneIndices = std::make_integer_sequence<int, kLanes<T>>;

// Elements per group of the simd variant, which computes both formulas for every element and
// discards one result. The number is even, so each group begins at an even flat index.
template <class T>
constexpr int64_t kElementsOfBoth = kChains* kLanes<T>;
static_assert(kChains % 2 == 0);

// ---- simd ---------------------------------------------------------------------------------------
template <class T, int... kAt>
ADO_INLINE Reals<T> select_by_parity(Reals<T> even, Reals<T> odd,
                                     std::integer_sequence<int, kAt...>) {
  return __builtin_shufflevector(even, odd, (kAt + kAt % 2 * kLanes<T>)...);
}

template <class T>
ADO_INLINE void compute_both(const std::byte* from, std::byte* to) {
  using V = Reals<T>;
  V x[kChains], even[kChains], odd[kChains];
#pragma GCC unroll 8
  for (int c = 0; c < kChains; ++c) x[c] = load_vector<V>(from + c * sizeof(V));
  even_formula<T>(x, even);
  odd_formula<T>(x, odd);
#pragma GCC unroll 8
  for (int c = 0; c < kChains; ++c)
    store_vector(to + c * sizeof(V), select_by_parity<T>(even[c], odd[c], LaneIndices<T>{}));
}

template <class T>
ADO_INLINE Groups<kElementsOfBoth<T>> groups_of_both(const Branch& p) {
  return {rows_of(p.x, p.out)};
}

void simd(const Branch& p, const Launch&) {
  with_real(p.x.type, [&]<class T>(T) {
    groups_of_both<T>(p).template for_all<T>(false, kChains * kNanosecondsPerVector,
                                             compute_both<T>);
  });
}

// Both formulas are computed for every element of a group.
double flops_of_both(const Branch& p) {
  return with_real(p.x.type, [&]<class T>(T) {
    return static_cast<double>(groups_of_both<T>(p).count() * kElementsOfBoth<T>) *
           (Branch::kEvenFlops + Branch::kOddFlops);
  });
}

constexpr Variant<Branch> kSimd = {
    .name = "simd",
    .changes = {"Computes both formulas for a vector of elements and selects by parity, without a "
                "branch.",
                Step::kDivergence},
    .flops = flops_of_both,
    .run = simd};

// ---- deinterleaved, threaded --------------------------------------------------------------------
// Elements per group of deinterleaved: twice as many, so that each formula still has kChains
// chains.
template <class T>
constexpr int64_t kElementsOfPairs = 2 * kElementsOfBoth<T>;

// The elements of one parity of two neighbouring vectors.
template <class T, int kParity, int... kAt>
ADO_INLINE Reals<T> every_other(Reals<T> low, Reals<T> high, std::integer_sequence<int, kAt...>) {
  return __builtin_shufflevector(low, high, (2 * kAt + kParity)...);
}
// The low or the high half of the elements of two vectors, alternating.
template <class T, bool kHigh, int... kAt>
ADO_INLINE Reals<T> alternate(Reals<T> even, Reals<T> odd, std::integer_sequence<int, kAt...>) {
  return __builtin_shufflevector(even, odd,
                                 ((kHigh ? kLanes<T> / 2 : 0) + kAt / 2 + kAt % 2 * kLanes<T>)...);
}

template <class T>
ADO_INLINE void compute_deinterleaved(const std::byte* from, std::byte* to) {
  using V = Reals<T>;
  constexpr LaneIndices<T> kIndices;
  V x[2][kChains], y[2][kChains];
#pragma GCC unroll 8
  for (int c = 0; c < kChains; ++c) {
    const V low = load_vector<V>(from + 2 * c * sizeof(V));
    const V high = load_vector<V>(from + (2 * c + 1) * sizeof(V));
    x[0][c] = every_other<T, 0>(low, high, kIndices);
    x[1][c] = every_other<T, 1>(low, high, kIndices);
  }
  even_formula<T>(x[0], y[0]);
  odd_formula<T>(x[1], y[1]);
#pragma GCC unroll 8
  for (int c = 0; c < kChains; ++c) {
    store_vector(to + 2 * c * sizeof(V), alternate<T, false>(y[0][c], y[1][c], kIndices));
    store_vector(to + (2 * c + 1) * sizeof(V), alternate<T, true>(y[0][c], y[1][c], kIndices));
  }
}

template <class T>
ADO_INLINE Groups<kElementsOfPairs<T>> groups_of_pairs(const Branch& p) {
  return {rows_of(p.x, p.out)};
}

template <bool kThreaded>
void deinterleaved(const Branch& p, const Launch&) {
  with_real(p.x.type, [&]<class T>(T) {
    groups_of_pairs<T>(p).template for_all<T>(kThreaded, kChains * kNanosecondsPerVector,
                                              compute_deinterleaved<T>);
  });
}

// Each formula is computed for half of the elements of a group.
double flops_of_pairs(const Branch& p) {
  return with_real(p.x.type, [&]<class T>(T) {
    return static_cast<double>(groups_of_pairs<T>(p).count() * kElementsOfPairs<T> / 2) *
           (Branch::kEvenFlops + Branch::kOddFlops);
  });
}

// ---- deinterleaved ------------------------------------------------------------------------------
constexpr Variant<Branch> kDeinterleaved = {
    .name = "deinterleaved",
    .changes = {"Separates two vectors into even and odd elements, so that each element takes one "
                "formula.",
                Step::kOperations},
    .flops = flops_of_pairs,
    .run = deinterleaved<false>};

// ---- threaded -----------------------------------------------------------------------------------
constexpr Variant<Branch> kThreaded = {
    .name = "threaded",
    .changes = {"Distributes the elements over the threads.", Step::kParallelism},
    .flops = flops_of_pairs,
    .run = deinterleaved<true>};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Branch> kSteps[] = {kNaiveLoops, kSimd, kDeinterleaved, kThreaded};

}  // namespace

Ladder<Branch> branch_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA
