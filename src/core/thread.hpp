// Threads of the library, and calls on a thread with a large stack.
#pragma once

#include <cstddef>

namespace ado {

// Stack of the library's threads in bytes. The kernels need less than half of it (their buffers
// that fit into a cache are on the stack). pthread's default would depend on `ulimit -s`.
inline constexpr std::size_t kStackBytes = std::size_t{1} << 20;

// Starts a detached thread that calls function(argument). The thread blocks all signals, because
// Python's signal handlers must run on Python's threads. Returns false if the system cannot start
// one.
bool start_thread(void (*function)(void* argument), void* argument);

// Calls function(work): on this thread if enough of its stack is free for any kernel, otherwise on
// a new thread. Throws what the function throws, and std::bad_alloc if there is no thread.
void with_large_stack(void (*function)(const void* work), const void* work);

template <class Work>
void with_large_stack(const Work& work) {
  with_large_stack([](const void* context) { (*static_cast<const Work*>(context))(); }, &work);
}

}  // namespace ado
