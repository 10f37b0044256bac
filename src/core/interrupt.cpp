#include "core/interrupt.hpp"

namespace ado {
namespace {

thread_local Interruptible* call = nullptr;
thread_local bool owned = false;  // whether this thread made the call

}  // namespace

Interruptible::Interruptible(Requested requested, void* context)
    : requested_(requested), context_(context), outer_(call), outer_owned_(owned) {
  call = this;
  owned = true;
}

Interruptible::~Interruptible() {
  call = outer_;
  owned = outer_owned_;
}

void Interruptible::ask() {
  if (stopped()) return;
  const Clock::time_point now = Clock::now();
  if (next_ == Clock::time_point()) next_ = now + kPollInterval;  // the first time
  if (now < next_) return;
  {
    const WorksFor no_call(nullptr);  // calls that `requested` makes are not part of this one
    if (requested_(context_)) stopped_.store(true, std::memory_order_relaxed);
  }
  next_ = Clock::now() + kPollInterval;  // `requested` may have taken long
}

Interruptible* current_call() { return call; }
Interruptible* own_call() { return owned ? call : nullptr; }

void poll() {
  if (call == nullptr) return;
  if (owned) call->ask();
  if (call->stopped()) throw Interrupted();
}

WorksFor::WorksFor(Interruptible* other) : outer_(call), outer_owned_(owned) {
  call = other;
  owned = other != nullptr && other == outer_ && outer_owned_;
}

WorksFor::~WorksFor() {
  call = outer_;
  owned = outer_owned_;
}

}  // namespace ado
