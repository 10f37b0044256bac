// Copies between host and device through pinned memory.
//
// The driver copies pageable memory through its own pinned buffer with one thread, which has a
// lower bandwidth than the link to the GPU. Here, the threads of the CPU routines fill and empty
// the pinned chunks.
#include "common/launch.cuh"
#include "common/per_device.cuh"
#include "common/streams.cuh"
#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "runtime/device.hpp"

#ifdef __CUDACC__

#include <algorithm>
#include <new>

namespace ado::cuda {
namespace {

constexpr std::size_t kChunks = 4;  // one is filled, one transferred; the others absorb jitter

// Chunks of pinned memory, which copies use in cyclic order.
class Chunks {
 public:
  Chunks() {
    void* memory = nullptr;
    const cudaError_t status = cudaHostAlloc(&memory, kChunks * kChunkBytes, cudaHostAllocDefault);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw std::bad_alloc();
    }
    if (status != cudaSuccess) throw_error(status, "cudaHostAlloc(...)", __FILE__, __LINE__);
    for (std::size_t i = 0; i < kChunks; ++i) {
      chunks_[i].memory = static_cast<std::byte*>(memory) + i * kChunkBytes;
      ADO_CUDA(cudaEventCreateWithFlags(&chunks_[i].transferred, cudaEventDisableTiming));
    }
  }

  std::byte* memory(std::size_t i) const { return chunks_[i % kChunks].memory; }
  // Must be called after the transfer of chunk i has been enqueued.
  void mark(std::size_t i, cudaStream_t stream) const {
    ADO_CUDA(cudaEventRecord(chunks_[i % kChunks].transferred, stream));
  }
  // Waits for the last transfer of chunk i, if there was one.
  void wait(std::size_t i) const {
    ADO_CUDA(cudaEventSynchronize(chunks_[i % kChunks].transferred));
  }

 private:
  struct Chunk {
    std::byte* memory;
    cudaEvent_t transferred;
  };
  Chunk chunks_[kChunks];
};

struct Staging {
  Chunks chunks;
  std::unique_ptr<std::mutex> turn = std::make_unique<std::mutex>();
};

Staging& staging() {
  static PerDevice<Staging> of_device;
  return of_device.current([] { return Staging(); });
}

std::size_t chunks_of(std::size_t bytes) { return (bytes + kChunkBytes - 1) / kChunkBytes; }

std::size_t size_of(std::size_t chunk, std::size_t bytes) {
  return std::min(kChunkBytes, bytes - chunk * kChunkBytes);
}

// Copies while no other thread copies. The threads that fill or empty a chunk do not poll, because
// a Python signal handler, which poll() calls, may copy too. It would wait for its own thread.
template <class Copy>
void in_turn(const Staging& s, const Copy& copy) {
  poll();
  {
    const std::lock_guard lock(*s.turn);
    const WorksFor no_call(nullptr);
    copy();
  }
  poll();
}

}  // namespace

void upload(std::byte* device, std::size_t bytes, const Fill& fill, const Stream& stream) {
  const DeviceScope scope(stream.device);
  const Staging& s = staging();
  in_turn(s, [&] {
    for (std::size_t i = 0; i < chunks_of(bytes); ++i) {
      const std::size_t first = i * kChunkBytes, size = size_of(i, bytes);
      s.chunks.wait(i);
      fill(s.chunks.memory(i), first, size);
      ADO_CUDA(cudaMemcpyAsync(device + first, s.chunks.memory(i), size, cudaMemcpyHostToDevice,
                               raw(stream)));
      s.chunks.mark(i, raw(stream));
    }
  });
}

void download(const std::byte* device, std::size_t bytes, const Empty& empty,
              const Stream& stream) {
  const DeviceScope scope(stream.device);
  const Staging& s = staging();
  in_turn(s, [&] {
    const std::size_t count = chunks_of(bytes);
    const auto transfer = [&](std::size_t i) {
      s.chunks.wait(i);
      ADO_CUDA(cudaMemcpyAsync(s.chunks.memory(i), device + i * kChunkBytes, size_of(i, bytes),
                               cudaMemcpyDeviceToHost, raw(stream)));
      s.chunks.mark(i, raw(stream));
    };
    for (std::size_t i = 0; i < std::min(count, kChunks); ++i) transfer(i);
    for (std::size_t i = 0; i < count; ++i) {
      s.chunks.wait(i);
      empty(s.chunks.memory(i), i * kChunkBytes, size_of(i, bytes));
      if (i + kChunks < count) transfer(i + kChunks);
    }
  });
}

}  // namespace ado::cuda

#endif
