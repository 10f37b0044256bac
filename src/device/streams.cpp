// Streams and events.
#include "core/error.hpp"
#include "device/internal.cuh"

#ifdef ADO_WITH_CUDA

#include <atomic>

namespace ado::cuda {
namespace {

constexpr std::uintptr_t kLegacyHandle = 1, kPerThreadHandle = 2;  // cudaStreamLegacy, ...PerThread

std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local const std::uint64_t number = ++threads;
  return number;
}

}  // namespace

Stream stream_of(int device, std::uintptr_t handle) {
  if (handle <= kLegacyHandle) return {device};
  return {device, reinterpret_cast<void*>(handle), handle == kPerThreadHandle ? this_thread() : 0};
}

std::uintptr_t handle_of(const Stream& stream) {
  return stream.is_legacy() ? kLegacyHandle : reinterpret_cast<std::uintptr_t>(stream.handle);
}

Stream nameable(const Stream& stream) {
  return stream.thread != 0 && stream.thread != this_thread() ? Stream{stream.device} : stream;
}

// Only streams other than the legacy default stream can be captured.
bool is_captured(const Stream& stream) {
  if (nameable(stream).is_legacy()) return false;
  const DeviceScope scope(stream.device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ADO_CUDA(cudaStreamIsCapturing(raw(stream), &status));
  return status != cudaStreamCaptureStatusNone;  // also after an error has ended the capture
}

void synchronize(const Stream& stream) {
  const DeviceScope scope(stream.device);
  ADO_CUDA(cudaStreamSynchronize(raw(stream)));
}

OwnStream::OwnStream(int device) : stream_{device} {
  const DeviceScope scope(device);
  cudaStream_t stream;
  ADO_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_.handle = stream;
}

// Streams and events of the emulated GPU have no handle.
OwnStream::~OwnStream() {
  if (stream_.handle != nullptr) cudaStreamDestroy(static_cast<cudaStream_t>(stream_.handle));
}

Event::Event(const Stream& stream) : stream_(stream) {
  const DeviceScope scope(stream.device);
  cudaEvent_t event;
  ADO_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  event_ = event;
  if (const cudaError_t status = cudaEventRecord(event, raw(stream)); status != cudaSuccess) {
    cudaEventDestroy(event);
    throw_error(status, "cudaEventRecord(...)", __FILE__, __LINE__);
  }
}

Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(static_cast<cudaEvent_t>(event_));
}

void Event::block(const Stream& waiting) const {
  if (waiting == stream_) return;
  const DeviceScope scope(waiting.device);
  ADO_CUDA(cudaStreamWaitEvent(raw(waiting), static_cast<cudaEvent_t>(event_), 0));
}

bool Event::done() const {
  if (event_ == nullptr) return true;
  const RelaxedCapture relaxed;
  const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(event_));
  if (status != cudaSuccess) cudaGetLastError();
  return status != cudaErrorNotReady;
}

void wait_for(const Stream& waiting, const Stream& awaited) {
  if (waiting == awaited) return;
  const bool captured = is_captured(waiting);
  if (captured != is_captured(awaited)) {
    if (captured) return;
    throw ValueError(
        "stream must be captured, because a graph captures the stream of an operand; pass stream=");
  }
  Event(awaited).block(waiting);
}

}  // namespace ado::cuda

#endif
