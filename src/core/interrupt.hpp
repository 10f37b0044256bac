// Interruption of a running CPU routine, for example by Ctrl-C.
//
// The loops of all CPU variants call poll() about once per millisecond. On the thread that made the
// call, poll() asks the caller every kPollInterval whether to go on. If not, the next poll() of
// each thread that works for this call throws Interrupted. The results are then unspecified.
#pragma once

#include <atomic>
#include <chrono>

#include "core/poll.hpp"

namespace ado {

// Not derived from std::exception, so that handlers of errors do not catch it.
struct Interrupted {};

inline constexpr std::chrono::milliseconds kPollInterval{75};

// Makes the calls of this thread interruptible, for the lifetime of the object. `requested` is
// called on this thread only, at most once per kPollInterval. If it returns true, the call ends.
class Interruptible {
 public:
  using Requested = bool (*)(void* context);

  Interruptible(Requested requested, void* context);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  // Calls `requested` if it is time. Must be called by the thread that made the object.
  void ask();
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;

  const Requested requested_;
  void* const context_;
  Interruptible* const outer_;
  const bool outer_owned_;
  Clock::time_point next_;
  std::atomic<bool> stopped_ = false;
};

// The call that this thread works for, or nullptr if it cannot be interrupted.
Interruptible* current_call();
// Like current_call(), but nullptr if another thread made the call.
Interruptible* own_call();

// Makes this thread work for the call of another thread, for the lifetime of the object.
class WorksFor {
 public:
  explicit WorksFor(Interruptible* call);
  ~WorksFor();
  WorksFor(const WorksFor&) = delete;
  WorksFor& operator=(const WorksFor&) = delete;

 private:
  Interruptible* const outer_;
  const bool outer_owned_;
};

}  // namespace ado
