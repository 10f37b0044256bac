// Copies between host and device in chunks of page-locked memory. While some chunks are
// transferred, host threads fill or empty others. src/device/chunked_copy.cpp implements the
// functions.
#pragma once

#include <cstddef>
#include <functional>

#include "device/stream.hpp"

namespace ado::cuda {

enum class Direction { kToDevice, kToHost };

// A copy to or from packed device memory.
struct ChunkedCopy {
  Direction direction;
  std::byte* device;
  std::size_t bytes;
  // Writes bytes first, ..., first + bytes - 1 of the data to `chunk`, or reads them from it.
  // Several threads call this function, each with a different chunk. It must not throw.
  std::function<void(std::byte* chunk, std::size_t first, std::size_t bytes)> process;
  Stream stream;
  // Called once, before the first transfer is enqueued on the stream.
  std::function<void()> before = [] {};
};

// Bytes per chunk. The last chunk of a copy may be smaller.
inline constexpr std::size_t kChunkBytes = 2 << 20;

// Executes a copy. Returns after the last call of `process`. Per GPU and direction, only one copy
// is executed at a time.
void run(const ChunkedCopy& copy);

struct QueuedCopy;

// Copies on one GPU, executed by the threads of the queue. In each direction, copies are executed
// in the order in which they were begun. Copies in different directions overlap.
class CopyQueue {
 public:
  // Throws std::bad_alloc if the system cannot start a thread.
  explicit CopyQueue(int device);
  ~CopyQueue();  // calls close()
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  std::shared_ptr<QueuedCopy> begin(ChunkedCopy copy);
  // Returns after the last call of `process` for this copy. Throws the error if any copy of the
  // queue has failed, ValueError if the queue was closed before, or Interrupted. After an exception
  // other than Interrupted, `process` is not called any more.
  void wait(const QueuedCopy& copy) const;
  // Abandons copies that have not ended. Afterwards, `process` is not called any more, but
  // transfers that are already enqueued on the streams of the copies may still be running.
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ado::cuda
