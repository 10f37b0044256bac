// Shared by the files of the device runtime: attributes and resource usage, streams as handles of
// CUDA, one object per GPU.
#pragma once

#include <atomic>

#include "common/launch.cuh"
#include "device/device.hpp"

#ifdef ADO_WITH_CUDA

namespace ado::cuda {

// Returns a function of the driver. The driver is not linked, because a machine may lack it.
void* driver_function(const char* name, int version);
template <class Function>
Function* driver_function(const char* name, int version) {
  return reinterpret_cast<Function*>(driver_function(name, version));
}
// Throws if the CUresult of a driver function is not CUDA_SUCCESS.
void check_driver(int status, const char* call, const char* file, int line);

// Returns an attribute of the current device.
int attribute(cudaDeviceAttr which);

// Completes the resource usage of a kernel: warps and blocks per multiprocessor, from its launch
// configuration, registers and shared memory.
Kernel resources_from(Kernel kernel);

// Returns the resource usage of `kernel` with the grid, block and shared memory of `go`, on the
// current device.
Kernel resources_of(const void* kernel, const Launch& go);

// Returns the handle of a stream for the CUDA runtime. The device of the stream must be current.
inline cudaStream_t raw(const Stream& stream) {
  return static_cast<cudaStream_t>(nameable(stream).handle);
}

// Resets persisting lines to normal, so that overwriting L2 evicts them, too, and sets the share of
// L2 for such lines to 0. Otherwise a function with an access policy window could keep its operands
// in L2 between cold samples.
inline void reset_persisting_l2() {
  for (const cudaError_t status :
       {cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0), cudaCtxResetPersistingL2Cache()}) {
    // Some devices have no persisting lines.
    if (status == cudaErrorNotSupported || status == cudaErrorUnsupportedLimit)
      cudaGetLastError();
    else
      ADO_CUDA(status);
  }
}

// One object per GPU, created on first use. It is never destroyed, because the driver may already
// be unloaded at the end of the process.
template <class T>
class PerDevice {
 public:
  // Returns the object of the current device. `make` creates it while that device is current.
  template <class Make>
  T& current(Make make) {
    std::atomic<T*>& slot = slots_.at(static_cast<std::size_t>(current_device()));
    if (T* const known = slot.load(std::memory_order_acquire)) return *known;
    const std::lock_guard lock(mutex_);
    if (T* const known = slot.load(std::memory_order_acquire)) return *known;
    T* const made = new T(make());
    slot.store(made, std::memory_order_release);
    return *made;
  }

 private:
  static constexpr std::size_t kMaxDevices = 256;

  std::mutex mutex_;
  std::array<std::atomic<T*>, kMaxDevices> slots_{};
};

// Returns memory of the graph that captures the stream. Work that is captured before
// return_to_graph may use it (graphs.cpp).
GraphMemory memory_of_graph(cudaStream_t stream, std::size_t bytes);
void return_to_graph(cudaStream_t stream, const GraphMemory& memory);
// Frees a buffer in a later call of free_later_memory().
void free_later(std::unique_ptr<Buffer> buffer);
void free_later_memory();
// Releases the memory of the device's graphs that no longer exist. No stream may be captured.
void release_graph_memory();

// kernels.cu has the kernels of these functions: time stamps, blocked streams, and a test whether
// this build contains code for a device. The launches do not check for errors.
struct Stamp {
  unsigned long long nanoseconds;
  long long cycles;
  unsigned multiprocessor;
};
// Stores wall time and SM cycles. Two stamps around a kernel give the SM clock during the kernel.
void enqueue_stamp(Stamp* stamp, cudaStream_t stream);
// Blocks the stream until the host sets `released`. Sets `timed_out` and ends after 250 ms.
void enqueue_block(volatile int* released, volatile int* timed_out, cudaStream_t stream);
// Returns false if this build contains no code for the current device.
bool has_code_for_device();

// A kernel that blocks a stream until the host releases it. blocked_stream.cpp implements it.
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
