// The ceilings of the CPU: bandwidth per memory level and floating-point throughput, with all
// threads and the widest registers of the instruction set.
#include "routines/ceilings.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu/common/ceilings.hpp"

namespace ado::ADO_ISA {
namespace {

using Payload = std::int64_t __attribute__((vector_size(kWidth), aligned(8), may_alias));
using Doubles = double __attribute__((vector_size(kWidth)));

// ---- copy, write --------------------------------------------------------------------------------
ADO_INLINE void stream(Payload* to, Payload value) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(value));
#elif defined(__AVX2__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(value));
#elif defined(__x86_64__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<__m128i>(value));
#else
  *to = value;
#endif
}

// ---- copy, read, write --------------------------------------------------------------------------
// The vectors of an array that one thread accesses, aligned for non-temporal stores.
struct Share {
  Payload* data;
  std::int64_t vectors;
};

Share share(const Array& a, std::int64_t thread, std::int64_t threads) {
  constexpr std::int64_t kAlign = 64;
  const auto address = reinterpret_cast<std::int64_t>(a.data);
  const std::int64_t skip = (kAlign - address % kAlign) % kAlign;
  const std::int64_t each = (a.bytes() - skip) / threads / kAlign * kAlign;
  if (each <= 0) return {nullptr, 0};
  return {reinterpret_cast<Payload*>(a.data + skip + thread * each), each / kWidth};
}

template <class Work>
ADO_INLINE void on_every_thread(const Work& work) {
  in_parallel(max_threads(), work);
}

// ---- copy ---------------------------------------------------------------------------------------
void ceiling_copy(const Ceilings& p, const Launch&) {
  on_every_thread([&](int thread, int threads) {
    const Share from = share(p.src, thread, threads), to = share(p.dst, thread, threads);
    const std::int64_t vectors = from.vectors < to.vectors ? from.vectors : to.vectors;
    Checkpoints checkpoints;
    checkpoints.in_pieces(0, vectors, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) stream(to.data + i, from.data[i]);
    });
    finish_streaming();
  });
}

constexpr Variant<Ceilings> kCopy = {
    .name = "copy",
    .changes = "Copies with non-temporal stores, which do not read the lines they overwrite.",
    .ceiling = true,
    .run = ceiling_copy};

// ---- read, write --------------------------------------------------------------------------------
double bytes_read(const Ceilings& p) {
  return static_cast<double>(p.passes) * max_threads() *
         static_cast<double>(share(p.src, 0, max_threads()).vectors) * kWidth;
}
double bytes_written(const Ceilings& p) { return static_cast<double>(p.dst.bytes()); }

// ---- read ---------------------------------------------------------------------------------------
// Each thread reads its own share `passes` times, so the size of src selects the memory level.
void ceiling_read(const Ceilings& p, const Launch&) {
  on_every_thread([&](int thread, int threads) {
    const Share from = share(p.src, thread, threads);
    Checkpoints checkpoints;
    for (std::int64_t pass = 0; pass < p.passes; ++pass) {
      checkpoints.add(from.vectors);
      // Tells the compiler that the data may have changed, so that it keeps all passes.
      asm volatile("" ::: "memory");
      read_through(reinterpret_cast<const std::byte*>(from.data), from.vectors * kWidth);
    }
  });
}

constexpr Variant<Ceilings> kRead = {.name = "read",
                                     .changes = "Only reads; each thread reads its own share.",
                                     .ceiling = true,
                                     .bytes = bytes_read,
                                     .run = ceiling_read};

// ---- write --------------------------------------------------------------------------------------
void ceiling_write(const Ceilings& p, const Launch&) {
  on_every_thread([&](int thread, int threads) {
    const Share to = share(p.dst, thread, threads);
    const Payload value = Payload{} + thread;
    Checkpoints checkpoints;
    checkpoints.in_pieces(0, to.vectors, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) stream(to.data + i, value);
    });
    finish_streaming();
  });
}

constexpr Variant<Ceilings> kWrite = {.name = "write",
                                      .changes = "Only writes, with non-temporal stores.",
                                      .ceiling = true,
                                      .bytes = bytes_written,
                                      .run = ceiling_write};

// ---- fma_fp64, add_fp64, fma_fp32, add_fp32 -----------------------------------------------------
// Number of independent chains: enough to hide the latency (4 or 5 cycles, at 2 instructions per
// cycle), and few enough for 16 registers.
constexpr int kChains = 12;
constexpr int kStepsPerPass = 64;

template <class Vector, bool kFused>
void ceiling_flops(const Ceilings& p, const Launch&) {
  on_every_thread([&](int thread, int) {
    Vector chain[kChains];
    for (int c = 0; c < kChains; ++c) chain[c] = 1.0F + static_cast<float>(thread + c) + Vector{};
    Vector factor = 0.999F + Vector{}, term = 0.001F + Vector{};
    Checkpoints checkpoints;
    checkpoints.in_pieces<kStepsPerPass>(0, p.passes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pass = begin; pass < end; ++pass) {
        asm volatile("" : "+x"(factor), "+x"(term));  // prevents constant folding
        for (int step = 0; step < kStepsPerPass; ++step)
          for (int c = 0; c < kChains; ++c)
            chain[c] = kFused ? chain[c] * factor + term : chain[c] + term;
      }
    });
    Vector total = chain[0];
    for (int c = 1; c < kChains; ++c) total += chain[c];
    asm volatile("" ::"x"(total));
  });
}

template <class Vector, bool kFused>
double flops_of(const Ceilings& p) {
  constexpr int kLanes = sizeof(Vector) / sizeof(Vector{}[0]);
  return static_cast<double>(p.passes) * max_threads() * kStepsPerPass * kChains * kLanes *
         (kFused ? 2 : 1);
}

double no_bytes(const Ceilings&) { return 0; }

template <class Vector, bool kFused>
constexpr Variant<Ceilings> arithmetic(const char* name, Change changes) {
  return {.name = name,
          .changes = changes,
          .ceiling = true,
          .flops = flops_of<Vector, kFused>,
          .bytes = no_bytes,
          .run = ceiling_flops<Vector, kFused>};
}

// ---- fma_fp64 -----------------------------------------------------------------------------------
constexpr auto kFmaFp64 = arithmetic<Doubles, true>(
    "fma_fp64", "Computes independent chains of multiplications and additions in float64.");

// ---- add_fp64 -----------------------------------------------------------------------------------
constexpr auto kAddFp64 =
    arithmetic<Doubles, false>("add_fp64", "Computes independent chains of additions in float64.");

// ---- fma_fp32 -----------------------------------------------------------------------------------
constexpr auto kFmaFp32 = arithmetic<Floats, true>(
    "fma_fp32", "Computes independent chains of multiplications and additions in float32.");

// ---- add_fp32 -----------------------------------------------------------------------------------
constexpr auto kAddFp32 =
    arithmetic<Floats, false>("add_fp32", "Computes independent chains of additions in float32.");

// -------------------------------------------------------------------------------------------------

constexpr Variant<Ceilings> kSteps[] = {kCopy,    kRead,    kWrite,  kFmaFp64,
                                        kAddFp64, kFmaFp32, kAddFp32};

}  // namespace

Ladder<Ceilings> ceilings_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA
