// How long the threads of this process wait for a processor.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace ado {

// Measures how long threads are ready to run without a processor, because other threads use all
// processors. It measures the threads that exist when the object is created.
class RunQueueDelay {
 public:
  RunQueueDelay();
  ~RunQueueDelay();
  RunQueueDelay(const RunQueueDelay&) = delete;
  RunQueueDelay& operator=(const RunQueueDelay&) = delete;

  // Starts the interval. This takes about 1 us per thread.
  void start();
  // Ends the interval. Returns the longest delay of one thread, in seconds; negative if the system
  // does not report delays. Threads of the pool count only if a job ran on the pool. In this case,
  // a thread of the pool that was ready, but did not run at all, waited for the whole interval:
  // other threads executed its part.
  double longest() const;

 private:
  struct Thread {
    pid_t id;
    int delays, state;  // files
    bool of_pool;
    long long delay = 0;     // nanoseconds, at the start
    long long cpu_time = 0;  // nanoseconds, at the start
  };
  // Whether a thread is ready, but has not run since start().
  static bool is_late(const Thread& thread);

  std::vector<Thread> threads_;
  std::chrono::steady_clock::time_point start_;
  std::int64_t jobs_ = 0;       // of the thread pool, at the start
  long long own_cpu_time_ = 0;  // of the calling thread
};

}  // namespace ado
