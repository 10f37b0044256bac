// The host: instruction sets, caches, cores and timing. The counterpart of device.hpp for the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/isa.hpp"

namespace ado::host {

// The highest instruction-set level that the processor and the operating system support.
Isa supported_isa();
// Returns the level with this name. Throws ValueError for an unknown name, and Unavailable for a
// level above supported_isa().
Isa isa_named(const std::string& name);
const char* name_of(Isa isa);
// The instruction set of the CPU ladders that run. Initially it is the highest supported one.
Isa isa();
void set_isa(Isa isa);

// Data and unified caches of one core, nearest first.
struct Cache {
  int level = 0;
  std::int64_t bytes = 0;
  int shared_by = 1;  // logical processors
};
const std::vector<Cache>& caches();
// The total size of the last-level caches that the threads of a ladder use; 64 MiB if the system
// reports no caches.
std::int64_t last_level_cache_bytes();
// Physical cores: the number of logical processors divided by the number of hardware threads per
// core.
int cores();

// One timed sample: means per call, in seconds.
struct Sample {
  double seconds = 0;
  // The longest time that a thread of this process waited for a processor; negative if the system
  // does not report it.
  double waited = -1;
};

// Times `repeats` calls of `work`. If `cold`, flushes the caches first.
Sample sample(const std::function<void()>& work, bool cold, int repeats);

}  // namespace ado::host
