// The ceilings of the CPU routines: kernels that only copy, or only read.
#pragma once

#include "core/array.hpp"
#include "core/streaming.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/common/loops.hpp"
#include "cpu/common/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- stream_copy --------------------------------------------------------------------------------
// The ceiling of routines that read `bytes` bytes and write the same number: all threads copy with
// non-temporal stores.
ADO_INLINE void stream_copy(std::byte* to, const std::byte* from, int64_t bytes) {
  constexpr int64_t kPiece = 64 << 10;
  const int64_t pieces = (bytes + kPiece - 1) / kPiece;
  in_parallel(threads_for(2 * bytes), [&](int thread, int threads) {
    const int64_t begin = pieces * thread / threads * kPiece;
    Checkpoints checkpoints;
    checkpoints.in_pieces<1, kPiece>(
        begin, min(pieces * (thread + 1) / threads * kPiece, bytes),
        [&](int64_t at, int64_t end) { stream(to + at, from + at, end - at); });
    finish_streaming();
  });
}

// ---- stream_read, read --------------------------------------------------------------------------
// Reads memory at the maximum rate of one thread: four parts at the same time, a few lines of each
// per iteration. A tail shorter than one vector is ignored. With one part, it is 0.81 times as fast
// in L1, equally fast in L2, 0.95 times as fast in L3, and 0.65 to 1.2 times as fast in memory (Zen
// 5, 2 cores, AVX-512).
ADO_INLINE void read_through(const std::byte* from, int64_t bytes) {
  using Payload = int64_t __attribute__((vector_size(kWidth), aligned(1), may_alias));
  constexpr int kParts = 4;
  constexpr int64_t kStep = 4 * kLine;
  const auto load = [&](int64_t at) { return *reinterpret_cast<const Payload*>(from + at); };
  const int64_t part = bytes / (kParts * kStep) * kStep;
  Payload sum[kParts] = {};
  for (int64_t at = 0; at < part; at += kStep) {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i)
#pragma GCC unroll 16
      for (int64_t vector = 0; vector < kStep; vector += kWidth)
        sum[i] ^= load(i * part + at + vector);
  }
  for (int64_t at = kParts * part; at + kWidth <= bytes; at += kWidth) sum[0] ^= load(at);
  // Marks the sums as used without storing them, so that the compiler keeps the loads.
  const Payload total = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
  asm volatile("" ::"x"(total));
}

// Reads `bytes` bytes with all threads: the ceiling of routines that write far less.
ADO_INLINE void stream_read(const std::byte* from, int64_t bytes) {
  in_parallel(threads_for(bytes), [&](int thread, int threads) {
    const int64_t lines = (bytes + kLine - 1) / kLine;
    // Reading 32 MiB takes about 1 ms to 10 ms. read_through reads several parts of a piece at the
    // same time, so smaller pieces would be slower.
    constexpr int64_t kPiece = 32 << 20;
    const int64_t end = min(lines * (thread + 1) / threads * kLine, bytes);
    for (int64_t at = lines * thread / threads * kLine; at < end; at += kPiece) {
      read_through(from + at, min(kPiece, end - at));
      if (end - at > kPiece) poll();
    }
  });
}

template <class Routine, Array Routine::*kOperand>
void read_operand(const Routine& p, const Launch&) {
  stream_read((p.*kOperand).data, (p.*kOperand).bytes());
}

template <class Routine>
double no_flops(const Routine&) {
  return 0;
}

// The variant `stream_read`: reads the bytes of `kOperand` once. `why_not` must refuse an operand
// that is not packed.
template <class Routine, Array Routine::*kOperand>
constexpr Variant<Routine> stream_read_row(Change changes, const char* (*why_not)(const Routine&)) {
  return {.name = "stream_read",
          .changes = changes,
          .ceiling = true,
          .why_not = why_not,
          .flops = no_flops<Routine>,
          .run = read_operand<Routine, kOperand>};
}

}  // namespace
}  // namespace ado::ADO_ISA
