// Samples of the program counter of the warps on the GPU, with the reasons why they stall, by
// source line. pc_sampling.cpp implements it with the PC Sampling API of CUPTI, which is loaded at
// run time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ado::pc_sampling {

// The samples of one source line of one kernel.
struct Line {
  std::string kernel;  // with template arguments
  std::string path;    // absolute on the machine that compiled it; empty without line information
  unsigned line = 0;
  std::vector<std::uint64_t> samples;  // per stall reason
};

struct Samples {
  // The names of CUPTI without "smsp__pcsamp_warps_issue_stalled_". "<reason>_not_issued" counts
  // the samples of a reason in which the scheduler issued no instruction.
  std::vector<std::string> reasons;
  std::vector<Line> lines;
  std::uint64_t dropped = 0;       // samples that the hardware dropped
  std::uint64_t unattributed = 0;  // samples of kernels loaded before the Sampler existed
};

// Samples the kernels of the current device. Create it before the first launch of the process:
// CUPTI attributes samples only to modules that are loaded later.
class Sampler {
 public:
  // Throws Unavailable if the device cannot be sampled.
  Sampler();
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Runs `work` once, which loads its modules, and then repeats it for about `seconds`, sampled.
  // Call it once: it ends sampling.
  Samples collect(const std::function<void()>& work, double seconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ado::pc_sampling
