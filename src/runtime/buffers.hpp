// The interface for C++ callers: wraps buffers as arguments, and runs a routine by one call.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "runtime/call.hpp"

namespace ado {

template <class T>
constexpr ElementType element_type_of() {
  using Element = std::remove_const_t<T>;
  constexpr int kSize = sizeof(Element);
  if constexpr (std::is_same_v<Element, bool>) return {'b', kSize};
  if constexpr (std::is_floating_point_v<Element>) return {'f', kSize};
  if constexpr (std::is_signed_v<Element>) return {'i', kSize};
  if constexpr (std::is_unsigned_v<Element>) return {'u', kSize};
  static_assert(std::is_arithmetic_v<Element> || std::is_same_v<Element, std::complex<float>> ||
                std::is_same_v<Element, std::complex<double>>);
  return {'c', kSize};
}

// Wraps a packed buffer in the memory of a device: kHost or gpu(ordinal). Inputs are not written.
template <class T>
Argument array_of(T* data, const std::vector<std::int64_t>& shape, const DeviceId& memory = kHost) {
  if (shape.size() > kMaxRank) throw ValueError("an array must have at most 8 dimensions");
  Array view;
  view.type = element_type_of<T>();
  view.rank = static_cast<int>(shape.size());
  for (int d = 0; d < view.rank; ++d) view.shape[d] = shape[static_cast<std::size_t>(d)];
  auto* bytes = reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(data));
  return {packed_like(view, bytes), memory};
}

using NamedOptions = std::vector<std::pair<std::string, OptionValue>>;

// Binds and checks the operands and options of one call. The buffers must outlive the result.
// `stream`: the cudaStream_t on which device operands are read.
std::unique_ptr<Problem> bind(const Routine& routine, const std::vector<Argument>& inputs,
                              const std::vector<Argument>& outputs,
                              const NamedOptions& options = {}, std::uintptr_t stream = 0);

// Selects variant, device, block, stream and options of a call. Empty members select the defaults.
struct How {
  std::string variant = {}, device = {};
  Block block = {};
  std::optional<std::uintptr_t> stream = {};  // a cudaStream_t
  NamedOptions options = {};
};

// Runs a routine once. With host buffers, returns after the results have been written.
void run(const Routine& routine, const std::vector<Argument>& inputs,
         const std::vector<Argument>& outputs, const How& how = {});

}  // namespace ado
