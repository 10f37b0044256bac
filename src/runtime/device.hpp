// The interface to CUDA for the rest of the library. cuda/common implements it. In a build without
// CUDA, these functions throw Unavailable, so no other file needs an #ifdef.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/variant.hpp"

namespace ado::cuda {

// Empty if there is a usable device, else the reason: "built without CUDA", "no CUDA device", ...
const std::string& why_unavailable();

// Throws Unavailable with the reason if there is no usable device.
void require();

// Properties of the current device, for reports and for theoretical ceilings.
struct Properties {
  std::string name, uuid;
  int compute = 0;  // compute capability times ten
  int multiprocessors = 0;
  double core_hertz = 0, memory_hertz = 0;
  int memory_bus_bits = 0;
  std::int64_t memory_bytes = 0, l2_bytes = 0, shared_bytes_per_multiprocessor = 0;
  int driver_version = 0, runtime_version = 0;
};
const Properties& properties();

// Device memory, stream-ordered on the legacy default stream.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Copies between packed host memory and the device. They return after the copy is complete.
void copy_to_device(std::byte* device, const void* host, std::size_t bytes);
void copy_to_host(void* host, const std::byte* device, std::size_t bytes);
void fill(std::byte* device, unsigned char value, std::size_t bytes);
void synchronize();

// The resource usage of a kernel on this device, for one block shape.
struct Kernel {
  std::string name;
  Extent grid, block;
  int registers = 0;                                              // per thread
  std::size_t local_bytes = 0;                                    // per thread
  std::size_t static_shared_bytes = 0, dynamic_shared_bytes = 0;  // per block
  int resident_warps = 0, max_warps = 0;  // per multiprocessor: of this kernel, and of any kernel
  // Blocks per multiprocessor if this were the only limit.
  int blocks_by_warps = 0, blocks_by_slots = 0, blocks_by_registers = 0, blocks_by_shared = 0;
};

// The kernels that a dry run (Launch::recorder) would have launched, in order. Kernels launched by
// other libraries are not recorded.
struct KernelRecorder {
  std::vector<Kernel> kernels;
};

// One timed sample.
struct Sample {
  double seconds = 0;   // per call
  double hertz = 0;     // mean SM clock while it ran; 0: unknown
  bool blocked = true;  // the host's launch overhead was hidden behind a blocking kernel
};

// Runs `work` `repeats` times between two events on `stream`. If `cold`, overwrites L2 first.
// `work` is enqueued behind a kernel that waits for the host, so that launch overhead is not timed.
// That kernel stops waiting after 250 ms, because `work` may itself wait for the device. Only one
// thread takes a sample at a time. `work` must not take a sample itself.
Sample sample(const std::function<void()>& work, bool cold, int repeats, void* stream);

}  // namespace ado::cuda
