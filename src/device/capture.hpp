// Launches of kernels as the driver receives them, with their arguments and the contents of the
// memory to which they point. capture.cpp implements it with callbacks of CUPTI, which is loaded at
// run time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"

namespace ado::capture {

using Bytes = std::shared_ptr<const std::string>;

// An allocation before and after a launch. Equal contents share their memory.
struct Allocation {
  std::uint64_t address = 0;
  Bytes before, after;
};

struct Launch {
  std::string symbol;          // the mangled name
  std::uint64_t function = 0;  // the CUfunction or CUkernel
  std::size_t modules = 0;     // how many were loaded at the end of the first launch of `function`
  Extent grid, block;
  std::size_t shared_bytes = 0;
  std::vector<std::string> arguments;   // the bytes of each parameter
  std::vector<Allocation> allocations;  // without contents if `lacks` says why
  double seconds = 0;                   // between events before and after the launch
  std::string lacks;                    // why it cannot be repeated; empty if it can
};

struct Captured {
  std::vector<Launch> launches;
  std::vector<std::string> cubins;  // of the loaded modules, in order
  int graphs = 0;                   // launches of CUDA graphs, whose kernels are not seen
};

struct Range {
  std::uint64_t address = 0;
  std::size_t bytes = 0;
};

// Runs `work` twice, first only to load modules. Before the second run, `operands` get their first
// contents again, and the memory that `free_memory` returns is overwritten, so that results of the
// first run are not there. Observes the second run, with at most `max_bytes` of contents. Launches
// wait for the device. Throws Unavailable if the driver cannot be observed.
Captured capture(const std::function<void()>& work, const std::vector<Range>& operands,
                 const std::function<std::vector<Range>()>& free_memory, std::size_t max_bytes);

}  // namespace ado::capture
