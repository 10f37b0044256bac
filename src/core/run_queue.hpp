// How long the threads of this process wait for a processor.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

namespace ado {

// Measures how long threads are ready to run without a processor, because other threads use all
// processors. The threads are those that exist when the object is made.
class RunQueueDelay {
 public:
  RunQueueDelay();
  ~RunQueueDelay();
  RunQueueDelay(const RunQueueDelay&) = delete;
  RunQueueDelay& operator=(const RunQueueDelay&) = delete;

  // Starts the interval. This takes about 1 us per thread.
  void start();
  // Ends the interval. Returns the longest delay of one thread, in seconds; negative if the system
  // does not report delays. A thread that did not run at all, although it was ready, waited for the
  // whole interval.
  double longest();

 private:
  struct Thread {
    pid_t id;
    int delays, state;       // files
    long long delay = 0;     // nanoseconds, at the start
    long long cpu_time = 0;  // nanoseconds, at the start
  };
  bool is_late(const Thread& thread) const;

  std::vector<Thread> threads_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ado
