// A stream that executes nothing until it is released, and copies from device memory meanwhile.
#include "runtime/blocked_stream.hpp"

#include "common/stream_block.cuh"
#include "core/error.hpp"
#include "runtime/device.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

// Everything is allocated before the stream is blocked: allocations may wait for the device.
struct BlockedStream::State {
  cudaStream_t stream;
  cudaStream_t copies = nullptr;
  StreamBlock block;
  bool blocked = false;

  explicit State(cudaStream_t blocked_stream) : stream(blocked_stream) {
    ADO_CUDA(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
  }
  ~State() { cudaStreamDestroy(copies); }
};

BlockedStream::BlockedStream(void* stream) {
  require();
  state_ = std::make_unique<State>(static_cast<cudaStream_t>(stream));
}

BlockedStream::~BlockedStream() {
  if (!state_->blocked) return;
  state_->block.release();
  cudaStreamSynchronize(state_->stream);  // the kernel reads memory of the state
}

void BlockedStream::block() {
  if (state_->blocked) throw ValueError("the stream must not be blocked already");
  state_->block.enqueue(state_->stream);
  ADO_CUDA(cudaGetLastError());
  state_->blocked = true;
}

void BlockedStream::release() {
  if (!state_->blocked) return;
  state_->block.release();
  state_->blocked = false;
  ADO_CUDA(cudaStreamSynchronize(state_->stream));
}

bool BlockedStream::still_blocked() const { return state_->blocked && !state_->block.gave_up(); }

void BlockedStream::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  ADO_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, state_->copies));
  ADO_CUDA(cudaStreamSynchronize(state_->copies));
}

}  // namespace ado::cuda

#else

namespace ado::cuda {

struct BlockedStream::State {};

BlockedStream::BlockedStream(void*) { throw Unavailable(why_unavailable()); }
BlockedStream::~BlockedStream() = default;
void BlockedStream::block() {}
void BlockedStream::release() {}
bool BlockedStream::still_blocked() const { return false; }
void BlockedStream::copy(void*, const void*, std::size_t) {}

}  // namespace ado::cuda

#endif
