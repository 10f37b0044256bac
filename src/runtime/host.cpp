#include "runtime/host.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/error.hpp"
#include "core/processors.hpp"
#include "core/run_queue.hpp"
#include "core/thread_pool.hpp"
#include "core/threads.hpp"

namespace ado::host {
namespace {

constexpr const char* kIsaNames[kIsaLevels] = {"baseline", "avx2", "avx512"};

// Atomic, because calls read it without the GIL.
std::atomic<Isa>& current_isa() {
  static std::atomic<Isa> current = supported_isa();
  return current;
}

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Counts the processors in a list of ranges: "0-3,8" contains five.
int count_processors(const std::string& list) {
  std::istringstream ranges(list);
  int count = 0;
  for (std::string range; std::getline(ranges, range, ',');) {
    const auto dash = range.find('-');
    const int first = std::atoi(range.c_str());
    const int last = dash == std::string::npos ? first : std::atoi(range.c_str() + dash + 1);
    count += last - first + 1;
  }
  return std::max(count, 1);
}

std::vector<Cache> read_caches() {
  std::vector<Cache> found;
  for (int index = 0; index < 16; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string type = read_line(folder + "type");
    if (type.empty()) break;
    if (type == "Instruction") continue;
    const std::string size = read_line(folder + "size");  // "48K"
    std::int64_t bytes = std::atoll(size.c_str());
    if (size.find('K') != std::string::npos) bytes <<= 10;
    if (size.find('M') != std::string::npos) bytes <<= 20;
    found.push_back({.level = std::atoi(read_line(folder + "level").c_str()),
                     .bytes = bytes,
                     .shared_by = count_processors(read_line(folder + "shared_cpu_list"))});
  }
  std::sort(found.begin(), found.end(), [](auto a, auto b) { return a.level < b.level; });
  return found;
}

// Overwrites one byte per line of a buffer of twice the last-level cache, with the number of
// threads that a ladder uses. The caches are then full of dirty lines, and a sample pays for the
// write-back of as many lines as it leaves behind. docs/methods.md compares this with reading the
// buffer.
void flush_caches() {
  static std::vector<char> buffer(2 * static_cast<std::size_t>(last_level_cache_bytes()), 1);
  run_parts(
      max_threads(),
      [](const void*, int part, int parts) {
        constexpr std::size_t kLine = 64;
        const std::size_t bytes = buffer.size(), of = static_cast<std::size_t>(parts);
        const std::size_t end = bytes * static_cast<std::size_t>(part + 1) / of;
        for (std::size_t byte = bytes * static_cast<std::size_t>(part) / of; byte < end;
             byte += kLine)
          *static_cast<volatile char*>(&buffer[byte]) = 1;
      },
      nullptr);
}

}  // namespace

const char* name_of(Isa isa) { return kIsaNames[static_cast<int>(isa)]; }

Isa supported_isa() {
#if defined(__x86_64__)
  // __builtin_cpu_supports also checks that the operating system saves the wide registers.
  if (__builtin_cpu_supports("x86-64-v4")) return Isa::kAvx512;
  if (__builtin_cpu_supports("x86-64-v3")) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

Isa isa_named(const std::string& name) {
  for (int level = 0; level < kIsaLevels; ++level) {
    if (name != kIsaNames[level]) continue;
    if (level > static_cast<int>(supported_isa()))
      throw Unavailable("this processor supports at most " + std::string(name_of(supported_isa())) +
                        ", got " + name);
    return static_cast<Isa>(level);
  }
  throw ValueError("the instruction set must be baseline, avx2 or avx512, got '" + name + "'");
}

Isa isa() { return current_isa(); }
void set_isa(Isa isa) { current_isa() = isa; }

const std::vector<Cache>& caches() {
  static const std::vector<Cache> cached = read_caches();
  return cached;
}

std::int64_t last_level_cache_bytes() {
  if (caches().empty()) return 64 << 20;
  const Cache& last = caches().back();
  return last.bytes * ((max_threads() + last.shared_by - 1) / last.shared_by);
}

int cores() {
  const std::string list = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
  return std::max(processors_in_affinity_mask() / count_processors(read_line(list)), 1);
}

Sample sample(const std::function<void()>& work, bool cold, int repeats) {
  RunQueueDelay delay;
  if (cold) flush_caches();
  delay.start();  // takes less time than the pool's threads spin after the flush
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) work();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {.seconds = elapsed.count() / repeats, .waited = delay.longest() / repeats};
}

}  // namespace ado::host
