// Shared by all CPU routines: distribution of work over OpenMP threads.
#pragma once

#include <omp.h>

#include <cstdint>

#include "core/isa.hpp"

namespace ado::ADO_ISA {
namespace {

using std::int64_t;

// Replacements for std::min and std::max, which would be weak functions (core/isa.hpp).
ADO_INLINE int64_t min(int64_t x, int64_t y) { return x < y ? x : y; }
ADO_INLINE int64_t max(int64_t x, int64_t y) { return x > y ? x : y; }

// Calls work(thread, threads) on each of up to `threads` threads. OpenMP may start fewer.
template <class Work>
ADO_INLINE void in_parallel(int threads, Work work) {
  if (threads == 1) return work(0, 1);
#pragma omp parallel num_threads(threads)
  work(omp_get_thread_num(), omp_get_num_threads());
}

}  // namespace
}  // namespace ado::ADO_ISA
