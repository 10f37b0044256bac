// Copies problems to device memory and results back.
#include <algorithm>
#include <cstring>

#include "runtime/call.hpp"

namespace ado {
namespace {

// Copies elements between arrays of the same shape and type, with any strides.
void copy_strided(const Array& to, const Array& from, int dimension, std::byte* to_data,
                  const std::byte* from_data) {
  const auto size = static_cast<std::size_t>(to.type.size);
  if (dimension == to.rank) {
    std::memcpy(to_data, from_data, size);
    return;
  }
  const std::int64_t length = to.shape[dimension];
  const std::int64_t to_step = to.stride[dimension], from_step = from.stride[dimension];
  const bool last = dimension == to.rank - 1;
  if (last && to_step == to.type.size && from_step == to.type.size) {
    std::memcpy(to_data, from_data, static_cast<std::size_t>(length) * size);
    return;
  }
  for (std::int64_t i = 0; i < length; ++i)
    copy_strided(to, from, dimension + 1, to_data + i * to_step, from_data + i * from_step);
}

void copy_strided(const Array& to, const Array& from) {
  if (to.elements() != 0) copy_strided(to, from, 0, to.data, from.data);
}

bool same_memory(const Array& a, const Array& b) {
  if (a.data != b.data || a.rank != b.rank || a.elements() == 0) return false;
  return std::equal(a.shape, a.shape + a.rank, b.shape) &&
         std::equal(a.stride, a.stride + a.rank, b.stride);
}

std::size_t size_of(const Array& array) { return static_cast<std::size_t>(array.bytes()); }

}  // namespace

StagedProblem::StagedProblem(const Problem& host) : problem_(host.clone()) {
  for (std::size_t i = 0; i < host.inputs.size(); ++i) {
    Array& device = *problem_->inputs[i];
    Array source = *host.inputs[i];
    place(device);
    std::vector<std::byte> packed;
    if (!source.packed()) {
      packed.resize(size_of(source));
      const Array target = packed_like(source, packed.data());
      copy_strided(target, source);
      source = target;
    }
    cuda::copy_to_device(device.data, source.data, size_of(source));
  }
  // A result that overwrites an operand also overwrites it on the device.
  for (std::size_t o = 0; o < host.outputs.size(); ++o) {
    const auto overwritten =
        std::find_if(host.inputs.begin(), host.inputs.end(),
                     [&](const Array* input) { return same_memory(*input, *host.outputs[o]); });
    if (overwritten == host.inputs.end())
      place(*problem_->outputs[o]);
    else
      *problem_->outputs[o] = *problem_->inputs[overwritten - host.inputs.begin()];
  }
}

void StagedProblem::place(Array& array) {
  buffers_.push_back(std::make_unique<cuda::Buffer>(size_of(array)));
  array = packed_like(array, buffers_.back()->data());
}

void StagedProblem::fetch(const Problem& host) const {
  for (std::size_t i = 0; i < host.outputs.size(); ++i) {
    const Array& device = *problem_->outputs[i];
    const Array& target = *host.outputs[i];
    if (target.packed()) {
      cuda::copy_to_host(target.data, device.data, size_of(device));
    } else {
      std::vector<std::byte> packed(size_of(device));
      cuda::copy_to_host(packed.data(), device.data, packed.size());
      copy_strided(target, packed_like(target, packed.data()));
    }
  }
}

}  // namespace ado
