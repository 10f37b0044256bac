// Copies of elements with a constant stride on the CPU, for the ladders of strided_copy and
// component.
#pragma once

#include "core/streaming.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/common/loops.hpp"
#include "cpu/common/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- naive_loops, simd, prefetch, streaming, threaded -------------------------------------------
// `count` elements that are `from_step` bytes apart, and their positions in the result.
struct Elements {
  const std::byte* from;
  std::byte* to;
  int64_t count, from_step, to_step;

  ADO_INLINE Elements part(int64_t begin, int64_t end) const {
    return {from + begin * from_step, to + begin * to_step, end - begin, from_step, to_step};
  }
};

// Calls piece(part) for consecutive parts of the elements, so that calls can be interrupted.
template <class Piece>
ADO_INLINE void in_parts(const Elements& all, int64_t begin, int64_t end, const Piece& piece) {
  // An element that is not in the cache takes up to about 100 ns.
  const int64_t nanoseconds = 10 + touch_nanoseconds(all.to_step);
  constexpr int64_t kUnit = 2 * kLine;  // parts begin at whole lines
  const int64_t items = (Checkpoints::kBetween / nanoseconds / kUnit + 1) * kUnit;
  Checkpoints checkpoints;
  checkpoints.in_pieces_of(items, nanoseconds, begin, end,
                           [&](int64_t at, int64_t to) { piece(all.part(at, to)); });
}

// Not inlined: if the compiler knew that results are packed, it would insert the elements into
// vectors, which is slower.
template <int kSize>
__attribute__((noinline)) void copy_elements(Elements e) {
  using T = typename ElementOf<kSize>::Type;
  for (; e.count > 0; --e.count, e.from += e.from_step, e.to += e.to_step)
    store_vector(e.to, load<T>(e.from));
}

// Runs a variant of a routine whose result is a copy of the view `selected()`.
template <class Routine, class Step>
void pack(const Routine& p, const Launch&) {
  const Array from = p.selected();
  const Elements all{from.data, p.out.data, from.shape[0], from.stride[0], p.out.stride[0]};
  switch (from.type.size) {
    case 1:
      return Step::template run<1>(all);
    case 2:
      return Step::template run<2>(all);
    case 4:
      return Step::template run<4>(all);
    case 8:
      return Step::template run<8>(all);
    case 16:
      return Step::template run<16>(all);
  }
}

// ---- naive_loops --------------------------------------------------------------------------------
struct NaiveLoops {
  template <int kSize>
  static void run(const Elements& all) {
    in_parts(all, 0, all.count, copy_elements<kSize>);
  }
};

// ---- simd, prefetch, streaming, threaded --------------------------------------------------------
// With a constant stride, the compiler loads whole vectors and selects elements in registers.
template <int kSize, int kStride>
void copy_known(const std::byte* __restrict__ from, std::byte* __restrict__ to, int64_t count) {
  using T = typename ElementOf<kSize>::Type;
  for (int64_t i = 0; i < count; ++i)
    store_vector(to + i * kSize, load<T>(from + i * (kStride * kSize)));
}

template <int kSize>
void copy_vectors(const Elements& e) {
  if (e.to_step != kSize) return copy_elements<kSize>(e);
  switch (e.from_step) {
    case kSize:
      return copy_known<kSize, 1>(e.from, e.to, e.count);
    case 2 * kSize:
      return copy_known<kSize, 2>(e.from, e.to, e.count);
    case 3 * kSize:
      return copy_known<kSize, 3>(e.from, e.to, e.count);
    case 4 * kSize:
      return copy_known<kSize, 4>(e.from, e.to, e.count);
  }
  copy_elements<kSize>(e);
}

// ---- simd ---------------------------------------------------------------------------------------
struct Simd {
  template <int kSize>
  static void run(const Elements& all) {
    in_parts(all, 0, all.count, copy_vectors<kSize>);
  }
};

// ---- prefetch, streaming, threaded --------------------------------------------------------------
// If cache lines contain few selected elements, the loop is limited by cache misses. Hardware
// prefetchers stop at the end of a page, so the loop prefetches elements beyond it.
constexpr int64_t kFar = kLine / 2, kAhead = 64;  // bytes; elements
template <int kSize>
__attribute__((noinline)) void copy_ahead(Elements e) {
  using T = typename ElementOf<kSize>::Type;
  const int64_t ahead = kAhead * e.from_step;
  for (; e.count > 0; --e.count, e.from += e.from_step, e.to += e.to_step) {
    __builtin_prefetch(e.from + ahead);
    store_vector(e.to, load<T>(e.from));
  }
}

template <int kSize>
void copy_near_or_far(const Elements& e) {
  if (e.from_step >= kFar || e.from_step <= -kFar) return copy_ahead<kSize>(e);
  copy_vectors<kSize>(e);
}

// ---- prefetch -----------------------------------------------------------------------------------
struct Prefetched {
  template <int kSize>
  static void run(const Elements& all) {
    in_parts(all, 0, all.count, copy_near_or_far<kSize>);
  }
};

// ---- streaming, threaded ------------------------------------------------------------------------
// Results of at least this size are stored with non-temporal stores (see transpose).
constexpr int64_t kStreamFrom = 8 << 20;

// Copies a part of the elements. A large packed result is written to a buffer in L1 first, and from
// there with non-temporal stores.
template <int kSize>
void stream_part(const Elements& all, int64_t begin, int64_t end) {
  if (all.to_step != kSize || all.count * kSize < kStreamFrom)
    return in_parts(all, begin, end, copy_near_or_far<kSize>);
  in_parts(all, begin, end, [](const Elements& part) {
    constexpr int64_t kBufferBytes = 8 << 10, kBuffered = kBufferBytes / kSize;
    alignas(kLine) std::byte buffer[kBufferBytes];
    for (int64_t at = 0; at < part.count; at += kBuffered) {
      const int64_t count = min(kBuffered, part.count - at);
      Elements piece = part.part(at, at + count);
      std::byte* const to = piece.to;
      if (piece.from_step == kSize) {
        stream(to, piece.from, count * kSize);
      } else {
        piece.to = buffer;
        copy_near_or_far<kSize>(piece);
        stream(to, buffer, count * kSize);
      }
    }
  });
  finish_streaming();
}

// ---- streaming ----------------------------------------------------------------------------------
struct Streaming {
  template <int kSize>
  static void run(const Elements& all) {
    stream_part<kSize>(all, 0, all.count);
  }
};

// ---- threaded -----------------------------------------------------------------------------------
struct Threaded {
  template <int kSize>
  static void run(const Elements& all) {
    constexpr int64_t kUnit = kLine / kSize;  // elements per line of a packed result
    const int64_t distance = all.from_step < 0 ? -all.from_step : all.from_step;
    const int64_t units = (all.count + kUnit - 1) / kUnit;
    const int64_t bytes = all.count * (min(distance, kLine) + kSize);
    in_parallel(threads_for(bytes), [&](int thread, int threads) {
      stream_part<kSize>(all, units * thread / threads * kUnit,
                         min(units * (thread + 1) / threads * kUnit, all.count));
    });
  }
};

}  // namespace
}  // namespace ado::ADO_ISA
