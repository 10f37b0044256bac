#include "core/run_queue.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "core/thread_pool.hpp"

namespace ado {
namespace {

using Clock = std::chrono::steady_clock;

// Further threads are ignored: each needs two file descriptors.
constexpr std::size_t kMostThreads = 128;
// On an idle machine, a thread starts to run within this time after another thread has woken it.
constexpr auto kWake = std::chrono::microseconds(200);

// The beginning of a file of /proc; empty if the thread has ended.
std::string text_of(int file) {
  char text[128];
  const ssize_t length = pread(file, text, sizeof text, 0);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

// Total delay of a thread in nanoseconds; negative if unknown. The file contains the time on a
// processor, the delay, and the number of time slices.
long long delay_of(int file) {
  const std::string text = text_of(file);
  const auto space = text.find(' ');
  return space == std::string::npos ? -1 : std::atoll(text.c_str() + space);
}

// CPU time of a thread in nanoseconds, including its current time slice; negative if unknown.
long long cpu_time_of(pid_t thread) {
  // The clock of a thread of this process, as pthread_getcpuclockid() computes it.
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | 6U);
  timespec time;
  return clock_gettime(clock, &time) == 0 ? time.tv_sec * 1'000'000'000LL + time.tv_nsec : -1;
}

// Whether a thread runs or is ready to run. The state follows the name, which is in parentheses.
bool is_ready(int file) {
  const std::string text = text_of(file);
  const auto name = text.rfind(')');
  return name != std::string::npos && text.compare(name, 3, ") R") == 0;
}

// glibc has gettid() from version 2.30.
pid_t own_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

int open_in(int folder, const char* thread, const char* name) {
  const std::string path = std::string(thread) + "/" + name;
  return openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace

RunQueueDelay::RunQueueDelay() {
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return;
  const std::string name_of_pool = "(" + std::string(kNameOfPoolThreads) + ")";
  while (const dirent* const entry = readdir(folder)) {
    const pid_t id = std::atoi(entry->d_name);
    if (id == 0 || threads_.size() == kMostThreads) continue;
    const int delays = open_in(dirfd(folder), entry->d_name, "schedstat");
    const int state = open_in(dirfd(folder), entry->d_name, "stat");
    const bool of_pool = text_of(state).find(name_of_pool) != std::string::npos;
    threads_.push_back({.id = id, .delays = delays, .state = state, .of_pool = of_pool});
  }
  closedir(folder);
}

RunQueueDelay::~RunQueueDelay() {
  for (const Thread& thread : threads_) {
    close(thread.delays);
    close(thread.state);
  }
}

void RunQueueDelay::start() {
  for (Thread& thread : threads_) {
    thread.delay = delay_of(thread.delays);
    thread.cpu_time = cpu_time_of(thread.id);
  }
  jobs_ = jobs_of_pool();
  own_cpu_time_ = cpu_time_of(own_id());
  start_ = Clock::now();
}

bool RunQueueDelay::is_late(const Thread& thread) {
  return thread.cpu_time >= 0 && cpu_time_of(thread.id) == thread.cpu_time &&
         is_ready(thread.state);
}

double RunQueueDelay::longest() const {
  const Clock::time_point end = Clock::now();
  const pid_t own = own_id();
  const long long used = cpu_time_of(own) - own_cpu_time_;
  const long long elapsed = std::chrono::nanoseconds(end - start_).count();
  const bool used_pool = jobs_of_pool() != jobs_;
  long long longest = -1;
  for (const Thread& thread : threads_) {
    if (thread.of_pool && !used_pool) continue;
    // The system adds the delay of a thread when the thread runs.
    bool late = thread.of_pool && is_late(thread);
    while (late && Clock::now() < end + kWake) late = is_late(thread);
    const long long delay = delay_of(thread.delays);
    if (thread.delay < 0 || delay < 0) continue;
    // A thread often loses its processor when it reads these files. If the CPU time of the calling
    // thread covers the interval, it lost the processor before the start or after the end.
    const long long most = thread.id == own ? std::max(elapsed - used, 0LL) : elapsed;
    longest = std::max(longest, late ? elapsed : std::min(delay - thread.delay, most));
  }
  return longest < 0 ? -1 : 1e-9 * static_cast<double>(longest);
}

}  // namespace ado
