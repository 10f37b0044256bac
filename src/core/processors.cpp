#include "core/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace ado {
namespace {

// CPU time per second that the control group in `folder` allows, or 0 if it has no limit.
double quota_of(const std::string& folder) {
  std::string quota, period;
  if (std::ifstream limit(folder + "/cpu.max"); limit) {  // version 2
    limit >> quota >> period;
  } else {  // version 1
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  // strtod instead of streams: with two C++ runtimes in a process, reading a number from a stream
  // crashed (g++ 13.3, Ubuntu 24.04).
  const double time = std::strtod(quota.c_str(), nullptr);  // "max" and "-1" mean no limit
  const double whole = std::strtod(period.c_str(), nullptr);
  return time > 0 && whole > 0 ? time / whole : 0;
}

}  // namespace

double processor_quota(const std::string& list, const std::string& root) {
  double smallest = 0;
  std::ifstream groups(list);
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/path" or "0::/path"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version_2 = controllers.empty();
    if (!version_2 && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    // Reads the limits of the group and of all groups that contain it. In a container, the path may
    // be the path on the host, so some folders may not exist.
    std::string path = line.substr(second + 1);
    for (;;) {
      if (path == "/") path.clear();
      const double quota = quota_of(root + (version_2 ? "" : "/cpu") + path);
      if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
      const auto parent = path.rfind('/');
      if (parent == std::string::npos) break;
      path.resize(parent);
    }
  }
  return smallest;
}

int processors_in_affinity_mask() {
  for (int size = CPU_SETSIZE; size <= 1 << 20; size *= 2) {  // more processors need a larger set
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(size));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
    const bool too_small = sched_getaffinity(0, bytes, set) != 0 && errno == EINVAL;
    const int count = too_small ? 0 : CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (!too_small && count > 0) return count;
  }
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

int available_processors() {
  const int processors = processors_in_affinity_mask();
  const double quota = processor_quota();
  return quota == 0 ? processors : std::clamp(static_cast<int>(quota), 1, processors);
}

}  // namespace ado
