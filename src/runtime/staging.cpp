// Copies problems to device memory and results back.
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/call.hpp"
#include "runtime/staging.hpp"
#include "runtime/strided.hpp"

namespace ado {
namespace {

// The driver copies smaller arrays, for which pinned chunks and several threads are not faster.
constexpr std::size_t kLarge = 4 << 20;

// CUDA's limit for the distance of rows (cudaDeviceProp::memPitch).
constexpr std::int64_t kLargestPitch = INT32_MAX;

std::size_t size_of(const Array& array) { return static_cast<std::size_t>(array.bytes()); }

// Returns true if an array is copied in pinned chunks. Chunks must contain whole elements, so the
// element size must be a power of two and must not exceed the size of a chunk.
bool in_chunks(const Array& array) {
  const auto size = static_cast<std::size_t>(array.type.size);
  return size_of(array) >= kLarge && std::has_single_bit(size) && size <= cuda::kChunkBytes;
}

// Returns the host array with the dimensions in the order in which the device array has them in
// memory.
Array in_order_of(const Array& device, const Array& host) {
  return device.packed() ? host : transposed(host);
}

cuda::Upload upload_in_chunks(std::byte* device, const Array& host, const cuda::Stream& stream) {
  const auto fill = [&host](std::byte* to, std::size_t first, std::size_t count) {
    pack_bytes(to, host, first, count);
  };
  return {device, size_of(host), fill, stream};
}

cuda::Download download_in_chunks(const Array& host, const std::byte* device,
                                  const cuda::Stream& stream) {
  const auto empty = [&host](const std::byte* from, std::size_t first, std::size_t count) {
    unpack_bytes(host, from, first, count);
  };
  return {device, size_of(host), empty, stream};
}

// Returns the rows of an array. Returns std::nullopt if the array is small, is not in page-locked
// memory, or has rows that are not contiguous.
std::optional<cuda::PageLockedRows> page_locked_rows(const Array& host) {
  const std::size_t bytes = size_of(host);
  if (bytes < kLarge) return std::nullopt;
  cuda::PageLockedRows rows{host.data, bytes, bytes, 1};
  if (!host.packed()) {
    if (host.rank != 2 || host.stride[1] != host.type.size) return std::nullopt;
    const std::int64_t width = host.shape[1] * host.type.size;
    if (host.stride[0] < width || host.stride[0] > kLargestPitch) return std::nullopt;
    rows = {host.data, static_cast<std::size_t>(width), static_cast<std::size_t>(host.stride[0]),
            static_cast<std::size_t>(host.shape[0])};
  }
  if (!cuda::page_locked(rows.first, (rows.count - 1) * rows.pitch + rows.width))
    return std::nullopt;
  return rows;
}

}  // namespace

void upload(std::byte* device, const Array& host, const cuda::Stream& stream) {
  const std::size_t bytes = size_of(host);
  if (const auto rows = page_locked_rows(host)) {
    cuda::enqueue_upload(device, *rows, stream);
    cuda::synchronize(stream);
  } else if (in_chunks(host)) {
    cuda::run(upload_in_chunks(device, host, stream));
  } else if (host.packed()) {
    cuda::copy_to_device(device, host.data, bytes, stream);
  } else {
    const auto packed = std::make_unique_for_overwrite<std::byte[]>(bytes);
    pack_bytes(packed.get(), host, 0, bytes);
    cuda::copy_to_device(device, packed.get(), bytes, stream);
  }
}

void download(const Array& host, const std::byte* device, const cuda::Stream& stream) {
  const std::size_t bytes = size_of(host);
  if (const auto rows = page_locked_rows(host)) {
    cuda::enqueue_download(*rows, device, stream);
    cuda::synchronize(stream);
  } else if (in_chunks(host)) {
    cuda::run(download_in_chunks(host, device, stream));
  } else if (host.packed()) {
    cuda::copy_to_host(host.data, device, bytes, stream);
  } else {
    const auto packed = std::make_unique_for_overwrite<std::byte[]>(bytes);
    cuda::copy_to_host(packed.get(), device, bytes, stream);
    unpack_bytes(host, packed.get(), 0, bytes);
  }
}

void exchange(const StagedCopy& up, const StagedCopy& down) {
  const auto from = page_locked_rows(up.host), to = page_locked_rows(down.host);
  const auto wait = [&] {
    if (from) cuda::synchronize(up.stream);
    if (to) cuda::synchronize(down.stream);
  };
  if (from) cuda::enqueue_upload(up.device, *from, up.stream);
  try {
    if (to) cuda::enqueue_download(*to, down.device, down.stream);
    if (!from && !to && in_chunks(up.host) && in_chunks(down.host)) {
      cuda::run(upload_in_chunks(up.device, up.host, up.stream),
                download_in_chunks(down.host, down.device, down.stream));
    } else {
      if (!from) upload(up.device, up.host, up.stream);
      if (!to) download(down.host, down.device, down.stream);
    }
  } catch (...) {
    wait();  // because the caller may free the host arrays
    throw;
  }
  wait();
}

StagedProblem::StagedProblem(const Problem& host, const cuda::Stream& stream)
    : stream_(stream), problem_(host.clone()) {
  problem_->move_arrays(gpu(stream.device), [&](const Array& array) {
    buffers_.push_back(std::make_unique<cuda::Buffer>(size_of(array), stream));
    return buffers_.back()->data();
  });
  for (std::size_t i = 0; i < host.inputs.size(); ++i)
    upload(problem_->inputs[i]->data, in_order_of(*problem_->inputs[i], *host.inputs[i]), stream);
}

void StagedProblem::fetch(const Problem& host) const {
  for (std::size_t i = 0; i < host.outputs.size(); ++i)
    download(in_order_of(*problem_->outputs[i], *host.outputs[i]), problem_->outputs[i]->data,
             stream_);
}

}  // namespace ado
