// Transpose on the CPU. One source, compiled once per instruction set (core/isa.hpp).
//
// The steps simd, streaming, prefetch and threaded are transpose_share in tiles.hpp with
// registers.hpp. The engine, `direct` in engine_direct.hpp with parts.hpp, is for small and thin
// matrices.
#include "routines/transpose.hpp"

#include "cpu/common/ceilings.hpp"
#include "cpu/transpose/engine_direct.hpp"

namespace ado::ADO_ISA {
namespace {

template <class Step>
void run(const Transpose& p, const Launch&) {
  if (p.a.elements() == 0) return;
  const Matrices m = matrices_of(p);
  switch (p.a.type.size) {
    case 1:
      return Step::template run<1>(m);
    case 2:
      return Step::template run<2>(m);
    case 4:
      return Step::template run<4>(m);
    case 8:
      return Step::template run<8>(m);
    case 16:
      return Step::template run<16>(m);
  }
}

// Outputs of at least this size are stored with non-temporal stores. a and out of 8 MiB each fill
// half of an L3 of 32 MiB, and a larger output would be evicted before it is read. In repeated
// calls on one thread (Zen 5, float32), ordinary stores are 10 % faster at 8 MiB, equal at 11 MiB,
// and 50 % slower at 16 MiB. For arrays that are not in the cache at the start, non-temporal stores
// are faster from 2 MiB on.
constexpr int64_t kStreamFrom = 8 << 20;

template <int kSize>
bool worth_streaming(const Matrices& m) {
  return m.rows * m.cols * kSize >= kStreamFrom;
}

// ---- stream_copy --------------------------------------------------------------------------------
// The ceiling (cpu/common/ceilings.hpp).
struct StreamCopy {
  template <int kSize>
  static void run(const Matrices& m) {
    stream_copy(m.out, m.a, m.rows * m.cols * kSize);
  }
};

const char* why_not_copy(const Transpose& p) {
  if (!p.a.packed()) return "a is not packed";
  if (!p.out.packed()) return "out is not packed";
  return nullptr;
}

constexpr Variant<Transpose> kStreamCopy = {
    .name = "stream_copy",
    .changes =
        "Copies the same number of bytes in order, with all threads and non-temporal stores.",
    .ceiling = true,
    .why_not = why_not_copy,
    .run = run<StreamCopy>};

// ---- naive_loops --------------------------------------------------------------------------------
struct NaiveLoops {
  template <int kSize>
  static void run(const Matrices& m) {
    const int64_t nanoseconds = 10 + touch_nanoseconds(m.out_row);
    Checkpoints checkpoints;
    for (int64_t row = 0; row < m.rows; ++row) {
      for (int64_t col = m.in_place ? row + 1 : 0; col < m.cols; ++col) {
        checkpoints.add(nanoseconds);
        if (m.in_place)
          swap_elements<kSize>(m.to(row, col), m.to(col, row));
        else
          copy_element<kSize>(m.to(row, col), m.from(row, col));
      }
    }
  }
};

constexpr Variant<Transpose> kNaiveLoops = {
    .name = "naive_loops",
    .changes = "Uses two nested loops, along the rows of the input.",
    .run = run<NaiveLoops>};

// ---- blocked ------------------------------------------------------------------------------------
struct Blocked {
  template <int kSize>
  static void run(const Matrices& m) {
    const int64_t nanoseconds = kEdge<kSize> * (10 * kEdge<kSize> + touch_nanoseconds(m.out_row));
    Checkpoints checkpoints;
    for (int64_t top = 0; top < m.rows; top += kEdge<kSize>) {
      for (int64_t left = m.in_place ? top : 0; left < m.cols; left += kEdge<kSize>) {
        const int64_t bottom = min(top + kEdge<kSize>, m.rows);
        const int64_t right = min(left + kEdge<kSize>, m.cols);
        checkpoints.add(nanoseconds);
        for (int64_t row = top; row < bottom; ++row) {
          if (m.in_place) {
            for (int64_t col = max(left, row + 1); col < right; ++col)
              swap_elements<kSize>(m.to(row, col), m.to(col, row));
          } else {
            for (int64_t col = left; col < right; ++col)
              copy_element<kSize>(m.to(row, col), m.from(row, col));
          }
        }
      }
    }
  }
};

constexpr Variant<Transpose> kBlocked = {
    .name = "blocked",
    .changes = {"Transposes square blocks that fit into the L1 cache.", Step::kReuse},
    .run = run<Blocked>};

// ---- simd, streaming, prefetch ------------------------------------------------------------------
template <bool kStream, bool kPrefetch>
struct OnOneThread {
  template <int kSize>
  static void run(const Matrices& m) {
    transpose_share<kSize, kPrefetch>(m, kStream && worth_streaming<kSize>(m), 0, 1);
  }
};
using Simd = OnOneThread<false, false>;
using Streaming = OnOneThread<true, false>;
using Prefetched = OnOneThread<true, true>;

// ---- simd ---------------------------------------------------------------------------------------
constexpr Variant<Transpose> kSimd = {
    .name = "simd",
    .changes = {"Transposes each block in vector registers.", Step::kWider},
    .run = run<Simd>};

// ---- streaming ----------------------------------------------------------------------------------
constexpr Variant<Transpose> kStreaming = {
    .name = "streaming",
    .changes = {"Stores an output larger than the cache in whole lines with non-temporal stores.",
                Step::kDramReuse},
    .run = run<Streaming>};

// ---- prefetch -----------------------------------------------------------------------------------
constexpr Variant<Transpose> kPrefetch = {
    .name = "prefetch",
    .changes = {"Prefetches a later block while it stores the current one.", Step::kInFlight},
    .run = run<Prefetched>};

// ---- threaded -----------------------------------------------------------------------------------
struct Threaded {
  template <int kSize>
  static void run(const Matrices& m) {
    in_parallel(threads_for(2 * m.rows * m.cols * kSize), [&](int thread, int threads) {
      transpose_share<kSize, true>(m, worth_streaming<kSize>(m), thread, threads);
    });
  }
};

constexpr Variant<Transpose> kThreaded = {
    .name = "threaded",
    .changes = {"Distributes the blocks over the threads.", Step::kParallelism},
    .run = run<Threaded>};

// ---- direct -------------------------------------------------------------------------------------
struct Direct {
  template <int kSize>
  static void run(const Matrices& m) {
    in_parallel(threads_for(2 * m.rows * m.cols * kSize), [&](int thread, int threads) {
      transpose_directly<kSize>(m, worth_streaming<kSize>(m), thread, threads);
    });
  }
};

const char* why_not_direct(const Transpose& p) { return p.in_place() ? "out is a" : nullptr; }

// Limits of `direct`. With one thread of a Sapphire Rapids, `direct` takes 0.5 to 0.9 times as long
// as tiles below the limits, and 1.1 to 2 times as long above them.
const char* why_slower_direct(const Transpose& p, const Hardware&) {
  constexpr int64_t kThinColumn = 128, kThinRow = 512;  // bytes of a row of a, and of out
  const Matrices m = matrices_of(p);
  const int64_t size = p.a.type.size;
  if (p.a.bytes() < kStreamFrom || m.cols * size < kThinColumn || m.rows * size < kThinRow)
    return nullptr;
  return "the matrix is neither thin nor small, and tiles are faster";
}

constexpr Variant<Transpose> kDirect = {
    .name = "direct",
    .changes = {"Transposes a small or thin matrix in registers, without a buffer.",
                Step::kOperations},
    .why_not = why_not_direct,
    .why_slower = why_slower_direct,
    .run = run<Direct>};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Transpose> kSteps[] = {kStreamCopy, kNaiveLoops, kBlocked,  kSimd,
                                         kStreaming,  kPrefetch,   kThreaded, kDirect};

}  // namespace

Ladder<Transpose> transpose_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA
