// Gather on the CPU. One source, compiled once per instruction set (core/isa.hpp).
//
// If x is larger than the cache, each element is a cache miss. A processor overlaps only the misses
// within its out-of-order window of a few hundred instructions. Prefetches reach farther ahead.
#include "routines/gather.hpp"

#include "core/streaming.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/common/loops.hpp"
#include "cpu/common/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- naive_loops, prefetch, streaming, threaded -------------------------------------------------
// The address of the element that index i selects. Index is the type of the indices.
template <class Index>
ADO_INLINE const std::byte* selected(const Gather& p, int64_t i) {
  const int64_t wanted = load<Index>(p.index.data + i * p.index.stride[0]);
  return p.x.data + min(max(wanted, 0), p.x.shape[0] - 1) * p.x.stride[0];
}

// Stores elements begin to end - 1 of the result at `to`, `to_step` bytes apart.
template <int kSize, class Index>
ADO_INLINE void gather_to(const Gather& p, int64_t begin, int64_t end, std::byte* to,
                          int64_t to_step) {
  using T = typename ElementOf<kSize>::Type;
  for (int64_t i = begin; i < end; ++i)
    store_vector(to + (i - begin) * to_step, load<T>(selected<Index>(p, i)));
}

// Calls piece(from, to) for consecutive ranges of elements, so that calls can be interrupted.
template <class Piece>
ADO_INLINE void in_parts(const Gather& p, int64_t begin, int64_t end, const Piece& piece) {
  // An element that is not in the cache takes up to about 100 ns.
  const int64_t nanoseconds = 20 + touch_nanoseconds(p.out.stride[0]);
  constexpr int64_t kUnit = 2 * kLine;  // parts begin at whole lines
  const int64_t items = (Checkpoints::kBetween / nanoseconds / kUnit + 1) * kUnit;
  Checkpoints checkpoints;
  checkpoints.in_pieces_of(items, nanoseconds, begin, end, piece);
}

template <class Step, class Index>
void run_with(const Gather& p) {
  switch (p.x.type.size) {
    case 1:
      return Step::template run<1, Index>(p);
    case 2:
      return Step::template run<2, Index>(p);
    case 4:
      return Step::template run<4, Index>(p);
    case 8:
      return Step::template run<8, Index>(p);
    case 16:
      return Step::template run<16, Index>(p);
  }
}

template <class Step>
void run(const Gather& p, const Launch&) {
  if (p.index.type.size == 4)
    run_with<Step, std::int32_t>(p);
  else
    run_with<Step, std::int64_t>(p);
}

// ---- naive_loops --------------------------------------------------------------------------------
struct NaiveLoops {
  template <int kSize, class Index>
  static void run(const Gather& p) {
    in_parts(p, 0, p.count(), [&](int64_t begin, int64_t end) {
      gather_to<kSize, Index>(p, begin, end, p.out.data + begin * p.out.stride[0], p.out.stride[0]);
    });
  }
};

constexpr Variant<Gather> kNaiveLoops = {
    .name = "naive_loops", .changes = "Copies one element at a time.", .run = run<NaiveLoops>};

// ---- prefetch, streaming, threaded --------------------------------------------------------------
// Prefetches the elements of later iterations. kAhead: number of elements between a prefetch and
// its load.
constexpr int64_t kAhead = 64;
template <int kSize, class Index>
ADO_INLINE void gather_ahead(const Gather& p, int64_t begin, int64_t end, std::byte* to,
                             int64_t to_step) {
  using T = typename ElementOf<kSize>::Type;
  const int64_t last = max(begin, min(end, p.index.shape[0] - kAhead));
  for (int64_t i = begin; i < last; ++i) {
    __builtin_prefetch(selected<Index>(p, i + kAhead));
    store_vector(to + (i - begin) * to_step, load<T>(selected<Index>(p, i)));
  }
  gather_to<kSize, Index>(p, last, end, to + (last - begin) * to_step, to_step);
}

// ---- prefetch -----------------------------------------------------------------------------------
struct Prefetched {
  template <int kSize, class Index>
  static void run(const Gather& p) {
    in_parts(p, 0, p.count(), [&](int64_t begin, int64_t end) {
      gather_ahead<kSize, Index>(p, begin, end, p.out.data + begin * p.out.stride[0],
                                 p.out.stride[0]);
    });
  }
};

constexpr Variant<Gather> kPrefetch = {
    .name = "prefetch",
    .changes = {"Prefetches 64 selected elements ahead.", Step::kInFlight},
    .run = run<Prefetched>};

// ---- streaming, threaded ------------------------------------------------------------------------
// Results of at least this size are stored with non-temporal stores (see transpose).
constexpr int64_t kStreamFrom = 8 << 20;

// Gathers a part of the result. A large packed result is written to a buffer in L1 first, and from
// there with non-temporal stores.
template <int kSize, class Index>
void stream_part(const Gather& p, int64_t from, int64_t to) {
  const bool streams = p.out.stride[0] == kSize && p.out.bytes() >= kStreamFrom;
  in_parts(p, from, to, [&](int64_t begin, int64_t end) {
    std::byte* const out = p.out.data + begin * p.out.stride[0];
    if (!streams) return gather_ahead<kSize, Index>(p, begin, end, out, p.out.stride[0]);
    constexpr int64_t kBufferBytes = 8 << 10, kBuffered = kBufferBytes / kSize;
    alignas(kLine) std::byte buffer[kBufferBytes];
    for (int64_t at = begin; at < end; at += kBuffered) {
      const int64_t count = min(kBuffered, end - at);
      gather_ahead<kSize, Index>(p, at, at + count, buffer, kSize);
      stream(out + (at - begin) * kSize, buffer, count * kSize);
    }
  });
  if (streams) finish_streaming();
}

// ---- streaming ----------------------------------------------------------------------------------
struct Streaming {
  template <int kSize, class Index>
  static void run(const Gather& p) {
    stream_part<kSize, Index>(p, 0, p.count());
  }
};

constexpr Variant<Gather> kStreaming = {
    .name = "streaming",
    .changes = {"Stores a result larger than the cache with non-temporal stores.",
                Step::kDramReuse},
    .run = run<Streaming>};

// ---- threaded -----------------------------------------------------------------------------------
struct Threaded {
  template <int kSize, class Index>
  static void run(const Gather& p) {
    constexpr int64_t kUnit = kLine / kSize;  // elements per line of a packed result
    const int64_t units = (p.count() + kUnit - 1) / kUnit;
    const int64_t bytes = p.count() * (kLine + kSize + static_cast<int64_t>(sizeof(Index)));
    in_parallel(threads_for(bytes), [&](int thread, int threads) {
      stream_part<kSize, Index>(p, units * thread / threads * kUnit,
                                min(units * (thread + 1) / threads * kUnit, p.count()));
    });
  }
};

constexpr Variant<Gather> kThreaded = {
    .name = "threaded",
    .changes = {"Distributes the elements over the threads.", Step::kParallelism},
    .run = run<Threaded>};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Gather> kSteps[] = {kNaiveLoops, kPrefetch, kStreaming, kThreaded};

}  // namespace

Ladder<Gather> gather_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA
