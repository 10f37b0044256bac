// Checks of the values of operands.
#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "runtime/problem.hpp"
#include "runtime/text.hpp"

namespace ado {
namespace {

// Copies a device array with any strides to packed host memory.
void copy_packed(const Array& host, const Array& device, const cuda::Stream& stream) {
  const auto bytes = static_cast<std::size_t>(device.bytes());
  if (device.packed()) return cuda::copy_to_host(host.data, device.data, bytes, stream);
  const cuda::Buffer packed(bytes, stream);
  cuda::copy_strided(packed_like(device, packed.data()), device, stream);
  cuda::copy_to_host(host.data, packed.data(), bytes, stream);
}

}  // namespace

void EachValue::refuse(const char* name, const Array& array, const char* rule, std::int64_t element,
                       const std::byte* at) const {
  std::string place;
  for (int d = array.rank; d-- > 0; element /= array.shape[d])
    place = std::to_string(element % array.shape[d]) + (place.empty() ? "" : ", ") + place;
  double value;
  std::memcpy(&value, at, sizeof value);
  throw ValueError(routine + ": " + name + "[" + place + "] " + rule + ", got " + text_of(value));
}

void EachValue::check_runs(const char* name, const Array& array, const char* rule,
                           const CountInvalid& count_invalid) const {
  Array view = array;
  std::vector<std::byte> copy;
  if (stream) {
    copy.resize(static_cast<std::size_t>(array.bytes()));
    view = packed_like(array, copy.data());
    copy_packed(view, array, *stream);
  }
  // A packed array is checked as one dimension.
  const std::int64_t elements = view.elements();
  if (view.packed_from(0)) {
    view.rank = 1;
    view.shape[0] = elements;
    view.stride[0] = view.type.size;
  }
  if (elements == 0) return;
  const std::int64_t length = view.shape[view.rank - 1], stride = view.stride[view.rank - 1];
  constexpr std::int64_t kRun = 1 << 12;  // number of values per test for invalid ones
  std::int64_t unpolled = 0;
  for (std::int64_t row = 0; row < elements / length; ++row) {
    const std::byte* const from = view.slice(1, row);
    for (std::int64_t at = 0, count; at < length; at += count) {
      count = std::min(kRun, length - at);
      if (count_invalid(from + at * stride, stride, count) != 0) {
        while (count_invalid(from + at * stride, stride, 1) == 0) ++at;
        refuse(name, array, rule, row * length + at, from + at * stride);
      }
      unpolled += count;
      if (unpolled >= 64 * kRun) {
        poll();
        unpolled = 0;
      }
    }
  }
}

}  // namespace ado
