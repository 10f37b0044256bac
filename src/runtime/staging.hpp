// Copies between host arrays and packed device memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "core/array.hpp"
#include "device/chunked_copy.hpp"
#include "device/stream.hpp"

namespace ado {

// Stream-ordered copy of a host array with any strides to packed device memory. Returns when the
// host array may be overwritten.
void upload(std::byte* device, const Array& host, const cuda::Stream& stream);
// Stream-ordered copy of packed device memory to a host array. Returns after the copy is complete.
void download(const Array& host, const std::byte* device, const cuda::Stream& stream);

// A copy that other threads or the GPU execute. The host array must exist until the copy
// has ended.
class BegunCopy {
 public:
  // A copy that has ended.
  BegunCopy() = default;
  BegunCopy(cuda::CopyQueue& queue, std::shared_ptr<cuda::QueuedCopy> copy);
  // A copy that has been enqueued on `stream`.
  explicit BegunCopy(const cuda::Stream& stream);

  // Returns when the host array of an upload may be overwritten, or after a download is complete.
  void wait() const;

 private:
  cuda::CopyQueue* queue_ = nullptr;
  std::shared_ptr<cuda::QueuedCopy> queued_;
  std::unique_ptr<cuda::Event> enqueued_;
};
// Like upload and download, but return before the copy of a large array has ended. `before`
// is called once, before the first transfer is enqueued on the stream.
BegunCopy begin_upload(cuda::CopyQueue& queue, std::byte* device, const Array& host,
                       const cuda::Stream& stream, std::function<void()> before);
BegunCopy begin_download(cuda::CopyQueue& queue, const Array& host, const std::byte* device,
                         const cuda::Stream& stream, std::function<void()> before);

}  // namespace ado
