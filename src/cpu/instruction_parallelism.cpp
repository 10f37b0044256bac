// Long chains of FMAs on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/instruction_parallelism.hpp"

#include "core/variant.hpp"
#include "cpu/common/elementwise.hpp"

namespace ado::ADO_ISA {
namespace {

using Polynomial = InstructionParallelism;

// ---- naive_loops, simd, two_vectors, four_vectors, eight_vectors, threaded ----------------------
template <class T>
constexpr Coefficients<T, Polynomial::kPeriod> kPeriodOfCoefficients{Polynomial::kStep};

// Evaluates the polynomial for kChains numbers or vectors.
template <class T, class V, int kChains>
ADO_INLINE void polynomial(const V (&x)[kChains], V (&y)[kChains]) {
#pragma GCC unroll 16
  for (int c = 0; c < kChains; ++c) y[c] = V{} + T{1};
  for (int period = 0; period < Polynomial::kPeriods; ++period)
    horner(kPeriodOfCoefficients<T>, x, y);
}

// ---- naive_loops --------------------------------------------------------------------------------
void naive_loops(const Polynomial& p, const Launch&) {
  with_real(p.x.type, [&]<class T>(T) {
    one_by_one<T, 400>(rows_of(p.x, p.out),
                       [](int64_t, const T(&x)[1], T(&y)[1]) { polynomial<T>(x, y); });
  });
}

constexpr Variant<Polynomial> kNaiveLoops = {
    .name = "naive_loops",
    .changes = "Computes one element at a time: one chain of dependent operations.",
    .run = naive_loops};

// ---- simd, two_vectors, four_vectors, eight_vectors, threaded -----------------------------------
// kChains vectors at a time. The time of a group determines the number of threads, and the time
// between checks for interruptions.
template <class T, int kChains>
ADO_INLINE Groups<kChains * kLanes<T>> groups_of(const Polynomial& p) {
  return {rows_of(p.x, p.out)};
}

template <int kChains, bool kThreaded = false>
void in_vectors(const Polynomial& p, const Launch&) {
  constexpr int64_t kNanoseconds = kChains < 4 ? 400 : 100 * kChains;
  with_real(p.x.type, [&]<class T>(T) {
    groups_of<T, kChains>(p).template for_all<T>(kThreaded, kNanoseconds,
                                                 [](const std::byte* from, std::byte* to) {
                                                   using V = Reals<T>;
                                                   V x[kChains], y[kChains];
#pragma GCC unroll 16
                                                   for (int c = 0; c < kChains; ++c)
                                                     x[c] = load_vector<V>(from + c * sizeof(V));
                                                   polynomial<T>(x, y);
#pragma GCC unroll 16
                                                   for (int c = 0; c < kChains; ++c)
                                                     store_vector(to + c * sizeof(V), y[c]);
                                                 });
  });
}

// FLOPs, including the FLOPs of padding in incomplete groups.
template <int kChains>
double flops_of_groups(const Polynomial& p) {
  return with_real(p.x.type, [&]<class T>(T) {
    return static_cast<double>(groups_of<T, kChains>(p).count() * kChains * kLanes<T>) *
           Polynomial::kFlops;
  });
}

// ---- simd ---------------------------------------------------------------------------------------
constexpr Variant<Polynomial> kSimd = {
    .name = "simd",
    .changes = {"Computes one vector of elements at a time, still with one chain.", Step::kWider},
    .flops = flops_of_groups<1>,
    .run = in_vectors<1>};

// ---- two_vectors --------------------------------------------------------------------------------
constexpr Variant<Polynomial> kTwoVectors = {
    .name = "two_vectors",
    .changes = {"Computes two vectors at a time, with two independent chains.", Step::kParallelism},
    .flops = flops_of_groups<2>,
    .run = in_vectors<2>};

// ---- four_vectors -------------------------------------------------------------------------------
constexpr Variant<Polynomial> kFourVectors = {
    .name = "four_vectors",
    .changes = {"Computes four vectors at a time, with four independent chains.",
                Step::kParallelism},
    .flops = flops_of_groups<4>,
    .run = in_vectors<4>};

// ---- eight_vectors ------------------------------------------------------------------------------
constexpr Variant<Polynomial> kEightVectors = {
    .name = "eight_vectors",
    .changes = {"Computes eight vectors at a time: two FMA units with a latency of four cycles "
                "need eight independent chains.",
                Step::kParallelism},
    .flops = flops_of_groups<8>,
    .run = in_vectors<8>};

// ---- threaded -----------------------------------------------------------------------------------
constexpr Variant<Polynomial> kThreaded = {
    .name = "threaded",
    .changes = {"Distributes the elements over the threads.", Step::kParallelism},
    .flops = flops_of_groups<8>,
    .run = in_vectors<8, true>};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Polynomial> kSteps[] = {kNaiveLoops,  kSimd,         kTwoVectors,
                                          kFourVectors, kEightVectors, kThreaded};

}  // namespace

Ladder<InstructionParallelism> instruction_parallelism_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA
