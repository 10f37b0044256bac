// Releases Python's global interpreter lock while the runtime works or waits.
#pragma once

#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/interrupt.hpp"
#include "core/scope_exit.hpp"

namespace ado::bindings {

// Releases the GIL for a scope. When Python exits, it ends a daemon thread inside this destructor
// by pthread_exit, which must not unwind through a noexcept frame. Unlike pybind11's guard, this
// class catches the unwinding: the thread waits for the end of the process.
class ReleaseGil {
 public:
  ReleaseGil() : state_(PyEval_SaveThread()) {}
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

  // Runs the Python handlers of pending signals. Returns true if a handler raised an exception.
  // This exception is then the error indicator of the thread. Python runs handlers on its main
  // thread only. On other threads, the function returns false without waiting for the GIL.
  bool signal_handler_raises() {
    if (syscall(SYS_gettid) != getpid()) return false;
    PyEval_RestoreThread(state_);
    const bool raised = PyErr_CheckSignals() != 0;
    state_ = PyEval_SaveThread();
    return raised;
  }
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

// Calls work() without the GIL. Python signal handlers can run during work(). If a handler raises
// an exception (Ctrl-C), work on the CPU ends early, and this function throws the exception.
template <class Work>
void without_gil(const Work& work) {
  bool stopped = false;
  try {
    ReleaseGil release;
    Interruptible call(
        [](void* gil) { return static_cast<ReleaseGil*>(gil)->signal_handler_raises(); }, &release);
    const ScopeExit ended([&] { stopped = call.stopped(); });
    work();
  } catch (const Interrupted&) {
  }
  if (stopped) throw pybind11::error_already_set();
}

}  // namespace ado::bindings
