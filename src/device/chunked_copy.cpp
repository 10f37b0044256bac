// Copies between host and device in chunks of page-locked memory.
//
// The driver copies pageable memory through its own page-locked buffer with one thread, which has a
// lower bandwidth than the link to the GPU. Here, several threads fill and empty chunks. Each
// thread processes whole chunks. The threads do not synchronise after each chunk, and two threads
// rarely write to the same new page of a result.
#include "device/chunked_copy.hpp"

#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "core/thread.hpp"
#include "core/thread_pool.hpp"
#include "core/threads.hpp"
#include "device/internal.cuh"

#ifdef ADO_WITH_CUDA

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace ado::cuda {
namespace {

// There are more chunks than threads, so that chunks are transferred while every thread processes
// another one. With 12 threads (H200, 16 cores), uploads reached 46 GB/s with 16 chunks and 50 GB/s
// with 24 chunks. Smaller chunks were slower. For ado.out_of_core with transpose, 10 threads were
// slower, and 14 and 16 threads were about as fast.
constexpr std::size_t kChunks = 24;
constexpr int kMaxThreads = 12;

using Clock = std::chrono::steady_clock;

// Pauses a waiting thread once per call. In the first millisecond, calls yield the processor. Later
// calls sleep for increasing times of up to 1 ms.
class Pause {
 public:
  void operator()() {
    if (Clock::now() < sleeps_) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, kLongest);
  }
  void restart() { *this = Pause(); }

 private:
  static constexpr std::chrono::microseconds kLongest{1000};
  Clock::time_point sleeps_ = Clock::now() + std::chrono::milliseconds(1);
  std::chrono::microseconds sleep_{50};
};

// Chunks of page-locked memory, which copies in one direction use in cyclic order.
class Ring {
 public:
  Ring() {
    for (cudaEvent_t& event : transferred_)
      ADO_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  ~Ring() {
    for (const cudaEvent_t event : transferred_) {
      cudaEventSynchronize(event);  // the memory is freed next
      cudaEventDestroy(event);
    }
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  std::byte* memory(std::size_t i) const { return memory_.data() + i % kChunks * kChunkBytes; }
  // Must be called after the transfer of chunk i has been enqueued.
  void mark(std::size_t i, cudaStream_t stream) const {
    const cudaError_t status = cudaEventRecord(transferred_[i % kChunks], stream);
    if (status != cudaSuccess) cudaStreamSynchronize(stream);  // the chunk will be used again
    ADO_CUDA(status);
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

 private:
  const PageLockedMemory memory_{kChunks * kChunkBytes};
  cudaEvent_t transferred_[kChunks] = {};
};

}  // namespace

// Chunks are numbered consecutively over all copies of a lane.
struct QueuedCopy {
  ChunkedCopy copy;
  std::size_t first_chunk, last_chunk;  // last_chunk is not part of the copy
  std::atomic<std::size_t> left;        // chunks that have not been processed

  bool ended() const { return left.load(std::memory_order_acquire) == 0; }
};

namespace {

using Copies = std::deque<std::shared_ptr<QueuedCopy>>;

// The copies in one direction. A step processes one chunk, and any thread can execute it.
class Lane {
 public:
  explicit Lane(const Ring& ring) : ring_(ring) {}
  virtual ~Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  std::shared_ptr<QueuedCopy> add(ChunkedCopy copy) {
    const std::size_t count = (copy.bytes + kChunkBytes - 1) / kChunkBytes;
    const std::lock_guard lock(mutex_);
    copies_.push_back(
        std::make_shared<QueuedCopy>(std::move(copy), chunks_, chunks_ + count, count));
    chunks_ += count;
    return copies_.back();
  }

  // Executes the next step. Returns false if no step is ready, or if another thread is selecting a
  // step.
  bool step() {
    std::unique_lock selecting(mutex_, std::try_to_lock);
    if (!selecting || !ready()) return false;
    const Chunk chunk = chunk_at(next_);
    ++next_;
    while (!copies_.empty() && copies_.front()->last_chunk <= next_) copies_.pop_front();
    selecting.unlock();
    execute(chunk);
    processed_[chunk.number % kChunks].store(chunk.number / kChunks + 1, std::memory_order_release);
    chunk.of->left.fetch_sub(1, std::memory_order_release);
    return true;
  }

  // Removes and returns all copies with chunks for which no step has begun.
  Copies take_copies() {
    const std::lock_guard lock(mutex_);
    return std::exchange(copies_, {});
  }

 protected:
  struct Chunk {
    std::shared_ptr<QueuedCopy> of;
    std::size_t number;
  };

  // Returns true if the step for chunk next_ can be executed.
  virtual bool ready() = 0;
  virtual void execute(const Chunk& chunk) = 0;

  bool exists(std::size_t number) const { return number < chunks_ && !copies_.empty(); }
  // The chunk must exist, and its step must not have begun.
  Chunk chunk_at(std::size_t number) const {
    const auto copy = std::find_if(copies_.begin(), copies_.end(),
                                   [&](const auto& c) { return number < c->last_chunk; });
    return {*copy, number};
  }
  // Must be called before the first transfer of a copy is enqueued.
  static void start(const Chunk& chunk) {
    if (chunk.number == chunk.of->first_chunk) std::exchange(chunk.of->copy.before, nullptr)();
  }
  // Returns true if the previous chunk in the same memory has been processed and transferred.
  bool memory_is_free(std::size_t number) const {
    return processed_[number % kChunks].load(std::memory_order_acquire) == number / kChunks &&
           ring_.transferred(number);
  }
  std::size_t offset(const Chunk& chunk) const {
    return (chunk.number - chunk.of->first_chunk) * kChunkBytes;
  }
  std::size_t size(const Chunk& chunk) const {
    return std::min(kChunkBytes, chunk.of->copy.bytes - offset(chunk));
  }
  void process(const Chunk& chunk) const {
    chunk.of->copy.process(ring_.memory(chunk.number), offset(chunk), size(chunk));
  }
  void enqueue_transfer(const Chunk& chunk) const {
    const ChunkedCopy& copy = chunk.of->copy;
    std::byte *const device = copy.device + offset(chunk), *const host = ring_.memory(chunk.number);
    const cudaStream_t stream = raw(copy.stream);
    if (copy.direction == Direction::kToDevice)
      ADO_CUDA(cudaMemcpyAsync(device, host, size(chunk), cudaMemcpyHostToDevice, stream));
    else
      ADO_CUDA(cudaMemcpyAsync(host, device, size(chunk), cudaMemcpyDeviceToHost, stream));
    ring_.mark(chunk.number, stream);
  }

  const Ring& ring_;
  std::size_t next_ = 0;  // the chunk of the next step

 private:
  std::mutex mutex_;
  Copies copies_;           // copies with chunks for which no step has begun
  std::size_t chunks_ = 0;  // total number over all copies
  // Chunks of this lane that have been processed, per chunk of the ring.
  std::atomic<std::size_t> processed_[kChunks] = {};
};

// A step fills a chunk and enqueues its transfer.
class UploadLane final : public Lane {
 public:
  using Lane::Lane;

 private:
  bool ready() override {
    if (!exists(next_) || !memory_is_free(next_)) return false;
    start(chunk_at(next_));
    return true;
  }
  void execute(const Chunk& chunk) override {
    process(chunk);
    enqueue_transfer(chunk);
  }
};

// A step empties a chunk. Transfers are enqueued by the thread that selects a step.
class DownloadLane final : public Lane {
 public:
  using Lane::Lane;

 private:
  bool ready() override {
    for (; exists(enqueued_) && memory_is_free(enqueued_); ++enqueued_) {
      const Chunk chunk = chunk_at(enqueued_);
      start(chunk);
      enqueue_transfer(chunk);
    }
    return next_ < enqueued_ && ring_.transferred(next_);
  }
  void execute(const Chunk& chunk) override { process(chunk); }

  std::size_t enqueued_ = 0;  // the chunk of the next transfer
};

// Executes the steps of lanes on several threads.
class Workers {
 public:
  Workers(int device, std::vector<Lane*> lanes) : device_(device), lanes_(std::move(lanes)) {}

  // Executes steps on this thread until ended() returns true or a step of any thread fails.
  template <class Ended>
  void work(const Ended& ended) {
    try {
      const DeviceScope scope(device_);
      Pause pause;
      while (!failed() && !ended()) {
        bool any = false;
        for (Lane* const lane : lanes_) any = lane->step() || any;
        if (any)
          pause.restart();
        else
          pause();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failed()) error_ = std::current_exception();
      failed_.store(true, std::memory_order_release);
    }
  }

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  void throw_error() const {
    if (failed()) std::rethrow_exception(error_);
  }

 private:
  const int device_;
  const std::vector<Lane*> lanes_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;  // not changed after failed_ is true
};

// The ring of one direction, for one copy at a time.
struct SharedRing {
  Ring ring;
  std::mutex turn;
};
SharedRing& shared_ring(Direction direction) {
  static PerDevice<SharedRing> uploads, downloads;
  return (direction == Direction::kToDevice ? uploads : downloads).current([] {
    return SharedRing();
  });
}

struct Rings {
  Ring uploads, downloads;
};

// Keeps the rings of a closed queue for the next queue, because allocating page-locked memory is
// slow.
class IdleRings {
 public:
  std::unique_ptr<Rings> take() {
    {
      const std::lock_guard lock(mutex_);
      if (rings_) return std::move(rings_);
    }
    return std::make_unique<Rings>();
  }
  void give_back(std::unique_ptr<Rings> rings) {
    const std::lock_guard lock(mutex_);
    if (!rings_) rings_ = std::move(rings);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<Rings> rings_;
};
IdleRings& idle_rings() {
  static PerDevice<IdleRings> of_device;
  return of_device.current([] { return IdleRings(); });
}

}  // namespace

// The threads that fill or empty a chunk do not poll, because poll() calls Python signal handlers,
// which may copy too. A copy in a handler would wait for a mutex that its own thread has locked.
void run(const ChunkedCopy& copy) {
  const DeviceScope scope(copy.stream.device);
  SharedRing& shared = shared_ring(copy.direction);
  poll();
  {
    const std::lock_guard lock(shared.turn);
    const WorksFor no_call(nullptr);
    const auto execute = [&](Lane&& lane) {
      Workers workers(copy.stream.device, {&lane});
      const auto queued = lane.add(copy);
      const auto part = [&] { workers.work([&] { return queued->ended(); }); };
      const int threads = threads_for(2 * static_cast<std::int64_t>(copy.bytes));
      run_parts(
          std::min(threads, kMaxThreads),
          [](const void* work, int, int) { (*static_cast<decltype(&part)>(work))(); }, &part);
      workers.throw_error();
    };
    if (copy.direction == Direction::kToDevice)
      execute(UploadLane(shared.ring));
    else
      execute(DownloadLane(shared.ring));
  }
  poll();
}

struct CopyQueue::State {
  explicit State(int of_device) : device(of_device) {}

  const int device;
  const pid_t process = getpid();
  std::unique_ptr<Rings> rings = idle_rings().take();
  UploadLane uploads{rings->uploads};
  DownloadLane downloads{rings->downloads};
  Workers workers{device, {&uploads, &downloads}};
  std::atomic<bool> closed = false;
  std::atomic<int> threads = 0;  // running threads

  // A forked child does not have the threads of its parent.
  bool inherited() const { return getpid() != process; }

  void wait_for_threads() const {
    for (int left = threads; left != 0; left = threads) threads.wait(left);
  }
};

// The queue has its own threads. If it used the thread pool of the CPU routines, calls of CPU
// routines would run on one thread while the queue exists.
CopyQueue::CopyQueue(int device) {
  const DeviceScope scope(device);
  state_ = std::make_shared<State>(device);
  const auto work = [](void* given) {
    const std::unique_ptr<std::shared_ptr<State>> owner(
        static_cast<std::shared_ptr<State>*>(given));
    State& state = **owner;
    state.workers.work([&] { return state.closed.load(); });
    --state.threads;
    state.threads.notify_all();
  };
  for (int i = 0; i < std::min(max_threads(), kMaxThreads); ++i) {
    auto* const given = new (std::nothrow) std::shared_ptr<State>(state_);
    ++state_->threads;
    if (given != nullptr && start_thread(work, given)) continue;
    delete given;
    --state_->threads;
    if (i == 0) throw std::bad_alloc();
    return;
  }
}

CopyQueue::~CopyQueue() { close(); }

std::shared_ptr<QueuedCopy> CopyQueue::begin(ChunkedCopy copy) {
  if (state_->inherited())
    throw ValueError("BlockCopies must be used in the process that created it, got a forked child");
  if (state_->closed) throw ValueError("BlockCopies must be open, got a closed object");
  Lane& lane = copy.direction == Direction::kToDevice ? static_cast<Lane&>(state_->uploads)
                                                      : state_->downloads;
  return lane.add(std::move(copy));
}

void CopyQueue::wait(const QueuedCopy& copy) const {
  Pause pause;
  while (!copy.ended()) {
    if (state_->inherited())
      throw ValueError(
          "BlockCopies must be used in the process that created it, got a forked child");
    if (state_->workers.failed() || state_->closed) {
      state_->wait_for_threads();
      state_->workers.throw_error();
      throw ValueError("BlockCopies must be open, got a closed object");
    }
    poll();
    pause();
  }
}

void CopyQueue::close() {
  if (state_->inherited()) {
    // A forked child cannot use CUDA, so the state is leaked.
    static_cast<void>(new std::shared_ptr<State>(state_));
    return;
  }
  const bool was_closed = state_->closed.exchange(true);
  state_->wait_for_threads();
  if (was_closed) return;
  const Copies abandoned[] = {state_->uploads.take_copies(), state_->downloads.take_copies()};
  try {
    const DeviceScope scope(state_->device);
    if (state_->workers.failed())
      state_->rings.reset();
    else
      idle_rings().give_back(std::move(state_->rings));
  } catch (...) {
    // At the end of the process, the driver may already be unloaded.
  }
}

}  // namespace ado::cuda

#endif
