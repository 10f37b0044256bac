// A pool of threads for the CPU routines. The threads are started once, when they are first needed.
//
// A job is a number of parts, and any thread of the pool may execute any part. The calling thread
// takes part too, and it executes all parts that no other thread has claimed. So a thread that
// wakes up late, or that the system could not start, costs no time. Only a part that a thread has
// claimed is waited for.
//
// libgomp waits for every thread of a parallel region, whether or not it has a processor, and it
// has no threads after a fork. oneTBB ends the process if a thread cannot be started.
#pragma once

namespace ado {

// The largest number of parts of a job.
inline constexpr int kMaxParts = 1024;

using PartFunction = void (*)(const void* work, int part, int parts);

// Calls function(work, part, parts) once for each part from 0 to parts - 1, on this thread and on
// up to parts - 1 threads of the pool. The calling thread begins with part 0. The function must not
// throw and must not wait for other parts. While the pool executes a job, further calls execute all
// their parts on the calling thread: those of other threads, and calls inside a part. A forked
// child process starts a pool of its own.
void run_parts(int parts, PartFunction function, const void* work);

// Starts the threads for jobs of this number of parts, if they are not running yet.
void start_threads(int parts);

}  // namespace ado
