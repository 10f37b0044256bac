#include "runtime/problem.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "device/device.hpp"
#include "runtime/text.hpp"

namespace ado {
namespace {

bool same_memory(const Array& a, const Array& b) {
  if (a.data != b.data || a.type != b.type || a.rank != b.rank || a.elements() == 0) return false;
  return std::equal(a.shape, a.shape + a.rank, b.shape) &&
         std::equal(a.stride, a.stride + a.rank, b.stride);
}

// Addresses of the first byte of a view and of the byte after its last one.
std::pair<std::intptr_t, std::intptr_t> extent_of(const Array& a) {
  auto low = reinterpret_cast<std::intptr_t>(a.data), high = low + a.type.size;
  for (int d = 0; d < a.rank; ++d) {
    const std::int64_t reach = (a.shape[d] - 1) * a.stride[d];
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

// Copies a device array with any strides to packed host memory.
void copy_packed(const Array& host, const Array& device, const cuda::Stream& stream) {
  const auto bytes = static_cast<std::size_t>(device.bytes());
  if (device.packed()) return cuda::copy_to_host(host.data, device.data, bytes, stream);
  const cuda::Buffer packed(bytes, stream);
  cuda::copy_strided(packed_like(device, packed.data()), device, stream);
  cuda::copy_to_host(host.data, packed.data(), bytes, stream);
}

}  // namespace

bool extents_overlap(const Array& a, const Array& b) {
  if (a.elements() == 0 || b.elements() == 0) return false;
  const auto [a_low, a_high] = extent_of(a);
  const auto [b_low, b_high] = extent_of(b);
  return a_low < b_high && b_low < a_high;
}

Array transposed(const Array& a) {
  Array reversed = a;
  std::reverse(reversed.shape, reversed.shape + a.rank);
  std::reverse(reversed.stride, reversed.stride + a.rank);
  return reversed;
}

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

double Problem::compulsory_bytes() const {
  double total = 0;
  for (const Array* input : inputs) total += input->distinct_bytes();
  for (const Array* output : outputs) total += output->distinct_bytes();
  return total;
}

bool Problem::takes_in_place(const Array& array) const {
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(array.data) % static_cast<unsigned>(array.type.size) == 0;
  return array.elements() == 0 || (aligned && takes_layout(array));
}

std::int64_t Problem::result_elements() const {
  std::int64_t total = 0;
  for (const Array* output : outputs) total += output->elements();
  return total;
}

void Problem::move_arrays(const DeviceId& device,
                          const std::function<std::byte*(const Array&)>& address) {
  const auto move = [this](Array& array, std::byte* to) {
    if (to == nullptr && array.elements() != 0) return;
    if (!array.packed() && transposed(array).packed() && takes_layout(array))
      array.data = to;
    else
      array = packed_like(array, to);
  };
  std::vector<Array> before;
  for (Array* input : inputs) {
    before.push_back(*input);
    move(*input, address(*input));
  }
  for (Array* output : outputs) {
    const auto overwritten = std::find_if(before.begin(), before.end(), [&](const Array& input) {
      return same_memory(input, *output);
    });
    if (overwritten == before.end())
      move(*output, address(*output));
    else
      *output = *inputs[static_cast<std::size_t>(overwritten - before.begin())];
  }
  memory = device;
}

}  // namespace ado
