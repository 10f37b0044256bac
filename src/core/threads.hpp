// How many OpenMP threads a piece of work is worth.
#pragma once

#include <cstdint>

namespace ado {

// As many as OpenMP gives (OMP_NUM_THREADS and the affinity mask decide), but one where waking them
// costs more than they save, and one in a forked child, where OpenMP's threads no longer exist and
// waiting for them would hang.
int threads_for(std::int64_t bytes_moved);

// The most that threads_for can answer here.
int max_threads();

}  // namespace ado
