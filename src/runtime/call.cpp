// Selects the launch parameters of variants, and runs and records them.
#include "runtime/call.hpp"

#include "core/error.hpp"
#include "core/scope_exit.hpp"
#include "core/thread.hpp"
#include "runtime/host.hpp"
#include "runtime/scratch.hpp"
#include "runtime/settings.hpp"
#include "runtime/text.hpp"

namespace ado {
namespace {

std::string block_text(const std::vector<std::int64_t>& lengths) {
  std::vector<std::string> words;
  for (const std::int64_t length : lengths) words.push_back(std::to_string(length));
  return tuple_text(words);
}

// Returns `wanted`, or the default block shape if `wanted` is empty. Throws ValueError if the
// variant does not have this block shape.
Extent choose_block(const std::string& who, const AnyVariant& variant, const Block& wanted) {
  const std::vector<Extent>& blocks = variant.blocks;
  if (!wanted) return blocks.empty() ? Extent{} : blocks[variant.default_block];
  if (blocks.empty()) throw ValueError(who + "takes no block");
  std::vector<std::int64_t> lengths = *wanted;
  if (lengths.size() <= 3) lengths.resize(3, 1);
  std::string choices;
  for (const Extent& block : blocks) {
    if (lengths == std::vector<std::int64_t>{block.x, block.y, block.z}) return block;
    const std::vector<unsigned> known = lengths_of(block);
    choices += (choices.empty() ? "" : ", ") + block_text({known.begin(), known.end()});
  }
  throw ValueError(who + "block must be one of " + choices + ", got " + block_text(*wanted));
}

std::string who(const Routine& routine, const AnyVariant& variant) {
  return routine.name + "[" + variant.name + "]";
}

void require_available(const Routine& routine, const AnyVariant& variant) {
  if (const std::string missing = variant.why_unavailable(); !missing.empty())
    throw Unavailable(who(routine, variant) + ": " + missing);
}

// Checks that the variant can solve the problem on this machine, and returns its launch parameters.
Launch launch_for(const Routine& routine, const AnyVariant& variant, const Problem& problem,
                  const Block& block) {
  require_available(routine, variant);
  if (variant.device != problem.memory.kind)
    throw ValueError(who(routine, variant) + " runs on " + name_of(variant.device) +
                     ", but the operands are in the memory of " + name_of(problem.memory));
  if (const char* reason = variant.why_not(problem))
    throw ValueError(who(routine, variant) + ": " + reason);
  if (!block) return variant.launch(problem, choose_block({}, variant, block));
  return variant.launch(problem, choose_block(who(routine, variant) + ": ", variant, block));
}

// Returns distinct addresses that no array has, aligned like device memory.
std::byte* dummy_address(std::uintptr_t index) {
  return reinterpret_cast<std::byte*>((index + 1) << 52);
}

// Returns a copy of the problem with arrays at dummy addresses on the device. Device arrays that
// kernels access in place keep their addresses.
std::unique_ptr<Problem> without_memory(const Problem& problem) {
  std::uintptr_t arrays = 0;
  std::unique_ptr<Problem> dummy = problem.clone();
  const bool on_device = problem.memory.kind == Device::kCuda;
  dummy->move_arrays(gpu(0), [&](const Array& array) {
    return on_device && problem.takes_in_place(array) ? nullptr : dummy_address(++arrays);
  });
  return dummy;
}

// Makes the GPU that holds or will hold the operands the current device within a scope.
class ScopeOfGpu {
 public:
  explicit ScopeOfGpu(const DeviceId& device) : scope_(resolve_gpu(device).ordinal) {}

