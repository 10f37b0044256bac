// The interface to CUDA for the rest of the library. src/device implements it. In a build without
// CUDA, these functions throw Unavailable, so no other file needs an #ifdef.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "core/array.hpp"
#include "core/variant.hpp"
#include "device/stream.hpp"

namespace ado::cuda {

// Empty if there is a usable device, else the reason: "built without CUDA", "no CUDA device", ...
// Also empty while the emulated GPU (emulated.hpp) is the current device of the calling thread.
const std::string& why_unavailable();

// Throws Unavailable with the reason if there is no usable device.
void require();

int device_count();    // 0 if there is no usable device
int current_device();  // of the calling thread
// Returns the GPU that holds the memory at an address. Throws ValueError if no GPU can access the
// address.
int device_of(const void* address);

// Makes a GPU the current device of the calling thread within a scope. Afterwards, the thread has
// its previous current device. No context is created on any other GPU.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  bool pushed_ = false;
  bool emulated_before_ = false;
};

// Properties of the current device, for reports and for theoretical ceilings.
struct Properties {
  std::string name, uuid, pci_bus_id;  // "0000:3b:00.0", as in /sys/bus/pci/devices
  int compute = 0;                     // compute capability times ten
  int multiprocessors = 0, threads_per_multiprocessor = 0;
  double core_hertz = 0, memory_hertz = 0;
  int memory_bus_bits = 0;
  std::int64_t memory_bytes = 0, l2_bytes = 0, shared_bytes_per_multiprocessor = 0;
  std::int64_t shared_bytes_per_block = 0;  // for kernels that opt in to the maximum
  int driver_version = 0, runtime_version = 0;
};
const Properties& properties();

// The hardware of work on a stream (a cudaStream_t) of the current device. Green contexts, MPS and
// MIG leave some of the device's multiprocessors to others.
Hardware hardware(void* stream);

// Memory of a CUDA graph that is being captured.
struct GraphMemory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint64_t capture = 0;  // identifies the capture in this process
};

// Device memory, allocated and freed in the order of its stream. The stream must exist as long as
// the memory; `stream_owner` keeps it alive. If a CUDA graph captures the stream, the memory
// belongs to the graph (src/device/graphs.cpp). It then serves work that is captured before the
// destructor.
//
// Work on other streams must be enclosed by before_use and after_use. The memory is then written
// and freed only after that work. Both functions are safe to call from several threads.
class Buffer {
 public:
  // `pool` is a cudaMemPool_t. Default: the device's pool.
  explicit Buffer(std::size_t bytes, const Stream& stream = {current_device()},
                  void* pool = nullptr);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const Stream& stream() const { return stream_; }

  // Work that is enqueued on `stream` after this call runs after earlier work that wrote the
  // memory. If `writes`, it runs after all earlier work on the memory.
  void before_use(const Stream& stream, bool writes);
  // States that the work enqueued on `stream` so far uses the memory.
  void after_use(const Stream& stream, bool writes);

  std::shared_ptr<void> stream_owner;

 private:
  // The last use on a stream other than the buffer's own.
  struct Use {
    std::unique_ptr<Event> end;
    bool writes;
  };

  explicit Buffer(Buffer& from);  // takes the memory

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Stream stream_;
  GraphMemory of_graph_;  // empty unless a graph owns the memory
  std::mutex mutex_;
  std::vector<Use> uses_;  // at most one per stream
};

// Stream-ordered copies between packed host memory and device memory. They return after the copy is
// complete.
void copy_to_device(std::byte* device, const void* host, std::size_t bytes, const Stream& stream);
void copy_to_host(void* host, const std::byte* device, std::size_t bytes, const Stream& stream);
// Stream-ordered copy between arrays with equal shapes and element sizes and any strides, in the
// memory of the stream's GPU. Elements may have any size and alignment.
void copy_strided(const Array& to, const Array& from, const Stream& stream);
// Overwrites device memory, on the legacy default stream.
void fill(std::byte* device, unsigned char value, std::size_t bytes);
void synchronize();  // waits for all work of the current device

// Page-locked host memory. The GPU copies it by direct memory access, without the CPU.
class PageLockedMemory {
 public:
  explicit PageLockedMemory(std::size_t bytes);
  ~PageLockedMemory();
  PageLockedMemory(const PageLockedMemory&) = delete;
  PageLockedMemory& operator=(const PageLockedMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

// Rows of page-locked host memory. `pitch` is the number of bytes from the start of a row to the
// start of the next row.
struct PageLockedRows {
  std::byte* first;
  std::size_t width, pitch, count;
};
// Returns true if a range of host memory is page-locked. Tests only the first and the last byte.
bool page_locked(const std::byte* first, std::size_t bytes);
// Enqueue a copy to or from packed device memory.
void enqueue_upload(std::byte* device, const PageLockedRows& host, const Stream& stream);
void enqueue_download(const PageLockedRows& host, const std::byte* device, const Stream& stream);

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
  double waited = -1;   // on the CPU: host::Sample::waited
};

// Runs `work` `repeats` times between two events on `stream`, a cudaStream_t of the current device.
// If `cold`, overwrites L2 first.
// `work` is enqueued behind a kernel that waits for the host, so that launch overhead is not timed.
// That kernel stops waiting after 250 ms, because `work` may itself wait for the device. Only one
// thread takes a sample at a time. `work` must not take a sample itself.
Sample sample(const std::function<void()>& work, bool cold, int repeats, void* stream);

}  // namespace ado::cuda

namespace ado {

// The readable name of a kernel without namespaces, return type and parameters.
std::string short_name(const char* mangled);

}  // namespace ado
