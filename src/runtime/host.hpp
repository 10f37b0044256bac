// The CPU's counterpart of device.hpp: instruction sets, caches, and timing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/isa.hpp"

namespace ado::host {

// The highest level that processor and operating system support.
Isa supported_isa();
// The level called so; throws ValueError for an unknown one and Unavailable for one beyond that.
Isa isa_named(const std::string& name);
const char* name_of(Isa isa);

// Data and unified caches that one core sees, nearest first.
struct Cache {
  int level = 0;
  std::int64_t bytes = 0;
  int shared_by = 1;  // logical processors
};
const std::vector<Cache>& caches();
// Of all last-level caches that the threads of a ladder use; a guess where the system tells none.
std::int64_t last_level_cache_bytes();
// Cores behind the logical processors: where two threads share one, there are half as many.
int cores();

// Seconds of one call of `work`, the mean of `repeats`. Cold empties the caches first.
double sample(const std::function<void()>& work, bool cold, int repeats);

}  // namespace ado::host
