// Copies between host and device through pinned memory.
//
// The driver copies pageable memory through its own pinned buffer with one thread, which has a
// lower bandwidth than the link to the GPU. Here, the threads of the CPU routines fill and empty
// pinned chunks. Each thread copies whole chunks and enqueues their transfers. The threads do not
// synchronise after each chunk, and two threads rarely write to the same new page of a result.
#include "common/launch.cuh"
#include "common/per_device.cuh"
#include "common/streams.cuh"
#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "core/thread_pool.hpp"
#include "core/threads.hpp"
#include "runtime/device.hpp"

#ifdef __CUDACC__

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace ado::cuda {
namespace {

constexpr std::size_t kChunks = 16;  // per direction
// On a host with 32 cores and two H200, 12 threads were as fast.
constexpr int kMaxThreads = 16;

// Chunks of pinned memory, which the copies in one direction use in cyclic order. `turn` is locked
// by the call that uses the chunks.
class Ring {
 public:
  Ring() {
    for (cudaEvent_t& event : transferred_)
      ADO_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }

  std::byte* memory(std::size_t i) const { return memory_.data() + i % kChunks * kChunkBytes; }
  // Must be called after the transfer of chunk i has been enqueued.
  void mark(std::size_t i, cudaStream_t stream) const {
    ADO_CUDA(cudaEventRecord(transferred_[i % kChunks], stream));
  }
  // Returns true if the last transfer of chunk i has ended, or if there was none.
  bool transferred(std::size_t i) const {
    const cudaError_t status = cudaEventQuery(transferred_[i % kChunks]);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    ADO_CUDA(status);
    return true;
  }

  mutable std::mutex turn;

 private:
  PageLockedMemory memory_{kChunks * kChunkBytes};
  cudaEvent_t transferred_[kChunks];
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

// One copy, divided into steps. A step processes one chunk, and any thread can execute it.
class Steps {
 public:
  Steps(const Ring& ring, std::size_t bytes) : ring_(ring), bytes_(bytes) {}
  virtual ~Steps() = default;
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  bool ended() const { return next_.load(std::memory_order_relaxed) == chunks_of(bytes_); }

  // Executes the next step. Returns false if no step is ready, or if another thread is selecting a
  // step.
  bool step() {
    std::unique_lock looking(mutex_, std::try_to_lock);
    if (!looking || ended()) return false;
    const std::size_t i = next_.load(std::memory_order_relaxed);
    const bool enqueued =
        enqueued_[i % kChunks].load(std::memory_order_acquire) == transfers_before(i);
    if (!enqueued || !ring_.transferred(i)) return false;
    next_.store(i + 1, std::memory_order_relaxed);
    looking.unlock();
    execute(i, size_of(i, bytes_));
    return true;
  }

 protected:
  // Returns the number of transfers of this copy, to or from the memory of chunk i, that must have
  // ended before the step for chunk i.
  virtual std::size_t transfers_before(std::size_t i) const = 0;
  virtual void execute(std::size_t i, std::size_t bytes) = 0;

  // Must be called after the transfer of chunk i has been enqueued.
  void mark(std::size_t i, const Stream& stream) {
    ring_.mark(i, raw(stream));
    enqueued_[i % kChunks].store(i / kChunks + 1, std::memory_order_release);
  }

  const Ring& ring_;
  const std::size_t bytes_;

 private:
  std::mutex mutex_;
  std::atomic<std::size_t> next_ = 0;
  // Transfers of this copy that have been enqueued, per chunk of the ring.
  std::atomic<std::size_t> enqueued_[kChunks] = {};
};

// Fills chunks and enqueues their transfers.
class UploadSteps final : public Steps {
 public:
  UploadSteps(const Upload& upload, const Ring& ring)
      : Steps(ring, upload.bytes), upload_(upload) {}

 private:
  std::size_t transfers_before(std::size_t i) const override { return i / kChunks; }
  void execute(std::size_t i, std::size_t bytes) override {
    const std::size_t first = i * kChunkBytes;
    upload_.fill(ring_.memory(i), first, bytes);
    ADO_CUDA(cudaMemcpyAsync(upload_.device + first, ring_.memory(i), bytes, cudaMemcpyHostToDevice,
                             raw(upload_.stream)));
    mark(i, upload_.stream);
  }

  const Upload& upload_;
};

// Empties chunks and enqueues the next transfers into them.
class DownloadSteps final : public Steps {
 public:
  DownloadSteps(const Download& download, const Ring& ring)
      : Steps(ring, download.bytes), download_(download) {
    for (std::size_t i = 0; i < std::min(kChunks, chunks_of(bytes_)); ++i) transfer(i);
  }

 private:
  std::size_t transfers_before(std::size_t i) const override { return i / kChunks + 1; }
  void execute(std::size_t i, std::size_t bytes) override {
    download_.empty(ring_.memory(i), i * kChunkBytes, bytes);
    if (i + kChunks < chunks_of(bytes_)) transfer(i + kChunks);
  }

  void transfer(std::size_t i) {
    ADO_CUDA(cudaMemcpyAsync(ring_.memory(i), download_.device + i * kChunkBytes,
                             size_of(i, bytes_), cudaMemcpyDeviceToHost, raw(download_.stream)));
    mark(i, download_.stream);
  }

  const Download& download_;
};

// The steps of one or two copies, executed by several threads.
class Copying {
 public:
  Copying(Steps* up, Steps* down) : up_(up), down_(down), device_(current_device()) {}

  void run(std::size_t bytes) {
    const int threads = threads_for(2 * static_cast<std::int64_t>(bytes));
    run_parts(
        std::min(threads, kMaxThreads),
        [](const void* work, int, int) {
          static_cast<Copying*>(const_cast<void*>(work))->execute_steps();
        },
        this);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void execute_steps() {
    try {
      const DeviceScope scope(device_);
      while (!failed_ && !(ended(up_) && ended(down_))) {
        const bool uploaded = up_ != nullptr && up_->step();
        const bool downloaded = down_ != nullptr && down_->step();
        if (!uploaded && !downloaded) std::this_thread::yield();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      failed_ = true;
    }
  }

  static bool ended(const Steps* steps) { return steps == nullptr || steps->ended(); }

  Steps *up_, *down_;
  int device_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
};

// Copies while no other call uses the rings. The threads that fill or empty a chunk do not poll,
// because poll() calls Python signal handlers, which may copy too. A copy in a handler would wait
// for a mutex that its own thread has locked.
template <class Copy, class... Rings>
void in_turn(const Copy& copy, const Rings&... rings) {
  poll();
  {
    const std::scoped_lock lock(rings.turn...);
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
        UploadSteps steps(upload, ring);
        Copying(&steps, nullptr).run(upload.bytes);
      },
      ring);
}

void run(const Download& download) {
  const DeviceScope scope(download.stream.device);
  const Ring& ring = download_ring();
  in_turn(
      [&] {
        DownloadSteps steps(download, ring);
        Copying(nullptr, &steps).run(download.bytes);
      },
      ring);
}

void run(const Upload& upload, const Download& download) {
  const DeviceScope scope(upload.stream.device);
  const Ring &to_device = upload_ring(), &from_device = download_ring();
  in_turn(
      [&] {
        DownloadSteps down(download, from_device);
        UploadSteps up(upload, to_device);
        Copying(&up, &down).run(upload.bytes + download.bytes);
      },
      to_device, from_device);
}

}  // namespace ado::cuda

#endif
