// Threads of the library, and calls on a thread with a large stack.
#pragma once

#include <cstddef>

namespace ado {

// Stack size of the library's threads in bytes. Kernels need less than half of it. They have
// cache-sized buffers on the stack. The default size of pthreads depends on `ulimit -s`.
inline constexpr std::size_t kStackBytes = std::size_t{1} << 20;

// Starts a detached thread that calls function(argument). The thread blocks all signals, because
// Python's signal handlers must run on Python's threads. Returns false if the system cannot start
// a thread.
bool start_thread(void (*function)(void* argument), void* argument);

// The setting of a call on this thread, see FixedThreads. with_large_stack passes it on.
struct ThreadSetting {
  int most = 0;  // 0: not set
  bool at_any_size = false;
};
inline constinit thread_local ThreadSetting fixed_setting;

// Calls function(work): on this thread if its free stack is large enough for every kernel,
// otherwise on a new thread. Throws the exceptions of the function, and std::bad_alloc if the
// system cannot start a thread.
void with_large_stack(void (*function)(const void* work), const void* work);

template <class Work>
void with_large_stack(const Work& work) {
  with_large_stack([](const void* context) { (*static_cast<const Work*>(context))(); }, &work);
}

}  // namespace ado
