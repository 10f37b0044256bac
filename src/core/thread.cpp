#include "core/thread.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "core/interrupt.hpp"

namespace ado {
namespace {

struct Start {
  void (*function)(void*);
  void* argument;
};

void* main_of_thread(void* given) {
  const std::unique_ptr<Start> start(static_cast<Start*>(given));
  start->function(start->argument);
  return nullptr;
}

// Upper limit of the stack that kernels and the functions that they call need. CMakeLists.txt
// limits the stack frames of kernels.
constexpr std::uintptr_t kNeededBytes = kStackBytes / 2;

// Range of stack pointers of this thread with kNeededBytes free below them. If the stack is
// unknown, the range contains all addresses.
struct Range {
  std::uintptr_t begin = 0, size = UINTPTR_MAX;
};

// The lowest address of the main thread's stack and its bytes; 0 bytes if this is another
// thread. pthread_getattr_np() would read the list of all memory mappings, which makes the first
// call of a process 0.3 ms longer.
std::pair<std::uintptr_t, std::size_t> main_stack() {
  // The kernel maps nothing else within this distance below the stack.
  constexpr rlim_t kGap = 128 << 20;
  const std::uintptr_t program = getauxval(AT_EXECFN);  // a string at the upper end of the stack
  rlimit limit;
  if (syscall(SYS_gettid) != getpid() || program == 0 || getrlimit(RLIMIT_STACK, &limit) != 0 ||
      limit.rlim_cur > kGap)
    return {};
  const std::uintptr_t page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t end = (program / page + 1) * page;
  return {end - limit.rlim_cur, limit.rlim_cur};
}

Range range_of_this_thread() {
  auto [lowest, bytes] = main_stack();
  if (bytes == 0) {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
    void* address = nullptr;
    const bool known = pthread_attr_getstack(&attributes, &address, &bytes) == 0;
    pthread_attr_destroy(&attributes);
    if (!known) return {};
    lowest = reinterpret_cast<std::uintptr_t>(address);
  }
  const std::uintptr_t needed = bytes < kNeededBytes ? bytes : kNeededBytes;
  return {lowest + needed, bytes - needed};
}

bool stack_is_large() {
  thread_local const Range range = range_of_this_thread();
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) - range.begin < range.size;
}

// One call on another thread.
struct ThreadCall {
  void (*function)(const void*);
  const void* work;
  Interruptible* call;
  ThreadSetting setting;
  std::exception_ptr error = nullptr;
  bool interrupted = false, done = false;
  std::mutex mutex = {};
  std::condition_variable finished = {};
};

void run_thread_call(void* given) {
  ThreadCall& thread_call = *static_cast<ThreadCall*>(given);
  try {
    const WorksFor works(thread_call.call);
    fixed_setting = thread_call.setting;
    thread_call.function(thread_call.work);
  } catch (const Interrupted&) {
    thread_call.interrupted = true;
  } catch (...) {
    thread_call.error = std::current_exception();
  }
  // Notifies under the lock, because the waiting thread destroys the ThreadCall when it is done.
  const std::lock_guard lock(thread_call.mutex);
  thread_call.done = true;
  thread_call.finished.notify_one();
}

}  // namespace

bool start_thread(void (*function)(void*), void* argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  std::unique_ptr<Start> start(new (std::nothrow) Start{function, argument});
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started =
      start != nullptr && pthread_create(&thread, &attributes, main_of_thread, start.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (started) static_cast<void>(start.release());  // main_of_thread deletes it
  return started;
}

void with_large_stack(void (*function)(const void*), const void* work) {
  if (stack_is_large()) return function(work);
  ThreadCall thread_call{
      .function = function, .work = work, .call = current_call(), .setting = fixed_setting};
  if (!start_thread(run_thread_call, &thread_call)) throw std::bad_alloc();
  Interruptible* const own = own_call();
  for (std::unique_lock lock(thread_call.mutex); !thread_call.done;) {
    if (own == nullptr) {
      thread_call.finished.wait(lock);
      continue;
    }
    thread_call.finished.wait_for(lock, kPollInterval);
    lock.unlock();  // the function that ask() calls can be slow
    own->ask();
    lock.lock();
  }
  if (thread_call.interrupted || (own != nullptr && own->stopped())) throw Interrupted();
  if (thread_call.error) std::rethrow_exception(thread_call.error);
}

}  // namespace ado
