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

// Seconds until a sleeping thread of the pool has started to work. It is a constant, because
// measuring it would make the first call of a process a millisecond longer. The exact value matters
// little: the caller executes the parts of threads that wake up later. Measured: 12 us (Xeon, 16
// cores) to 40 us (virtual machine, 2 cores).
constexpr double kWake = 20e-6;

// Bytes read and written per second by one thread that copies 1 MiB. At about this size, one
// thread and several threads are equally fast.
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

enum State { kUnmeasured, kMeasuring, kMeasured };
std::atomic<int> state = kUnmeasured;
ThreadCosts costs{};

// If another thread is measuring during a fork, the child does not have this thread.
[[maybe_unused]] const int costs_at_fork = pthread_atfork(nullptr, nullptr, [] {
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
      costs = {.bytes_per_second = measure_bandwidth(), .wake = kWake};
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
  // While threads wake up, the caller works. It also executes the parts of threads that are late,
  // so a thread that is not worth its wake-up costs little.
  constexpr double kLeastPart = 5e-6;
  const double wake = thread_costs().wake;
  const int threads = static_cast<int>(std::min<double>(seconds / kLeastPart, most));
  constexpr double kLeastGain = 1.5;  // because the costs vary from call to call
  return threads > 1 && kLeastGain * (wake + (seconds - wake) / threads) < seconds ? threads : 1;
}

int threads_for(std::int64_t bytes_moved) {
  const auto [most, at_any_size] = thread_setting();
  if (at_any_size) return most;
  if (bytes_moved < kSmall || most == 1) return 1;
  return threads_for_seconds(static_cast<double>(bytes_moved) / thread_costs().bytes_per_second);
}

}  // namespace ado
