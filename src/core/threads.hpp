// The number of threads of the CPU routines for a given amount of work.
#pragma once

#include <cstdint>

namespace ado {

// Returns the number of threads that is expected to be fastest, from costs that are measured at the
// first call: the time to wake a thread and the bandwidth of a copy by one thread. The argument is
// the number of bytes that such a copy would read and write in the same time, or this time. At
// least 1.
int threads_for(std::int64_t bytes_moved);
int threads_for_seconds(double seconds);

// The largest number that the functions above return. Set by set_max_threads, else by the
// environment variable OMP_NUM_THREADS, else the processors that are available to this process.
int max_threads();

// `at_any_size`: threads_for returns this number for any amount of work; for tests. Not to be
// called while a routine is running.
void set_max_threads(int threads, bool at_any_size = false);

// Measured once.
struct ThreadCosts {
  double bytes_per_second;  // moved by one thread
  double wake;              // seconds until a sleeping thread has begun to work
};
const ThreadCosts& thread_costs();

}  // namespace ado
