// Copies between host arrays and packed device memory.
#include "runtime/staging.hpp"

#include <bit>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "core/poll.hpp"
#include "core/threads.hpp"
#include "device/device.hpp"
#include "runtime/strided.hpp"

namespace ado {
namespace {

// The driver copies smaller arrays, because chunks of page-locked memory and several threads are
// not faster for them.
constexpr std::size_t kLarge = 4 << 20;

// CUDA's limit for the distance of rows (cudaDeviceProp::memPitch).
constexpr std::int64_t kLargestPitch = INT32_MAX;

std::size_t size_of(const Array& array) { return static_cast<std::size_t>(array.bytes()); }

// Results of this size are larger than the caches of most processors.
constexpr std::size_t kLargerThanCaches = 64 << 20;

// Memory of the emulator is host memory.
bool is_emulated(const cuda::Stream& stream) { return stream.device == cuda::kEmulatedGpu; }

// Returns true if an array is copied in chunks. Chunks must contain whole elements, so the
// element size must be a power of two and at most kChunkBytes.
bool in_chunks(const Array& array, const cuda::Stream& stream) {
  if (is_emulated(stream)) return false;
  const auto size = static_cast<std::size_t>(array.type.size);
  return size_of(array) >= kLarge && std::has_single_bit(size) && size <= cuda::kChunkBytes;
}

cuda::ChunkedCopy upload_in_chunks(std::byte* device, const Array& host,
                                   const cuda::Stream& stream) {
  const auto fill = [host](std::byte* chunk, std::size_t first, std::size_t count) {
    pack_bytes(chunk, host, first, count);
  };
  return {cuda::Direction::kToDevice, device, size_of(host), fill, stream, [] {}};
}

cuda::ChunkedCopy download_in_chunks(const Array& host, const std::byte* device, Stores stores,
                                     const cuda::Stream& stream) {
  const auto empty = [host, stores](const std::byte* chunk, std::size_t first, std::size_t count) {
    unpack_bytes(host, chunk, first, count, stores);
  };
  return {cuda::Direction::kToHost,
          const_cast<std::byte*>(device),
          size_of(host),
          empty,
          stream,
          [] {}};
}

// With at least this number of threads, chunks are faster than direct copies of page-locked rows
// with gaps. For ado.out_of_core with a transpose of 8 GiB of float32 (H200), they reached 0.86 and
// 0.88 of the link's bandwidth. Direct copies reached 0.64, and 0.80 with blocks of 512 MiB.
constexpr int kManyThreads = 12;

// Returns the rows of an array that is copied directly. Returns std::nullopt if the array is small,
// is not in page-locked memory, has rows that are not contiguous, or is copied faster in chunks.
std::optional<cuda::PageLockedRows> page_locked_rows(const Array& host,
                                                     const cuda::Stream& stream) {
  const std::size_t bytes = size_of(host);
  if (bytes < kLarge || is_emulated(stream)) return std::nullopt;
  cuda::PageLockedRows rows{host.data, bytes, bytes, 1};
  if (!host.packed()) {
    if (max_threads() >= kManyThreads) return std::nullopt;
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
  if (const auto rows = page_locked_rows(host, stream)) {
    cuda::enqueue_upload(device, *rows, stream);
    cuda::synchronize(stream);
  } else if (in_chunks(host, stream)) {
    cuda::run(upload_in_chunks(device, host, stream));
  } else if (host.packed()) {
    cuda::copy_to_device(device, host.data, bytes, stream);
  } else {
    const auto packed = std::make_unique_for_overwrite<std::byte[]>(bytes);
    pack_all(packed.get(), host);
    cuda::copy_to_device(device, packed.get(), bytes, stream);
  }
}

void download(const Array& host, const std::byte* device, const cuda::Stream& stream) {
  const std::size_t bytes = size_of(host);
  if (const auto rows = page_locked_rows(host, stream)) {
    cuda::enqueue_download(*rows, device, stream);
    cuda::synchronize(stream);
  } else if (in_chunks(host, stream)) {
    const Stores stores = bytes >= kLargerThanCaches ? Stores::kNonTemporal : Stores::kOrdinary;
    cuda::run(download_in_chunks(host, device, stores, stream));
  } else if (host.packed()) {
    cuda::copy_to_host(host.data, device, bytes, stream);
  } else {
    const auto packed = std::make_unique_for_overwrite<std::byte[]>(bytes);
    cuda::copy_to_host(packed.get(), device, bytes, stream);
    unpack_all(host, packed.get());
  }
}

BegunCopy::BegunCopy(cuda::CopyQueue& queue, std::shared_ptr<cuda::QueuedCopy> copy)
    : queue_(&queue), queued_(std::move(copy)) {}

BegunCopy::BegunCopy(const cuda::Stream& stream) {
  try {
    enqueued_ = std::make_unique<cuda::Event>(stream);
  } catch (...) {
    cuda::synchronize(stream);  // because the caller may free the host array
    throw;
  }
}

void BegunCopy::wait() const {
  if (queued_) queue_->wait(*queued_);
  while (enqueued_ && !enqueued_->done()) {
    poll();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

BegunCopy begin_upload(cuda::CopyQueue& queue, std::byte* device, const Array& host,
                       const cuda::Stream& stream, std::function<void()> before) {
  const auto rows = page_locked_rows(host, stream);
  if (!rows && in_chunks(host, stream)) {
    cuda::ChunkedCopy copy = upload_in_chunks(device, host, stream);
    copy.before = std::move(before);
    return {queue, queue.begin(std::move(copy))};
  }
  before();
  if (!rows) {
    upload(device, host, stream);
    return {};
  }
  cuda::enqueue_upload(device, *rows, stream);
  return BegunCopy(stream);
}

BegunCopy begin_download(cuda::CopyQueue& queue, const Array& host, const std::byte* device,
                         const cuda::Stream& stream, std::function<void()> before) {
  const auto rows = page_locked_rows(host, stream);
  if (!rows && in_chunks(host, stream)) {
    // In total, the copies of a queue are larger than the caches.
    cuda::ChunkedCopy copy = download_in_chunks(host, device, Stores::kNonTemporal, stream);
    copy.before = std::move(before);
    return {queue, queue.begin(std::move(copy))};
  }
  before();
  if (!rows) {
    download(host, device, stream);
    return {};
  }
  cuda::enqueue_download(*rows, device, stream);
  return BegunCopy(stream);
}

}  // namespace ado
