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
#include <memory>
#include <mutex>
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
  // Returns true if the last transfer of chunk i has ended, or if there was none.
  bool transferred(std::size_t i) const {
    const cudaError_t status = cudaEventQuery(chunks_[i % kChunks].transferred);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    ADO_CUDA(status);
    return true;
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

// The chunks for one direction, and the turn of the thread that uses them.
struct Ring {
  Chunks chunks;
  std::unique_ptr<std::mutex> turn = std::make_unique<std::mutex>();
};

// Both return the ring of the current device.
Ring& upload_ring() {
  static PerDevice<Ring> of_device;
  return of_device.current([] { return Ring(); });
}
Ring& download_ring() {
  static PerDevice<Ring> of_device;
  return of_device.current([] { return Ring(); });
}

std::size_t chunks_of(std::size_t bytes) { return (bytes + kChunkBytes - 1) / kChunkBytes; }

std::size_t size_of(std::size_t chunk, std::size_t bytes) {
  return std::min(kChunkBytes, bytes - chunk * kChunkBytes);
}

// The chunks of an upload. Each step fills one and enqueues its transfer.
class UploadSteps {
 public:
  UploadSteps(const Upload& upload, const Chunks& chunks) : upload_(upload), chunks_(chunks) {}

  bool ended() const { return next_ == chunks_of(upload_.bytes); }
  bool ready() const { return chunks_.transferred(next_); }
  void wait() const { chunks_.wait(next_); }
  void step() {
    const std::size_t first = next_ * kChunkBytes, size = size_of(next_, upload_.bytes);
    std::byte* const memory = chunks_.memory(next_);
    upload_.fill(memory, first, size);
    ADO_CUDA(cudaMemcpyAsync(upload_.device + first, memory, size, cudaMemcpyHostToDevice,
                             raw(upload_.stream)));
    chunks_.mark(next_, raw(upload_.stream));
    ++next_;
  }

 private:
  const Upload& upload_;
  const Chunks& chunks_;
  std::size_t next_ = 0;
};

// The chunks of a download. Each step empties one and enqueues the next transfer into it.
class DownloadSteps {
 public:
  DownloadSteps(const Download& download, const Chunks& chunks)
      : download_(download), chunks_(chunks) {
    for (std::size_t i = 0; i < std::min(kChunks, chunks_of(download.bytes)); ++i) transfer(i);
  }

  bool ended() const { return next_ == chunks_of(download_.bytes); }
  bool ready() const { return chunks_.transferred(next_); }
  void wait() const { chunks_.wait(next_); }
  void step() {
    download_.empty(chunks_.memory(next_), next_ * kChunkBytes, size_of(next_, download_.bytes));
    if (next_ + kChunks < chunks_of(download_.bytes)) transfer(next_ + kChunks);
    ++next_;
  }

 private:
  void transfer(std::size_t i) const {
    chunks_.wait(i);
    ADO_CUDA(cudaMemcpyAsync(chunks_.memory(i), download_.device + i * kChunkBytes,
                             size_of(i, download_.bytes), cudaMemcpyDeviceToHost,
                             raw(download_.stream)));
    chunks_.mark(i, raw(download_.stream));
  }

  const Download& download_;
  const Chunks& chunks_;
  std::size_t next_ = 0;
};

template <class Steps>
void finish(Steps& steps) {
  while (!steps.ended()) {
    steps.wait();
    steps.step();
  }
}

// Copies while no other thread uses the rings. The threads that fill or empty a chunk do not poll,
// because a Python signal handler, which poll() calls, may copy too. It would wait for its own
// thread.
template <class Copy, class... Rings>
void in_turn(const Copy& copy, const Rings&... rings) {
  poll();
  {
    const std::scoped_lock lock(*rings.turn...);
    const WorksFor no_call(nullptr);
    copy();
  }
  poll();
}

}  // namespace

void run(const Upload& upload) {
  const DeviceScope scope(upload.stream.device);
  const Ring& ring = upload_ring();
  in_turn(
      [&] {
        UploadSteps steps(upload, ring.chunks);
        finish(steps);
      },
      ring);
}

void run(const Download& download) {
  const DeviceScope scope(download.stream.device);
  const Ring& ring = download_ring();
  in_turn(
      [&] {
        DownloadSteps steps(download, ring.chunks);
        finish(steps);
      },
      ring);
}

void run(const Upload& upload, const Download& download) {
  const DeviceScope scope(upload.stream.device);
  const Ring &to_device = upload_ring(), &from_device = download_ring();
  in_turn(
      [&] {
        DownloadSteps down(download, from_device.chunks);
        UploadSteps up(upload, to_device.chunks);
        while (!up.ended() && !down.ended()) {
          if (up.ready()) up.step();
          if (down.ready()) down.step();
        }
        finish(up);
        finish(down);
      },
      to_device, from_device);
}

}  // namespace ado::cuda

#endif
