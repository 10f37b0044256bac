// A stream that executes nothing until it is released. What a function computes meanwhile, it
// computes on another stream, which a timer that watches this stream does not see.
// cuda/common/blocked_stream.cu implements it.
#pragma once

#include <cstddef>
#include <memory>

namespace ado::cuda {

class BlockedStream {
 public:
  explicit BlockedStream(void* stream);
  ~BlockedStream();  // releases the stream
  BlockedStream(const BlockedStream&) = delete;
  BlockedStream& operator=(const BlockedStream&) = delete;

  // Work that is enqueued from now on waits for release(), at most 250 ms.
  void block();
  // Waits for the work on the stream. Does nothing if the stream is not blocked.
  void release();
  // False also if the wait took too long, for example because the function waits for its results.
  bool still_blocked() const;
  // Copies device memory to the host on a stream that does not wait for the blocked one.
  void copy(void* to, const void* from, std::size_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ado::cuda
