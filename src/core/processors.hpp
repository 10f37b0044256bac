// The processors that this process may use.
#pragma once

namespace ado {

// Logical processors in the affinity mask of this process.
int processors_in_affinity_mask();

// The same, but at most the CPU quota of the container (cgroup versions 1 and 2), rounded down. A
// thread beyond the quota would cause the kernel to suspend all threads. At least 1.
int available_processors();

}  // namespace ado
