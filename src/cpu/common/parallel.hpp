// Shared by all CPU routines: distribution of work over threads.
#pragma once

#include <cstdint>

#include "core/isa.hpp"
#include "core/thread_pool.hpp"

namespace ado::ADO_ISA {
namespace {

using std::int64_t;

// Replacements for std::min and std::max, which would be weak functions (core/isa.hpp).
ADO_INLINE int64_t min(int64_t x, int64_t y) { return x < y ? x : y; }
ADO_INLINE int64_t max(int64_t x, int64_t y) { return x > y ? x : y; }

// Calls work(part, parts) once per part, on up to `parts` threads. Returns when all parts are done,
// so there is a barrier between consecutive calls. A part must not wait for another part, because
// the same thread may execute both.
template <class Work>
ADO_INLINE void in_parallel(int parts, const Work& work) {
  if (parts == 1) return work(0, 1);
  run_parts(
      parts,
      [](const void* context, int part, int of) { (*static_cast<const Work*>(context))(part, of); },
      &work);
}

}  // namespace
}  // namespace ado::ADO_ISA
