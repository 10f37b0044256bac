// A stream that is blocked until its release. If a function computes its results while the stream
// is blocked, it uses another stream, and events on this stream do not measure its time.
#pragma once

#include <cstddef>
#include <memory>

namespace ado::cuda {

class BlockedStream {
 public:
  BlockedStream(void* stream, int device);  // a cudaStream_t of the device
  ~BlockedStream();                         // releases the stream
  BlockedStream(const BlockedStream&) = delete;
  BlockedStream& operator=(const BlockedStream&) = delete;

  // Blocks the stream: work that is enqueued afterwards waits for release(), at most 250 ms.
  void block();
  // Unblocks the stream and waits for its work. Does nothing if the stream is not blocked.
  void release();
  // Returns false also after 250 ms, for example if the function waits for its results.
  bool still_blocked() const;
  // Copies device memory to the host on a stream that does not wait for the blocked one.
  void copy(void* to, const void* from, std::size_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ado::cuda
