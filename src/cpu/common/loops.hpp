// Shared by the loops of all CPU routines: distribution over threads, and interruption.
#pragma once

#include "core/isa.hpp"
#include "core/poll.hpp"
#include "core/thread_pool.hpp"

namespace ado::ADO_ISA {
namespace {

using std::int64_t;

// Replacements for std::min and std::max, which would be weak functions (core/isa.hpp).
ADO_INLINE int64_t min(int64_t x, int64_t y) { return x < y ? x : y; }
ADO_INLINE int64_t max(int64_t x, int64_t y) { return x > y ? x : y; }

// Calls work(part, parts) once per part, on up to `parts` threads. Returns when all parts are done,
// so there is a barrier between consecutive calls. A part must not wait for another part, because
// the same thread may execute both.
template <class Work>
ADO_INLINE void in_parallel(int parts, const Work& work) {
  if (parts == 1) return work(0, 1);
  run_parts(
      parts,
      [](const void* context, int part, int of) { (*static_cast<const Work*>(context))(part, of); },
      &work);
}

// Work is estimated in nanoseconds. Errors of a factor of ten in either direction are acceptable.
class Checkpoints {
 public:
  ADO_INLINE void add(int64_t nanoseconds) {
    left_ -= nanoseconds;
    if (left_ > 0) return;
    left_ = kBetween;
    poll();
  }

  // Calls piece(from, to) for consecutive ranges from `begin` to `end`, and adds their work. The
  // ranges begin at multiples of `kUnit` from `begin`.
  template <int64_t kNanosecondsPerItem = 1, int64_t kUnit = 1, class Piece>
  ADO_INLINE void in_pieces(int64_t begin, int64_t end, const Piece& piece) {
    constexpr int64_t kItems = (kBetween / kNanosecondsPerItem / kUnit + 1) * kUnit;
    in_pieces_of(kItems, kNanosecondsPerItem, begin, end, piece);
  }
  // Does the same for ranges of `items` items.
  template <class Piece>
  ADO_INLINE void in_pieces_of(int64_t items, int64_t nanoseconds_per_item, int64_t begin,
                               int64_t end, const Piece& piece) {
    while (begin < end) {
      const int64_t to = end - begin > items ? begin + items : end;
      piece(begin, to);
      add((to - begin) * nanoseconds_per_item);
      begin = to;
    }
  }

  static constexpr int64_t kBetween = 1'000'000;  // nanoseconds between two polls

 private:
  int64_t left_ = kBetween;
};

// Calls work(chunk, checkpoints) once per chunk, on up to `threads` threads. Each part begins with
// its own chunks, whose data may be in the cache of its processor, and then takes chunks of parts
// that are late.
template <class Work>
ADO_INLINE void in_chunks(int threads, int64_t chunks, const Work& work) {
  int64_t next[kMaxParts];  // the next chunk of each part
  for (int64_t part = 0; part < threads; ++part) next[part] = chunks * part / threads;
  in_parallel(threads, [&](int64_t part, int64_t parts) {
    Checkpoints checkpoints;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t owner = (part + i) % parts, end = chunks * (owner + 1) / parts;
      for (;;) {
        const int64_t chunk = __atomic_fetch_add(&next[owner], 1, __ATOMIC_RELAXED);
        if (chunk >= end) break;
        work(chunk, checkpoints);
      }
    }
  });
}

// Order of magnitude of the time of the first store to a row of a result whose rows are `stride`
// bytes apart. The first store to a page makes the operating system provide cleared memory. A new
// square matrix of 2 GiB has 1024 huge pages, and its first columns are in all of them. Providing
// these pages takes 0.3 s to 5 s on a virtual machine.
ADO_INLINE int64_t touch_nanoseconds(int64_t stride) {
  constexpr int64_t kHugePage = 2 << 20, kBytesPerNanosecond = 16;
  const int64_t distance = stride < 0 ? -stride : stride;
  return (distance < kHugePage ? distance : kHugePage) / kBytesPerNanosecond;
}

}  // namespace
}  // namespace ado::ADO_ISA
