// A pool of threads for the CPU routines. The threads are started once, when they are first needed.
//
// A job consists of parts, and any thread of the pool may execute any part. The calling thread
// executes parts too, including all parts that no other thread has claimed. It waits only for parts
// that other threads have claimed. A thread that wakes up late, or that the system could not start,
// therefore does not delay the job.
//
// OpenMP and oneTBB are not used. libgomp waits for every thread of a parallel region, even if a
// thread has no processor, and it has no threads after a fork. oneTBB terminates the process if a
// thread cannot be started.
#pragma once

#include <cstdint>

namespace ado {

// The largest number of parts of a job.
inline constexpr int kMaxParts = 1024;

// The name of the threads, for debuggers and for RunQueueDelay (run_queue.hpp).
inline constexpr const char* kNameOfPoolThreads = "ado-pool";

using PartFunction = void (*)(const void* work, int part, int parts);

// Calls function(work, part, parts) once for each part from 0 to parts - 1, on this thread and on
// up to parts - 1 threads of the pool. The calling thread begins with part 0. The function may
// throw Interrupted (interrupt.hpp), which run_parts throws after all parts have ended. It must not
// throw anything else, and it must not wait for other parts. While the pool executes a job, other
// calls (from other threads, or from inside a part) execute all their parts on the calling thread.
// A forked child process starts its own pool.
void run_parts(int parts, PartFunction function, const void* work);

// The number of jobs that the pools of this process have started.
std::int64_t jobs_of_pool();

}  // namespace ado
