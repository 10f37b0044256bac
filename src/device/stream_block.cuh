// A kernel that blocks a stream until the host releases it.
#pragma once

#include "common/launch.cuh"

#ifdef __CUDACC__

#include <memory>

namespace ado::cuda {

class StreamBlock {
 public:
  StreamBlock();
  // Blocks the stream: work that is enqueued afterwards waits for release(), at most 250 ms.
  void enqueue(cudaStream_t stream);
  void release() { flags()[kReleased] = 1; }
  // Returns true if the kernel has stopped waiting before release().
  bool timed_out() const { return flags()[kTimedOut] != 0; }

 private:
  enum { kReleased, kTimedOut, kFlags };
  struct Free {
    void operator()(int* memory) const { cudaFreeHost(memory); }
  };
  volatile int* flags() const { return flags_.get(); }
  std::unique_ptr<int, Free> flags_;  // in host memory that the device can access
};

}  // namespace ado::cuda

#endif
