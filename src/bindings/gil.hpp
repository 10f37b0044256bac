// Releases Python's global interpreter lock while the runtime works or waits.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

namespace ado::bindings {

// Releases the GIL for a scope. When Python exits, it ends a daemon thread inside this destructor
// by pthread_exit, which must not unwind through a noexcept frame. Unlike pybind11's guard, this
// one catches that: the thread waits for the end of the process.
class ReleaseGil {
 public:
  ReleaseGil() : state_(PyEval_SaveThread()) {}
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;
  ~ReleaseGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) pause();
    }
  }

 private:
  PyThreadState* state_;
};

}  // namespace ado::bindings
