// A call: a variant that is ready to run on a problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "device/device.hpp"
#include "runtime/problem.hpp"
#include "runtime/routine.hpp"

namespace ado {

// Useful FLOPs and compulsory bytes of a problem; executed FLOPs, requested bytes and
// floating-point instructions of a variant.
struct Cost {
  double flops = 0, bytes = 0;
  double executed_flops = 0, requested_bytes = 0;
  double executed_instructions = 0;  // per lane, for the executed FLOPs; 0: not counted
};
Cost cost_of(const AnyVariant& variant, const Problem& problem, const Hardware& hardware);

// A block shape as users pass it: one to three lengths.
using Block = std::optional<std::vector<std::int64_t>>;
std::vector<unsigned> lengths_of(const Extent& extent);

// Runs a problem, whose values have been checked, once: on its arrays or on copies in device
// memory. Then releases it. nullptr for `variant` selects the default; `device` is the result of
// resolve_device. `stream` is a cudaStream_t (see cuda::stream_of) for calls on a GPU; the default
// is the legacy default stream. Runs with operands in host memory return after the results have
// been written, others after the work has been enqueued. Does not need the GIL.
void run(Problem& problem, const AnyVariant* variant, const DeviceId& device, const Block& block,
         const std::optional<std::uintptr_t>& stream = {});

// A variant that is ready to run, once or repeatedly, where a problem has been placed. The problem
// must exist as long as the call.
class Call {
 public:
  // Throws ValueError if the variant cannot solve the problem with this block, and Unavailable if
  // the variant cannot run on this machine. `stream`: a cudaStream_t; by default, the legacy
  // default stream. `extra_shared_bytes`: dynamic shared memory per block that the variant does not
  // need. It lowers the occupancy.
  Call(const Problem& problem, const AnyVariant& variant, const Block& block,
       void* stream = nullptr, std::size_t extra_shared_bytes = 0);

  // Calls from several threads wait for each other, because they share the scratch memory.
  void run();

  // A dry run: returns the kernels that run() would launch, in order. Empty on the CPU.
  std::vector<cuda::Kernel> kernels() const;

  const AnyVariant& variant() const { return variant_; }
  const Launch& launch() const { return launch_; }
  const DeviceId& memory() const { return problem_.memory; }
  Cost cost() const { return cost_of(variant_, problem_, launch_.hardware); }

 private:
  void provide_scratch();

  const Problem& problem_;
  const AnyVariant& variant_;
  Launch launch_;
  std::shared_ptr<void> scratch_;
  std::size_t scratch_bytes_ = 0;
  std::recursive_mutex turn_;
  bool running_ = false;
  const bool empty_;
};

// Makes the GPU that holds or will hold operands the current device within a scope. For the CPU,
// the result is empty.
std::optional<cuda::DeviceScope> scope_of(const DeviceId& device);

// Returns the variant that run() would select, and the later variants that it skips
// (Routine::choose). If a GPU would process host operands, the choice is made for their copies in
// device memory. With `gpu`, the choice is for that hardware.
const AnyVariant& choose(const Problem& problem, const std::optional<DeviceId>& device,
                         const std::optional<Hardware>& gpu, std::vector<Skipped>& skipped);

// Sets the default block shape of a variant for the rest of the process. Throws ValueError if the
// variant does not have this shape.
void set_default_block(const Routine& routine, const AnyVariant& variant, const Block& block);

// The launch parameters and costs of a variant on given hardware, for operands of these shapes.
// This machine does not need a GPU. Throws ValueError if the variant cannot solve the problem with
// this block.
struct Plan {
  Launch launch;
  std::size_t scratch_bytes = 0;
  Cost cost;
};
Plan plan(const Problem& problem, const AnyVariant& variant, const Block& block,
          const Hardware& hardware);

// A dry run: returns the kernels that a variant would launch on operands of these shapes. The
// operands are neither read nor written.
std::vector<cuda::Kernel> record_kernels(const Problem& problem, const AnyVariant& variant,
                                         const Block& block);

// Takes one timed sample of a call (host.hpp, device.hpp).
cuda::Sample sample(Call& call, bool cold, int repeats);

}  // namespace ado
