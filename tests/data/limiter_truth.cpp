// Kernels whose limiter is known by construction. benchmarks/limiter_truth.py compiles this file
// with -O3 -march=native, measures the kernels, and compares the limiters that experiments find.
// Each kernel repeats its passes over the same operands, so that their size selects the memory
// level. The compiler must not merge the passes.
#include <array>
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
ADO_TRUTH chase(std::int64_t* out, const std::int64_t* next, std::int64_t, std::int64_t steps) {
  std::int64_t place = 0;
  for (std::int64_t step = 0; step < steps; ++step) place = next[place];
  out[0] = place;
}

// Vector divisions: few of them finish per cycle, and no other unit is as busy.
ADO_TRUTH quotients(double* __restrict out, const double* __restrict b, const double* __restrict c,
                    std::int64_t n, std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes())
    for (std::int64_t i = 0; i < n; ++i) out[i] = b[i] / (1.0 + c[i]) + c[i] / (1.0 + b[i]);
}

// 24 integer operations per element and no FLOP, vectorised by the compiler.
#define ADO_ROUNDS                                                      \
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes())     \
    for (std::int64_t i = 0; i < n; ++i) {                              \
      std::uint32_t value = b[i];                                       \
      _Pragma("GCC unroll 4") for (int round = 0; round < 4; ++round) { \
        value ^= value << 13;                                           \
        value ^= value >> 17;                                           \
        value ^= value << 5;                                            \
      }                                                                 \
      out[i] = value;                                                   \
    }

ADO_TRUTH rounds(std::uint32_t* __restrict out, const std::uint32_t* __restrict b, std::int64_t n,
                 std::int64_t passes) {
  ADO_ROUNDS
}

// The same operations, one element at a time.
extern "C" ADO_SCALAR void scalar_rounds(std::uint32_t* __restrict out,
                                         const std::uint32_t* __restrict b, std::int64_t n,
                                         std::int64_t passes){ADO_ROUNDS}

// A dependent chain through a table in L1: the checksum CRC-32, byte by byte.
ADO_TRUTH checksum(std::uint32_t* out, const std::uint8_t* b, std::int64_t n, std::int64_t passes) {
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t k = 0; k < 256; ++k) {
      std::uint32_t value = k;
      for (int bit = 0; bit < 8; ++bit) value = (value & 1 ? 0xEDB88320U : 0U) ^ (value >> 1);
      entries[k] = value;
    }
    return entries;
  }();
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes()) {
    std::uint32_t state = ~0U;
    for (std::int64_t i = 0; i < n; ++i) state = table[(state ^ b[i]) & 255] ^ (state >> 8);
    out[0] = ~state;
  }
}

// A dependent chain of divisions: a continued fraction.
ADO_TRUTH continued_fraction(double* out, const double* b, std::int64_t n, std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes()) {
    double value = 0;
    for (std::int64_t i = 0; i < n; ++i) value = b[i] / (1.0 + value);
    out[0] = value;
  }
}

// A dependent chain through memory: all elements are added to the same bin.
ADO_TRUTH histogram(double* out, const std::int64_t* bins, const double* b, std::int64_t n,
                    std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes()) {
    out[0] = 0;
    for (std::int64_t i = 0; i < n; ++i) out[bins[i]] += b[i];
  }
}

// A stream of stores only.
ADO_TRUTH fill(double* out, double value, std::int64_t n, std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes())
    for (std::int64_t i = 0; i < n; ++i) out[i] = value;
}

// A stream of loads only: 32 sums in vector registers.
ADO_TRUTH total(double* out, const double* __restrict b, std::int64_t n, std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass, keep_passes()) {
    double sums[32] = {};
    std::int64_t i = 0;
    for (; i + 32 <= n; i += 32)
#pragma GCC unroll 32
      for (int k = 0; k < 32; ++k) sums[k] += b[i + k];
    for (; i < n; ++i) sums[0] += b[i];
    double sum = 0;
    for (double part : sums) sum += part;
    out[0] = sum;
  }
}
