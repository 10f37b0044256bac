// Copies problems to device memory and results back.
#include <cstring>
#include <memory>

#include "runtime/call.hpp"

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

void copy_row(std::size_t size, std::byte* to, std::int64_t to_step, const std::byte* from,
              std::int64_t from_step, std::int64_t length) {
  const auto step = static_cast<std::int64_t>(size);
  if (to_step == step && from_step == step) {
    std::memcpy(to, from, static_cast<std::size_t>(length) * size);
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

// Copies elements between arrays of the same shape and type, with any strides.
void copy_strided(const Array& to, const Array& from, int dimension, std::byte* to_data,
                  const std::byte* from_data) {
  const auto size = static_cast<std::size_t>(to.type.size);
  if (to.rank == 0) {
    std::memcpy(to_data, from_data, size);
    return;
  }
  const std::int64_t length = to.shape[dimension];
  const std::int64_t to_step = to.stride[dimension], from_step = from.stride[dimension];
  if (dimension == to.rank - 1)
    return copy_row(size, to_data, to_step, from_data, from_step, length);
  for (std::int64_t i = 0; i < length; ++i)
    copy_strided(to, from, dimension + 1, to_data + i * to_step, from_data + i * from_step);
}

void copy_strided(const Array& to, const Array& from) {
  if (to.elements() != 0) copy_strided(to, from, 0, to.data, from.data);
}

std::size_t size_of(const Array& array) { return static_cast<std::size_t>(array.bytes()); }

}  // namespace

StagedProblem::StagedProblem(const Problem& host) : problem_(host.clone()) {
  problem_->move_arrays(Device::kCuda, [this](const Array& array) {
    buffers_.push_back(std::make_unique<cuda::Buffer>(size_of(array)));
    return buffers_.back()->data();
  });
  for (std::size_t i = 0; i < host.inputs.size(); ++i) {
    Array source = *host.inputs[i];
    std::unique_ptr<std::byte[]> packed;
    if (!source.packed()) {
      packed = std::make_unique_for_overwrite<std::byte[]>(size_of(source));
      const Array target = packed_like(source, packed.get());
      copy_strided(target, source);
      source = target;
    }
    cuda::copy_to_device(problem_->inputs[i]->data, source.data, size_of(source));
  }
}

void StagedProblem::fetch(const Problem& host) const {
  for (std::size_t i = 0; i < host.outputs.size(); ++i) {
    const Array& device = *problem_->outputs[i];
    const Array& target = *host.outputs[i];
    if (target.packed()) {
      cuda::copy_to_host(target.data, device.data, size_of(device));
    } else {
      const auto packed = std::make_unique_for_overwrite<std::byte[]>(size_of(device));
      cuda::copy_to_host(packed.get(), device.data, size_of(device));
      copy_strided(target, packed_like(target, packed.get()));
    }
  }
}

}  // namespace ado