 private:
  cuda::DeviceScope scope_;
};

// The kernels that a run would launch, without launching them.
std::vector<cuda::Kernel> record(const AnyVariant& variant, const Problem& problem, Launch launch) {
  cuda::KernelRecorder recorder;
  launch.recorder = &recorder;
  if (problem.result_elements() != 0) variant.run(problem, launch);
  return recorder.kernels;
}

// Allocates scratch memory. It is not initialised, because a variant writes its scratch memory
// before it reads it.
std::shared_ptr<void> allocate(const DeviceId& device, std::size_t bytes, Launch& launch) {
  if (device.kind == Device::kCuda) {
    const auto stream = reinterpret_cast<std::uintptr_t>(launch.stream);
    const auto buffer =
        std::make_shared<cuda::Buffer>(bytes, cuda::stream_of(device.ordinal, stream));
    launch.scratch = buffer->data();
    return buffer;
  }
  HostMemory memory = allocate_host_memory(bytes);
  launch.scratch = memory.get();
  return memory;
}

void run_in_place(const Routine& routine, const AnyVariant* variant, const Problem& problem,
                  const Block& block, void* stream) {
  const DeviceId& device = problem.memory;
  const AnyVariant& chosen = variant != nullptr ? *variant : routine.best(problem, device.kind);
  Launch launch = launch_for(routine, chosen, problem, block);
  if (problem.result_elements() == 0) return;
  launch.stream = stream;
  const std::size_t bytes = chosen.scratch_bytes(problem);
  if (device.kind == Device::kCpu) {
    const HostScratch scratch(bytes);
    launch.scratch = scratch.data();
    with_large_stack([&] { chosen.run(problem, launch); });
  } else {
    std::shared_ptr<void> scratch;
    if (bytes != 0) scratch = allocate(device, bytes, launch);
    chosen.run(problem, launch);
  }
}

}  // namespace

std::vector<unsigned> lengths_of(const Extent& extent) {
  std::vector<unsigned> lengths{extent.x};
  if (extent.y > 1 || extent.z > 1) lengths.push_back(extent.y);
  if (extent.z > 1) lengths.push_back(extent.z);
  return lengths;
}

Cost cost_of(const AnyVariant& variant, const Problem& problem) {
  return {.flops = problem.useful_flops(),
          .bytes = problem.compulsory_bytes(),
          .executed_flops = variant.executed_flops(problem),
          .requested_bytes = variant.requested_bytes(problem),
          .executed_instructions = variant.executed_instructions(problem)};
}

void set_default_block(const Routine& routine, const AnyVariant& variant, const Block& block) {
  const Extent chosen = choose_block(who(routine, variant) + ": ", variant, block);
  const auto found = std::find(variant.blocks.begin(), variant.blocks.end(), chosen);
  variant.default_block = static_cast<std::size_t>(found - variant.blocks.begin());
}

Call::Call(const Routine& routine, const AnyVariant& variant, const Problem& problem,
           const Block& block)
    : variant_(&variant), problem_(problem.clone()), empty_(problem.result_elements() == 0) {
  require_available(routine, variant);
  std::optional<ScopeOfGpu> scope;
  if (memory().kind == Device::kCuda) scope.emplace(memory());
  launch_ = launch_for(routine, variant, problem, block);
  provide_scratch();
}

void Call::provide_scratch() {
  const std::size_t bytes = variant_->scratch_bytes(*problem_);
  if (bytes <= scratch_bytes_) return;
  scratch_ = allocate(memory(), bytes, launch_);
  scratch_bytes_ = bytes;
}

void Call::run() {
  if (empty_) return;
  const std::lock_guard lock(turn_);
  // A Python signal handler can use this object while it runs on the same thread.
  if (running_)
    throw ValueError("the call must not be run again while it is running on the same thread");
  running_ = true;
  const ScopeExit ended([this] { running_ = false; });
  std::optional<ScopeOfGpu> scope;
  if (memory().kind == Device::kCuda) scope.emplace(memory());
  provide_scratch();  // the size may have grown with the number of threads
  if (variant_->device == Device::kCuda) return variant_->run(*problem_, launch_);
  with_large_stack([&] { variant_->run(*problem_, launch_); });
}

std::vector<cuda::Kernel> Call::kernels() const {
  if (variant_->device == Device::kCpu) return {};
  const ScopeOfGpu scope(memory());
  return record(*variant_, *problem_, launch_);
}

void run(const BoundProblem& bound, const AnyVariant* variant,
         const std::optional<std::string>& device, const Block& block,
         const std::optional<std::uintptr_t>& stream) {
  const Routine& routine = bound.routine();
  const DeviceId where = bound.resolve_device(variant, device);
  if (where.kind == Device::kCpu) {
    if (stream) throw ValueError(routine.name + ": stream must be None for a call on the CPU");
    return run_in_place(routine, variant, bound.problem(), block, nullptr);
  }
  if (variant != nullptr && !cuda::why_unavailable().empty()) require_available(routine, *variant);
  const DeviceId device_of_call = resolve_gpu(where);
  const cuda::DeviceScope scope(device_of_call.ordinal);
  const cuda::Stream order = cuda::stream_of(device_of_call.ordinal, stream.value_or(0));
  if (variant != nullptr) require_available(routine, *variant);  // before operands are copied
  if (bound.on_device()) {
    bound.begin_use(order);
    const ScopeExit end([&] { bound.end_use(order); });
    const PackedProblem packed(bound.problem(), order);
    run_in_place(routine, variant, packed.problem(), block, order.handle);
    packed.store();
  } else {
    const StagedProblem staged(bound.problem(), order);
    run_in_place(routine, variant, staged.problem(), block, order.handle);
    staged.fetch(bound.problem());
  }
}

Choice choose(const BoundProblem& bound, const std::optional<std::string>& device,
              const Hardware* hardware) {
  const DeviceId where = bound.resolve_device(nullptr, device);
  if (where.kind == Device::kCpu)
    return bound.routine().choose(bound.problem(), where.kind, hardware);
  std::optional<ScopeOfGpu> scope;
  if (hardware == nullptr && cuda::why_unavailable().empty()) scope.emplace(where);
  return bound.routine().choose(*without_memory(bound.problem()), where.kind, hardware);
}

std::vector<cuda::Kernel> record_kernels(const Routine& routine, const AnyVariant& variant,
                                         const Problem& problem, const Block& block) {
  if (variant.device == Device::kCpu)
    throw ValueError(who(routine, variant) + " runs on the CPU and launches no kernels");
  require_available(routine, variant);
  const ScopeOfGpu scope(problem.memory);
  const std::unique_ptr<Problem> dummy = without_memory(problem);
  Launch launch = launch_for(routine, variant, *dummy, block);
  launch.scratch = dummy_address(0);
  return record(variant, *dummy, launch);
}

cuda::Sample sample(Call& call, bool cold, int repeats) {
  const auto work = [&call] { call.run(); };
  if (call.variant().device == Device::kCuda) {
    const ScopeOfGpu scope(call.memory());
    return cuda::sample(work, cold, repeats, nullptr);
  }
  return {.seconds = host::sample(work, cold, repeats)};
}

}  // namespace ado
