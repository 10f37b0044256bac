#include "core/thread_pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <new>
#include <semaphore>

#include "core/interrupt.hpp"
#include "core/processors.hpp"
#include "core/streaming.hpp"
#include "core/thread.hpp"

namespace ado {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<std::int64_t> jobs = 0;

// How long a thread of the pool spins for the next job before it sleeps. Waking a sleeping thread
// takes 12 us (Xeon, 16 cores) to 40 us (virtual machine, 2 cores). A spinning thread starts at
// once.
constexpr auto kSpinBetweenJobs = std::chrono::microseconds(50);
// How long the calling thread spins for claimed parts before it sleeps. The time is short, because
// a sleeping caller frees its processor for a thread of the pool that has no processor.
constexpr auto kSpinForParts = std::chrono::microseconds(20);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until done() returns true or the time has elapsed. Returns done().
template <class Done>
bool spin(Clock::duration time, const Done& done) {
  const Clock::time_point end = Clock::now() + time;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      relax();
    }
  } while (Clock::now() < end);
  return done();
}

// The order of memory accesses, on processors that may reorder all of them (64-bit Arm):
// - run() writes the job before it stores unclaimed_. A claim reads that store or a later claim of
//   the same job, which continues its release sequence, so the claiming thread sees the job. A
//   stale value of unclaimed_ cannot claim a part, because compare_exchange reads the newest value.
// - A part ends with fetch_sub, and wait() reads the last of these. The caller sees the results of
//   all parts, and no thread reads the job after this. Later, a thread accesses only
//   caller_sleeps_ and finished_, which no job resets.
// - caller_sleeps_ and unfinished_, and sleeping_ and unclaimed_: each side writes one variable and
//   then reads the other. These accesses are sequentially consistent, so one side sees the other's
//   write, and no wake-up is lost.
// - The order of accesses to taken_ does not matter: only the exchange must be atomic.
// - The next caller acquires busy_, which the previous caller released, before it changes the job.
class Pool {
 public:
  // Executes a job. Returns false if the pool is executing another job. Throws Interrupted after
  // all parts have ended.
  bool run(int parts, PartFunction function, const void* work) {
    if (!acquire()) return false;
    jobs.fetch_add(1, std::memory_order_relaxed);
    start(parts - 1);
    function_ = function;
    work_ = work;
    call_ = current_call();
    parts_ = parts;
    for (int i = 0; i < parts; ++i) taken_[i].store(false, std::memory_order_relaxed);
    unfinished_.store(parts, std::memory_order_relaxed);
    unclaimed_.store(parts);
    wake();
    while (claim()) execute(0);
    wait();
    const bool stopped = call_ != nullptr && call_->stopped();
    busy_.store(false, std::memory_order_release);
    if (stopped) throw Interrupted();
    return true;
  }

 private:
  bool acquire() {
    return !busy_.load(std::memory_order_relaxed) &&
           !busy_.exchange(true, std::memory_order_acquire);
  }

  // Starts threads until the pool has `wanted` threads, or fewer if the system cannot start more.
  void start(int wanted) {
    if (threads_ >= wanted || no_more_threads_) return;
    spins_ = wanted < available_processors();
    for (; threads_ < wanted && !no_more_threads_; ++threads_) {
      std::unique_ptr<Member> member(new (std::nothrow) Member{this, threads_ + 1});
      no_more_threads_ = member == nullptr || !start_thread(main_of_member, member.get());
      if (no_more_threads_) return;
      static_cast<void>(member.release());  // main_of_member deletes it
    }
  }

  struct Member {
    Pool* pool;
    int id;
  };

  static void main_of_member(void* given) {
    const Member member = *static_cast<Member*>(given);
    delete static_cast<Member*>(given);
    pthread_setname_np(pthread_self(), kNameOfPoolThreads);
    member.pool->work(member.id);
  }

  // After a thread has claimed a part, the job remains valid until the part is finished, because
  // the caller waits for unfinished_.
  bool claim() {
    int left = unclaimed_.load(std::memory_order_relaxed);
    while (left > 0)
      if (unclaimed_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) return true;
    return false;
  }

