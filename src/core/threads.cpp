#include "core/threads.hpp"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

namespace ado {
namespace {

// A parallel region costs a few microseconds. In that time, a core moves this number of bytes at 20
// GB/s.
constexpr std::int64_t kBytesPerThread = 128 << 10;

std::atomic<bool> in_forked_child = false;
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });

}  // namespace

int max_threads() { return in_forked_child ? 1 : omp_get_max_threads(); }

int threads_for(std::int64_t bytes_moved) {
  return static_cast<int>(
      std::clamp<std::int64_t>(bytes_moved / kBytesPerThread, 1, max_threads()));
}

}  // namespace ado
