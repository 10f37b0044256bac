// Polls for an interruption about once per millisecond (core/interrupt.hpp). Every kernel loop that
// can run longer must count its work with this class.
#pragma once

#include <cstdint>

#include "core/isa.hpp"
#include "core/poll.hpp"
#include "cpu/common/parallel.hpp"

namespace ado::ADO_ISA {
namespace {

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

// Order of magnitude of the time of the first store to a row of a result whose rows are `stride`
// bytes apart. The first store to a page makes the operating system provide cleared memory. A new
// square matrix of 2 GiB has 1024 huge pages, and its first columns are in all of them. To provide
// these pages takes 0.3 s to 5 s on a virtual machine.
ADO_INLINE int64_t touch_nanoseconds(int64_t stride) {
  constexpr int64_t kHugePage = 2 << 20, kBytesPerNanosecond = 16;
  const int64_t distance = stride < 0 ? -stride : stride;
  return (distance < kHugePage ? distance : kHugePage) / kBytesPerNanosecond;
}

}  // namespace
}  // namespace ado::ADO_ISA
