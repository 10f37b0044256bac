// The processors that this process may use.
#pragma once

#include <string>

namespace ado {

// Logical processors in the affinity mask of this process.
int processors_in_affinity_mask();

// Processor time per second that the control groups of this process allow (cgroup versions 1 and
// 2), or 0 if there is no limit. `list` is the file that names the groups, `root` contains them.
double processor_quota(const std::string& list = "/proc/self/cgroup",
                       const std::string& root = "/sys/fs/cgroup");

// The processors in the affinity mask, but at most the quota, rounded down: a thread beyond the
// quota would cause the kernel to suspend all threads. At least 1.
int available_processors();

}  // namespace ado
