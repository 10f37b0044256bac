// A kernel that blocks a stream until the host releases it, and a stream that it blocks.
#include "device/blocked_stream.hpp"

#include "core/error.hpp"
#include "device/internal.cuh"

#ifdef ADO_WITH_CUDA

namespace ado::cuda {

StreamBlock::StreamBlock() {
  void* memory = nullptr;
  ADO_CUDA(cudaHostAlloc(&memory, kFlags * sizeof(int), cudaHostAllocMapped));
  flags_.reset(static_cast<int*>(memory));
}

void StreamBlock::enqueue(cudaStream_t stream) {
  flags()[kReleased] = 0;
  flags()[kTimedOut] = 0;
  enqueue_block(flags() + kReleased, flags() + kTimedOut, stream);
}

// All memory is allocated before the stream is blocked, because an allocation can wait for the
// device.
struct BlockedStream::State {
  int device;
  cudaStream_t stream;
  cudaStream_t copies = nullptr;
  StreamBlock block;
  bool blocked = false;

  State(cudaStream_t blocked_stream, int its_device) : device(its_device), stream(blocked_stream) {
    ADO_CUDA(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
  }
  ~State() { cudaStreamDestroy(copies); }
};

BlockedStream::BlockedStream(void* stream, int device) {
  require();
  const DeviceScope scope(device);
  state_ = std::make_unique<State>(static_cast<cudaStream_t>(stream), device);
}

BlockedStream::~BlockedStream() {
  try {
    release();  // the kernel accesses memory of state_
  } catch (...) {
    // CUDA has failed. The next call reports it.
  }
}

void BlockedStream::block() {
  if (state_->blocked) throw ValueError("the stream must not be blocked already");
  const DeviceScope scope(state_->device);
  state_->block.enqueue(state_->stream);
  ADO_CUDA(cudaGetLastError());
  state_->blocked = true;
}

void BlockedStream::release() {
  if (!state_->blocked) return;
  state_->block.release();
  state_->blocked = false;
  const DeviceScope scope(state_->device);
  ADO_CUDA(cudaStreamSynchronize(state_->stream));
}

bool BlockedStream::still_blocked() const { return state_->blocked && !state_->block.timed_out(); }

void BlockedStream::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const DeviceScope scope(state_->device);
  ADO_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, state_->copies));
  ADO_CUDA(cudaStreamSynchronize(state_->copies));
}

}  // namespace ado::cuda

#else

namespace ado::cuda {

struct BlockedStream::State {};

BlockedStream::BlockedStream(void*, int) { throw Unavailable(why_unavailable()); }
BlockedStream::~BlockedStream() = default;
void BlockedStream::block() {}
void BlockedStream::release() {}
bool BlockedStream::still_blocked() const { return false; }
void BlockedStream::copy(void*, const void*, std::size_t) {}

}  // namespace ado::cuda

#endif
