#include "runtime/strided.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/isa.hpp"
#include "core/streaming.hpp"
#include "core/thread_pool.hpp"
#include "core/threads.hpp"
#include "runtime/host.hpp"

namespace ado {

// Defined in src/cpu/strided_copy.cpp.
#define ADO_DECLARE(isa)                                                   \
  namespace isa {                                                          \
  void stream_bytes(std::byte* to, const std::byte* from, std::int64_t n); \
  }
ADO_DECLARE(baseline)
#if defined(__x86_64__)
ADO_DECLARE(avx2)
ADO_DECLARE(avx512)
#else
namespace avx2 = baseline;
namespace avx512 = baseline;
#endif

namespace {

// Copies with non-temporal stores. Stores of 64 bytes are faster than stores of 16 bytes: 0.87
// instead of 0.82 of the link's bandwidth for ado.out_of_core (gaussian_blur, H200, 12 threads).
void stream_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  static constexpr decltype(&baseline::stream_bytes) kOfLevel[kIsaLevels] = {
      baseline::stream_bytes, avx2::stream_bytes, avx512::stream_bytes};
  static const auto function = kOfLevel[static_cast<int>(host::supported_isa())];
  function(to, from, bytes);
}

// An element that is copied but not used in computations.
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
              std::int64_t from_step, std::int64_t length, Stores stores) {
  const auto step = static_cast<std::int64_t>(size);
  if (to_step == step && from_step == step) {
    const std::int64_t bytes = length * step;
    if (stores == Stores::kNonTemporal && bytes >= kShortestStream)
      stream_bytes(to, from, bytes);
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

void pack(std::byte* to, const Array& array, std::int64_t first, std::int64_t last) {
  const std::int64_t size = array.type.size;
  for_runs(array, first, last, [&](std::byte* address, std::int64_t step, std::int64_t count) {
    copy_row(static_cast<std::size_t>(size), to, size, address, step, count, Stores::kOrdinary);
    to += count * size;
  });
}

void unpack(const Array& array, const std::byte* from, std::int64_t first, std::int64_t last,
            Stores stores) {
  const std::int64_t size = array.type.size;
  for_runs(array, first, last, [&](std::byte* address, std::int64_t step, std::int64_t count) {
    copy_row(static_cast<std::size_t>(size), address, step, from, size, count, stores);
    from += count * size;
  });
  if (stores == Stores::kNonTemporal) finish_streaming();
}

// Calls part(first, last) on several threads, for ranges of the elements of an array.
template <class Part>
void in_parts(const Array& array, const Part& part) {
  const std::int64_t count = array.elements();
  if (count == 0) return;
  const auto call = [&](int i, int parts) { part(count * i / parts, count * (i + 1) / parts); };
  run_parts(
      std::min(threads_for(2 * array.bytes()), kMaxParts),
      [](const void* work, int i, int parts) { (*static_cast<decltype(&call)>(work))(i, parts); },
      &call);
}

}  // namespace

void pack_bytes(std::byte* to, const Array& array, std::size_t first, std::size_t bytes) {
  const auto size = static_cast<std::size_t>(array.type.size);
  pack(to, array, static_cast<std::int64_t>(first / size),
       static_cast<std::int64_t>((first + bytes) / size));
}

void unpack_bytes(const Array& array, const std::byte* from, std::size_t first, std::size_t bytes,
                  Stores stores) {
  const auto size = static_cast<std::size_t>(array.type.size);
  unpack(array, from, static_cast<std::int64_t>(first / size),
         static_cast<std::int64_t>((first + bytes) / size), stores);
}

void pack_all(std::byte* to, const Array& array) {
  in_parts(array, [&](std::int64_t first, std::int64_t last) {
    pack(to + first * array.type.size, array, first, last);
  });
}

void unpack_all(const Array& array, const std::byte* from) {
  in_parts(array, [&](std::int64_t first, std::int64_t last) {
    unpack(array, from + first * array.type.size, first, last, Stores::kOrdinary);
  });
}

}  // namespace ado