  // Executes one part, preferably the part with the thread's own number, because the data of this
  // part may be in the cache of its processor from the previous job. The claim guarantees that a
  // part is left.
  void execute(int id) {
    const int parts = parts_;
    int part = id % parts;
    while (taken_[part].exchange(true, std::memory_order_relaxed))
      part = part + 1 == parts ? 0 : part + 1;
    if (call_ == nullptr)
      function_(work_, part, parts);
    else
      execute_interruptibly(part, parts);
    if (unfinished_.fetch_sub(1) == 1 && caller_sleeps_.load()) finished_.release();
  }

  void execute_interruptibly(int part, int parts) {
    if (call_->stopped()) return;
    try {
      const WorksFor works(call_);
      function_(work_, part, parts);
    } catch (const Interrupted&) {
      finish_streaming();  // makes the stores of the interrupted part visible
    }
  }

  // Wakes at most two threads. These threads wake further threads, so that the caller does not have
  // to wake them all.
  void wake() {
    const int most = std::min(unclaimed_.load() - 1, 2);
    for (int i = 0; i < most && sleeping_.load() > i; ++i) unclaimed_.notify_one();
  }

  void wait() {
    const auto finished = [&] { return unfinished_.load(std::memory_order_acquire) == 0; };
    if (finished() || spin(kSpinForParts, finished)) return;
    Interruptible* const own = own_call();
    caller_sleeps_.store(true);
    while (unfinished_.load() != 0) {  // a late release by an earlier job can end acquire()
      if (own == nullptr) {
        finished_.acquire();
      } else {
        static_cast<void>(finished_.try_acquire_for(kPollInterval));
        own->ask();
      }
    }
    caller_sleeps_.store(false);
  }

  // The main function of a thread of the pool.
  void work(int id) {
    for (;;) {
      while (claim()) execute(id);
      const auto has_work = [&] { return unclaimed_.load(std::memory_order_relaxed) > 0; };
      if (spins_.load(std::memory_order_relaxed) && spin(kSpinBetweenJobs, has_work)) continue;
      sleeping_.fetch_add(1);
      unclaimed_.wait(0);
      sleeping_.fetch_sub(1);
      wake();
    }
  }

  static constexpr std::size_t kLine = 64;

  alignas(kLine) std::atomic<int> unclaimed_ = 0;  // parts; sleeping threads wait for a change
  alignas(kLine) std::atomic<int> unfinished_ = 0;
  std::atomic<bool> caller_sleeps_ = false;
  std::counting_semaphore<> finished_{0};
  alignas(kLine) std::atomic<int> sleeping_ = 0;
  // The job. The calling thread writes it before it sets unclaimed_.
  alignas(kLine) PartFunction function_ = nullptr;
  const void* work_ = nullptr;
  Interruptible* call_ = nullptr;
  int parts_ = 0;
  std::atomic<bool> taken_[kMaxParts] = {};

  alignas(kLine) std::atomic<bool> busy_ = false;
  std::atomic<bool> spins_ = false;
  int threads_ = 0;
  bool no_more_threads_ = false;
};

// The pool is never destroyed, because its threads run until the process ends. A forked child does
// not have these threads, so it must not use the pool of its parent.
std::atomic<Pool*> current = nullptr;
[[maybe_unused]] const int pool_at_fork =
    pthread_atfork(nullptr, nullptr, [] { current = nullptr; });

Pool& pool() {
  if (Pool* const existing = current) return *existing;
  auto fresh = std::make_unique<Pool>();
  Pool* expected = nullptr;
  return current.compare_exchange_strong(expected, fresh.get()) ? *fresh.release() : *expected;
}

}  // namespace

void run_parts(int parts, PartFunction function, const void* work) {
  if (parts > 1 && pool().run(parts, function, work)) return;
  for (int part = 0; part < parts; ++part) function(work, part, parts);
}

std::int64_t jobs_of_pool() { return jobs.load(std::memory_order_relaxed); }

}  // namespace ado
