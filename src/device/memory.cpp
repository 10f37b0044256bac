// Device memory and copies between host and device.
#include "core/error.hpp"
#include "device/internal.cuh"

#ifdef ADO_WITH_CUDA

#include <algorithm>
#include <new>
#include <utility>

namespace ado::cuda {
namespace {

void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
          const Stream& stream) {
  if (bytes == 0) return;
  const DeviceScope scope(stream.device);
  if (nameable(stream).is_legacy()) {
    ADO_CUDA(cudaMemcpy(to, from, bytes, kind));
    return;
  }
  ADO_CUDA(cudaMemcpyAsync(to, from, bytes, kind, raw(stream)));
  ADO_CUDA(cudaStreamSynchronize(raw(stream)));
}

}  // namespace

Buffer::Buffer(std::size_t bytes, const Stream& stream, void* pool)
    : bytes_(bytes), stream_(stream) {
  if (bytes == 0) return;
  const DeviceScope scope(stream.device);
  free_later_memory();
  if (is_captured(stream)) {
    of_graph_ = memory_of_graph(raw(stream), bytes);
    data_ = of_graph_.data;
    return;
  }
  void* data = nullptr;
  const cudaError_t status =
      pool != nullptr
          ? cudaMallocFromPoolAsync(&data, bytes, static_cast<cudaMemPool_t>(pool), raw(stream))
          : cudaMallocAsync(&data, bytes, raw(stream));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    ADO_CUDA(cudaMemGetInfo(&free, &total));
    throw OutOfDeviceMemory(bytes, free);
  }
  if (status != cudaSuccess) throw_error(status, "cudaMallocAsync(...)", __FILE__, __LINE__);
  data_ = static_cast<std::byte*>(data);
}

Buffer::Buffer(Buffer& from)
    : stream_owner(std::move(from.stream_owner)),
      data_(std::exchange(from.data_, nullptr)),
      bytes_(from.bytes_),
      stream_(from.stream_),
      uses_(std::move(from.uses_)) {}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  try {
    const DeviceScope scope(stream_.device);
    const RelaxedCapture relaxed;
    if (of_graph_.data != nullptr) {
      return_to_graph(raw(stream_), of_graph_);
    } else if (is_captured(stream_)) {  // the graph cannot free memory that it has not allocated
      free_later(std::unique_ptr<Buffer>(new Buffer(*this)));
    } else {
      for (const Use& use : uses_) use.end->block(nameable(stream_));
      cudaFreeAsync(data_, raw(stream_));
    }
  } catch (...) {
    // At the end of the process, the driver may already be unloaded. It has then freed the memory.
  }
}

void Buffer::before_use(const Stream& stream, bool writes) {
  if (data_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  wait_for(stream, nameable(stream_));
  if (uses_.empty() || is_captured(stream)) return;
  for (const Use& use : uses_)
    if (writes || use.writes) use.end->block(stream);
}

void Buffer::after_use(const Stream& stream, bool writes) {
  if (data_ == nullptr || stream == stream_ || is_captured(stream)) return;
  auto end = std::make_unique<Event>(stream);
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(uses_.begin(), uses_.end(),
                                  [&](const Use& use) { return use.end->stream() == stream; });
  if (known == uses_.end()) {
    std::erase_if(uses_, [](const Use& use) { return use.end->done(); });
    uses_.push_back({std::move(end), writes});
  } else {
    known->end = std::move(end);
    known->writes = known->writes || writes;
  }
}

void copy_to_device(std::byte* device, const void* host, std::size_t bytes, const Stream& stream) {
  copy(device, host, bytes, cudaMemcpyHostToDevice, stream);
}

void copy_to_host(void* host, const std::byte* device, std::size_t bytes, const Stream& stream) {
  copy(host, device, bytes, cudaMemcpyDeviceToHost, stream);
}

PageLockedMemory::PageLockedMemory(std::size_t bytes) {
  require();
  if (bytes == 0) return;
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw std::bad_alloc();
  }
  if (status != cudaSuccess) throw_error(status, "cudaHostAlloc(...)", __FILE__, __LINE__);
  data_ = static_cast<std::byte*>(data);
}

PageLockedMemory::~PageLockedMemory() { cudaFreeHost(data_); }

bool page_locked(const std::byte* first, std::size_t bytes) {
  for (const std::byte* address : {first, first + bytes - 1}) {
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    if (attributes.type != cudaMemoryTypeHost) return false;
  }
  return true;
}

// A copy of one row is not restricted to the largest pitch of a copy of several rows.
void enqueue_upload(std::byte* device, const PageLockedRows& host, const Stream& stream) {
  const DeviceScope scope(stream.device);
  if (host.count == 1) {
    ADO_CUDA(cudaMemcpyAsync(device, host.first, host.width, cudaMemcpyHostToDevice, raw(stream)));
    return;
  }
  ADO_CUDA(cudaMemcpy2DAsync(device, host.width, host.first, host.pitch, host.width, host.count,
                             cudaMemcpyHostToDevice, raw(stream)));
}

void enqueue_download(const PageLockedRows& host, const std::byte* device, const Stream& stream) {
  const DeviceScope scope(stream.device);
  if (host.count == 1) {
    ADO_CUDA(cudaMemcpyAsync(host.first, device, host.width, cudaMemcpyDeviceToHost, raw(stream)));
    return;
  }
  ADO_CUDA(cudaMemcpy2DAsync(host.first, host.pitch, device, host.width, host.width, host.count,
                             cudaMemcpyDeviceToHost, raw(stream)));
}

void fill(std::byte* device, unsigned char value, std::size_t bytes) {
  if (bytes != 0) ADO_CUDA(cudaMemset(device, value, bytes));
}

void synchronize() {
  require();
  ADO_CUDA(cudaDeviceSynchronize());
  release_graph_memory();
}

}  // namespace ado::cuda

#endif
