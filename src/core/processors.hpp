// The processors that this process may use.
#pragma once

#include <string>

namespace ado {

// Number of logical processors in the affinity mask of this process.
int processors_in_affinity_mask();

// CPU time per second that the control groups of this process allow (cgroup versions 1 and 2), or 0
// if there is no limit. `list` is the file that lists the groups, and `root` is the folder that
// contains them.
double processor_quota(const std::string& list = "/proc/self/cgroup",
                       const std::string& root = "/sys/fs/cgroup");

// Number of processors in the affinity mask, limited to the quota rounded down, and at least 1. If
// a process runs more threads than the quota allows, the kernel suspends all its threads.
int available_processors();

}  // namespace ado
