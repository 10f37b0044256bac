#include "runtime/strided.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/streaming.hpp"
#include "core/thread_pool.hpp"
#include "core/threads.hpp"

namespace ado {
namespace {

// An element that is moved, never computed with.
template <std::size_t kSize>
struct Bytes {
  std::byte at[kSize];
};

template <class Element>
void copy_row(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step,
              std::int64_t length) {
  for (std::int64_t i = 0; i < length; ++i)
    *reinterpret_cast<Element*>(to + i * to_step) =
        *reinterpret_cast<const Element*>(from + i * from_step);
}

// Minimum bytes of a run for non-temporal stores. Shorter runs contain too few whole cache lines.
constexpr std::int64_t kShortestStream = 512;

void copy_row(std::size_t size, std::byte* to, std::int64_t to_step, const std::byte* from,
              std::int64_t from_step, std::int64_t length, bool streams) {
  const auto step = static_cast<std::int64_t>(size);
  if (to_step == step && from_step == step) {
    const std::int64_t bytes = length * step;
    if (streams && bytes >= kShortestStream)
      stream(to, from, bytes);
    else
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  switch (size) {  // a compile-time size makes the copy a load and a store
    case 1:
      return copy_row<Bytes<1>>(to, to_step, from, from_step, length);
    case 2:
      return copy_row<Bytes<2>>(to, to_step, from, from_step, length);
    case 4:
      return copy_row<Bytes<4>>(to, to_step, from, from_step, length);
    case 8:
      return copy_row<Bytes<8>>(to, to_step, from, from_step, length);
    case 16:
      return copy_row<Bytes<16>>(to, to_step, from, from_step, length);
    default:
      for (std::int64_t i = 0; i < length; ++i)
        std::memcpy(to + i * to_step, from + i * from_step, size);
  }
}

// Calls visit(address, step, count) for runs of the elements first, ..., last - 1 of an array, in
// row-major order. A run extends along the last dimension. Packed arrays consist of one run.
template <class Visit>
void for_runs(const Array& array, std::int64_t first, std::int64_t last, Visit visit) {
  const std::int64_t size = array.type.size;
  if (array.packed()) {
    visit(array.data + first * size, size, last - first);
    return;
  }
  const int fastest = array.rank - 1;
  const std::int64_t length = array.shape[fastest], step = array.stride[fastest];
  while (first < last) {
    std::int64_t left = first / length, at = first % length;
    std::byte* address = array.data + at * step;
    for (int d = fastest; d-- > 0; left /= array.shape[d])
      address += left % array.shape[d] * array.stride[d];
    const std::int64_t count = std::min(length - at, last - first);
    visit(address, step, count);
    first += count;
  }
}

struct Transfer {
  const Array& array;
  std::byte* packed;
  std::int64_t first, count;  // elements
  bool packs;

  // Whether the strided array is written and is larger than the caches.
  bool streams() const {
    constexpr std::int64_t kLargerThanCaches = 64 << 20;
    return !packs && array.bytes() >= kLargerThanCaches;
  }
};

void copy_part(const void* work, int part, int parts) {
  const auto& t = *static_cast<const Transfer*>(work);
  const std::int64_t begin = t.count * part / parts, end = t.count * (part + 1) / parts;
  const std::int64_t size = t.array.type.size;
  std::byte* packed = t.packed + begin * size;
  const bool streams = t.streams();
  for_runs(t.array, t.first + begin, t.first + end,
           [&](std::byte* address, std::int64_t step, std::int64_t count) {
             const auto bytes = static_cast<std::size_t>(size);
             if (t.packs)
               copy_row(bytes, packed, size, address, step, count, false);
             else
               copy_row(bytes, address, step, packed, size, count, streams);
             packed += count * size;
           });
  if (streams) finish_streaming();
}

void copy(const Transfer& transfer) {
  if (transfer.count == 0) return;
  const std::int64_t bytes = transfer.count * transfer.array.type.size;
  run_parts(std::min(threads_for(2 * bytes), kMaxParts), copy_part, &transfer);
}

}  // namespace

void pack_bytes(std::byte* to, const Array& array, std::size_t first, std::size_t bytes) {
  const auto size = static_cast<std::size_t>(array.type.size);
  copy({array, to, static_cast<std::int64_t>(first / size), static_cast<std::int64_t>(bytes / size),
        true});
}

void unpack_bytes(const Array& array, const std::byte* from, std::size_t first, std::size_t bytes) {
  const auto size = static_cast<std::size_t>(array.type.size);
  copy({array, const_cast<std::byte*>(from), static_cast<std::int64_t>(first / size),
        static_cast<std::int64_t>(bytes / size), false});
}

}  // namespace ado
