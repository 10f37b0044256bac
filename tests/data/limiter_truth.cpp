// Kernels whose limiter is known by construction. benchmarks/limiter_truth.py compiles this file
// with -O3 -march=native, measures the kernels, and compares the limiters that experiments find.
// Each kernel repeats its passes over the same operands, so that their size selects the memory
// level. The compiler must not merge the passes.
#include <cstdint>

#define ADO_TRUTH extern "C" __attribute__((noinline, visibility("default"))) void
#define ADO_SCALAR __attribute__((noinline, optimize("no-tree-vectorize")))

namespace {

inline void keep_passes() { asm volatile("" ::: "memory"); }

}  // namespace

// A dependent chain: a first-order recurrence.
ADO_TRUTH recurrence(double* out, const double* b, const double* c, std::int64_t n,
                     std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes()) {
    double value = 0;
    for (std::int64_t i = 0; i < n; ++i) out[i] = value = value * b[i] + c[i];
  }
}

// A dependent chain: a sum in order, which must not be reassociated.
ADO_TRUTH ordered_sum(double* out, const double* b, std::int64_t n, std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes()) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += b[i];
    out[0] = sum;
  }
}

// An unvectorised loop: independent elements, one at a time.
extern "C" ADO_SCALAR void scalar_triad(double* out, const double* b, const double* c,
                                        std::int64_t n, std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes())
    for (std::int64_t i = 0; i < n; ++i) out[i] = b[i] + 3.0 * c[i];
}

// An unvectorised loop with more operations per element.
extern "C" ADO_SCALAR void scalar_polynomial(double* out, const double* b, std::int64_t n,
                                             std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes())
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = b[i];
      double value = 0.5;
      for (int k = 1; k <= 7; ++k) value = value * x + 1.0 / k;
      out[i] = value;
    }
}

// Vector arithmetic: many operations per element, vectorised by the compiler.
ADO_TRUTH polynomial(double* __restrict out, const double* __restrict b, std::int64_t n,
                     std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes())
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = b[i];
      double value = 0.5;
      // Unrolled, so that the coefficients are constants and the loop over i is the innermost.
#pragma GCC unroll 31
      for (int k = 1; k <= 31; ++k) value = value * x + 1.0 / k;
      out[i] = value;
    }
}

// A stream of the memory level that holds the operands, vectorised by the compiler.
ADO_TRUTH triad(double* __restrict out, const double* __restrict b, const double* __restrict c,
                std::int64_t n, std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes())
    for (std::int64_t i = 0; i < n; ++i) out[i] = b[i] + 3.0 * c[i];
}

// A chain of loads from random addresses: `next` is one cycle of all its elements.
ADO_TRUTH chase(std::int64_t* out, const std::int64_t* next, std::int64_t steps) {
  std::int64_t place = 0;
  for (std::int64_t step = 0; step < steps; ++step) place = next[place];
  out[0] = place;
}
