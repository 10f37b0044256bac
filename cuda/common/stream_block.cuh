// A kernel that blocks a stream until the host releases it.
#pragma once

#include "common/launch.cuh"

#ifdef __CUDACC__

#include <memory>

namespace ado::cuda {

class StreamBlock {
 public:
  StreamBlock();
  // Work that is enqueued on the stream from now on waits for release(), at most 250 ms.
  void enqueue(cudaStream_t stream);
  void release() { flags()[kReleased] = 1; }
  // Whether the kernel has stopped waiting before release().
  bool gave_up() const { return flags()[kGaveUp] != 0; }

 private:
  enum { kReleased, kGaveUp, kFlags };
  struct Free {
    void operator()(int* memory) const { cudaFreeHost(memory); }
  };
  volatile int* flags() const { return flags_.get(); }
  std::unique_ptr<int, Free> flags_;  // in host memory that the device can access
};

}  // namespace ado::cuda

#endif
