// The number of threads of the CPU routines for a given amount of work.
#pragma once

#include <cstdint>

#include "core/thread.hpp"

namespace ado {

// Return the number of threads with the shortest expected time, at least 1. It depends on the
// time to wake a thread, and from the bandwidth of a copy by one thread, which is measured at the
// first call. The argument is the time that one thread would need: in seconds, or as the number
// of bytes that the copy would read and write in this time.
int threads_for(std::int64_t bytes_moved);
int threads_for_seconds(double seconds);

// The largest number that the functions above return: the number set by set_max_threads, otherwise
// the environment variable OMP_NUM_THREADS, otherwise the number of processors that this process
// may use.
int max_threads();

// If `at_any_size` is true, the functions above return this number for any amount of work (for
// tests).
void set_max_threads(int threads, bool at_any_size = false);

// While an object of this class exists, set_max_threads does not change the results of the
// functions above on this thread. A call needs this guarantee, because the size of its scratch
// memory depends on the number of threads.
class FixedThreads {
 public:
  FixedThreads();
  ~FixedThreads() { setting_ = outer_; }
  FixedThreads(const FixedThreads&) = delete;
  FixedThreads& operator=(const FixedThreads&) = delete;

 private:
  ThreadSetting& setting_;  // the setting of this thread
  const ThreadSetting outer_;
};

// The costs of threads.
struct ThreadCosts {
  double bytes_per_second;  // read and written by one thread that copies
  double wake;              // seconds until a sleeping thread has started to work
};
const ThreadCosts& thread_costs();

}  // namespace ado
