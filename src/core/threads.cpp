#include "core/threads.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include "core/interrupt.hpp"
#include "core/processors.hpp"
#include "core/thread_pool.hpp"

namespace ado {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Below this number of bytes, one thread is always fastest, and the costs are not needed.
constexpr std::int64_t kSmall = 64 << 10;

std::atomic<ThreadSetting> process_setting{ThreadSetting{}};

int default_threads() {
  const char* const text = std::getenv("OMP_NUM_THREADS");  // "8", or "8,2" for nested levels
  const int wanted = text == nullptr ? 0 : std::atoi(text);
  return std::min(wanted > 0 ? wanted : available_processors(), kMaxParts);
}

// Bytes read and written per second by one thread that copies 1 MiB. At about this size, one thread
// and several threads are equally fast.
double measure_bandwidth() {
  constexpr std::size_t kBytes = 1 << 20;
  const std::unique_ptr<std::byte[]> buffer(new (std::nothrow) std::byte[2 * kBytes]());
  if (buffer == nullptr) return 20e9;
  double least = 1;
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    std::memcpy(buffer.get() + kBytes, buffer.get(), kBytes);
    asm volatile("" ::"r"(buffer.get()) : "memory");  // the compiler must not remove the copy
    least = std::min(least, seconds_since(start));
  }
  return 2 * kBytes / least;
}

// A job whose parts wait for each other, for a limited time.
struct WakeProbe {
  Clock::time_point start;
  std::atomic<int> arrived = 0;
  std::atomic<double> last = 0;  // time of the last arrival
};

// Measures the time until a sleeping thread has started to work.
double measure_wake() {
  // On a busy machine, the thread may have no processor. The measured time is then not
  // representative of later calls. A limit that is too low costs little, because the caller does
  // not wait for late threads.
  constexpr double kLimit = 30e-6;
  constexpr auto kUntilAsleep = std::chrono::microseconds(100);
  double least = kLimit;
  start_threads(2);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(kUntilAsleep);
    WakeProbe wake_probe{.start = Clock::now()};
    run_parts(
        2,
        [](const void* work, int, int parts) {
          auto& probe = *static_cast<WakeProbe*>(const_cast<void*>(work));
          const auto elapsed = [&] { return seconds_since(probe.start); };
          if (probe.arrived.fetch_add(1) + 1 == parts) probe.last = elapsed();
          while (probe.arrived < parts && elapsed() < kLimit) {
          }
        },
        &wake_probe);
    if (wake_probe.last > 0) least = std::min(least, wake_probe.last.load());
  }
  return least;
}

enum State { kUnmeasured, kMeasuring, kMeasured };
std::atomic<int> state = kUnmeasured;
ThreadCosts costs{};

// If another thread is measuring during a fork, the child does not have this thread.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] {
  int expected = kMeasuring;
  state.compare_exchange_strong(expected, kUnmeasured);
});

ThreadSetting thread_setting(const ThreadSetting& fixed = fixed_setting) {
  if (fixed.most != 0) return fixed;
  const ThreadSetting setting = process_setting;
  if (setting.most != 0) return setting;
  static const int most = default_threads();
  return {.most = most};
}

}  // namespace

FixedThreads::FixedThreads() : setting_(fixed_setting), outer_(setting_) {
  setting_ = thread_setting(outer_);
}

int max_threads() { return thread_setting().most; }

void set_max_threads(int threads, bool at_any_size) {
  process_setting = {.most = std::clamp(threads, 1, kMaxParts), .at_any_size = at_any_size};
}

const ThreadCosts& thread_costs() {
  while (state != kMeasured) {
    int expected = kUnmeasured;
    if (state.compare_exchange_strong(expected, kMeasuring)) {
      const WorksFor no_call(nullptr);  // not interruptible: other threads wait for the costs
      costs.bytes_per_second = measure_bandwidth();
      costs.wake = measure_wake();
      state = kMeasured;
      state.notify_all();
    } else {
      state.wait(kMeasuring);
    }
  }
  return costs;
}

int threads_for_seconds(double seconds) {
  const auto [most, at_any_size] = thread_setting();
  if (most == 1 || at_any_size) return most;
  // The time per part should not be shorter than the time to wake a thread. More threads save
  // little time. They also cost little, because the caller does not wait for late threads.
  const double wake = thread_costs().wake;
  const int threads = static_cast<int>(std::min<double>(seconds / wake, most));
  constexpr double kLeastGain = 1.2;  // because the costs vary from call to call
  return threads > 1 && kLeastGain * (wake + seconds / threads) < seconds ? threads : 1;
}

int threads_for(std::int64_t bytes_moved) {
  const auto [most, at_any_size] = thread_setting();
  if (at_any_size) return most;
  if (bytes_moved < kSmall || most == 1) return 1;
  return threads_for_seconds(static_cast<double>(bytes_moved) / thread_costs().bytes_per_second);
}

}  // namespace ado
