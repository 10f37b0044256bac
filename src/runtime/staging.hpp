// Copies between host arrays and packed device memory.
#pragma once

#include <cstddef>

#include "core/array.hpp"
#include "runtime/stream.hpp"

namespace ado {

// Stream-ordered copy of a host array with any strides to packed device memory. Returns when the
// host array may be overwritten.
void upload(std::byte* device, const Array& host, const cuda::Stream& stream);
// Stream-ordered copy of packed device memory to a host array. Returns after the copy is complete.
void download(const Array& host, const std::byte* device, const cuda::Stream& stream);

// The arguments of an upload or a download.
struct StagedCopy {
  std::byte* device;
  Array host;
  cuda::Stream stream;
};
// Executes an upload and a download on the same GPU, at the same time if both are large.
void exchange(const StagedCopy& uploaded, const StagedCopy& downloaded);

}  // namespace ado
