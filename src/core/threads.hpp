// The number of OpenMP threads for a given amount of work.
#pragma once

#include <cstdint>

namespace ado {

// Returns OpenMP's number of threads (from OMP_NUM_THREADS or the affinity mask), but fewer if
// waking them costs more time than they save. Returns 1 in a forked child: OpenMP's threads do not
// exist there, and waiting for them would hang.
int threads_for(std::int64_t bytes_moved);

// The largest number that threads_for can return in this process.
int max_threads();

}  // namespace ado
