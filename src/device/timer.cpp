// Timing on the device: events behind a blocking kernel, and the SM clock.
#include "core/error.hpp"
#include "core/scope_exit.hpp"
#include "device/emulated.hpp"
#include "device/internal.cuh"

#ifdef ADO_WITH_CUDA

#include <exception>
#include <mutex>
#include <stdexcept>

namespace ado::cuda {
namespace {

// The resources of samples. They are allocated once, because an allocation would disturb the
// measurement.
struct Timer {
  cudaEvent_t start, stop;
  StreamBlock block;  // blocks the stream until all timed work is enqueued
  Stamp* stamps;      // in host memory that the device can access
  void* flush;
  std::size_t flush_bytes;

  Timer() : flush_bytes(2 * static_cast<std::size_t>(properties().l2_bytes)) {
    ADO_CUDA(cudaEventCreate(&start));
    ADO_CUDA(cudaEventCreate(&stop));
    void* mapped = nullptr;
    ADO_CUDA(cudaHostAlloc(&mapped, 2 * sizeof(Stamp), cudaHostAllocMapped));
    stamps = static_cast<Stamp*>(mapped);
    ADO_CUDA(cudaMalloc(&flush, flush_bytes));
    // Load the kernel now. Within a sample, loading could wait for the blocking kernel.
    enqueue_stamp(stamps, nullptr);
    ADO_CUDA(cudaGetLastError());
    ADO_CUDA(cudaStreamSynchronize(nullptr));
  }
};

}  // namespace

Sample sample(const std::function<void()>& work, bool cold, int repeats, void* stream_handle) {
  require();
  if (emulated::current()) throw Unavailable("the emulator does not measure time");
  static std::mutex one_at_a_time;
  thread_local bool sampling = false;
  if (sampling) throw std::runtime_error("the sampled work must not take a sample itself");
  const std::lock_guard lock(one_at_a_time);
  sampling = true;
  const ScopeExit done([] { sampling = false; });
  static PerDevice<Timer> timers;
  Timer& timer = timers.current([] { return Timer(); });
  const auto stream = static_cast<cudaStream_t>(stream_handle);

  // The flush leaves L2 full of dirty lines. The sample includes the time to write them back, and
  // leaves about the same number of dirty lines. This is the steady state of a long run. With a
  // clean L2 at the start, the write-back of the sample's own dirty lines would not be timed, and
  // times deviate twice as far from a constant plus bytes/bandwidth (docs/methods.md).
  if (cold) {
    reset_persisting_l2();
    ADO_CUDA(cudaMemsetAsync(timer.flush, 0, timer.flush_bytes, stream));
  }
  timer.block.enqueue(stream);
  enqueue_stamp(timer.stamps, stream);
  ADO_CUDA(cudaEventRecord(timer.start, stream));
  std::exception_ptr failure;
  try {
    for (int i = 0; i < repeats; ++i) work();
  } catch (...) {
    failure = std::current_exception();
  }
  ADO_CUDA(cudaEventRecord(timer.stop, stream));
  enqueue_stamp(timer.stamps + 1, stream);
  timer.block.release();
  const cudaError_t launched = cudaGetLastError();
  ADO_CUDA(cudaStreamSynchronize(stream));
  if (failure) std::rethrow_exception(failure);
  ADO_CUDA(launched);

  float milliseconds = 0;
  ADO_CUDA(cudaEventElapsedTime(&milliseconds, timer.start, timer.stop));
  Sample result{.seconds = 1e-3 * milliseconds / repeats, .blocked = !timer.block.timed_out()};
  const Stamp &before = timer.stamps[0], &after = timer.stamps[1];
  if (before.multiprocessor == after.multiprocessor && after.nanoseconds > before.nanoseconds)
    result.hertz = 1e9 * static_cast<double>(after.cycles - before.cycles) /
                   static_cast<double>(after.nanoseconds - before.nanoseconds);
  return result;
}

}  // namespace ado::cuda

#endif
